"""Scaled dot-product attention, its heads and its backward pass. Part 2 of 2."""

import numpy as np
from attention_shared import SW, _attend, _qkv
from bank import Exercise, softmax, t, torch


def _gqa_in(hq, hkv, n=3, d=4):
    return lambda rng: (
        rng.normal(size=(2, hq, n, d)),
        rng.normal(size=(2, hkv, n, d)),
        rng.normal(size=(2, hkv, n, d)),
    )


def _grouped(q, k, v, spread):
    g = q.shape[1] // k.shape[1]
    return _attend(q, spread(k, g), spread(v, g))


gqa = Exercise(
    "attention.grouped_queries",
    "Grouped-query attention: q has Hq heads, k and v have Hkv; query heads 0..g-1 share key "
    "head 0, the next g "
    "share head 1, and so on (g = Hq/Hkv).",
    "def grouped_attention(q, k, v): ...",
    lambda q, k, v: _grouped(q, k, v, lambda a, g: np.repeat(a, g, axis=1)),
    {
        "generic": _gqa_in(6, 3),
        "two groups": _gqa_in(4, 2),
        "one key head": _gqa_in(4, 1),
        "as many key heads": _gqa_in(3, 3),
        "time = heads": _gqa_in(4, 2, n=4),
    },
)


@gqa.accept("torch repeat_interleave")
def _(q, k, v):
    g = q.shape[1] // k.shape[1]
    return torch.nn.functional.scaled_dot_product_attention(
        t(q), t(k).repeat_interleave(g, 1), t(v).repeat_interleave(g, 1)
    )


@gqa.reject(
    "repeats the time axis",
    "The repeat ran along time, not along the heads.",
    "PrimeIntellect-ai/prime-rl#2681, ByteDance-Seed/VeOmni#162",
)
def _(q, k, v):
    return _grouped(
        q, k, v, lambda a, g: np.repeat(a, g, axis=2).reshape(a.shape[0], -1, *a.shape[2:])
    )


@gqa.reject(
    "uses the first key head only",
    "Every query head reads key head 0: that is multi-query attention.",
)
def _(q, k, v):
    return _attend(q, k[:, :1], v[:, :1])


