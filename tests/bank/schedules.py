"""Learning-rate schedules."""

import math

import numpy as np
from bank import Exercise


def _over(answer, steps, *rest):
    """Compare schedules over many steps at once."""
    return [answer(int(s), *rest) for s in steps]


# ---------------------------------------------------------------------------------------
noam = Exercise(
    "schedules.noam",
    "The learning rate of the original paper at step 1, 2, ..: d^-0.5 * min(step^-0.5, step * "
    "warmup^-1.5).",
    "def noam(step, d, warmup): ...",
    lambda s, d, w: d**-0.5 * min(s**-0.5, s * w**-1.5),
    {
        "around the peak": lambda rng: (np.arange(1, 40), 64, 16),
        "warm-up of 1": lambda rng: (np.arange(1, 6), 16, 1),
    },
    probe=_over,
)


@noam.accept("scaled to its peak")
def _(s, d, w):
    return (d * w) ** -0.5 * min(s / w, (w / s) ** 0.5)


@noam.accept("inverse of a maximum")
def _(s, d, w):
    return 1 / (np.sqrt(d) * max(np.sqrt(s), w**1.5 / s))


@noam.reject(
    "max instead of min", "With max the rate starts huge and then grows: the smaller branch counts."
)
def _(s, d, w):
    return d**-0.5 * max(s**-0.5, s * w**-1.5)


@noam.reject(
    "exponent -0.5 for the warm-up",
    "The two branches do not meet at step = warmup: the exponent is -1.5.",
)
def _(s, d, w):
    return d**-0.5 * min(s**-0.5, s * w**-0.5)


@noam.reject(
    "step counted from 0",
    "At step 1 your schedule is still at 0 (and 0^-0.5 is a division by zero): it lags one step "
    "behind.",
    "tugstugi/pytorch-saltnet#7, facebookresearch/schedule_free#5",
)
def _(s, d, w):
    s = np.float64(s - 1)
    return d**-0.5 * min(s**-0.5, s * w**-1.5)


@noam.reject(
    "one step ahead", "You add 1 to a step that already starts at 1.", "tugstugi/pytorch-saltnet#7"
)
def _(s, d, w):
    return d**-0.5 * min((s + 1) ** -0.5, (s + 1) * w**-1.5)


# ---------------------------------------------------------------------------------------
warm = Exercise(
    "schedules.linear_warmup",
    "Linear warm-up: update number t = 0, 1, .. uses peak*(t+1)/warmup until the peak is "
    "reached, then the peak.",
    "def warmup_lr(t, warmup, peak): ...",
    lambda s, w, peak: peak * min(1.0, (s + 1) / w),
    {
        "generic": lambda rng: (np.arange(0, 15), 8, 0.3),
        "warm-up of 1": lambda rng: (np.arange(0, 4), 1, 0.3),
    },
    probe=_over,
)


@warm.accept("interpolation")
def _(s, w, peak):
    return np.interp(s + 1, [0, w], [0, peak])


@warm.accept("minus what is missing")
def _(s, w, peak):
    return peak - peak / w * max(0, w - 1 - s)


@warm.reject(
    "first rate 0",
    "t/warmup is 0 at the first update, which then changes nothing: count from t+1.",
    "karpathy/nanoGPT#443, google-research/bert#1293, EleutherAI/gpt-neox#1379",
)
def _(s, w, peak):
    return peak * min(1.0, s / w)


@warm.reject(
    "divided by warmup + 1",
    "Another convention: the peak then comes one update later than asked.",
    "karpathy/nanoGPT#578, HomebrewML/HeavyBall#29",
)
def _(s, w, peak):
    return peak * min(1.0, (s + 1) / (w + 1))


@warm.reject("not limited", "After the warm-up the rate must stay at the peak; yours grows on.")
def _(s, w, peak):
    return peak * (s + 1) / w


