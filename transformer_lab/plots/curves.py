r"""Curves of a training run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

INK, LOSS, DEV = "#6f7a86", "#2f6db3", "#c2572b"
DASHES = ((0, (6, 2)), (0, (6, 2, 1, 2)), (0, (3, 2)), (0, (1, 1.5)))
"""Of the lines of baselines, from the highest down."""


def loss_curve(
    records: Sequence[Mapping[str, int | float]],
    axes=None,
    baselines: Mapping[str, int | float] | None = None,
    floor: float | None = None,
    unit: str = "token",
):
    """Loss against steps; returns the axes.

    ``records`` are the lines of a run's metrics: ``step``, ``loss`` (training, nats a token)
    and, where the run was judged, ``dev_loss``. ``baselines`` are losses to beat, by name: a
    grey line each, named in the legend (they may lie close). ``floor`` is the least loss label
    smoothing allows: a dotted line.
    ``unit`` is what a token stands for: "character", "phoneme".
    """
    import matplotlib.pyplot as plt

    if not records:
        raise ValueError("A loss curve needs at least one record, but the run has none yet.")
    if axes is None:
        _, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    axes.plot(
        [r["step"] for r in records],
        [r["loss"] for r in records],
        color=LOSS,
        label="training (with smoothing, if any)",
    )
    judged = [r for r in records if "dev_loss" in r]
    if judged:
        axes.plot(
            [r["step"] for r in judged],
            [r["dev_loss"] for r in judged],
            color=DEV,
            marker="o",
            markersize=4,
            label="held out (dev, no smoothing)",
        )
    highest_first = sorted((baselines or {}).items(), key=lambda item: -item[1])
    for (name, value), dashes in zip(highest_first, itertools.cycle(DASHES), strict=False):
        axes.axhline(value, color=INK, linestyle=dashes, linewidth=1, label=f"{name}: {value:.3f}")
    if floor is not None:
        axes.axhline(floor, color=LOSS, linestyle=":", linewidth=1, label="floor of smoothing")
    axes.set_xlabel("step")
    axes.set_ylabel(f"loss (nats a {unit})")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def lr_curve(
    records: Sequence[Mapping[str, int | float]],
    suggestion: float | None = None,
    axes=None,
    unit: str = "token",
):
    """Loss against a rising learning rate; returns the axes.

    ``records`` are those of :func:`transformer_lab.train.find_lr`: ``lr``, ``loss`` (nats a
    token) and ``smoothed_loss``. ``suggestion`` is a rate: a vertical line.
    """
    import matplotlib.pyplot as plt

    if not records:
        raise ValueError("A curve needs at least one record, but the trial has none.")
    if axes is None:
        _, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    rates = [r["lr"] for r in records]
    axes.plot(rates, [r["loss"] for r in records], color=LOSS, alpha=0.4, label="each step")
    axes.plot(rates, [r["smoothed_loss"] for r in records], color=LOSS, label="smoothed")
    if suggestion is not None:
        label = f"steepest fall: {suggestion:.2g}"
        axes.axvline(suggestion, color=DEV, linestyle="--", linewidth=1, label=label)
    axes.set_xscale("log")
    axes.set_xlabel("learning rate (logarithmic)")
    axes.set_ylabel(f"loss (nats a {unit})")
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return axes
