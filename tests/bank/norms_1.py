"""Normalisation, residual block, feed-forward layer, dropout, embedding. Part 1 of 2."""

import numpy as np
from bank import Exercise, t, torch
from norms_shared import _norm


def _ln_in(*shape, spread=1.0):
    def make(rng):
        d = shape[-1]
        return (
            rng.normal(size=shape) * spread + 0.5,
            rng.normal(size=d) + 1.0,
            rng.normal(size=d),
            1e-5,
        )

    return make


def _ln(x, g, b, eps):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + eps) * g + b


layernorm = Exercise(
    "norms.layernorm",
    "Layer norm over the last axis with the population variance and eps inside the square root, "
    "then gamma and beta.",
    "def layer_norm(x, gamma, beta, eps): ...",
    _ln,
    {
        "generic": _ln_in(2, 3, 5),
        "square": _ln_in(4, 4),
        "two channels": _ln_in(3, 2),
        "small values": _ln_in(3, 6, spread=1e-2),
    },
    rtol=1e-6,
    atol=1e-8,
)


@layernorm.accept("numpy var")
def _(x, g, b, eps):
    return g * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) + b


@layernorm.accept("mean of squares minus square of the mean")
def _(x, g, b, eps):
    m = np.einsum("...d->...", x)[..., None] / x.shape[-1]
    v = np.einsum("...d,...d->...", x, x)[..., None] / x.shape[-1] - m * m
    return (x - m) * (v + eps) ** -0.5 * g + b


@layernorm.accept("torch layer_norm")
def _(x, g, b, eps):
    return torch.nn.functional.layer_norm(t(x), x.shape[-1:], t(g), t(b), eps)


@layernorm.reject(
    "variance with d - 1",
    "You divide by d - 1 (torch's std and var do so unless told otherwise); layer norm divides "
    "by d.",
    "harvardnlp/annotated-transformer#119 and #122, LBANN/lbann#2024",
)
def _(x, g, b, eps):
    return g * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, ddof=1, keepdims=True) + eps) + b


@layernorm.reject(
    "both: d - 1 and eps outside",
    "Two slips at once: x.std() with d - 1, and eps added to it. Use sqrt(var + eps) with the "
    "population "
    "variance.",
    "pytorch/pytorch#1959, codertimo/BERT-pytorch#30",
)
def _(x, g, b, eps):
    return g * (x - x.mean(-1, keepdims=True)) / (x.std(-1, ddof=1, keepdims=True) + eps) + b


@layernorm.reject(
    "root of the standard deviation",
    "You take the root of std + eps; std is a root already: sqrt(var + eps).",
    "hyunwoongko/transformer#7 (proposed there as a fix)",
)
def _(x, g, b, eps):
    return g * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.std(-1, keepdims=True) + eps) + b


@layernorm.reject(
    "normalises over the rows (batch norm)",
    "Mean and variance run over the channels of one token, not over the tokens.",
)
def _(x, g, b, eps):
    return g * (x - x.mean(-2, keepdims=True)) / np.sqrt(x.var(-2, keepdims=True) + eps) + b


@layernorm.reject(
    "one mean for everything",
    "Each token has its own mean and variance; you took them over the whole array.",
)
def _(x, g, b, eps):
    return g * (x - x.mean()) / np.sqrt(x.var() + eps) + b


def _lnb_in(n, d):
    return lambda rng: (
        rng.normal(size=(n, d)),
        rng.normal(size=d) + 1,
        1e-5,
        rng.normal(size=(n, d)),
    )


def _hat(x, eps):
    r = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    return (x - x.mean(-1, keepdims=True)) * r, r


def _ln_back(x, g, eps, dy):
    h, r = _hat(x, eps)
    dh = dy * g
    dx = r * (dh - dh.mean(-1, keepdims=True) - h * (dh * h).mean(-1, keepdims=True))
    return dx, (dy * h).sum(0), dy.sum(0)


