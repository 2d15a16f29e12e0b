r"""Exercises on normalisation: each token over its own features."""

from __future__ import annotations

import numpy as np

from ..norms import layer_norm
from .adapt import with_tensors
from .core import Misconception, template_of
from .function import FunctionExercise, Property
from .values import Tolerance

CHAPTER = "08-layer-normalisation"


def _inputs(*shape: int, spread: float = 1.0):
    def draw(rng: np.random.Generator) -> tuple:
        d = shape[-1]
        x = np.round(rng.normal(size=shape) + 0.5, 1) * spread
        return x, np.round(rng.normal(size=d) + 1, 1), np.round(rng.normal(size=d), 1), 1e-5

    return draw


def _over(x, g, b, deviation, axis=-1):
    return g * (x - x.mean(axis, keepdims=True)) / deviation + b


def _std(x, ddof=0):
    return x.std(-1, ddof=ddof, keepdims=True)


LAYER_NORM = FunctionExercise(
    id="norms.layernorm",
    chapter=CHAPTER,
    title="Layer normalisation",
    task="Layer norm of `x` over its last axis, with the variance divided by d and `eps` inside "
    "the square "
    "root, then `gamma` and `beta`.",
    template=template_of("def layer_norm(x, gamma, beta, eps): ..."),
    hints=(
        "Mean and variance belong to one token: they run over its features.",
        "Divide by the root of (variance + eps), then scale and shift each feature.",
        "A library's standard deviation may divide by d − 1.",
    ),
    reference=with_tensors(layer_norm),
    names=("x", "gamma", "beta", "eps"),
    kinds={
        "one token": _inputs(1, 2),
        "two channels": _inputs(3, 2),
        "square": _inputs(4, 4),
        "generic": _inputs(2, 3, 5),
        "small values": _inputs(3, 6, spread=1e-2),
        "all equal": lambda rng: (np.full((2, 3), 5.0), np.ones(3), np.zeros(3), 1e-5),
    },
    tolerance=Tolerance(1e-6, 1e-8),
    properties=(
        Property(
            "A constant added to all features of a token changes nothing",
            lambda f, x, g, b, eps: (f(x, g, b, eps), f(x + 2.0, g, b, eps)),
        ),
        Property(
            "One token does not see another",
            lambda f, x, g, b, eps: (f(x, g, b, eps)[0], f(x[:1].copy(), g, b, eps)[0]),
        ),
    ),
    misconceptions=(
        Misconception(
            "variance with d - 1",
            "You divide by d − 1 (torch's std and var do so unless told otherwise); layer norm "
            "divides by d.",
            lambda x, g, b, eps: _over(x, g, b, np.sqrt(_std(x, 1) ** 2 + eps)),
            "harvardnlp/annotated-transformer#119",
        ),
        Misconception(
            "both: d - 1 and eps outside",
            "Two slips at once: a deviation with d − 1, and eps added to it instead of to the "
            "variance.",
            lambda x, g, b, eps: _over(x, g, b, _std(x, 1) + eps),
            "codertimo/BERT-pytorch#30",
        ),
        Misconception(
            "eps outside the root",
            "eps is added to the variance, inside the root, not to the standard deviation.",
            lambda x, g, b, eps: _over(x, g, b, _std(x) + eps),
        ),
        Misconception(
            "root of the standard deviation",
            "You take the root of std + eps; a standard deviation is a root already.",
            lambda x, g, b, eps: _over(x, g, b, np.sqrt(_std(x) + eps)),
            "hyunwoongko/transformer#7",
        ),
        Misconception(
            "normalises over the rows (batch norm)",
            "Mean and variance run over the features of one token, not over the tokens.",
            lambda x, g, b, eps: _over(x, g, b, np.sqrt(x.var(-2, keepdims=True) + eps), -2),
        ),
        Misconception(
            "one mean for everything",
            "Each token has its own mean and variance; you took them over the whole array.",
            lambda x, g, b, eps: g * (x - x.mean()) / np.sqrt(x.var() + eps) + b,
        ),
        Misconception(
            "no gain and no shift",
            "gamma and beta, one number for each feature, are missing.",
            lambda x, g, b, eps: _over(x, 1.0, 0.0, np.sqrt(_std(x) ** 2 + eps)),
        ),
    ),
)

EXERCISES = (LAYER_NORM,)
