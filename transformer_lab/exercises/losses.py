r"""Exercises on losses: cross-entropy from logits, over padding, against smoothed targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..losses import cross_entropy, smoothed_cross_entropy
from ..tokens import PAD
from .adapt import with_tensors
from .core import Misconception, template_of
from .formula import readable, substituted
from .function import FunctionExercise, Property
from .numeric import softmax

if TYPE_CHECKING:
    import sympy as sp

CHAPTER = "13-objective"


def _log_softmax(x: np.ndarray) -> np.ndarray:
    m = x.max(-1, keepdims=True)
    return x - m - np.log(np.exp(x - m).sum(-1, keepdims=True))


def _pick(table: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.take_along_axis(table, y[..., None], -1)[..., 0]


def _classes(n: int, k: int, spread: float = 2.0):
    return lambda rng: (np.round(rng.normal(size=(n, k)) * spread, 1), rng.integers(0, k, size=n))


def _naive(z: np.ndarray, y: np.ndarray) -> float:
    e = np.exp(z)
    return -np.log(_pick(e / e.sum(1, keepdims=True), y)).mean()


FROM_LOGITS = FunctionExercise(
    id="losses.from_logits",
    chapter=CHAPTER,
    title="Cross-entropy from logits",
    task="Mean cross-entropy in nats of `logits` (N, K) and whole-number `targets` (N); logits "
    "may be as large "
    "as 1000.",
    template=template_of("def cross_entropy(logits, targets): ..."),
    hints=(
        "Minus the logarithm of the probability of the right class, averaged over rows.",
        "Do not take the logarithm of a softmax: simplify log(exp(z)/sum) first.",
        "The largest logit can be taken off every row.",
    ),
    reference=with_tensors(lambda z, y: smoothed_cross_entropy(z, y).mean()),
    names=("logits", "targets"),
    kinds={
        "one row": _classes(1, 2),
        "two classes": _classes(5, 2),
        "moderate": _classes(6, 5),
        "large": _classes(6, 5, 400.0),
    },
    properties=(
        Property(
            "A constant added to a row of logits changes nothing",
            lambda f, z, y: (f(z, y), f(z + np.arange(1.0, len(z) + 1)[:, None], y)),
        ),
        Property(
            "Even logits cost the logarithm of the number of classes",
            lambda f, z, y: (np.log(z.shape[1]), f(np.zeros_like(z), y)),
        ),
    ),
    misconceptions=(
        Misconception(
            "softmax twice",
            "The probabilities went through a second softmax: the loss can then never come near 0.",
            lambda z, y: -_pick(_log_softmax(softmax(z)), y).mean(),
            "tflearn/tflearn#562",
        ),
        Misconception(
            "naive logarithm of the softmax",
            "Probabilities underflow to 0 and their logarithm is −inf, or exp overflows: use "
            "log-sum-exp.",
            _naive,
        ),
        Misconception(
            "mean over classes, too",
            "The sum over the classes is a sum, not a mean: you are too small by the factor K.",
            lambda z, y: -(np.eye(z.shape[1])[y] * _log_softmax(z)).mean(),
        ),
        Misconception(
            "sign forgotten",
            "The loss is minus the log-probability.",
            lambda z, y: _pick(_log_softmax(z), y).mean(),
        ),
    ),
)


def _uneven(lengths: list[int], n: int, v: int):
    def draw(rng: np.random.Generator) -> tuple:
        y = rng.integers(0, v, size=(len(lengths), n))
        for row, k in enumerate(lengths):
            y[row, k:] = -100
        return np.round(rng.normal(size=(len(lengths), n, v)) * 2, 1), y

    return draw


def _ours(z, y):
    """The library counts PAD as padding: one class more, which no target names."""
    import torch

    wide = torch.full((*z.shape[:-1], z.shape[-1] + 1), -torch.inf, dtype=z.dtype)
    wide[..., PAD + 1 :] = z[..., PAD:]
    wide[..., :PAD] = z[..., :PAD]
    target = torch.where(y == -100, PAD, torch.where(y >= PAD, y + 1, y))
    total, count = cross_entropy(wide, target)
    return total / count


def _each(z: np.ndarray, y: np.ndarray) -> tuple:
    keep = y != -100
    return -_pick(_log_softmax(z), np.where(keep, y, 0)), keep


def _row_means(z, y):
    loss, keep = _each(z, y)
    return ((loss * keep).sum(1) / keep.sum(1)).mean()


def _by_rows(z, y):
    loss, keep = _each(z, y)
    return (loss * keep).sum() / len(y)


IGNORE = FunctionExercise(
    id="losses.ignore_padding",
    chapter=CHAPTER,
    title="Cross-entropy without padding",
    task="Mean cross-entropy of `logits` (B, T, K) over the `targets` (B, T) that are not −100 "
    "(padding), all "
    "counted equally.",
    template=template_of("def masked_loss(logits, targets): ..."),
    hints=(
        "Pick, mask, add up, divide: by what?",
        "By the number of targets that count, not by rows, and not row by row.",
        "−100 is an index, too, if there are enough classes.",
    ),
    reference=with_tensors(_ours),
    names=("logits", "targets"),
    kinds={
        "two short rows": _uneven([2, 1], 2, 2),
        "uneven rows": _uneven([6, 2, 3], 6, 5),
        "120 classes": _uneven([6, 2, 3], 6, 120),
        "even rows": _uneven([4, 4], 6, 5),
        "no padding": _uneven([6, 6], 6, 5),
    },
    properties=(
        Property(
            "What the model says at padding changes nothing",
            lambda f, z, y: (f(z, y), f(np.where((y == -100)[..., None], z[..., ::-1] + 1, z), y)),
        ),
    ),
    misconceptions=(
        Misconception(
            "mean of the rows' means",
            "A short sentence weighs as much as a long one: average over tokens, not over rows.",
            _row_means,
            "meta-pytorch/torchtune#1875",
        ),
        Misconception(
            "negative index wraps round",
            "−100 is a valid index from the end as soon as there are 100 classes: mask the "
            "position "
            "before you pick.",
            lambda z, y: -_pick(_log_softmax(z), y).mean(),
        ),
        Misconception(
            "sum divided by the number of rows",
            "You divide by the number of sentences, not of tokens.",
            _by_rows,
            "OpenNMT/OpenNMT-py#526",
        ),
        Misconception(
            "padding counted below",
            "Padding is left out of the sum, but still counted in what you divide by.",
            lambda z, y: (_each(z, y)[0] * _each(z, y)[1]).mean(),
        ),
    ),
)


def _smoothing(n: int, k: int, eps: float):
    return lambda rng: (
        np.round(rng.normal(size=(n, k)), 1), rng.integers(0, k, size=n), eps
    )  # fmt: skip


def _against(z, q):
    return -(q * _log_softmax(z)).sum(1).mean()


def _target(z, y, rest, right):
    q = np.full(z.shape, rest)
    q[np.arange(len(y)), y] = right
    return q


SMOOTHING = FunctionExercise(
    id="losses.label_smoothing",
    chapter=CHAPTER,
    title="Cross-entropy against smoothed targets",
    task="Mean cross-entropy with label smoothing `eps`: the target distribution is (1 − eps) "
    "times one-hot "
    "plus eps/K over all K classes, the right one included.",
    template=template_of("def smoothed_loss(logits, targets, eps): ..."),
    hints=(
        "Write down the target of one row. Does it sum to 1?",
        "The right class has 1 − eps + eps/K, every other eps/K.",
    ),
    reference=with_tensors(lambda z, y, eps: smoothed_cross_entropy(z, y, eps).mean()),
    names=("logits", "targets", "eps"),
    kinds={
        "one row": _smoothing(1, 2, 0.5),
        "generic": _smoothing(5, 4, 0.1),
        "many classes": _smoothing(4, 50, 0.1),
        "eps = 0": _smoothing(4, 4, 0.0),
    },
    properties=(
        Property(
            "Even logits cost the logarithm of the number of classes",
            lambda f, z, y, eps: (np.log(z.shape[1]), f(np.zeros_like(z), y, eps)),
        ),
    ),
    misconceptions=(
        Misconception(
            "eps/(K-1) over the others",
            "You share eps among the K − 1 other classes. That convention exists; here all K share "
            "it.",
            lambda z, y, eps: _against(z, _target(z, y, eps / (z.shape[1] - 1), 1 - eps)),
            "pytorch/pytorch#7455",
        ),
        Misconception(
            "eps/K for the others, 1 - eps for the true class",
            "Your target sums to 1 − eps/K: the right class gets 1 − eps + eps/K.",
            lambda z, y, eps: _against(z, _target(z, y, eps / z.shape[1], 1 - eps)),
        ),
        Misconception(
            "1/K instead of eps/K",
            "The even part lacks the factor eps.",
            lambda z, y, eps: _against(z, (1 - eps) * np.eye(z.shape[1])[y] + 1 / z.shape[1]),
            "TimDettmers/ConvE#55",
        ),
        Misconception(
            "smooths the prediction",
            "The target is smoothed, not the model's probabilities.",
            lambda z, y, eps: -np.log(_pick((1 - eps) * softmax(z) + eps / z.shape[1], y)).mean(),
        ),
    ),
)


def _soft(z: tuple) -> list[sp.Expr]:
    import sympy as sp

    total = sum(sp.exp(x) for x in z)
    return [sp.exp(x) / total for x in z]


def _derived(z: tuple) -> list[sp.Expr]:
    import sympy as sp

    return [sp.diff(-sp.log(_soft(z)[0]), x) for x in z]


GRADIENT = FunctionExercise(
    id="symbolic.cross_entropy_gradient",
    chapter=CHAPTER,
    title="The gradient of cross-entropy",
    task="Derive the gradient of −log softmax(z)_1 by the symbols `z`: the first class is the "
    "right one. Return "
    "a list of expressions.",
    template="import sympy as sp\n\n\ndef gradient(z):\n    ...\n",
    hints=(
        "−log softmax(z)_1 is log-sum-exp minus z_1.",
        "The derivative of log-sum-exp by z_j is softmax(z)_j.",
    ),
    reference=_derived,
    names=("z",),
    through=substituted(z={"real": True}),
    kinds={
        "two zeros": lambda rng: (np.array([0.0, 0.0]),),
        "two": readable((2,)),
        "three": readable((3,)),
    },
    properties=(
        Property("Its entries sum to 0", lambda f, z: (np.float64(0), np.asarray(f(z)).sum())),
    ),
    misconceptions=(
        Misconception(
            "right class only",
            "The other logits have a gradient as well: they stand in the sum.",
            lambda z: [_soft(z)[0] - 1, *[0 * x for x in z[1:]]],
        ),
        Misconception(
            "softmax without the one-hot",
            "The −1 at the right class is missing.",
            _soft,
        ),
        Misconception(
            "sign turned",
            "The right class has a negative gradient: its logit should rise.",
            lambda z: [-x for x in _derived(z)],
        ),
    ),
)

EXERCISES = (FROM_LOGITS, IGNORE, SMOOTHING, GRADIENT)