ln_back = Exercise(
    "layernorm.backward",
    "y = gamma * xhat + beta is the layer norm of the rows of x (N, d). Given dy return (dx, "
    "dgamma, dbeta).",
    "def layer_norm_backward(x, gamma, eps, dy): ...",
    _ln_back,
    {
        "generic": _lnb_in(3, 5),
        "square": _lnb_in(4, 4),
        "one row": _lnb_in(1, 5),
        "two channels": _lnb_in(3, 2),
    },
    rtol=1e-6,
    atol=1e-8,
)


@ln_back.accept("projection matrix of each row")
def _(x, g, eps, dy):
    h, r = _hat(x, eps)
    d = x.shape[1]
    dx = np.stack(
        [ri * (np.eye(d) - 1 / d - np.outer(hi, hi) / d) @ (g * yi) for hi, ri, yi in zip(h, r, dy)]
    )
    return dx, np.einsum("nd,nd->d", dy, h), dy.sum(0)


@ln_back.accept("mean and variance branches of the chain rule")
def _(x, g, eps, dy):
    d = x.shape[1]
    c = x - x.mean(1, keepdims=True)
    s = np.sqrt((c * c).mean(1, keepdims=True) + eps)
    dh = dy * g
    dvar = -0.5 * (dh * c).sum(1, keepdims=True) / s**3
    dmean = -dh.sum(1, keepdims=True) / s
    return dh / s + 2 * c / d * dvar + dmean / d, (dy * c / s).sum(0), np.ones(len(x)) @ dy


@ln_back.accept("torch autograd")
def _(x, g, eps, dy):
    leaves = [
        t(x).requires_grad_(),
        t(g).requires_grad_(),
        torch.zeros(len(g), dtype=torch.float64, requires_grad=True),
    ]
    y = torch.nn.functional.layer_norm(leaves[0], g.shape, leaves[1], leaves[2], eps)
    return torch.autograd.grad(y, leaves, t(dy))


@ln_back.reject(
    "mean term missing",
    "The term mean(dxhat), which comes from the mean, is missing (that is the gradient of RMS "
    "norm).",
    "paiml/aprender#2196 (contrast of the two norms)",
)
def _(x, g, eps, dy):
    h, r = _hat(x, eps)
    dh = dy * g
    return r * (dh - h * (dh * h).mean(-1, keepdims=True)), (dy * h).sum(0), dy.sum(0)


@ln_back.reject(
    "sums instead of means", "The two corrections are means over the d channels, not sums."
)
def _(x, g, eps, dy):
    h, r = _hat(x, eps)
    dh = dy * g
    return (
        r * (dh - dh.sum(-1, keepdims=True) - h * (dh * h).sum(-1, keepdims=True)),
        (dy * h).sum(0),
        dy.sum(0),
    )


@ln_back.reject(
    "gamma's gradient summed over channels",
    "dgamma and dbeta have one entry per channel: sum over the rows, not over the channels.",
)
def _(x, g, eps, dy):
    dx, _a, _b = _ln_back(x, g, eps, dy)
    return dx, (dy * _hat(x, eps)[0]).sum(-1), dy.sum(-1)


@ln_back.reject(
    "gamma's gradient averaged",
    "The parameter gradients are sums over the rows; any mean belongs to the loss.",
    "karpathy/llm.c#408 (accumulation of these gradients)",
)
def _(x, g, eps, dy):
    dx, a, b = _ln_back(x, g, eps, dy)
    return dx, a / len(x), b / len(x)


@ln_back.reject(
    "gamma's gradient from x instead of xhat",
    "gamma multiplies xhat, so its gradient is sum(dy * xhat), not sum(dy * x).",
)
def _(x, g, eps, dy):
    dx, _a, b = _ln_back(x, g, eps, dy)
    return dx, (dy * x).sum(0), b


def _rms_in(*shape, spread=1.0):
    return lambda rng: (rng.normal(size=shape) * spread + 0.3, rng.normal(size=shape[-1]) + 1, 1e-6)


rms = Exercise(
    "norms.rmsnorm",
    "RMS norm over the last axis: divide by sqrt(mean of squares + eps), multiply by the weight.",
    "def rms_norm(x, weight, eps): ...",
    lambda x, w, eps: x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w,
    {
        "generic": _rms_in(2, 3, 5),
        "small values": _rms_in(3, 6, spread=1e-3),
        "one channel": _rms_in(3, 1),
    },
)


