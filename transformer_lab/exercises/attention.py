r"""Exercises on scaled dot-product attention: scores, weights, output."""

from __future__ import annotations

import numpy as np

from ..attention import attention_scores, attention_weights
from .adapt import in_heads, with_tensors
from .core import Misconception, template_of
from .error import ErrorExercise
from .function import FunctionExercise, Property
from .numeric import softmax, transposed

CHAPTER = "04-scaled-dot-product-attention"


def _qkv(tq: int, tk: int, d: int, dv: int, lead: tuple = ()):
    def draw(rng: np.random.Generator) -> tuple:
        shapes = (*lead, tq, d), (*lead, tk, d), (*lead, tk, dv)
        return tuple(np.round(rng.normal(scale=1.5, size=shape), 2) for shape in shapes)

    return draw


def _whole(rng: np.random.Generator) -> tuple:
    """Two keys, d = 4, whole numbers: small enough to do by hand."""
    return tuple(rng.integers(0, 3, size).astype(float) for size in ((1, 4), (2, 4), (2, 1)))


SCALE = FunctionExercise(
    id="attention.scale",
    chapter=CHAPTER,
    title="Scaled dot-product attention",
    task="Write scaled dot-product attention for queries `q` (…, T, d), keys `k` (…, S, d) and "
    "values "
    "`v` (…, S, dv), without a mask. Any number of leading axes, also none.",
    template=template_of("def attention(q, k, v): ..."),
    label="eq-attention-weights",
    hints=(
        "Three lines: scores, weights, output.",
        "The scores are a matrix product of queries with keys, rows against rows.",
        "The standard deviation of a sum of d products is the root of d; divide by it.",
    ),
    reference=in_heads(lambda q, k, v: attention_weights(q, k) @ v),
    names=("q", "k", "v"),
    kinds={
        "two keys": _whole,
        "generic": _qkv(4, 5, 6, 3),
        "batched": _qkv(3, 4, 5, 2, (2, 3)),
        "all sizes equal": _qkv(4, 4, 4, 4),
        "d = 1": _qkv(3, 4, 1, 2),
    },
    properties=(
        Property(
            "If all keys are equal, the output is the mean of the values",
            lambda f, q, k, v: (
                np.broadcast_to(v.mean(-2, keepdims=True), (*q.shape[:-1], v.shape[-1])),
                f(q, np.zeros_like(k) + k[..., :1, :], v),
            ),
        ),
        Property(
            "Values that are all 1 give an output of 1, since weights sum to 1",
            lambda f, q, k, v: (
                np.ones((*q.shape[:-1], v.shape[-1])),
                f(q, k, np.ones_like(v)),
            ),
        ),
        Property(
            "Keys and values in another order give the same output",
            lambda f, q, k, v: (f(q, k, v), f(q, k[..., ::-1, :].copy(), v[..., ::-1, :].copy())),
        ),
    ),
    misconceptions=(
        Misconception(
            "no scaling",
            "The scores are not divided by sqrt(d): their variance grows with d and the softmax "
            "saturates.",
            lambda q, k, v: softmax(q @ transposed(k)) @ v,
            "jadore801120/attention-is-all-you-need-pytorch#49",
        ),
        Misconception(
            "dividing by d instead of its square root",
            "You divide by d. The standard deviation of a sum of d products is sqrt(d), not d.",
            lambda q, k, v: softmax(q @ transposed(k) / q.shape[-1]) @ v,
            "thegregyang/NTK4A#3",
        ),
        Misconception(
            "scaling by the number of keys",
            "You divide by the root of the number of keys. The scale belongs to the width d.",
            lambda q, k, v: softmax(q @ transposed(k) / np.sqrt(k.shape[-2])) @ v,
        ),
        Misconception(
            "multiplying by sqrt(d)",
            "The scale is upside down: divide by the root, do not multiply.",
            lambda q, k, v: softmax(q @ transposed(k) * np.sqrt(q.shape[-1])) @ v,
            "pytorch/tutorials#2849",
        ),
        Misconception(
            "the softmax along the wrong axis",
            "Your weights sum to 1 over the queries. Every query shares out its own 1 among the "
            "keys: the last axis.",
            lambda q, k, v: softmax(q @ transposed(k) / np.sqrt(q.shape[-1]), -2) @ v,
        ),
        Misconception(
            "scaling after the softmax",
            "The weights are divided, so they no longer sum to 1. What is divided is the score, "
            "before the softmax sees it.",
            lambda q, k, v: softmax(q @ transposed(k)) / np.sqrt(q.shape[-1]) @ v,
        ),
    ),
)


def _scores(*shape: int):
    return lambda rng: (np.round(rng.normal(size=shape) * 2, 2),)


