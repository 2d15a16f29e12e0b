r"""Learning-rate schedules: functions of the step, from 0 to 1, that scale the peak rate.

Each takes ``step`` (0-based), ``steps`` (all of them) and ``warmup`` (steps of linear rise).
None needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable


def _rise(step: int, warmup: int) -> float:
    return min(1.0, (step + 1) / warmup) if warmup > 0 else 1.0


def constant(step: int, steps: int, warmup: int = 0) -> float:
    r"""Linear rise over ``warmup`` steps, then the peak rate to the end.

    .. math:: f(s) = \min(1, (s + 1)/w)
    """
    return _rise(step, warmup)


def cosine(step: int, steps: int, warmup: int = 0) -> float:
    r"""Linear rise, then half a cosine down to 0.

    .. math:: f(s) = \tfrac12\left(1 + \cos\frac{\pi (s - w)}{s_{\max} - w}\right), \quad s \ge w

    Source: Loshchilov and Hutter 2017, without restarts.
    """
    if step < warmup:
        return _rise(step, warmup)
    share = min(1.0, (step - warmup) / max(1, steps - warmup))
    return 0.5 * (1 + math.cos(math.pi * share))


def linear(step: int, steps: int, warmup: int = 0) -> float:
    r"""Linear rise, then a straight line down to 0.

    .. math:: f(s) = 1 - \frac{s - w}{s_{\max} - w}, \quad s \ge w
    """
    if step < warmup:
        return _rise(step, warmup)
    return max(0.0, 1 - (step - warmup) / max(1, steps - warmup))


def inverse_sqrt(step: int, steps: int, warmup: int = 1) -> float:
    r"""Linear rise, then a fall with the root of the step; 1 at the end of the rise.

    .. math:: f(s) = \min\left(\frac{s + 1}{w},\ \sqrt{\frac{w}{s + 1}}\right)

    The schedule of Vaswani et al. 2017 (section 5.3) up to a constant factor.
    """
    w = max(1, warmup)
    return min((step + 1) / w, math.sqrt(w / (step + 1)))


SCHEDULES: dict[str, Callable[[int, int, int], float]] = {
    "constant": constant,
    "cosine": cosine,
    "linear": linear,
    "inverse_sqrt": inverse_sqrt,
}
"""Every schedule a configuration can name."""
