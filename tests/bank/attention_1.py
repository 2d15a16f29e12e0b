"""Scaled dot-product attention, its heads and its backward pass. Part 1 of 2."""

import numpy as np
from attention_shared import SW, _attend, _qkv
from bank import Exercise, softmax, t, torch

scale = Exercise(
    "attention.scale",
    "Write scaled dot-product attention for queries (.., Tq, d), keys (.., Tk, d) and values "
    "(.., Tk, dv), without a mask.",
    "def attention(q, k, v): ...",
    _attend,
    {
        "generic": _qkv(4, 5, 6, 3),
        "batched": _qkv(3, 4, 5, 2, (2, 3)),
        "all sizes equal": _qkv(4, 4, 4, 4),
        "d = 1": _qkv(3, 4, 1, 2),
    },
)


@scale.accept("loop over queries, fourth root on both sides")
def _(q, k, v):
    if q.ndim > 2:
        return np.stack([_loop_attention(a, b, c) for a, b, c in zip(q, k, v)])
    return _loop_attention(q, k, v)


def _loop_attention(q, k, v):
    if q.ndim > 2:
        return np.stack([_loop_attention(a, b, c) for a, b, c in zip(q, k, v)])
    root = q.shape[-1] ** 0.25
    rows = []
    for row in q:
        w = [np.exp((row / root) @ (key / root)) for key in k]
        rows.append(sum(wi * vi for wi, vi in zip(w, v)) / sum(w))
    return np.stack(rows)


@scale.reject(
    "no scaling",
    "The scores are not divided by sqrt(d): their variance grows with d and the softmax saturates.",
    "jadore801120/attention-is-all-you-need-pytorch#49 (what the divisor is for, asked there)",
)
def _(q, k, v):
    return softmax(q @ k.swapaxes(*SW)) @ v


@scale.reject(
    "divides by d instead of its square root",
    "You divide by d. The standard deviation of a dot product of d terms is sqrt(d), not d.",
    "thegregyang/NTK4A#3, charliezchen/scaling-matrix-preconditioning#2",
)
def _(q, k, v):
    return softmax(q @ k.swapaxes(*SW) / q.shape[-1]) @ v


@scale.reject(
    "scales by the number of keys",
    "You divide by sqrt(Tk), the sequence length. The scale belongs to the feature size d.",
)
def _(q, k, v):
    return softmax(q @ k.swapaxes(*SW) / np.sqrt(k.shape[-2])) @ v


@scale.reject(
    "multiplies by sqrt(d)",
    "The scale is upside down: multiply by d**-0.5, not by d**0.5.",
    "pytorch/tutorials#2849 (the same inversion, for the embedding factor)",
)
def _(q, k, v):
    return softmax(q @ k.swapaxes(*SW) * np.sqrt(q.shape[-1])) @ v


def _scores(*shape):
    return lambda rng: (rng.normal(size=shape) * 2,)


axis = Exercise(
    "attention.softmax_axis",
    "Turn scores of shape (batch, heads, queries, keys) into attention weights.",
    "def weights(scores): ...",
    lambda s: softmax(s, -1),
    {
        "generic": _scores(2, 3, 4, 5),
        "square": _scores(2, 3, 4, 4),
        "one query": _scores(2, 3, 1, 5),
        "one head, one batch": _scores(1, 1, 4, 4),
    },
)


@axis.accept("log-sum-exp form")
def _(s):
    return np.exp(s - np.logaddexp.reduce(s, axis=-1, keepdims=True))


@axis.reject(
    "normalises over the queries",
    "Every column sums to 1; every query (row) should. Use the key axis, the last one.",
    "labmlai/annotated_deep_learning_paper_implementations#146, "
    "nerminnuraydogan/vision-transformer#1",
)
def _(s):
    return softmax(s, -2)


@axis.reject(
    "normalises over the batch (dim=0)",
    "With one item in the batch all your weights become 1: dim=0 is the batch axis.",
    "PetrochukM/PyTorch-NLP#2, jadore801120/attention-is-all-you-need-pytorch#52",
)
def _(s):
    return softmax(s, 0)


