"""Optimisers: Adam, AdamW, clipping, gradient accumulation, mixed precision, decay groups.

Part 1 of 3.
"""

import numpy as np
from bank import Exercise, t, torch


def _adam_in(steps, scale=1.0, eps=1e-3):
    return lambda rng: (
        rng.normal(size=4),
        rng.normal(size=(steps, 4)) * scale,
        0.01,
        0.9,
        0.99,
        eps,
    )


def _adam(p, grads, lr, b1, b2, eps):
    m = v = np.zeros_like(p)
    for k, g in enumerate(grads, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - lr * (m / (1 - b1**k)) / (np.sqrt(v / (1 - b2**k)) + eps)
    return p


adam = Exercise(
    "optimisers.adam",
    "Apply Adam (Kingma and Ba, algorithm 1) to the parameter p with the given gradients, one "
    "per step; eps is added to "
    "the root of the corrected second moment.",
    "def adam(p, grads, lr, beta1, beta2, eps): ...",
    _adam,
    {
        "several steps": _adam_in(5),
        "one step": _adam_in(1),
        "small gradients": _adam_in(5, 1e-3),
        "eps = 1e-8": _adam_in(5, eps=1e-8),
        # here 1 - beta1 = sqrt(1 - beta2), so that the corrections of the first step cancel
        "one step, eps = 1e-8": _adam_in(1, eps=1e-8),
    },
)


@adam.accept("step size and root corrected separately")
def _(p, grads, lr, b1, b2, eps):
    p, m, v = p.copy(), np.zeros(4), np.zeros(4)
    for k in range(len(grads)):
        m += (1 - b1) * (grads[k] - m)
        v += (1 - b2) * (grads[k] ** 2 - v)
        p -= lr / (1 - b1 ** (k + 1)) * m / (np.sqrt(v) / np.sqrt(1 - b2 ** (k + 1)) + eps)
    return p


@adam.accept("torch Adam")
def _(p, grads, lr, b1, b2, eps):
    x = t(p).requires_grad_()
    opt = torch.optim.Adam([x], lr=lr, betas=(b1, b2), eps=eps)
    for g in grads:
        x.grad = t(g)
        opt.step()
    return x


def _adam_like(update):
    def run(p, grads, lr, b1, b2, eps):
        m = v = np.zeros_like(p)
        for k, g in enumerate(grads, 1):
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
            p = p - lr * update(m, v, k, b1, b2, eps)
        return p

    return run


adam.reject(
    "no bias correction",
    "Both moments start at 0 and must be divided by 1 - beta^t; without it the first steps are "
    "off by "
    "(1-beta1)/sqrt(1-beta2).",
    "goodfire-ai/spd#602 (a parity list naming it)",
)(_adam_like(lambda m, v, k, b1, b2, eps: m / (np.sqrt(v) + eps)))


adam.reject("first moment corrected only", "The second moment needs its correction, too.")(
    _adam_like(lambda m, v, k, b1, b2, eps: m / (1 - b1**k) / (np.sqrt(v) + eps))
)


adam.reject(
    "eps inside the root",
    "eps is added to the root of the corrected second moment, not under it.",
    "keras-team/keras#17391 (read so there)",
)(_adam_like(lambda m, v, k, b1, b2, eps: m / (1 - b1**k) / np.sqrt(v / (1 - b2**k) + eps)))


adam.reject(
    "eps corrected, too",
    "You add eps to the raw root and divide the sum by sqrt(1 - beta2^t): eps must not be scaled.",
    "pytorch/pytorch#22628, #2060 and #41477, tensorflow/tensorflow#9047 and #35102, "
    "huggingface/transformers#35504",
)(
    _adam_like(
        lambda m, v, k, b1, b2, eps: m / (1 - b1**k) / ((np.sqrt(v) + eps) / np.sqrt(1 - b2**k))
    )
)


adam.reject(
    "step counted from 0", "At t = 0 the correction 1 - beta^0 is 0: count the steps from 1."
)(
    _adam_like(
        lambda m, v, k, b1, b2, eps: (
            m
            / (1 - np.float64(b1) ** (k - 1))
            / (np.sqrt(v / (1 - np.float64(b2) ** (k - 1))) + eps)
        )
    )
)


adam.reject(
    "correction with a fixed power",
    "The exponent of the correction is the step number; yours stays at 1.",
)(_adam_like(lambda m, v, k, b1, b2, eps: m / (1 - b1) / (np.sqrt(v / (1 - b2)) + eps)))


adam.reject(
    "correction without the root",
    "The second moment is corrected under the root: sqrt(v/(1-beta2^t)), not sqrt(v)/(1-beta2^t).",
    "pytorch/pytorch#23737 (review)",
)(_adam_like(lambda m, v, k, b1, b2, eps: m / (1 - b1**k) / (np.sqrt(v) / (1 - b2**k) + eps)))


@adam.reject(
    "second moment of the first moment", "v averages the squared gradients, not the squares of m."
)
def _(p, grads, lr, b1, b2, eps):
    m = v = np.zeros_like(p)
    for k, g in enumerate(grads, 1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * m * m
        p = p - lr * (m / (1 - b1**k)) / (np.sqrt(v / (1 - b2**k)) + eps)
    return p


def _adamw_in(steps, wd=0.1):
    return lambda rng: (
        rng.normal(size=4) * 2,
        rng.normal(size=(steps, 4)),
        0.05,
        0.9,
        0.99,
        1e-8,
        wd,
    )


def _adamw(p, grads, lr, b1, b2, eps, wd):
    m = v = np.zeros_like(p)
    for k, g in enumerate(grads, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - lr * wd * p - lr * (m / (1 - b1**k)) / (np.sqrt(v / (1 - b2**k)) + eps)
    return p


adamw = Exercise(
    "optimisers.adamw",
    "AdamW as the usual libraries do it: in each step p loses lr*wd*p (of the old p) and the "
    "Adam update of the plain "
    "gradient.",
    "def adamw(p, grads, lr, beta1, beta2, eps, wd): ...",
    _adamw,
    {"several steps": _adamw_in(5), "one step": _adamw_in(1), "wd = 0": _adamw_in(4, 0.0)},
    rtol=1e-9,
    atol=1e-11,
)


@adamw.accept("decay joined to the direction")
def _(p, grads, lr, b1, b2, eps, wd):
    m = v = 0
    for k, g in enumerate(grads, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - lr * (m / (1 - b1**k) / (np.sqrt(v / (1 - b2**k)) + eps) + wd * p)
    return p


@adamw.reject(
    "decay added to the gradient (L2)",
    "wd*p went into the gradient and so into both moments: that is Adam with L2, not AdamW.",
    "anhquan0412/basic_model_scratch#2, pytorch/pytorch#41679, pytorch/pytorch#144101",
)
def _(p, grads, lr, b1, b2, eps, wd):
    m = v = np.zeros_like(p)
    for k, g in enumerate(grads, 1):
        g = g + wd * p
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - lr * (m / (1 - b1**k)) / (np.sqrt(v / (1 - b2**k)) + eps)
    return p


@adamw.reject(
    "decay without the learning rate",
    "p loses wd*p per step; the usual form is lr*wd*p (the paper's own form uses the schedule's "
    "multiplier).",
    "pytorch/pytorch#3740 and #4429, NVIDIA/apex#1849",
)
def _(p, grads, lr, b1, b2, eps, wd):
    m = v = np.zeros_like(p)
    for k, g in enumerate(grads, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - wd * p - lr * (m / (1 - b1**k)) / (np.sqrt(v / (1 - b2**k)) + eps)
    return p


@adamw.reject(
    "decays the new value",
    "The decay acts on p before the update; you shrink what the update has just made of it.",
    "aiqm/torchani#261",
)
def _(p, grads, lr, b1, b2, eps, wd):
    m = v = np.zeros_like(p)
    for k, g in enumerate(grads, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - lr * (m / (1 - b1**k)) / (np.sqrt(v / (1 - b2**k)) + eps)
        p = p - lr * wd * p
    return p


@adamw.reject(
    "decay divided by the root, too",
    "The decay must not be divided by the root of the second moment: that is what decoupled means.",
)
def _(p, grads, lr, b1, b2, eps, wd):
    m = v = np.zeros_like(p)
    for k, g in enumerate(grads, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - lr * (m / (1 - b1**k) + wd * p) / (np.sqrt(v / (1 - b2**k)) + eps)
    return p


EXERCISES = [adam, adamw]
