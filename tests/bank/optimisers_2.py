"""Optimisers: Adam, AdamW, clipping, gradient accumulation, mixed precision, decay groups.

Part 2 of 3.
"""

import numpy as np
from bank import Exercise, t, torch


def _clip_in(scale, limit=1.0):
    return lambda rng: (
        [
            rng.normal(size=(2, 3)) * scale,
            rng.normal(size=4) * scale * 3,
            rng.normal(size=()) * scale,
        ],
        limit,
    )


def _gnorm(grads):
    return np.sqrt(sum((g**2).sum() for g in grads))


clip = Exercise(
    "optimisers.clip_global_norm",
    "Scale the list of gradients so that the norm of all of them together is at most `limit`; "
    "leave them alone if it is.",
    "def clip(grads, limit): ...",
    lambda grads, limit: [g * min(1.0, limit / _gnorm(grads)) for g in grads],
    {
        "above the limit": _clip_in(1.0),
        "below the limit": _clip_in(0.01),
        "just above": _clip_in(0.2),
    },
    rtol=1e-5,
    atol=1e-6,
)


@clip.accept("one flat vector")
def _(grads, limit):
    n = np.linalg.norm(np.concatenate([np.ravel(g) for g in grads]))
    return [g if n <= limit else g / n * limit for g in grads]


@clip.reject(
    "always scaled to the limit",
    "Gradients below the limit must not be scaled up: use min(1, limit/norm).",
)
def _(grads, limit):
    return [g * limit / _gnorm(grads) for g in grads]


@clip.reject(
    "clips the values",
    "That clips each entry; clipping by norm scales all entries by one factor.",
    "meta-pytorch/torchrec#4388 (the two kinds apart)",
)
def _(grads, limit):
    return [np.clip(g, -limit, limit) for g in grads]


@clip.reject(
    "largest of the norms",
    "The total norm is not the largest of the parts' norms.",
    "facebookresearch/fairscale#167 (review)",
)
def _(grads, limit):
    return [g * min(1.0, limit / max(np.sqrt((g**2).sum()) for g in grads)) for g in grads]


def _micro(counts):
    """Each micro-batch: the sum over its tokens of the gradients, and its number of tokens."""
    return lambda rng: ([rng.normal(size=3) * k for k in counts], list(counts))


tokens = Exercise(
    "optimisers.accumulate_tokens",
    "For each micro-batch you get the gradient of the sum of its token losses and its number of "
    "tokens. Return the "
    "gradient of the mean token loss of the whole batch.",
    "def accumulate(grad_sums, token_counts): ...",
    lambda s, n: sum(s) / sum(n),
    {"uneven": _micro([10, 2, 5]), "even": _micro([4, 4, 4]), "one": _micro([6])},
)


@tokens.accept("each scaled before adding")
def _(s, n):
    total = float(np.sum(n))
    return np.add.reduce([g * (1 / total) for g in s])


@tokens.reject(
    "mean of the means",
    "A micro-batch of few tokens weighs as much as a full one: (a/m + b/n)/2 is not (a+b)/(m+n).",
    "meta-pytorch/torchtune#1875, huggingface/blog#2414, OpenNMT/OpenNMT-py#2209, "
    "ml-explore/mlx-lm#1413",
)
def _(s, n):
    return np.mean([g / k for g, k in zip(s, n)], axis=0)


@tokens.reject(
    "divides twice",
    "You divide by the tokens of the whole batch and again by the number of micro-batches.",
    "huggingface/transformers#35210",
)
def _(s, n):
    return sum(s) / sum(n) / len(n)


def _tail_in(count, every):
    return lambda rng: (rng.normal(size=(count, 3)), every, 0.1)


def _tail(grads, every, lr):
    p, steps = np.zeros(grads.shape[1]), []
    for start in range(0, len(grads), every):
        p = p - lr * grads[start : start + every].mean(0)
        steps.append(p)
    return steps


tail = Exercise(
    "optimisers.accumulate_tail",
    "Micro-batches of equal size; a plain gradient step (from p = 0) after every `every` of "
    "them and one for the rest, "
    "each with the mean gradient of its micro-batches. Return the list of p after each step.",
    "def train(grads, every, lr): ...",
    _tail,
    {"with a rest": _tail_in(7, 3), "no rest": _tail_in(6, 3), "rest only": _tail_in(2, 3)},
)


