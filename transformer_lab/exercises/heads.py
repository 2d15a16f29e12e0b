r"""Exercises on heads: taking them apart, putting them together, sharing them."""

from __future__ import annotations

import numpy as np

from ..attention import attention_weights
from ..attention.heads import MultiHeadAttention, merge_heads, split_heads
from .adapt import with_tensors
from .core import Misconception, template_of
from .function import FunctionExercise, Property
from .numeric import softmax, transposed

CHAPTER = "05-multi-head-attention"


def _btd(b: int, n: int, d: int, h: int):
    return lambda rng: (np.arange(b * n * d, dtype=float).reshape(b, n, d), h)


def _apart(x: np.ndarray, h: int) -> np.ndarray:
    b, n, d = x.shape
    return x.reshape(b, n, h, d // h).transpose(0, 2, 1, 3)


def _together(x: np.ndarray) -> np.ndarray:
    b, h, n, w = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, n, h * w)


SPLIT = FunctionExercise(
    id="attention.split_heads",
    chapter=CHAPTER,
    title="From one wide token to heads",
    task="Split `x` (batch, time, model) into heads of shape (batch, heads, time, model/heads); "
    "head h "
    "takes the h-th block of channels of each token.",
    template=template_of("def split_heads(x, n_heads): ..."),
    hints=(
        "First give the channels two axes: which of the two comes first, heads or width?",
        "Then move the head axis before time. A reshape alone cannot do that.",
    ),
    reference=with_tensors(split_heads),
    names=("x", "n_heads"),
    kinds={
        "one token": _btd(1, 1, 4, 2),
        "one head": _btd(1, 2, 3, 1),
        "generic": _btd(2, 5, 12, 3),
        "time = heads": _btd(2, 3, 12, 3),
        "batch = heads": _btd(3, 4, 12, 3),
    },
    properties=(
        Property(
            "Head 0 of the first token is the first block of its channels",
            lambda f, x, h: (x[0, 0, : x.shape[-1] // h], f(x, h)[0, 0, 0]),
        ),
    ),
    misconceptions=(
        Misconception(
            "interleaved channels",
            "Head h takes every h-th channel instead of one block: the channels become (heads, "
            "width), not (width, heads).",
            lambda x, h: x.reshape(*x.shape[:2], x.shape[2] // h, h).transpose(0, 3, 1, 2),
        ),
        Misconception(
            "heads before the batch",
            "The head axis came first; a mask laid out by batch then meets the wrong sentences.",
            lambda x, h: _apart(x, h).transpose(1, 0, 2, 3),
            "lsdefine/attention-is-all-you-need-keras#36",
        ),
        Misconception(
            "reshaped without moving the axis",
            "The shape is right, but tokens are mixed into heads: split the channels first, then "
            "move the axis.",
            lambda x, h: x.reshape(x.shape[0], h, x.shape[1], x.shape[2] // h),
        ),
    ),
)


def _bhtd(b: int, h: int, n: int, w: int):
    return lambda rng: (np.arange(b * h * n * w, dtype=float).reshape(b, h, n, w),)


MERGE = FunctionExercise(
    id="attention.merge_heads",
    chapter=CHAPTER,
    title="Heads side by side again",
    task="Put heads `x` (batch, heads, time, width) back together to (batch, time, "
    "heads·width), one head "
    "after the other.",
    template=template_of("def merge_heads(x): ..."),
    hints=(
        "Undo the two steps of the splitting, the last one first.",
        "Move the head axis behind time, then join the last two axes.",
    ),
    reference=with_tensors(merge_heads),
    names=("x",),
    kinds={
        "one token": _bhtd(1, 2, 1, 2),
        "one head": _bhtd(1, 1, 2, 3),
        "generic": _bhtd(2, 3, 5, 4),
        "time = heads": _bhtd(2, 3, 3, 4),
        "batch = heads": _bhtd(3, 3, 4, 2),
    },
    properties=(
        Property(
            "What was split comes back",
            lambda f, x: (_together(x), f(_apart(_together(x), x.shape[1]))),
        ),
    ),
    misconceptions=(
        Misconception(
            "reshape without the transpose",
            "Each output row mixes several tokens: swap the head and time axes before the reshape.",
            lambda x: x.reshape(x.shape[0], x.shape[2], -1),
            "jsbaan/transformer-from-scratch#6",
        ),
        Misconception(
            "interleaves the heads",
            "The channels of the heads alternate; one head after the other is meant.",
            lambda x: x.transpose(0, 2, 3, 1).reshape(x.shape[0], x.shape[2], -1),
        ),
    ),
)


def _mha_inputs(b: int, n: int, d: int, h: int):
    def draw(rng: np.random.Generator) -> tuple:
        weights = tuple(np.round(rng.normal(size=(d, d)) / 1.5, 2) for _ in range(4))
        return (np.round(rng.normal(size=(b, n, d)), 2), *weights, h)

    return draw


def _multihead(x, wq, wk, wv, wo, h, apart=_apart, together=_together, width=None):
    q, k, v = (apart(x @ w, h) for w in (wq, wk, wv))
    return together(softmax(q @ transposed(k) / np.sqrt(width or q.shape[-1])) @ v) @ wo


def _library(x, wq, wk, wv, wo, h):
    """The library's own layer, with these matrices in it."""
    import torch

    layer = MultiHeadAttention(x.shape[-1], h).double()
    with torch.no_grad():
        layer.qkv.weight.copy_(torch.cat([w.T for w in (wq, wk, wv)]))
        layer.out.weight.copy_(wo.T)
        return layer(x)


MULTIHEAD = FunctionExercise(
    id="attention.multihead",
    chapter=CHAPTER,
    title="Multi-head self-attention",
    task="Write multi-head self-attention: projections `x` @ `wq`, `wk`, `wv`, attention in "
    "each head, the "
    "heads side by side, then @ `wo`. All weights are (model, model); no mask, no bias.",
    template=template_of("def multihead(x, wq, wk, wv, wo, n_heads): ..."),
    hints=(
        "Four steps: project, split, attend in each head, merge and project.",
        "How wide is a head? The scores are divided by the root of that.",
    ),
    reference=with_tensors(_library),
    names=("x", "wq", "wk", "wv", "wo", "n_heads"),
    kinds={
        "one token": _mha_inputs(1, 1, 2, 2),
        "one head": _mha_inputs(2, 4, 4, 1),
        "generic": _mha_inputs(2, 5, 6, 3),
        "time = heads": _mha_inputs(2, 3, 6, 3),
    },
    properties=(
        Property(
            "Tokens in another order give their outputs in that order",
            lambda f, x, *rest: (f(x, *rest)[:, ::-1], f(x[:, ::-1].copy(), *rest)),
        ),
    ),
    misconceptions=(
        Misconception(
            "no output projection",
            "The heads are only put side by side; wo, which mixes them, is missing.",
            lambda x, wq, wk, wv, wo, h: _multihead(x, wq, wk, wv, np.eye(len(wo)), h),
        ),
        Misconception(
            "raw reshape into heads",
            "Splitting and merging by reshape alone gives the right shape but mixes positions into "
            "heads.",
            lambda x, wq, wk, wv, wo, h: _multihead(
                x,
                wq,
                wk,
                wv,
                wo,
                h,
                lambda y, g: y.reshape(y.shape[0], g, y.shape[1], -1),
                lambda y: y.reshape(x.shape),
            ),
            "reczoo/FuxiCTR#30",
        ),
        Misconception(
            "scaled by the model's width",
            "The scores are divided by the root of the model's width; a head is narrower.",
            lambda x, wq, wk, wv, wo, h: _multihead(x, wq, wk, wv, wo, h, width=x.shape[-1]),
            "karpathy/ng-video-lecture#6",
        ),
    ),
)


def _gqa_inputs(hq: int, hkv: int, n: int = 3, d: int = 4, b: int = 2):
    shapes = (b, hq, n, d), (b, hkv, n, d), (b, hkv, n, d)
    return lambda rng: tuple(np.round(rng.normal(size=s), 2) for s in shapes)


def _attend(q, k, v):
    return softmax(q @ transposed(k) / np.sqrt(q.shape[-1])) @ v


def _grouped(q, k, v, spread):
    g = q.shape[1] // k.shape[1]
    return _attend(q, spread(k, g), spread(v, g))


def _shared(q, k, v):
    weights = attention_weights(q, k)
    return weights @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)


def _mean_queries(q, k, v):
    b, hq, n, d = q.shape
    m = q.reshape(b, k.shape[1], -1, n, d).mean(2)
    return np.repeat(_attend(m, k, v), hq // k.shape[1], axis=1)


GROUPED = FunctionExercise(
    id="attention.grouped_queries",
    chapter=CHAPTER,
    title="Heads of queries that share keys and values",
    task="`q` has Hq heads, `k` and `v` have Hkv (batch, heads, time, width): query heads 0 … g "
    "− 1 share key "
    "head 0, the next g share head 1, and so on, with g = Hq/Hkv. Return the output of attention.",
    template=template_of("def grouped_attention(q, k, v): ..."),
    hints=(
        "Give every query head its key head, then it is ordinary attention.",
        "In which order do key heads repeat: 0 0 1 1, or 0 1 0 1?",
    ),
    reference=with_tensors(_shared),
    names=("q", "k", "v"),
    kinds={
        "one token": _gqa_inputs(4, 2, 1, 2, 1),
        "generic": _gqa_inputs(6, 3),
        "two groups": _gqa_inputs(4, 2),
        "one key head": _gqa_inputs(4, 1),
        "as many key heads": _gqa_inputs(3, 3),
        "time = heads": _gqa_inputs(4, 2, n=4),
    },
    properties=(
        Property(
            "Values that are all 1 give an output of 1",
            lambda f, q, k, v: (np.ones(q.shape), f(q, k, np.ones_like(v))),
        ),
    ),
    misconceptions=(
        Misconception(
            "repeats the time axis",
            "The repeat ran along time, not along the heads.",
            lambda q, k, v: _grouped(
                q, k, v, lambda a, g: np.repeat(a, g, 2).reshape(a.shape[0], -1, *a.shape[2:])
            ),
            "PrimeIntellect-ai/prime-rl#2681",
        ),
        Misconception(
            "uses the first key head only",
            "Every query head reads key head 0: that is multi-query attention.",
            lambda q, k, v: _attend(q, k[:, :1], v[:, :1]),
        ),
        Misconception(
            "averages the query heads of a group",
            "The query heads of a group keep their own queries; only keys and values are shared.",
            _mean_queries,
        ),
        Misconception(
            "key heads in turn",
            "Neighbouring query heads share a key head: 0 0 1 1, not 0 1 0 1.",
            lambda q, k, v: _grouped(q, k, v, lambda a, g: np.tile(a, (1, g, 1, 1))),
        ),
    ),
)

EXERCISES = (SPLIT, MERGE, MULTIHEAD, GROUPED)
