r"""Attention weights as a heat map."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def check_weights(weights_TS: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse what is no matrix of attention weights for these rows and columns."""
    if weights_TS.shape != (len(rows), len(columns)):
        raise ValueError(
            f"Weights need a row for each query and a column for each key, but their shape is "
            f"{weights_TS.shape} and there are {len(rows)} queries and {len(columns)} keys."
        )
    sums = weights_TS.sum(-1)
    worst = int(np.abs(sums - 1).argmax())
    if not abs(sums[worst] - 1) <= 1e-3:  # so that NaN is refused too
        raise ValueError(
            f"Every row of attention weights must sum to 1, but row {worst} "
            f"({rows[worst]}) sums to {sums[worst]:.4f}; were scores given instead of weights?"
        )


def attention_map(
    weights_TS: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    axes=None,
    title: str = "",
    numbers: bool | None = None,
):
    """Draw weights (T queries × S keys, rows sum to 1) as a heat map; returns the axes.

    Colours always run from 0 to 1, so maps can be compared. ``numbers`` prints each weight in
    its cell (by default where there is room). Raises ``ValueError`` if a row does not sum to 1.
    """
    import matplotlib.pyplot as plt

    weights_TS = np.asarray(weights_TS, dtype=float)
    check_weights(weights_TS, rows, columns)
    if axes is None:
        size = (1.2 + 0.55 * len(columns), 1.0 + 0.45 * len(rows))
        _, axes = plt.subplots(figsize=size, layout="constrained")
    axes.imshow(weights_TS, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlabel("key (column)")
    axes.set_ylabel("query (row)")
    axes.tick_params(length=0)
    if title:
        axes.set_title(title)
    if numbers is None:
        numbers = len(columns) <= 14
    if numbers:
        for (t, s), weight in np.ndenumerate(weights_TS):
            if weight >= 0.005:
                colour = "white" if weight > 0.55 else "#1d2733"
                text = f"{weight:.2f}".lstrip("0") if weight < 0.995 else "1"
                axes.text(s, t, text, ha="center", va="center", fontsize=8, color=colour)
    return axes


def map_in_words(weights_TS: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> str:
    """The map as text, a line for each query: what it looks at, largest first."""
    weights_TS = np.asarray(weights_TS, dtype=float)
    check_weights(weights_TS, rows, columns)
    width = max(len(r) for r in rows)
    lines = []
    for row, weights in zip(rows, weights_TS, strict=True):
        order = [int(s) for s in np.argsort(-weights, kind="stable") if weights[s] >= 0.05][:4]
        seen = ", ".join(f"{columns[s]} (letter {s + 1}) {weights[s]:.2f}" for s in order)
        lines.append(f"{row:<{width}}  looks at  {seen}")
    return "\n".join(lines)


def check_picture(path: str | Path) -> None:
    """Refuse a name under which no picture can be drawn."""
    known = (".png", ".pdf", ".svg")
    if Path(path).suffix.lower() not in known:
        raise ValueError(
            f"A picture's name must end in one of {', '.join(known)}, but got {path}; rename it."
        )
    if Path(path).is_dir():
        raise ValueError(f"A picture needs a file, but {path} is a folder; choose another name.")


def save_map(
    path: str | Path,
    weights_TS: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
) -> bool:
    """Draw :func:`attention_map` into a PNG, PDF or SVG file.

    Folders are made; ``False`` says that the font lacks a symbol and a box stands for it.
    """
    from matplotlib.figure import Figure

    check_picture(path)
    figure = Figure(
        figsize=(1.6 + 0.5 * len(columns), 1.2 + 0.4 * len(rows)), layout="constrained"
    )
    attention_map(weights_TS, rows, columns, figure.subplots(), title)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        figure.savefig(path, dpi=150)
    return not any("missing from font" in str(warning.message) for warning in heard)