SOFTMAX_AXIS = FunctionExercise(
    id="attention.softmax_axis",
    chapter=CHAPTER,
    title="From scores to weights: along which axis?",
    task="Turn `scores` of shape (batch, heads, queries, keys) into attention weights.",
    template=template_of("def weights(scores): ..."),
    label="eq-attention-weights",
    hints=("Who shares out its attention: a query or a key?", "A row belongs to a query."),
    reference=with_tensors(lambda s: s.softmax(-1)),
    names=("scores",),
    kinds={
        "two queries, three keys": _scores(1, 1, 2, 3),
        "generic": _scores(2, 3, 4, 5),
        "square": _scores(2, 3, 4, 4),
        "one query": _scores(2, 3, 1, 5),
        "one head, one batch": _scores(1, 1, 4, 4),
    },
    properties=(
        Property(
            "Every row sums to 1", lambda f, s: (np.ones(s.shape[:-1]), np.asarray(f(s)).sum(-1))
        ),
        Property(
            "A constant added to a row changes nothing",
            lambda f, s: (f(s), f(s + np.arange(s.shape[-2], dtype=float)[:, None])),
        ),
    ),
    misconceptions=(
        Misconception(
            "normalising over the queries",
            "Every column sums to 1; every query (row) should. Use the key axis, the last one.",
            lambda s: softmax(s, -2),
            "labmlai/annotated_deep_learning_paper_implementations#146",
        ),
        Misconception(
            "normalising over the batch (dim=0)",
            "With one item in the batch all your weights become 1: axis 0 is the batch.",
            lambda s: softmax(s, 0),
            "PetrochukM/PyTorch-NLP#2",
        ),
        Misconception(
            "normalising over the heads",
            "Axis 1 counts the heads. Heads do not share attention with each other; keys do.",
            lambda s: softmax(s, 1),
        ),
        Misconception(
            "one softmax over a whole map",
            "All weights of a map together sum to 1. Each row should, by itself.",
            lambda s: softmax(s.reshape(*s.shape[:2], -1)).reshape(s.shape),
        ),
        Misconception(
            "no exponential",
            "The scores are divided by their sum. Without the exponential, weights can be "
            "negative, "
            "and a constant added to a row changes them.",
            lambda s: s / s.sum(-1, keepdims=True),
        ),
    ),
)


def _two(rng: np.random.Generator) -> tuple:
    return tuple(np.round(rng.normal(size=(t, d)), 2) for t, d in ((2, 4), (3, 4), (3, 2)))


LOST_RADICAL = ErrorExercise(
    id="attention.lost_radical",
    chapter=CHAPTER,
    title="Find the error: a formula as it was printed",
    task="A document prints: *the output is* softmax($d_k$ · Q Kᵀ) V. Which part is wrong? Name "
    "it, and "
    "write the formula as it should be, as a function of `q`, `k`, `v`.",
    template='part = ...  # such as "a"\n\n\ndef mended(q, k, v):\n    ...\n',
    label="eq-score-variance-scaled",
    hints=(
        "Which part would make scores of wide heads larger instead of smaller?",
        "What is the variance of the scores once they are multiplied by d_k? d_k³.",
    ),
    parts={
        "a": "Q Kᵀ: every query with every key",
        "b": "d_k as a factor of the scores",
        "c": "softmax along each row",
        "d": "V multiplied from the right",
    },
    wrong="b",
    because={
        "a": "Row t of Q against row s of K is the score of query t with key s.",
        "c": "Each query shares out its own 1 among the keys.",
        "d": "Rows of weights times V are means of the rows of V.",
    },
    mended=FunctionExercise(
        id="attention.lost_radical_mended",
        chapter=CHAPTER,
        title="The formula, mended",
        task="The formula as it should be.",
        reference=in_heads(lambda q, k, v: attention_scores(q, k).softmax(-1) @ v),
        names=("q", "k", "v"),
        kinds={"two queries": _two, "generic": _qkv(3, 5, 7, 2)},
        misconceptions=(
            Misconception(
                "the factor as printed",
                "The scores are still multiplied by d_k.",
                lambda q, k, v: softmax(q @ transposed(k) * q.shape[-1]) @ v,
            ),
            Misconception(
                "the factor dropped",
                "Nothing takes its place yet: the variance of the scores is d_k, and should be 1.",
                lambda q, k, v: softmax(q @ transposed(k)) @ v,
            ),
            Misconception(
                "a division without the root",
                "Dividing by d_k makes the variance 1 / d_k. What was lost in print is a root.",
                lambda q, k, v: softmax(q @ transposed(k) / q.shape[-1]) @ v,
            ),
        ),
    ),
)

EXERCISES = (SCALE, SOFTMAX_AXIS, LOST_RADICAL)