def _rows(shift, n=3, k=5):
    return lambda rng: (rng.normal(size=(n, k)) + np.asarray(shift(n)).reshape(n, 1),)


def _with_inf(rng):
    x = rng.normal(size=(3, 5))
    x[0, 1] = x[2, 0] = -np.inf
    return (x,)


stable = Exercise(
    "softmax.stable",
    "Write a softmax over the last axis that is exact for rows of any size (also +-1000) and for "
    "entries of -inf.",
    "def softmax(x): ...",
    lambda x: softmax(x),
    {
        "moderate": _rows(lambda n: np.zeros(n)),
        "large": _rows(lambda n: np.full(n, 1000.0)),
        "large and negative": _rows(lambda n: np.full(n, -1000.0)),
        "rows far apart": _rows(lambda n: [1000.0, -1000.0, 0.0]),
        "square": _rows(lambda n: [3.0, -3.0, 0.0, 1.0], 4, 4),
        "with -inf": _with_inf,
    },
)


@stable.accept("subtract the row maximum")
def _(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / np.sum(e, -1, keepdims=True)


@stable.accept("torch softmax")
def _(x):
    return torch.softmax(t(x), -1)


@stable.reject(
    "no maximum subtracted",
    "exp overflows at about 709 and you get inf/inf = nan. Subtract the row's maximum first.",
    "numenta/nupic-legacy#3818, zackchase/mxnet-the-straight-dope#3, "
    "IBM/MAX-Facial-Emotion-Classifier#12",
)
def _(x):
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


@stable.reject(
    "maximum without keepdims",
    "The maximum lost its axis, so it is broadcast along the wrong one (silently if the array "
    "is square).",
)
def _(x):
    e = np.exp(x - x.max(-1))
    return e / e.sum(-1, keepdims=True)


@stable.reject(
    "maximum not below 0",
    "max(0, maximum) does nothing for rows of large negative numbers, which then underflow to 0/0.",
    "FluxML/NNlib.jl#43",
)
def _(x):
    e = np.exp(x - np.maximum(x.max(-1, keepdims=True), 0))
    return e / e.sum(-1, keepdims=True)


@stable.reject(
    "clips the logits", "Clipping the logits changes the answer; subtracting the maximum does not."
)
def _(x):
    e = np.exp(np.clip(x, -50, 50))
    return e / e.sum(-1, keepdims=True)


def _btd(b, n, d, h):
    return lambda rng: (rng.normal(size=(b, n, d)), h)


split = Exercise(
    "attention.split_heads",
    "Split (batch, time, model) into heads of shape (batch, heads, time, model/heads); head h "
    "takes the "
    "h-th block of channels of each token.",
    "def split_heads(x, n_heads): ...",
    lambda x, h: x.reshape(x.shape[0], x.shape[1], h, -1).transpose(0, 2, 1, 3),
    {
        "generic": _btd(2, 5, 12, 3),
        "time = heads": _btd(2, 3, 12, 3),
        "batch = heads": _btd(3, 4, 12, 3),
        "one head": _btd(2, 4, 6, 1),
        "one token": _btd(2, 1, 6, 3),
    },
)


@split.accept("stack of channel slices")
def _(x, h):
    w = x.shape[-1] // h
    return np.stack([x[..., i * w : (i + 1) * w] for i in range(h)], axis=1)


@split.accept("torch view and transpose")
def _(x, h):
    x = t(x)
    return x.view(*x.shape[:2], h, x.shape[2] // h).transpose(1, 2)


@split.reject(
    "interleaved channels",
    "Head h takes every H-th channel instead of one contiguous block: reshape to (.., heads, "
    "width), "
    "not (.., width, heads).",
)
def _(x, h):
    b, n, d = x.shape
    return x.reshape(b, n, d // h, h).transpose(0, 3, 1, 2)


@split.reject(
    "heads before the batch",
    "The head axis came first; a mask laid out by batch will then meet the wrong sentences.",
    "lsdefine/attention-is-all-you-need-keras#36, "
    "gazelle93/Transformer-Various-Positional-Encoding#1",
)
def _(x, h):
    b, n, d = x.shape
    return x.reshape(b, n, h, d // h).transpose(2, 0, 1, 3)


def _bhtd(b, h, n, w):
    return lambda rng: (rng.normal(size=(b, h, n, w)),)


merge = Exercise(
    "attention.merge_heads",
    "Put heads (batch, heads, time, width) back together to (batch, time, heads*width).",
    "def merge_heads(x): ...",
    lambda x: x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1),
    {
        "generic": _bhtd(2, 3, 5, 4),
        "time = heads": _bhtd(2, 3, 3, 4),
        "batch = heads": _bhtd(3, 3, 4, 2),
        "one head": _bhtd(2, 1, 4, 3),
        "one token": _bhtd(2, 3, 1, 4),
    },
)


@merge.accept("swap axes, then reshape")
def _(x):
    b, h, n, w = x.shape
    return np.swapaxes(x, 1, 2).reshape(b, n, h * w)


@merge.accept("torch transpose, contiguous, view")
def _(x):
    x = t(x)
    return x.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1)


@merge.reject(
    "reshape without the transpose",
    "Each output row mixes several tokens: swap the head and time axes before the reshape.",
    "jsbaan/transformer-from-scratch#6, ajhalthor/Transformer-Neural-Network#4, "
    "hackiey/QAnet-pytorch#2",
)
def _(x):
    b, h, n, w = x.shape
    return x.reshape(b, n, h * w)


@merge.reject(
    "interleaves the heads",
    "The channels of the heads alternate; one head after the other is meant.",
)
def _(x):
    b, h, n, w = x.shape
    return x.transpose(0, 2, 3, 1).reshape(b, n, h * w)


def _mha_in(b, n, d, h):
    def make(rng):
        return (
            (rng.normal(size=(b, n, d)),)
            + tuple(rng.normal(size=(d, d)) / 1.5 for _ in range(4))
            + (h,)
        )

    return make


def _mha(x, wq, wk, wv, wo, h, split_fn=None, merge_fn=None, width=None):
    split_fn = split_fn or split.reference
    merge_fn = merge_fn or merge.reference
    q, k, v = (split_fn(x @ w, h) for w in (wq, wk, wv))
    s = q @ k.swapaxes(*SW) / np.sqrt(width or q.shape[-1])
    return merge_fn(softmax(s) @ v) @ wo


multihead = Exercise(
    "attention.multihead",
    "Write multi-head self-attention: projections x @ Wq, x @ Wk, x @ Wv, attention in each "
    "head, the heads "
    "side by side, then @ Wo. All weights are (model, model), no mask, no bias.",
    "def multihead(x, wq, wk, wv, wo, n_heads): ...",
    _mha,
    {
        "generic": _mha_in(2, 5, 6, 3),
        "time = heads": _mha_in(2, 3, 6, 3),
        "one head": _mha_in(2, 4, 4, 1),
    },
)


@multihead.accept("torch")
def _(x, wq, wk, wv, wo, h):
    x, wq, wk, wv, wo = map(t, (x, wq, wk, wv, wo))
    cut = lambda y: y.unflatten(-1, (h, -1)).transpose(1, 2)
    y = torch.nn.functional.scaled_dot_product_attention(cut(x @ wq), cut(x @ wk), cut(x @ wv))
    return y.transpose(1, 2).flatten(2) @ wo


@multihead.reject(
    "no output projection", "The heads are only put side by side; Wo, which mixes them, is missing."
)
def _(x, wq, wk, wv, wo, h):
    return _mha(x, wq, wk, wv, np.eye(len(wo)), h)


@multihead.reject(
    "raw reshape into heads",
    "Splitting and merging by reshape alone gives the right shape but mixes positions into heads.",
    "reczoo/FuxiCTR#30, jsbaan/transformer-from-scratch#6",
)
def _(x, wq, wk, wv, wo, h):
    b, n, d = x.shape
    return _mha(
        x, wq, wk, wv, wo, h, lambda y, g: y.reshape(b, g, n, d // g), lambda y: y.reshape(b, n, d)
    )


EXERCISES = [scale, axis, stable, split, merge, multihead]
