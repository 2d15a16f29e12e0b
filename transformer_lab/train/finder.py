r"""Which learning rate? A short trial in which the rate rises until the loss does."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from ..devices import choose_precision
from ..tasks import Task
from .config import TrainConfig
from .step import Stepper, endless

INERTIA = 0.9
"""Share of the past in the smoothed loss."""


def find_lr(
    model: nn.Module,
    task: Task,
    config: TrainConfig,
    device: torch.device | None = None,
    lowest: float = 1e-6,
    highest: float = 1.0,
    steps: int = 100,
    rise: float = 2.0,
    on_step: Callable[[int], None] | None = None,
) -> tuple[list[dict], float]:
    r"""Train a copy of ``model`` while the rate rises; the records, and the rate it suggests.

    .. math::
        \eta_s = \eta_1 (\eta_n / \eta_1)^{(s-1)/(n-1)}, \qquad
        \bar\ell_s = \frac{\sum_{r \le s} \beta^{s-r} \ell_r}{\sum_{r \le s} \beta^{s-r}}

    η_1 is ``lowest``, η_n ``highest``, n = ``steps``; ℓ_s the mean loss of step s (nats a
    token), smoothed to ℓ̄_s with β = 0.9. The steps are those of the training itself (batches,
    clipping, precision), but for the schedule. The trial ends early when ℓ̄ exceeds ``rise``
    times its least value, or is no number. The suggestion is that of :func:`suggest_lr`.
    ``model`` and the random state stay as they are.

    Raises ``ValueError`` unless 0 < lowest < highest and steps ≥ 10.
    Source: Smith 2017, section 3.3 (there linear, here geometric).
    """
    if not (0 < lowest < highest < math.inf and steps >= 10 and rise > 1):
        raise ValueError(
            f"A trial needs 0 < lowest < highest, 10 steps or more and a rise above 1, but got "
            f"lowest = {lowest}, highest = {highest}, steps = {steps}, rise = {rise}."
        )
    device = device or torch.device("cpu")
    precision = choose_precision(config.precision, device)
    records: list[dict] = []
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(config.seed)
        trial = copy.deepcopy(model).to(device).train()
        stepper = Stepper(trial, task, config, device, precision)
        weighted = weights = 0.0
        for step, drawn in zip(range(1, steps + 1), endless(task, config, 0), strict=False):
            rate = lowest * (highest / lowest) ** ((step - 1) / (steps - 1))
            loss, tokens, norm = stepper.gradient(drawn)
            mean = float(loss) / float(tokens)
            if not math.isfinite(mean + float(norm)):
                if precision != "fp16" or not math.isfinite(mean):
                    break
                stepper.skip()
                continue
            weighted, weights = INERTIA * weighted + mean, INERTIA * weights + 1
            smoothed = weighted / weights
            records.append({"step": step, "lr": rate, "loss": mean, "smoothed_loss": smoothed})
            if smoothed > rise * min(r["smoothed_loss"] for r in records):
                break
            stepper.move(rate)
            if on_step is not None:
                on_step(step)
    return records, suggest_lr(records)


def suggest_lr(records: Sequence[dict]) -> float:
    r"""The rate at which the smoothed loss falls most steeply, on a logarithmic axis of rates.

    .. math:: \eta^* = \arg\min_{\eta_s} \frac{\mathrm{d}\bar\ell_s}{\mathrm{d}\log\eta_s}

    The slope at s is that of a straight line through the points s − 5 … s + 5. It is a place to
    begin, not an optimum: what falls in a hundred steps is how often each symbol occurs, and
    the peak rates that suit this package's presets lie at one to eleven times the suggestion.
    Raises ``ValueError`` if the loss falls nowhere, or there are fewer than 11 records.
    """
    half = 5
    if len(records) <= 2 * half:
        raise ValueError(
            f"A suggestion needs more than {2 * half} steps, but the loss left the numbers or "
            f"rose after {len(records)}; begin at a lower rate."
        )
    log_rate = np.log([r["lr"] for r in records])
    loss = np.array([r["smoothed_loss"] for r in records])
    windows = [slice(s - half, s + half + 1) for s in range(half, len(records) - half)]
    slopes = [float(np.polyfit(log_rate[w], loss[w], 1)[0]) for w in windows]
    steepest = int(np.argmin(slopes))
    if slopes[steepest] >= 0:
        raise ValueError(
            "A suggestion needs a loss that falls somewhere, but it never does; try more steps "
            "or a lower first rate."
        )
    return records[steepest + half]["lr"]