@gqa.reject(
    "averages the query heads of a group",
    "The group's query heads keep their own queries; only keys and values are shared.",
)
def _(q, k, v):
    b, hq, n, d = q.shape
    m = q.reshape(b, k.shape[1], -1, n, d).mean(2)
    return np.repeat(_attend(m, k, v), hq // k.shape[1], axis=1)


def _with_grad(tq, tk, d, dv):
    base = _qkv(tq, tk, d, dv)
    return lambda rng: base(rng) + (rng.normal(size=(tq, dv)),)


def _back(q, k, v, do):
    r = q.shape[-1] ** -0.5
    p = softmax(q @ k.T * r)
    dp = do @ v.T
    ds = p * (dp - (dp * p).sum(-1, keepdims=True))
    return ds @ k * r, ds.T @ q * r, p.T @ do


backward = Exercise(
    "attention.backward",
    "Given q, k, v and the gradient d_out of the loss by the output softmax(q k^T / sqrt(d)) v, "
    "return "
    "(dq, dk, dv).",
    "def attention_backward(q, k, v, d_out): ...",
    _back,
    {
        "generic": _with_grad(4, 5, 3, 2),
        "all sizes equal": _with_grad(4, 4, 4, 4),
        "d = 1": _with_grad(3, 4, 1, 2),
    },
)


@backward.accept("row term from the output (flash form)")
def _(q, k, v, do):
    r = 1 / np.sqrt(q.shape[-1])
    p = softmax(q @ k.T * r)
    delta = np.sum(do * (p @ v), -1, keepdims=True)
    ds = p * (do @ v.T - delta) * r
    return ds @ k, (q.T @ ds).T, (do.T @ p).T


@backward.reject(
    "scale applied to one side only",
    "dq has the factor 1/sqrt(d), dk has not; both flow through the scaled scores.",
)
def _(q, k, v, do):
    a, b, c = _back(q, k, v, do)
    return a, b * q.shape[-1] ** 0.5, c


@backward.reject(
    "P not transposed for dv",
    "dv = P^T d_out: each value collects the gradient of all queries that read it.",
)
def _(q, k, v, do):
    a, b, _c = _back(q, k, v, do)
    return a, b, softmax(q @ k.T * q.shape[-1] ** -0.5) @ do


@backward.reject(
    "row term summed over the queries",
    "The inner sum runs over the keys of one query (last axis), not over the queries.",
)
def _(q, k, v, do):
    r = q.shape[-1] ** -0.5
    p = softmax(q @ k.T * r)
    dp = do @ v.T
    ds = p * (dp - (dp * p).sum(0, keepdims=True))
    return ds @ k * r, ds.T @ q * r, p.T @ do


def _sg(n, k):
    return lambda rng: (softmax(rng.normal(size=(n, k))), rng.normal(size=(n, k)))


jvp = Exercise(
    "softmax.backward",
    "Given s = softmax(z) (rows) and the gradient g of the loss by s, return the gradient by z.",
    "def softmax_backward(s, g): ...",
    lambda s, g: s * (g - (g * s).sum(-1, keepdims=True)),
    {"generic": _sg(3, 5), "square": _sg(4, 4), "two classes": _sg(3, 2), "one row": _sg(1, 4)},
)


@jvp.accept("explicit Jacobian")
def _(s, g):
    return np.stack([(np.diag(a) - np.outer(a, a)) @ b for a, b in zip(s, g)])


@jvp.accept("torch autograd from log s")
def _(s, g):
    z = torch.log(t(s)).requires_grad_()
    return torch.autograd.grad(torch.softmax(z, -1), z, t(g))[0]


@jvp.reject(
    "dot product missing",
    "The term sum(g*s), subtracted in each row, is missing.",
    "HomericIntelligence/Odyssey#2134",
)
def _(s, g):
    return s * g


@jvp.reject(
    "plain sum instead of the weighted one",
    "Subtract the s-weighted mean of g, sum(g*s), not sum(g).",
)
def _(s, g):
    return s * (g - g.sum(-1, keepdims=True))


@jvp.reject(
    "sum over the batch", "The inner sum runs over the classes of one row, not over the rows."
)
def _(s, g):
    return s * (g - (g * s).sum(0, keepdims=True))


def _cross_in(nt, ns, pads=True):
    def make(rng):
        ids = rng.integers(1, 9, size=(2, ns))
        if pads:
            ids[1, ns - 2 :] = 0
        return (
            rng.normal(size=(2, nt, 4)),
            rng.normal(size=(2, ns, 4)),
            ids,
            np.tril(np.ones((nt, nt), bool)),
        )

    return make


def _see(q, k, v, keep):
    return softmax(np.where(keep, q @ k.swapaxes(*SW) / np.sqrt(q.shape[-1]), -np.inf)) @ v


cross = Exercise(
    "attention.cross",
    "Encoder-decoder attention without projections: y (B, Tt, d) are the decoder's states, m "
    "(B, Ts, d) the encoder's "
    "output, src_ids is 0 at padding, causal is the decoder's own (Tt, Tt) mask (not needed by "
    "every answer).",
    "def cross_attention(y, m, src_ids, causal): ...",
    lambda y, m, ids, causal: _see(y, m, m, (ids != 0)[:, None, :]),
    {
        "generic": _cross_in(3, 5),
        "equal lengths": _cross_in(4, 4),
        "no padding": _cross_in(4, 4, False),
    },
)


@cross.accept("additive mask")
def _(y, m, ids, causal):
    s = (
        np.einsum("btd,bsd->bts", y, m) / y.shape[-1] ** 0.5
        + np.where(ids == 0, -np.inf, 0.0)[:, None]
    )
    return np.einsum("bts,bsd->btd", softmax(s), m)


@cross.accept("torch")
def _(y, m, ids, causal):
    return torch.nn.functional.scaled_dot_product_attention(
        t(y), t(m), t(m), attn_mask=(t(ids) != 0)[:, None]
    )


@cross.reject(
    "keys and values from the decoder",
    "That is self-attention again: keys and values come from the encoder.",
    "keitakurita/Practical_NLP_in_PyTorch#1, bentrevett/pytorch-seq2seq#143, "
    "datawhalechina/learn-nlp-with-transformers#12",
)
def _(y, m, ids, causal):
    return _attend(y, y, y)


@cross.reject(
    "decoder's mask on the source",
    "The causal mask of the target must not touch the source: every target position may see all "
    "of it.",
    "keras-team/keras-io#1046, fchollet/deep-learning-with-python-notebooks#209, "
    "Kamichanw/SeekDeeper#3",
)
def _(y, m, ids, causal):
    return _see(y, m, m, causal)


@cross.reject(
    "padding mask and causal mask together",
    "Only the source's padding is hidden here, not its later positions.",
    "keras-team/keras-io#1046",
)
def _(y, m, ids, causal):
    return _see(y, m, m, (ids != 0)[:, None, :] & causal)


EXERCISES = [gqa, cross, backward, jvp]
