"""Systems.

data parallelism, synchronised statistics, recomputation, counting parameters, FLOPs and bytes.

Part 1 of 2.
"""

import numpy as np
from bank import Exercise, t, torch


def _ranks(counts):
    return lambda rng: ([rng.normal(size=4) for _k in counts], list(counts))


ddp = Exercise(
    "systems.data_parallel_gradient",
    "Each rank has the gradient of the mean loss of its own tokens and their number. Return the "
    "gradient of the mean loss "
    "over all tokens.",
    "def combine(grads, token_counts): ...",
    lambda g, n: sum(a * k for a, k in zip(g, n)) / sum(n),
    {"uneven": _ranks([10, 2, 7]), "even": _ranks([5, 5, 5, 5]), "one rank": _ranks([8])},
)


@ddp.accept("local sums times world size over all tokens, then the usual mean")
def _(g, n):
    world, total = len(g), sum(n)
    return np.mean([a * k * world / total for a, k in zip(g, n)], axis=0)


@ddp.accept("tree of pairs")
def _(g, n):
    items = list(zip(g, n))
    while len(items) > 1:
        (a, i), (b, j) = items.pop(), items.pop()
        items.insert(0, ((a * i + b * j) / (i + j), i + j))
    return items[0][0]


@ddp.reject(
    "sum over the ranks",
    "The gradients are added up, not averaged: the step is larger by the number of ranks.",
    "NVIDIA/apex#696 (asked there), neuralmagic/sparseml#135 (the loss scaled up by it)",
)
def _(g, n):
    return sum(g)


@ddp.reject(
    "divided by the number of ranks twice",
    "The mean was taken already; you divide by the number of ranks once more.",
    "NVIDIA/apex#696 (asked there), modelscope/ms-swift#10150",
)
def _(g, n):
    return np.average(g, axis=0, weights=n) / len(g)


def _parts(sizes, apart=2.0):
    return lambda rng: ([rng.normal(size=(k, 3)) + apart * i for i, k in enumerate(sizes)],)


sync_bn = Exercise(
    "systems.sync_batch_norm",
    "Each rank holds rows x (n_r, C). Return mean and population variance of each channel over "
    "all ranks.",
    "def global_stats(parts): ...",
    lambda parts: (np.concatenate(parts).mean(0), np.concatenate(parts).var(0)),
    {
        "uneven": _parts([5, 2, 3]),
        "even": _parts([4, 4]),
        "same distribution": _parts([4, 4], 0.0),
        "one rank": _parts([6]),
    },
)


@sync_bn.accept("sums and sums of squares")
def _(parts):
    n = sum(len(p) for p in parts)
    m = sum(p.sum(0) for p in parts) / n
    return m, sum((p * p).sum(0) for p in parts) / n - m * m


@sync_bn.accept("merge of two at a time")
def _(parts):
    n, m, s = 0, np.zeros(3), np.zeros(3)
    for p in parts:
        k, d = len(p), p.mean(0) - m
        s = s + ((p - p.mean(0)) ** 2).sum(0) + d * d * n * k / (n + k)
        m, n = m + d * k / (n + k), n + k
    return m, s / n


@sync_bn.reject(
    "mean of the variances",
    "The spread of the ranks' means is missing from the variance.",
    "fyu/drn#26",
)
def _(parts):
    return np.concatenate(parts).mean(0), np.average(
        [p.var(0) for p in parts], axis=0, weights=[len(p) for p in parts]
    )


@sync_bn.reject(
    "variance with n - 1",
    "Batch norm normalises with the population variance (only its running average uses n - 1).",
    "facebookresearch/fairscale#662 (review: where the unbiased one goes)",
)
def _(parts):
    x = np.concatenate(parts)
    return x.mean(0), x.var(0, ddof=1)


