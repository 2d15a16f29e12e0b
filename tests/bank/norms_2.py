"""Normalisation, residual block, feed-forward layer, dropout, embedding. Part 2 of 2."""

import math

import numpy as np
from bank import Exercise, t, torch
from norms_shared import _norm


def _stack_in(depth):
    def make(rng):
        ms = [rng.normal(size=(4, 4)) for _m in range(depth)]
        return (
            rng.normal(size=(3, 4)),
            [lambda y, m=m: np.tanh(y @ m) for m in ms],
            rng.normal(size=(4, 5)),
        )

    return make


def _stack(x, layers, head, before=_norm, final=_norm, after=lambda y: y):
    for f in layers:
        x = after(x + f(before(x)))
    return final(x) @ head


stack = Exercise(
    "norms.prenorm_stack",
    "Logits of a pre-norm model: each layer f adds f(norm(x)); after the last one a final norm, "
    "then @ head.",
    "def model(x, layers, head): ...",
    _stack,
    {"three layers": _stack_in(3), "one layer": _stack_in(1)},
)


@stack.accept("recursion")
def _(x, layers, head):
    def run(y, rest):
        return run(y + rest[0](_norm(y)), rest[1:]) if rest else _norm(y)

    return run(x, layers) @ head


@stack.accept("norm folded into the head")
def _(x, layers, head):
    for f in layers:
        x = x + f(_norm(x))
    c = x - x.mean(-1, keepdims=True)
    return (c @ head) / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5)


@stack.reject(
    "post-norm stack",
    "The norms stand after the sums.",
    "harvardnlp/annotated-transformer#13 and #92",
)
def _(x, layers, head):
    return _stack(x, layers, head, before=lambda y: y, after=_norm, final=lambda y: y)


@stack.reject(
    "norm before and after every layer",
    "The residual stream itself must not be normalised between the layers.",
    "rasbt/LLMs-from-scratch#296 (before and after, in a sentence there)",
)
def _(x, layers, head):
    return _stack(x, layers, head, after=_norm)


def _ffn_in(rng):
    d, h = 3, 7
    return (
        rng.normal(size=(2, 4, d)),
        rng.normal(size=(d, h)),
        rng.normal(size=h),
        rng.normal(size=(h, d)),
        rng.normal(size=d),
    )


ffn = Exercise(
    "norms.feed_forward",
    "The position-wise feed-forward layer: x @ W1 + b1, ReLU, @ W2 + b2.",
    "def feed_forward(x, w1, b1, w2, b2): ...",
    lambda x, w1, b1, w2, b2: np.maximum(x @ w1 + b1, 0) @ w2 + b2,
    {"generic": _ffn_in},
)


@ffn.accept("einsum and where")
def _(x, w1, b1, w2, b2):
    h = np.einsum("btd,dh->bth", x, w1) + b1
    return np.einsum("bth,hd->btd", np.where(h > 0, h, 0), w2) + b2


@ffn.accept("sum over hidden units")
def _(x, w1, b1, w2, b2):
    out = np.zeros_like(x) + b2
    for j in range(len(b1)):
        a = x @ w1[:, j] + b1[j]
        out = out + (a * (a > 0))[..., None] * w2[j]
    return out


@ffn.reject("bias after the activation", "b1 belongs inside the ReLU.")
def _(x, w1, b1, w2, b2):
    return (np.maximum(x @ w1, 0) + b1) @ w2 + b2


@ffn.reject("absolute value", "ReLU sets negative values to 0, it does not turn their sign.")
def _(x, w1, b1, w2, b2):
    return np.abs(x @ w1 + b1) @ w2 + b2


_erf = np.vectorize(math.erf)


_erfc = np.vectorize(math.erfc)


gelu = Exercise(
    "norms.gelu",
    "Exact GELU: x times the standard normal distribution function of x.",
    "def gelu(x): ...",
    lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))),
    {
        "around 0": lambda rng: (rng.normal(size=20) * 2,),
        "one value": lambda rng: (np.array([1.0]),),
    },
    rtol=1e-6,
    atol=1e-7,
)


@gelu.accept("erf")
def _(x):
    return 0.5 * x + 0.5 * x * _erf(x * 2**-0.5)


@gelu.accept("erfc")
def _(x):
    return 0.5 * x * _erfc(-x / math.sqrt(2))


@gelu.accept("torch normal cdf")
def _(x):
    return t(x) * torch.special.ndtr(t(x))


