"""Figures for files: no window, and the bytes of a picture."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def blank_figure() -> Figure:
    """An empty figure that no window shows."""
    from matplotlib.figure import Figure

    return Figure(figsize=(6.4, 3.6), layout="constrained")


def png(figure: Figure) -> bytes:
    """The figure as a PNG, 150 dots an inch."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=150)
    return picture.getvalue()