@sync_bn.reject(
    "each rank by itself",
    "Without exchange the statistics are those of one rank.",
    "tensorflow/tensorflow#7439, ptrblck/pytorch_misc#5, NVIDIA-Merlin/HugeCTR#181",
)
def _(parts):
    return parts[0].mean(0), parts[0].var(0)


@sync_bn.reject(
    "square of the mean forgotten",
    "The mean of squares is not yet the variance: subtract the squared mean.",
)
def _(parts):
    x = np.concatenate(parts)
    return x.mean(0), (x * x).mean(0)


def _ck_in(p):
    return lambda rng: (
        rng.normal(size=(4, 5)),
        rng.normal(size=(5, 6)),
        rng.normal(size=(6, 3)),
        p,
        int(rng.integers(1000)),
    )


def _drop_masks(rng, shapes, p):
    return [(rng.random(s) >= p) / (1 - p) for s in shapes]


def _two_layers(x, a, b, masks):
    h = np.tanh(x @ a)
    return h, h * masks[0], (h * masks[0]) @ b


def _grads(x, a, b, forward_masks, recomputed_masks):
    """Loss: half the squared norm of the dropped output; activations are recomputed."""
    out = _two_layers(x, a, b, forward_masks)[2] * forward_masks[1]
    h, hd, _z = _two_layers(x, a, b, recomputed_masks)
    dz = out * recomputed_masks[1]
    dh = dz @ b.T * recomputed_masks[0] * (1 - h * h)
    return 0.5 * (out**2).sum(), x.T @ dh, hd.T @ dz


def _ck_shapes(x, a, b):
    return [(len(x), a.shape[1]), (len(x), b.shape[1])]


def _ck(x, a, b, p, seed):
    masks = _drop_masks(np.random.default_rng(seed), _ck_shapes(x, a, b), p)
    return _grads(x, a, b, masks, masks)


checkpoint = Exercise(
    "systems.checkpoint_dropout",
    "Loss 0.5*|drop(drop(tanh(x A)) B)|^2; the masks are drawn in this order from "
    "default_rng(seed), True where "
    "random >= p, divided by 1-p. Keep no activation: recompute them for the backward pass. "
    "Return (loss, dA, dB).",
    "def checkpointed(x, A, B, p, seed): ...",
    _ck,
    {"p = 0.3": _ck_in(0.3), "p = 0.1": _ck_in(0.1), "no dropout": _ck_in(0.0)},
)


@checkpoint.accept("state saved and restored")
def _(x, a, b, p, seed):
    rng = np.random.default_rng(seed)
    state = rng.bit_generator.state
    first = _drop_masks(rng, _ck_shapes(x, a, b), p)
    rng.bit_generator.state = state
    return _grads(x, a, b, first, _drop_masks(rng, _ck_shapes(x, a, b), p))


@checkpoint.accept("torch autograd with the masks kept")
def _(x, a, b, p, seed):
    m = [t(k) for k in _drop_masks(np.random.default_rng(seed), _ck_shapes(x, a, b), p)]
    a, b = t(a).requires_grad_(), t(b).requires_grad_()
    loss = 0.5 * ((((t(x) @ a).tanh() * m[0]) @ b * m[1]) ** 2).sum()
    return (loss,) + torch.autograd.grad(loss, (a, b))


@checkpoint.reject(
    "fresh masks when recomputing",
    "The random state has moved on: the gradient belongs to other masks than the loss. Restore "
    "it first.",
    "allenai/OLMo-core#828, allenai/OLMo#702, ankanbhunia/PIDM#66, pytorch/torchtitan#1323, "
    "pytorch/pytorch#14253",
)
def _(x, a, b, p, seed):
    rng = np.random.default_rng(seed)
    first = _drop_masks(rng, _ck_shapes(x, a, b), p)
    return _grads(x, a, b, first, _drop_masks(rng, _ck_shapes(x, a, b), p))


