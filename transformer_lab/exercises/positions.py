r"""Exercises on positions: the table of waves."""

from __future__ import annotations

import numpy as np
import torch

from ..positions.sinusoidal import sinusoidal_table
from .core import Misconception, template_of
from .function import FunctionExercise, Property

CHAPTER = "03-positional-encoding"


def _table(n: int, d: int) -> np.ndarray:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return sinusoidal_table(n, d).numpy()
    finally:
        torch.set_default_dtype(before)


def _waves(n: int, d: int, exponent) -> np.ndarray:
    c = np.arange(d)
    angle = np.arange(n)[:, None] / 10000.0 ** exponent(c, d)
    return np.where(c % 2 == 0, np.sin(angle), np.cos(angle))


def _without_last(n: int, d: int) -> np.ndarray:
    table = _table(n, d)
    table[:, d - d % 2 :] = 0
    return table


UNIT = Property(
    "Sine and cosine of a pair lie on a circle of radius 1",
    lambda f, n, d: (
        np.ones((n, d // 2)),
        f(n, d)[:, 0 : d - d % 2 : 2] ** 2 + f(n, d)[:, 1::2] ** 2,
    ),
)

SINUSOIDAL = FunctionExercise(
    id="positions.sinusoidal",
    chapter=CHAPTER,
    title="The table of waves",
    task="Return the (T, d) table of the original paper, d even: entry [p, 2i] is sin(p / "
    "10000^(2i/d)), "
    "entry [p, 2i+1] the cosine of the same angle, p from 0.",
    template=template_of("def sinusoidal(T, d): ..."),
    hints=(
        "Two neighbouring columns share one frequency.",
        "Column c belongs to pair c // 2, and its exponent is twice that, over d.",
    ),
    reference=_table,
    names=("T", "d"),
    kinds={
        "one pair": lambda rng: (3, 2),
        "T = 1": lambda rng: (1, 6),
        "d = 4": lambda rng: (6, 4),
        "generic": lambda rng: (7, 8),
    },
    properties=(
        Property(
            "Position 0 is 0, 1, 0, 1, …",
            lambda f, n, d: (np.tile([0.0, 1.0], d // 2), np.asarray(f(n, d))[0]),
        ),
        UNIT,
    ),
    misconceptions=(
        Misconception(
            "exponent doubled",
            "Your exponent is 2c/d with c the column itself: columns 2i and 2i+1 share the "
            "exponent 2i/d.",
            lambda n, d: _waves(n, d, lambda c, d: 2 * c / d),
            "jadore801120/attention-is-all-you-need-pytorch#32",
        ),
        Misconception(
            "cosine with its own exponent",
            "The cosine of column 2i+1 uses the angle of its sine partner, exponent 2i/d, not "
            "(2i+1)/d.",
            lambda n, d: _waves(n, d, lambda c, d: c / d),
            "maxjcohen/transformer#62",
        ),
        Misconception(
            "sines first, then cosines",
            "Sine and cosine of a pair stand side by side; you put all sines before all cosines.",
            lambda n, d: np.concatenate([_table(n, d)[:, 0::2], _table(n, d)[:, 1::2]], 1),
        ),
        Misconception(
            "positions counted from 1",
            "The first position is 0, with the row 0, 1, 0, 1 and so on.",
            lambda n, d: _table(n + 1, d)[1:],
        ),
    ),
)

ODD = FunctionExercise(
    id="positions.sinusoidal_odd",
    chapter=CHAPTER,
    title="The table of waves for any width",
    task="The same table for any width d, also an odd one: then there is one sine more than "
    "cosines.",
    template=template_of("def sinusoidal(T, d): ..."),
    hints=(
        "How many pairs are there, the incomplete one included?",
        "Fill sines and cosines apart; there are d // 2 cosines.",
    ),
    reference=_table,
    names=("T", "d"),
    kinds={
        "d = 1": lambda rng: (3, 1),
        "d = 3": lambda rng: (2, 3),
        "odd": lambda rng: (6, 5),
        "even": lambda rng: (6, 6),
    },
    properties=(UNIT,),
    misconceptions=(
        Misconception(
            "table of width d + 1 cut to d",
            "Cutting a wider table changes every exponent: 2i/(d+1) instead of 2i/d.",
            lambda n, d: _table(n, d + d % 2)[:, :d],
        ),
        Misconception(
            "last column left zero",
            "The last sine is missing; only complete pairs were filled in.",
            _without_last,
        ),
    ),
)

EXERCISES = (SINUSOIDAL, ODD)
