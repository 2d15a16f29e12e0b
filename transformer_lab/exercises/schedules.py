r"""Exercises on learning rates over the steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..schedules import constant, cosine, inverse_sqrt
from .core import Misconception, template_of
from .function import FunctionExercise, Property

CHAPTER = "15-optimisers-and-schedules"


def _each(answer: Callable, steps: np.ndarray, *rest: object) -> list:
    """A schedule over many steps at once."""
    return [answer(int(s), *rest) for s in steps]


NOAM = FunctionExercise(
    id="schedules.noam",
    chapter=CHAPTER,
    title="The schedule of the original paper",
    task="The learning rate of the original paper at `step` 1, 2, …: d^(−1/2) times the smaller "
    "of step^(−1/2) "
    "and step · warmup^(−3/2).",
    template=template_of("def noam(step, d, warmup): ..."),
    hints=(
        "Two branches, one rising and one falling: which of them counts?",
        "They meet at step = warmup.",
    ),
    # the library's has the peak 1, and counts steps from 0
    reference=lambda s, d, w: (d * w) ** -0.5 * inverse_sqrt(s - 1, 0, w),
    names=("step", "d", "warmup"),
    through=_each,
    kinds={
        "warm-up of 1": lambda rng: (np.arange(1, 6), 16, 1),
        "around the peak": lambda rng: (np.arange(1, 40), 64, 16),
    },
    misconceptions=(
        Misconception(
            "max instead of min",
            "With max the rate starts huge and then grows: the smaller branch counts.",
            lambda s, d, w: d**-0.5 * max(s**-0.5, s * w**-1.5),
        ),
        Misconception(
            "exponent -0.5 for the warm-up",
            "The two branches do not meet at step = warmup: the exponent is −3/2.",
            lambda s, d, w: d**-0.5 * min(s**-0.5, s * w**-0.5),
        ),
        Misconception(
            "step counted from 0",
            "At step 1 your schedule is still at 0 (and 0 to the power −1/2 divides by zero): it "
            "lags one step behind.",
            lambda s, d, w: d**-0.5 * min(np.float64(s - 1) ** -0.5, (s - 1) * w**-1.5),
            "tugstugi/pytorch-saltnet#7",
        ),
        Misconception(
            "one step ahead",
            "You add 1 to a step that already starts at 1.",
            lambda s, d, w: d**-0.5 * min((s + 1) ** -0.5, (s + 1) * w**-1.5),
        ),
        Misconception(
            "the width forgotten",
            "The factor d^(−1/2) is missing.",
            lambda s, d, w: min(s**-0.5, s * w**-1.5),
        ),
    ),
)

WARM_UP = FunctionExercise(
    id="schedules.linear_warmup",
    chapter=CHAPTER,
    title="A linear warm-up",
    task="Update number `t` = 0, 1, … uses `peak`·(t + 1)/`warmup` until the peak is reached, "
    "then the peak.",
    template=template_of("def warmup_lr(t, warmup, peak): ..."),
    hints=(
        "What should the very first update use? Not 0.",
        "After the warm-up the share must not grow beyond 1.",
    ),
    reference=lambda t, w, peak: peak * constant(t, 0, w),
    names=("t", "warmup", "peak"),
    through=_each,
    kinds={
        "warm-up of 1": lambda rng: (np.arange(0, 4), 1, 0.3),
        "generic": lambda rng: (np.arange(0, 15), 8, 0.3),
    },
    properties=(
        Property(
            "From the end of the warm-up on it is the peak",
            lambda f, t, w, peak: (np.full(len(t[w - 1 :]), peak), f(t, w, peak)[w - 1 :]),
        ),
    ),
    misconceptions=(
        Misconception(
            "first rate 0",
            "t/warmup is 0 at the first update, which then changes nothing: count from t + 1.",
            lambda t, w, peak: peak * min(1.0, t / w),
            "karpathy/nanoGPT#443",
        ),
        Misconception(
            "divided by warmup + 1",
            "Another convention: the peak then comes one update later than asked.",
            lambda t, w, peak: peak * min(1.0, (t + 1) / (w + 1)),
            "karpathy/nanoGPT#578",
        ),
        Misconception(
            "not limited",
            "After the warm-up the rate must stay at the peak; yours grows on.",
            lambda t, w, peak: peak * (t + 1) / w,
        ),
        Misconception(
            "integer division",
            "// cuts the fraction to 0 or 1: the warm-up has vanished.",
            lambda t, w, peak: peak * min(1, (t + 1) // w),
        ),
        Misconception(
            "falls instead of rising",
            "The fraction is turned: the rate must rise to the peak.",
            lambda t, w, peak: peak * max(0.0, 1 - (t + 1) / w) if t < w else peak,
        ),
    ),
)


def _wave(t, w, total, peak, low, share, period=1.0):
    if t < w:
        return peak * (t + 1) / w
    return low + 0.5 * (peak - low) * (1 + math.cos(period * math.pi * share(t, w, total)))


def _progress(t, w, total):
    return min(1.0, (t - w) / (total - w))


COSINE = FunctionExercise(
    id="schedules.cosine",
    chapter=CHAPTER,
    title="Warm-up, then half a cosine",
    task="For `t` < `warmup`: `peak`·(t + 1)/warmup. Then half a cosine from peak (at t = "
    "warmup) to `low` (at "
    "t = `total`), then low.",
    template=template_of("def cosine_lr(t, warmup, total, peak, low): ..."),
    hints=(
        "What share of the way from warmup to total lies behind at t?",
        "(1 + cos(π · share))/2 falls from 1 to 0.",
        "What does a cosine do after its half period? Hold the share at 1.",
    ),
    reference=lambda t, w, total, peak, low: (
        peak * cosine(t, total, w) if t < w else low + (peak - low) * cosine(t, total, w)
    ),
    names=("t", "warmup", "total", "peak", "low"),
    through=_each,
    kinds={
        "low = 0": lambda rng: (np.arange(0, 30), 4, 24, 0.5, 0.0),
        "no warm-up": lambda rng: (np.arange(0, 30), 0, 24, 0.5, 0.05),
        "generic": lambda rng: (np.arange(0, 60), 10, 50, 1.0, 0.1),
    },
    misconceptions=(
        Misconception(
            "warm-up counted in the cosine",
            "The cosine already runs during the warm-up, so the rate drops at its start: subtract "
            "warmup.",
            lambda *a: _wave(*a, lambda t, w, total: min(t, total) / total),
            "PaddlePaddle/PaddleDetection#4611",
        ),
        Misconception(
            "rises again",
            "After `total` the cosine comes back up: hold it at low.",
            lambda *a: _wave(*a, lambda t, w, total: (t - w) / (total - w)),
            "karpathy/nanoGPT#691",
        ),
        Misconception(
            "full period",
            "2π is a whole wave: the rate is back at the peak at the end.",
            lambda t, w, total, peak, low: (
                low if t >= total else _wave(t, w, total, peak, low, _progress, 2.0)
            ),
        ),
        Misconception(
            "first rate 0",
            "t/warmup is 0 at the first update, which then changes nothing: count from t + 1.",
            lambda t, w, *a: a[1] * t / w if t < w else _wave(t, w, *a, _progress),
        ),
        Misconception(
            "low added on top",
            "low is where it ends: peak − low is what falls, not the whole peak.",
            lambda t, w, total, peak, low: (
                peak * (t + 1) / w
                if t < w
                else low + 0.5 * peak * (1 + math.cos(math.pi * _progress(t, w, total)))
            ),
        ),
    ),
)

EXERCISES = (NOAM, WARM_UP, COSINE)
