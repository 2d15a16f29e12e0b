r"""Exercises on decoding: what temperature, top-k and the nucleus make of a distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..decode.truncations import Temperature, TopK, TopP
from .adapt import with_tensors
from .core import Misconception, template_of
from .formula import readable, substituted
from .function import FunctionExercise, Property
from .numeric import softmax

if TYPE_CHECKING:
    import sympy as sp

CHAPTER = "22-generation"


def _truncated(truncation: Callable, logits_BV: np.ndarray) -> np.ndarray:
    import torch

    history = torch.empty(len(logits_BV), 0, dtype=torch.long)
    return with_tensors(lambda z: truncation(z, history))(logits_BV)


def _one_hot(z: np.ndarray) -> np.ndarray:
    return np.eye(len(z))[np.argmax(z)]


def _tempered(z: np.ndarray, T: float) -> np.ndarray:
    return _one_hot(z) if T == 0 else softmax(_truncated(Temperature(T), z[None])[0])


def _logits(T: float, size: int = 7, spread: float = 2.0):
    return lambda rng: (np.round(rng.normal(size=size) * spread, 1), T)


TEMPERATURE = FunctionExercise(
    id="decoding.temperature",
    chapter=CHAPTER,
    title="A distribution at a temperature",
    task="Return the probabilities softmax(`logits` / `T`); T = 0 means the limit, all weight "
    "on the largest "
    "logit.",
    template=template_of("def tempered(logits, T): ..."),
    hints=(
        "What is divided: logits or probabilities?",
        "Does it still work for a small T and large logits? And for T = 0?",
    ),
    reference=_tempered,
    names=("logits", "T"),
    kinds={
        "two symbols": _logits(0.5, 2),
        "T = 0.7": _logits(0.7),
        "T = 2": _logits(2.0),
        "T = 1": _logits(1.0),
        "T = 0": _logits(0.0),
        "T = 1e-3, large logits": _logits(1e-3, 7, 300.0),
        "T = 1e-3, nearly even logits": lambda rng: (np.round(rng.normal(size=5) * 1e-3, 4), 1e-3),
    },
    properties=(
        Property("It sums to 1", lambda f, z, T: (np.float64(1), np.asarray(f(z, T)).sum())),
        Property(
            "A constant added to all logits changes nothing", lambda f, z, T: (f(z, T), f(z + 3, T))
        ),
    ),
    misconceptions=(
        Misconception(
            "temperature after the softmax",
            "Dividing the probabilities by T changes nothing once they are normalised: divide the "
            "logits.",
            lambda z, T: softmax(z) if T else _one_hot(z),
            "google/gemma.cpp#981",
        ),
        Misconception(
            "probabilities divided, not normalised",
            "softmax(z)/T does not sum to 1: divide the logits before the softmax.",
            lambda z, T: softmax(z) / T if T else _one_hot(z),
        ),
        Misconception(
            "applied twice",
            "The logits were divided by T in two places: that is T squared.",
            lambda z, T: softmax(z / T / T) if T else _one_hot(z),
            "RL-Align/RL-Kernel#81",
        ),
        Misconception(
            "division by zero at T = 0",
            "T = 0 divides by zero: take the largest logit in that case.",
            lambda z, T: softmax(z / np.float64(T)),
            "karpathy/nanoGPT#738",
        ),
        Misconception(
            "multiplied instead of divided",
            "A higher temperature must flatten the distribution; yours sharpens it.",
            lambda z, T: softmax(z * T) if T else _one_hot(z),
        ),
    ),
)


def _row(k: int, v: int = 8, rows: int = 2):
    return lambda rng: (np.round(rng.normal(size=(rows, v)), 2) + np.arange(v) * 1e-3, k)


def _kept(z: np.ndarray, k: int) -> np.ndarray:
    cut = np.sort(z, -1)[:, -min(k, z.shape[-1])][:, None]
    return np.where(z >= cut, z, -np.inf)


def _as_probabilities(answer: Callable, z: np.ndarray, k: int) -> object:
    """−inf has no difference; a truncation is compared by what it lets through."""
    got = answer(z, k)
    if got is None or got is ...:
        return got
    got = np.array([[float(x) for x in row] for row in got])
    return np.isneginf(got), np.where(np.isneginf(got), 0.0, got)


TOP_K = FunctionExercise(
    id="decoding.top_k",
    chapter=CHAPTER,
    title="The k largest logits",
    task="Keep the `k` largest logits of each row, set the others to −inf, in the original "
    "order; k may exceed "
    "the vocabulary. There are no ties.",
    template=template_of("def top_k(logits, k): ..."),
    hints=(
        "Find the k-th largest of each row; what is below it goes.",
        "What if there are fewer than k?",
    ),
    reference=lambda z, k: _truncated(TopK(k), z),
    names=("logits", "k"),
    through=_as_probabilities,
    kinds={
        "k = 1": _row(1, 3, 1),
        "k = 3": _row(3),
        "k = all": _row(8),
        "k larger than all": _row(20),
    },
    misconceptions=(
        Misconception(
            "k + 1 kept",
            "One too many: index k of the sorted list is the (k+1)-th.",
            lambda z, k: _kept(z, k + 1),
            "kingoflolz/mesh-transformer-jax#164",
        ),
        Misconception(
            "smallest kept",
            "Ascending order: you kept the k smallest.",
            lambda z, k: np.where(np.isinf(_kept(-z, k)), -np.inf, z),
            "EricLBuehler/mistral.rs#1316",
        ),
        Misconception(
            "zero instead of -inf",
            "A logit of 0 still has probability: use −inf.",
            lambda z, k: np.where(np.isinf(_kept(z, k)), 0.0, z),
        ),
        Misconception(
            "sorted order returned",
            "The result is in sorted order, so token numbers no longer fit: write the values back "
            "to their places.",
            lambda z, k: -np.sort(-_kept(z, k), -1),
        ),
    ),
)


def _nucleus(q: np.ndarray, p: float) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return softmax(_truncated(TopP(p), np.log(q)[None])[0])


def _from_mask(q: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """The tokens at these places of the order from the likeliest down, normalised."""
    out = np.zeros_like(q)
    out[keep] = q[keep]
    return out / out.sum()


def _ordered(q: np.ndarray, keep: Callable, down: bool = True) -> np.ndarray:
    order = np.argsort(-q if down else q, kind="stable")
    return _from_mask(q, order[keep(q[order])])


def _masses(p: float, kind: str = "random"):
    def draw(rng: np.random.Generator) -> tuple:
        fixed = {
            "peaked": [0.02, 0.9, 0.05, 0.03],
            "ties": [0.1, 0.3, 0.1, 0.3, 0.1, 0.1],
            "boundary": [0.5, 0.41, 0.09],
            "exact": [0.5, 0.25, 0.125, 0.0625, 0.0625],
        }
        q = np.array(fixed[kind]) if kind in fixed else softmax(rng.normal(size=8) * 1.5)
        return rng.permutation(q), p

    return draw


def _up_to_ties(answer: Callable, q: np.ndarray, p: float) -> object:
    """Which of several equal tokens is kept is free; how many and with what weight is not."""
    got = answer(q, p)
    if got is None or got is ...:
        return got
    out = np.array([float(x) for x in got])
    if len(set(q)) == len(q) or out.shape != q.shape:
        return out
    return np.sort(out), np.array([np.sort(out[q == v]).sum() for v in sorted(set(q))])


TOP_P = FunctionExercise(
    id="decoding.top_p",
    chapter=CHAPTER,
    title="The nucleus",
    task="Keep the smallest set of most probable tokens whose probability reaches `p`, set the "
    "others to 0 and "
    "normalise. At least one token stays; among equals any may be chosen.",
    template=template_of("def top_p(probs, p): ..."),
    hints=(
        "Sort from the top and add up. Does the token that carries the sum over p belong to the "
        "set?",
        "A token stays as long as those *before* it do not reach p.",
        "Bring the result back to the original order, then normalise.",
    ),
    reference=_nucleus,
    names=("probs", "p"),
    through=_up_to_ties,
    kinds={
        "0.5, 0.41, 0.09 and p = 0.9": _masses(0.9, "boundary"),
        "a mass of exactly p": _masses(0.75, "exact"),
        "one token above p": _masses(0.6, "peaked"),
        "ties": _masses(0.65, "ties"),
        "p = 0.6": _masses(0.6),
        "p = 0.9": _masses(0.9),
        "p = 1": _masses(1.0),
    },
    misconceptions=(
        Misconception(
            "crossing token dropped",
            "The token that carries the sum over p belongs to the set; yours stays below p.",
            lambda q, p: _ordered(
                q, lambda s: (np.cumsum(s) <= p + 1e-12) | (np.arange(len(s)) == 0)
            ),
            "fishaudio/fish-speech#1171",
        ),
        Misconception(
            "empty set when one token exceeds p",
            "If the first token alone exceeds p nothing is left: keep at least one.",
            lambda q, p: _ordered(q, lambda s: np.cumsum(s) <= p + 1e-12),
        ),
        Misconception(
            "threshold 1 - p",
            "The tokens are sorted from the top, so the threshold is p, not 1 − p.",
            lambda q, p: _ordered(q, lambda s: np.cumsum(s) - s < max(1 - p, 1e-9) - 1e-12),
            "lucidrains/x-transformers#184",
        ),
        Misconception(
            "mask not brought back to the original order",
            "The mask belongs to the sorted tokens, but you applied it to the unsorted ones.",
            lambda q, p: _from_mask(
                q, np.flatnonzero(np.cumsum(-np.sort(-q)) + np.sort(-q) < p - 1e-12)
            ),
            "lucidrains/PaLM-rlhf-pytorch#60",
        ),
        Misconception(
            "ascending order",
            "Sorted from the least probable: the set is made of the tail.",
            lambda q, p: _ordered(q, lambda s: np.cumsum(s) - s < p - 1e-12, down=False),
        ),
        Misconception(
            "keeps all tokens above p",
            "p is a bound for the sum, not for the single probability.",
            lambda q, p: _from_mask(q, np.flatnonzero(q >= 1 - p)),
        ),
    ),
)


def _soft(z: tuple, T: object) -> list[sp.Expr]:
    import sympy as sp

    total = sum(sp.exp(x / T) for x in z)
    return [sp.exp(x / T) / total for x in z]


def _less_one(p: list, factor: object) -> list:
    return [(x - int(k == 0)) * factor for k, x in enumerate(p)]


def _derived(z: tuple, T: object) -> list[sp.Expr]:
    import sympy as sp

    return [sp.diff(-sp.log(_soft(z, T)[0]), x) for x in z]


GRADIENT = FunctionExercise(
    id="symbolic.temperature_gradient",
    chapter=CHAPTER,
    title="The gradient at a temperature",
    task="Derive the gradient of −log softmax(z/T)_1 by the symbols `z`, with the temperature "
    "`T`. Return a list "
    "of expressions.",
    template="import sympy as sp\n\n\ndef gradient(z, T):\n    ...\n",
    hints=(
        "At T = 1 it is the softmax minus one-hot.",
        "z enters as z/T: the chain rule has one more factor.",
    ),
    reference=_derived,
    names=("z", "T"),
    through=substituted(z={"real": True}, T={"positive": True}),
    kinds={
        "two zeros, T = 2": lambda rng: (np.array([0.0, 0.0]), 2.0),
        "three": lambda rng: (*readable((3,))(rng), *readable((), low=0.3, high=2.0)(rng)),
    },
    misconceptions=(
        Misconception(
            "inner derivative forgotten",
            "z enters as z/T: the chain rule gives a factor 1/T.",
            lambda z, T: _less_one(_soft(z, T), 1),
        ),
        Misconception(
            "probabilities without the temperature",
            "The probabilities are softmax(z/T), not softmax(z).",
            lambda z, T: _less_one(_soft(z, 1), 1 / T),
        ),
        Misconception(
            "1/T squared",
            "One factor 1/T only; the T² of distillation belongs to another loss.",
            lambda z, T: _less_one(_soft(z, T), 1 / T**2),
        ),
    ),
)

EXERCISES = (TEMPERATURE, TOP_K, TOP_P, GRADIENT)
