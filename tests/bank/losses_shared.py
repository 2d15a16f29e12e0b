"""What the exercises on losses share."""

import numpy as np


def _pick(lp, y):
    return np.take_along_axis(lp, y[..., None], -1)[..., 0]


def _cls(n, k, spread=2.0):
    return lambda rng: (rng.normal(size=(n, k)) * spread, rng.integers(0, k, size=n))