@tail.accept("divide by the known size of the group in advance")
def _(grads, every, lr):
    p, out = np.zeros(3), []
    for i, g in enumerate(grads):
        size = min(every, len(grads) - i // every * every)
        p = p - lr * g / size
        if (i + 1) % every == 0 or i + 1 == len(grads):
            out.append(p.copy())
    return out


def _tail_like(divisor, last=True, reset=True, first=False):
    def run(grads, every, lr):
        p, acc, n, out = np.zeros(3), np.zeros(3), 0, []
        for i, g in enumerate(grads):
            acc, n = acc + g, n + 1
            due = i % every == 0 if first else (i + 1) % every == 0
            if due or (last and i == len(grads) - 1):
                p = p - lr * acc / divisor(n, every)
                out.append(p)
                n = 0
                if reset:
                    acc = np.zeros(3)
        return out

    return run


tail.reject(
    "rest lost",
    "The last micro-batches never reach a step: step at the end of the data, too.",
    "timoschick/pet#36, tomhosking/torchseq#8, mflux-community/mflux#447, "
    "Lightning-AI/pytorch-lightning#4653 "
    "(asked there)",
)(_tail_like(lambda n, e: n, last=False))


tail.reject(
    "rest divided by the full number",
    "The last group is smaller: divide by its own number of micro-batches.",
    "jingyaogong/minimind#749, explainingai-code/DiT-PyTorch#3",
)(_tail_like(lambda n, e: e))


tail.reject(
    "not divided",
    "The gradients are added up: divide by the number of micro-batches.",
    "karpathy/nanoGPT#206",
)(_tail_like(lambda n, e: 1))


tail.reject(
    "gradients not set to zero",
    "The gradients of earlier groups are still in the sum: reset after each step.",
)(_tail_like(lambda n, e: n, reset=False))


tail.reject(
    "steps at the first micro-batch",
    "i % every == 0 is true for i = 0: the first step comes after one micro-batch only.",
    "rasbt/LLMs-from-scratch#300",
)(_tail_like(lambda n, e: n, first=True))


def _amp_in(norm, scale=1024.0, bad=False):
    def make(rng):
        g = rng.normal(size=5)
        g = g / np.linalg.norm(g) * norm * scale
        if bad:
            g[2] = np.inf
        return rng.normal(size=5), g, scale, 1.0, 0.1

    return make


def _amp(p, sg, scale, limit, lr):
    g = sg / scale
    if not np.isfinite(g).all():
        return p.copy()
    return p - lr * g * min(1.0, limit / np.linalg.norm(g))


amp = Exercise(
    "optimisers.clip_with_loss_scale",
    "The loss was multiplied by `scale` before the backward pass. From the scaled gradient make "
    "one plain gradient step "
    "with the true gradient clipped to norm `limit`; make no step if it is not finite.",
    "def step(p, scaled_grad, scale, limit, lr): ...",
    _amp,
    {
        "large gradient": _amp_in(5.0),
        "small gradient": _amp_in(0.2),
        "scale 1": _amp_in(5.0, 1.0),
        "overflow": _amp_in(1.0, bad=True),
    },
)


@amp.accept("unscale, then clip")
def _(p, sg, scale, limit, lr):
    if np.isinf(sg).any() or np.isnan(sg).any():
        return p
    g = sg * (1 / scale)
    n = np.sqrt(g @ g)
    return p - lr * (g if n < limit else g * limit / n)


@amp.accept("torch")
def _(p, sg, scale, limit, lr):
    x = t(p).requires_grad_()
    x.grad = t(sg) / scale
    if torch.isfinite(x.grad).all():
        torch.nn.utils.clip_grad_norm_([x], limit)
        torch.optim.SGD([x], lr=lr).step()
    return x


amp.rtol, amp.atol = 1e-5, 1e-6  # the 1e-6 of the library's clipping


@amp.reject(
    "clips before unscaling",
    "The scaled gradient is clipped to the limit and then divided by the scale: the step "
    "becomes tiny. Unscale "
    "first.",
    "Lightning-AI/pytorch-lightning#9330, milesial/Pytorch-UNet#468, pytorch/examples#1196, "
    "allenai/allennlp#5426, "
    "NVIDIA/apex#1512",
)
def _(p, sg, scale, limit, lr):
    if not np.isfinite(sg).all():
        return p
    return p - lr * sg * min(1.0, limit / np.linalg.norm(sg)) / scale


@amp.reject(
    "never unscaled",
    "The step is taken with the scaled gradient (clipping hides it where the gradient is large).",
)
def _(p, sg, scale, limit, lr):
    if not np.isfinite(sg).all():
        return p
    return p - lr * sg * min(1.0, limit / np.linalg.norm(sg))


@amp.reject("unscaled twice", "Divided by the scale once before the clipping and once in the step.")
def _(p, sg, scale, limit, lr):
    return _amp(p, sg / scale, scale, limit, lr)


def _step_in(scale, count=3):
    return lambda rng: (rng.normal(size=4), rng.normal(size=(count, 4)) * scale + scale, 1.0, 0.1)


def _clipped(g, limit):
    n = np.linalg.norm(g)
    return g * min(1.0, limit / n)


order = Exercise(
    "optimisers.step_order",
    "Two equal training steps of plain gradient descent: each accumulates the mean of the "
    "micro-batches' gradients, clips "
    "it to norm `limit`, and steps. (The gradients are the same in both steps.) Return p after "
    "the two steps.",
    "def two_steps(p, grads, limit, lr): ...",
    lambda p, grads, limit, lr: p - 2 * lr * _clipped(grads.mean(0), limit),
    {
        "large gradients": _step_in(3.0),
        "small gradients": _step_in(0.05),
        "one micro-batch": _step_in(3.0, 1),
    },
)


@order.accept("gradient set to zero after the step")
def _(p, grads, limit, lr):
    g = np.zeros_like(p)
    for _step in range(2):
        for micro in grads:
            g = g + micro
        g = g / len(grads)
        p = p - lr * (g if g @ g <= limit**2 else g / np.sqrt(g @ g) * limit)
        g = np.zeros_like(p)
    return p


@order.reject(
    "clips the growing sum after every micro-batch",
    "Each clipping also shrinks what was accumulated before: clip once at the end.",
    "huggingface/transformers#1563",
)
def _(p, grads, limit, lr):
    g = np.zeros_like(p)
    for micro in grads:
        g = _clipped(g + micro / len(grads), limit)
    return p - 2 * lr * g


@order.reject(
    "gradient set to zero before the step",
    "zero_grad between backward and step: nothing is left to step with.",
    "Tony-Y/pytorch_warmup#12",
)
def _(p, grads, limit, lr):
    return p.copy()


EXERCISES = [clip, tokens, tail, order, amp]
