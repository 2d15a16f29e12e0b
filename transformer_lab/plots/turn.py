"""A parameter to turn: a slider where there is somebody to turn it, one picture elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

UNATTENDED = "TRANSFORMER_LAB_UNATTENDED"  # set where a notebook runs without a reader


def turn(function: Callable[[float], object], start: float, low: float, high: float) -> None:
    """Show ``function(x)`` with a slider for x, or ``function(start)`` where there can be none.

    The slider is logarithmic. It needs ipywidgets and a live notebook; in the built book, in
    plain Python, and where a notebook runs from top to bottom by itself, the start is shown.
    Raises ``ValueError`` unless 0 < low ≤ start ≤ high.
    """
    if not 0 < low <= start <= high:
        raise ValueError(
            f"A logarithmic slider needs 0 < low ≤ start ≤ high, but got {low}, {start}, {high}."
        )
    ipython = sys.modules.get("IPython")
    alone = os.environ.get(UNATTENDED) or ipython is None or ipython.get_ipython() is None
    try:
        from ipywidgets import FloatLogSlider, interact
    except ImportError:
        alone = True
    if alone:
        function(start)
        return
    import math

    slider = FloatLogSlider(start, min=math.log10(low), max=math.log10(high), description=" ")
    interact(lambda x: function(x), x=slider)