@rms.accept("einsum")
def _(x, w, eps):
    return x * w * (np.einsum("...d,...d->...", x, x) / x.shape[-1] + eps)[..., None] ** -0.5


@rms.accept("norm of the row")
def _(x, w, eps):
    d = x.shape[-1]
    n2 = np.linalg.norm(x, axis=-1, keepdims=True) ** 2
    return w * x * np.sqrt(d) / np.sqrt(n2 + d * eps)


@rms.accept("torch rsqrt")
def _(x, w, eps):
    x = t(x)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * t(w)


@rms.reject("subtracts the mean", "That is layer norm: RMS norm leaves the mean alone.")
def _(x, w, eps):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * w


@rms.reject(
    "eps outside the root",
    "eps belongs under the root, to the mean of squares.",
    "allenai/OLMo#281, NVIDIA/TransformerEngine#364",
)
def _(x, w, eps):
    return x / (np.sqrt((x * x).mean(-1, keepdims=True)) + eps) * w


@rms.reject(
    "sum instead of mean",
    "You divide by the length of the row; the root mean square has a 1/d inside.",
)
def _(x, w, eps):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + eps) * w


@rms.reject("root forgotten", "You divide by the mean square, not by its root.")
def _(x, w, eps):
    return x / ((x * x).mean(-1, keepdims=True) + eps) * w


@rms.reject(
    "multiplies by the root",
    "rsqrt is the inverse root: divide by the root mean square (or multiply by rsqrt).",
    "rasbt/LLMs-from-scratch#871 (the question which of the two it is)",
)
def _(x, w, eps):
    return x * np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def _res_in(n, d):
    def make(rng):
        a, b = rng.normal(size=(d, d)), rng.normal(size=(d, d))
        return rng.normal(size=(n, d)) * 2 + 1, (lambda y: np.tanh(y @ a)), (lambda y: y @ b)

    return make


block = Exercise(
    "norms.prenorm_block",
    "One pre-norm Transformer block: the sub-layers `attend` and `feed` each with residual and "
    "norm (norm without "
    "parameters, eps 1e-5).",
    "def block(x, attend, feed): ...",
    lambda x, f, g: (lambda h: h + g(_norm(h)))(x + f(_norm(x))),
    {"generic": _res_in(3, 4), "wide": _res_in(2, 8)},
)


@block.accept("two statements")
def _(x, f, g):
    x = x + f(_norm(x))
    return x + g(_norm(x))


@block.accept("collected update")
def _(x, f, g):
    a = f(_norm(x))
    return x + (a + g(_norm(x + a)))


@block.accept("loop over the sub-layers, copy first")
def _(x, f, g):
    out = x.copy()
    for layer in (f, g):
        out += layer(_norm(out))
    return out


@block.reject(
    "residual taken after the norm",
    "The residual must carry x itself; you add the normalised x.",
    "pytorch/pytorch#61165, Howuhh/faster-trajectory-transformer#3, "
    "SHI-Labs/Compact-Transformers#25, "
    "tracel-ai/burn#1054, dmlc/gluon-nlp#1488",
)
def _(x, f, g):
    n = _norm(x)
    x = n + f(n)
    n = _norm(x)
    return n + g(n)


@block.reject(
    "norm on the sub-layer's output",
    "You normalise what the sub-layer returns; pre-norm normalises what it is given.",
    "harvardnlp/annotated-transformer#110 (proposed there as the correction)",
)
def _(x, f, g):
    x = x + _norm(f(x))
    return x + _norm(g(x))


@block.reject(
    "second norm missing",
    "Each sub-layer has a norm of its own; the feed-forward layer is fed without one.",
    "SHI-Labs/Compact-Transformers#25",
)
def _(x, f, g):
    x = x + f(_norm(x))
    return x + g(x)


@block.reject("no residual", "The residual sum is missing: x + f(norm(x)).")
def _(x, f, g):
    return g(_norm(f(_norm(x))))


EXERCISES = [layernorm, ln_back, rms, block]