@checkpoint.reject(
    "no dropout when recomputing",
    "The recomputation ran as in evaluation: the same masks belong into it.",
)
def _(x, a, b, p, seed):
    first = _drop_masks(np.random.default_rng(seed), _ck_shapes(x, a, b), p)
    return _grads(x, a, b, first, [np.ones(s) for s in _ck_shapes(x, a, b)])


@checkpoint.reject(
    "state reset before every layer",
    "Each recomputed layer starts from the same state, so the second mask is drawn from the "
    "first numbers.",
)
def _(x, a, b, p, seed):
    shapes = _ck_shapes(x, a, b)
    first = _drop_masks(np.random.default_rng(seed), shapes, p)
    return _grads(
        x, a, b, first, [_drop_masks(np.random.default_rng(seed), [s], p)[0] for s in shapes]
    )


@checkpoint.reject(
    "mask forgotten in the backward pass",
    "The gradient passes through the dropped units: multiply it by the masks, too.",
)
def _(x, a, b, p, seed):
    masks = _drop_masks(np.random.default_rng(seed), _ck_shapes(x, a, b), p)
    loss, _da, db = _grads(x, a, b, masks, masks)
    h, _hd, z = _two_layers(x, a, b, masks)
    return loss, x.T @ ((z * masks[1] ** 2) @ b.T * (1 - h * h)), db


def _gpt(**kw):
    base = dict(vocab=97, context=16, layers=3, width=12, tied=True, bias=True)
    base.update(kw)
    return lambda rng: (base,)


def _count(c, embed=True):
    v, n, l, d = c["vocab"], c["context"], c["layers"], c["width"]
    b = 1 if c["bias"] else 0
    block = 4 * d * d + 4 * d * b + 8 * d * d + 5 * d * b + 2 * (d + d * b)
    return v * d + n * d + l * block + (d + d * b) + (0 if c["tied"] else v * d)


params = Exercise(
    "systems.parameter_count",
    "Count the parameters of a GPT: token and position embedding, per block q, k, v, output and "
    "a 4x feed-forward layer "
    "and two norms, a final norm, the head (no bias; shared with the embedding if tied). With "
    "bias=False linear layers "
    "and norms have none.",
    "def count(config): ...",
    _count,
    {
        "tied, bias": _gpt(),
        "untied": _gpt(tied=False),
        "no bias": _gpt(bias=False),
        "untied, no bias": _gpt(tied=False, bias=False),
    },
)


@params.accept("closed form")
def _(c):
    v, n, l, d = c["vocab"], c["context"], c["layers"], c["width"]
    heads = 1 if c["tied"] else 2
    return d * (heads * v + n + l * (12 * d + (13 if c["bias"] else 2)) + (2 if c["bias"] else 1))


@params.accept("torch modules")
def _(c):
    nn, d, b = torch.nn, c["width"], c["bias"]
    parts = [nn.Embedding(c["vocab"], d), nn.Embedding(c["context"], d), nn.LayerNorm(d, bias=b)]
    for _layer in range(c["layers"]):
        parts += [
            nn.Linear(d, 3 * d, b),
            nn.Linear(d, d, b),
            nn.Linear(d, 4 * d, b),
            nn.Linear(4 * d, d, b),
            nn.LayerNorm(d, bias=b),
            nn.LayerNorm(d, bias=b),
        ]
    head = nn.Linear(d, c["vocab"], False)
    if c["tied"]:
        head.weight = parts[0].weight
    return sum(p.numel() for p in nn.ModuleList(parts + [head]).parameters())


@params.reject(
    "embeddings left out",
    "The token and position embeddings are parameters, too (they are left out in scaling laws "
    "only).",
    "TransformerLensOrg/TransformerLens#903, facebookresearch/metaseq#216 (asked there)",
)
def _(c):
    return _count(c) - (c["vocab"] + c["context"]) * c["width"]


@params.reject("final norm forgotten", "After the last block there is one more norm.")
def _(c):
    return _count(c) - c["width"] * (2 if c["bias"] else 1)


EXERCISES = [ddp, sync_bn, checkpoint, params]