@warm.reject("integer division", "// cuts the fraction to 0 or 1: the warm-up has vanished.")
def _(s, w, peak):
    return peak * min(1, (s + 1) // w)


@warm.reject("falls instead of rising", "The fraction is turned: the rate must rise to the peak.")
def _(s, w, peak):
    return peak * max(0.0, 1 - (s + 1) / w) if s < w else peak


# ---------------------------------------------------------------------------------------
def _cos(s, w, total, peak, low):
    if s < w:
        return peak * (s + 1) / w
    if s >= total:
        return low
    return low + 0.5 * (peak - low) * (1 + math.cos(math.pi * (s - w) / (total - w)))


cosine = Exercise(
    "schedules.cosine",
    "For t < warmup: peak*(t+1)/warmup. Then a half cosine from peak (at t = warmup) to low (at "
    "t = total), then low.",
    "def cosine_lr(t, warmup, total, peak, low): ...",
    _cos,
    {
        "generic": lambda rng: (np.arange(0, 60), 10, 50, 1.0, 0.1),
        "low = 0": lambda rng: (np.arange(0, 30), 4, 24, 0.5, 0.0),
        "no warm-up": lambda rng: (np.arange(0, 30), 0, 24, 0.5, 0.05),
    },
    probe=_over,
)


@cosine.accept("clamped progress")
def _(s, w, total, peak, low):
    if s < w:
        return peak * (s + 1) / w
    r = min(1.0, (s - w) / (total - w))
    return low + (peak - low) * (1 + np.cos(np.pi * r)) / 2


@cosine.accept("squared half-angle")
def _(s, w, total, peak, low):
    if s < w:
        return peak / w * (s + 1)
    return low + (peak - low) * math.cos(math.pi / 2 * min(1, (s - w) / (total - w))) ** 2


@cosine.accept("mixture of the two ends")
def _(s, w, total, peak, low):
    if s < w:
        return peak * (s + 1) / w
    c = 0.5 - 0.5 * math.cos(math.pi * min(s - w, total - w) / (total - w))
    return (1 - c) * peak + c * low


@cosine.reject(
    "warm-up counted in the cosine",
    "The cosine already runs during the warm-up, so the rate drops at its start: subtract warmup.",
    "PaddlePaddle/PaddleDetection#4611",
)
def _(s, w, total, peak, low):
    if s < w:
        return peak * (s + 1) / w
    return low + 0.5 * (peak - low) * (1 + math.cos(math.pi * min(s, total) / total))


@cosine.reject(
    "rises again",
    "After `total` the cosine comes back up: hold it at low.",
    "karpathy/nanoGPT#691 (about that branch)",
)
def _(s, w, total, peak, low):
    if s < w:
        return peak * (s + 1) / w
    return low + 0.5 * (peak - low) * (1 + math.cos(math.pi * (s - w) / (total - w)))


@cosine.reject("full period", "2 pi is a whole wave: the rate is back at the peak at the end.")
def _(s, w, total, peak, low):
    if s < w:
        return peak * (s + 1) / w
    if s >= total:
        return low
    return low + 0.5 * (peak - low) * (1 + math.cos(2 * math.pi * (s - w) / (total - w)))


@cosine.reject("low added on top", "The amplitude must be peak - low: yours starts above the peak.")
def _(s, w, total, peak, low):
    if s < w:
        return peak * (s + 1) / w
    return low + 0.5 * peak * (1 + math.cos(math.pi * min(1, (s - w) / (total - w))))


@cosine.reject("first rate 0", "t/warmup is 0 at the first update.", "karpathy/nanoGPT#443")
def _(s, w, total, peak, low):
    return peak * s / w if s < w else _cos(s, w, total, peak, low)


# ---------------------------------------------------------------------------------------
inverse_root = Exercise(
    "schedules.updates_not_batches",
    "A schedule is given by update number; with `every` micro-batches per update (the last, "
    "shorter group included) "
    "return the rates that micro-batches 0 .. n-1 are trained with, for the rate 1/sqrt(update+1).",
    "def rates(n, every): ...",
    lambda n, every: 1 / np.sqrt(np.arange(n) // every + 1),
    {
        "with a rest": lambda rng: (7, 3),
        "no rest": lambda rng: (8, 4),
        "no accumulation": lambda rng: (5, 1),
    },
)


@inverse_root.accept("repeat and cut")
def _(n, every):
    updates = math.ceil(n / every)
    return np.repeat([(u + 1) ** -0.5 for u in range(updates)], every)[:n]


@inverse_root.accept("loop with a counter")
def _(n, every):
    out, update = [], 0
    for i in range(n):
        out.append((update + 1) ** -0.5)
        if (i + 1) % every == 0:
            update += 1
    return out


@inverse_root.reject(
    "schedule stepped per micro-batch",
    "The schedule moves once per update, not once per micro-batch: it runs too fast.",
    "axolotl-ai-cloud/axolotl#157 (too fast by the number of processes), crowsonkb/k-diffusion#50",
)
def _(n, every):
    return 1 / np.sqrt(np.arange(n) + 1)


@inverse_root.reject(
    "stepped at the first micro-batch",
    "i % every == 0 holds for i = 0: the first group is cut to one micro-batch.",
    "rasbt/LLMs-from-scratch#300",
)
def _(n, every):
    return 1 / np.sqrt((np.arange(n) + every - 1) // every + 1)


EXERCISES = [noam, warm, cosine, inverse_root]