@gelu.reject(
    "sigmoid approximation",
    "x * sigmoid(1.702 x) is an approximation; 1.702 is fitted, not exact.",
    "harvard-edge/cs249r_book#1156",
)
def _(x):
    return x / (1 + np.exp(-1.702 * x))


@gelu.reject(
    "sqrt(2) forgotten",
    "erf(x) belongs to another normalisation: the normal distribution function is (1 + "
    "erf(x/sqrt 2))/2.",
)
def _(x):
    return 0.5 * x * (1 + _erf(x))


@gelu.reject(
    "factor x forgotten", "You return the distribution function alone; GELU multiplies it by x."
)
def _(x):
    return 0.5 * (1 + _erf(x / math.sqrt(2)))


def _drop_in(p, training):
    return lambda rng: (rng.normal(size=(4, 6)), rng.random((4, 6)) >= p, p, training)


dropout = Exercise(
    "norms.dropout",
    "Inverted dropout: `keep` is True where a value survives, p is the probability to drop. In "
    "training the mean must "
    "stay the same; outside training x is returned as it is.",
    "def dropout(x, keep, p, training): ...",
    lambda x, keep, p, training: x * keep / (1 - p) if training else x,
    {
        "p = 0.2": _drop_in(0.2, True),
        "p = 0.5": _drop_in(0.5, True),
        "evaluation": _drop_in(0.2, False),
        "p = 0": _drop_in(0.0, True),
    },
)


@dropout.accept("where")
def _(x, keep, p, training):
    return np.where(keep, x / (1 - p), 0.0) if training else x.copy()


@dropout.accept("zero in a copy")
def _(x, keep, p, training):
    y = x.copy()
    if training:
        y[~keep] = 0
        y *= 1 / (1 - p)
    return y


@dropout.accept("torch")
def _(x, keep, p, training):
    return t(x).masked_fill(~t(keep), 0).mul(1 / (1 - p)) if training else t(x)


@dropout.reject(
    "also in evaluation", "Outside training nothing is dropped.", "chainer/chainer#1010"
)
def _(x, keep, p, training):
    return x * keep / (1 - p)


@dropout.reject(
    "scales down in evaluation",
    "With inverted dropout the scaling happens in training; evaluation leaves x alone.",
    "univieCUBE/deepnog#44 (the two conventions confused)",
)
def _(x, keep, p, training):
    return x * keep / (1 - p) if training else x * (1 - p)


def _emb_in(rng):
    v, d, n = 7, 6, 4
    return (
        rng.integers(0, v, size=(2, n)),
        rng.normal(size=(v, d)),
        rng.normal(size=(n, d)),
        rng.normal(size=(2, n, d)),
    )


embed = Exercise(
    "norms.tied_embedding",
    "With one shared matrix E (vocabulary, d): return the input, E[ids]*sqrt(d) + pe, and the "
    "logits of h, which use E "
    "unscaled.",
    "def embed_and_logits(ids, E, pe, h): ...",
    lambda ids, e, pe, h: (e[ids] * np.sqrt(e.shape[1]) + pe, h @ e.T),
    {"generic": _emb_in},
)


@embed.accept("one-hot product")
def _(ids, e, pe, h):
    return np.eye(len(e))[ids] @ e * e.shape[1] ** 0.5 + pe, np.einsum("btd,vd->btv", h, e)


@embed.accept("take and tensordot")
def _(ids, e, pe, h):
    return np.take(e, ids, axis=0) * math.sqrt(e.shape[-1]) + pe[None], np.tensordot(
        h, e, axes=(-1, -1)
    )


@embed.accept("torch embedding and linear")
def _(ids, e, pe, h):
    f = torch.nn.functional
    return f.embedding(t(ids), t(e)) * e.shape[1] ** 0.5 + t(pe), f.linear(t(h), t(e))


@embed.reject(
    "no sqrt(d)",
    "The embedding is not multiplied by sqrt(d): next to the positional table it is too small.",
    "SamLynnEvans/Transformer#10, harvardnlp/annotated-transformer#60",
)
def _(ids, e, pe, h):
    return e[ids] + pe, h @ e.T


@embed.reject(
    "divides by sqrt(d)",
    "You divide, as attention does with its scores; the embedding is multiplied by sqrt(d).",
    "pytorch/tutorials#2849",
)
def _(ids, e, pe, h):
    return e[ids] / np.sqrt(e.shape[1]) + pe, h @ e.T


EXERCISES = [stack, ffn, gelu, dropout, embed]
