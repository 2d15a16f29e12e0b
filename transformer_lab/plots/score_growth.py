r"""Variance of the scores and sharpness of the softmax against the width of a head."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from .plotly_page import FIRST, INK, RULE, SECOND, PlotlyPage, View, plotly_page

CAPTION = (
    "Marks are means over the draws, bars reach from the smallest to the largest of them. In the "
    "first panel the lines are theory and both axes logarithmic; in the others they join the marks."
)
UNSCALED, SCALED = "q · k", "q · k / √dₖ"
PANELS = {"y": (0.555, 0.95), "y2": (0.275, 0.475), "y3": (0.0, 0.2)}
"""Where the three panels stand, in shares of the height, from below."""


@runtime_checkable
class Curves(Protocol):
    r"""What is drawn of one distribution of entries (D widths, R draws).

    ``label``; ``keys`` (m); ``widths`` (D,); ``variance`` of q · k (R, D) and
    ``variance_theory`` (D,); ``entropy`` (share of ln m) and ``norm`` (Frobenius norm of the
    softmax's Jacobian) of softmax(q · k), (R, D); the same with ``_scaled`` of
    softmax(q · k / √d_k).
    """

    label: str
    keys: int
    widths: np.ndarray
    variance: np.ndarray
    variance_theory: np.ndarray
    entropy: np.ndarray
    entropy_scaled: np.ndarray
    norm: np.ndarray
    norm_scaled: np.ndarray


def score_growth(growth: Mapping[str, Curves], caption: str = CAPTION) -> PlotlyPage:
    """Three panels against d_k, a button for each distribution of the entries.

    ``growth`` is, by name, what :func:`~transformer_lab.attention.growth.score_growth_data`
    measures. Unscaled scores are circles, scaled ones squares. Raises ``ValueError`` if there is
    nothing to draw, or widths or keys differ between distributions.
    """
    if not growth:
        raise ValueError("The figure needs at least 1 distribution and got 0; measure some.")
    first = next(iter(growth.values()))
    for name, curves in growth.items():
        if list(curves.widths) != list(first.widths) or curves.keys != first.keys:
            raise ValueError(
                f"All distributions share their widths and keys, but the first has "
                f"{len(first.widths)} widths and {first.keys} keys, {name!r} has "
                f"{len(curves.widths)} and {curves.keys}; measure them together."
            )
    views = [_view(name, curves) for name, curves in growth.items()]
    return plotly_page(
        _layout(first, growth), views, caption, "Entries of q and k", height=650
    )


# ---- curves ----


def _marks(widths: np.ndarray, drawn: np.ndarray, scaled: bool, axis: str, line: bool) -> dict:
    """Means over draws with a bar from the smallest to the largest."""
    colour, mean = (SECOND if scaled else FIRST), drawn.mean(0)
    return {
        "type": "scatter",
        "mode": "lines+markers" if line else "markers",
        "name": SCALED if scaled else UNSCALED,
        "showlegend": axis == "y2",  # there with its line
        "x": widths.tolist(),
        "y": _round(mean),
        "yaxis": axis,
        "error_y": {
            "type": "data", "symmetric": False, "color": colour, "thickness": 1.2, "width": 3,
            "array": _round(drawn.max(0) - mean), "arrayminus": _round(mean - drawn.min(0)),
        },
        "marker": {"color": colour, "size": 8, "symbol": "square" if scaled else "circle"},
        "line": {"color": colour, "width": 1.5, "dash": "dash" if scaled else "solid"},
        "hovertemplate": "dₖ = %{x}: %{y:.3~g}<extra></extra>",
    }  # fmt: skip


def _theory(widths: np.ndarray, variance: np.ndarray, scaled: bool) -> dict:
    return {
        "type": "scatter",
        "mode": "lines",
        "showlegend": False,
        "x": widths.tolist(),
        "y": _round(variance),
        "line": {
            "color": SECOND if scaled else FIRST,
            "width": 1.5,
            "dash": "dash" if scaled else "solid",
        },
        "hoverinfo": "skip",
    }


def _view(name: str, c: Curves) -> View:
    scaled = c.variance / c.widths
    traces = [
        _marks(c.widths, c.variance, False, "y", False),
        _theory(c.widths, c.variance_theory, False),
        _marks(c.widths, scaled, True, "y", False),
        _theory(c.widths, c.variance_theory / c.widths, True),
    ]
    for axis, plain, divided in (
        ("y2", c.entropy, c.entropy_scaled), ("y3", c.norm, c.norm_scaled),
    ):  # fmt: skip
        traces.append(_marks(c.widths, plain, False, axis, True))
        traces.append(_marks(c.widths, divided, True, axis, True))
    return View(name, traces, _alt(c, scaled), _says(c, scaled), _table(c, scaled))


def _round(x: np.ndarray) -> list[float]:
    """Four digits: enough for a picture, short in the page."""
    return [float(f"{value:.4g}") for value in x]


# ---- words and numbers ----


def number(x: float) -> str:
    """Two decimals, or fewer for large numbers: 0.07, 1.02, 12.5, 1,034."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.1f}" if abs(x) >= 10 else f"{x:.2f}"


def _power(p: int) -> str:
    return {0: "1", 1: "10"}.get(p, f"10<sup>{p}</sup>")


def _ends(x: np.ndarray) -> str:
    """First and last value of the mean over draws."""
    mean = x.mean(0) if x.ndim == 2 else x
    return f"from {number(mean[0])} to {number(mean[-1])}"


def _says(c: Curves, scaled: np.ndarray) -> str:
    return (
        f"{c.label}. The variance of {UNSCALED} grows {_ends(c.variance)}; that of {SCALED} goes "
        f"{_ends(scaled)}. At dₖ = {c.widths[-1]} the entropy is "
        f"{number(c.entropy.mean(0)[-1])} of ln {c.keys} unscaled and "
        f"{number(c.entropy_scaled.mean(0)[-1])} scaled, the norm "
        f"{number(c.norm.mean(0)[-1])} and {number(c.norm_scaled.mean(0)[-1])}."
    )


def _alt(c: Curves, scaled: np.ndarray) -> str:
    return (
        f"Three graphs against the width of a head, dₖ from {c.widths[0]} to {c.widths[-1]}; "
        f"entries: {c.label}. First, variance of the scores on logarithmic axes: circles for "
        f"{UNSCALED} {_ends(c.variance)}, their line of theory {_ends(c.variance_theory)}; "
        f"squares for {SCALED} {_ends(scaled)}, line {_ends(c.variance_theory / c.widths)}. "
        f"Second, entropy of the softmax over {c.keys} keys: circles {_ends(c.entropy)}, squares "
        f"{_ends(c.entropy_scaled)}. Third, norm of the softmax's Jacobian: circles "
        f"{_ends(c.norm)}, squares {_ends(c.norm_scaled)}."
    )


def _table(c: Curves, scaled: np.ndarray) -> list[list[str]]:
    head = [
        "dₖ", f"variance of {UNSCALED}", "smallest to largest draw", "theory",
        f"variance of {SCALED}",
        "theory", "entropy, unscaled", "entropy, scaled", "norm, unscaled", "norm, scaled",
    ]  # fmt: skip
    rows = [head]
    for i, width in enumerate(c.widths):
        drawn = c.variance[:, i]
        rows.append([
            str(width), number(drawn.mean()), f"{number(drawn.min())} – {number(drawn.max())}",
            number(c.variance_theory[i]), number(scaled[:, i].mean()),
            number(c.variance_theory[i] / width), f"{c.entropy[:, i].mean():.3f}",
            f"{c.entropy_scaled[:, i].mean():.3f}", f"{c.norm[:, i].mean():.3f}",
            f"{c.norm_scaled[:, i].mean():.3f}",
        ])  # fmt: skip
    return rows


# ---- axes ----


def _layout(first: Curves, growth: Mapping[str, Curves]) -> dict:
    """Axes that all views share, so that they can be compared."""
    all_scaled = [c.variance / c.widths for c in growth.values()]
    every = [c.variance for c in growth.values()] + all_scaled
    low = math.floor(math.log10(min(x.min() for x in every)) * 2) / 2
    high = math.ceil(math.log10(max(x.max() for x in every)) * 2) / 2
    top = max(max(c.norm.max(), c.norm_scaled.max()) for c in growth.values())
    axis = {
        "fixedrange": True, "showline": False, "zeroline": False, "gridcolor": RULE,
        "gridwidth": 1, "linecolor": INK, "automargin": True,
        "tickfont": {"size": 12},
    }  # fmt: skip
    powers = range(math.ceil(low), math.floor(high) + 1)
    y = {**axis, "type": "log", "range": [low, high], "tickvals": [10.0**p for p in powers],
         "ticktext": [_power(p) for p in powers], "domain": PANELS["y"]}  # fmt: skip
    x = {
        **axis,
        "type": "log",
        "tickvals": first.widths.tolist(),
        "ticktext": [str(width) for width in first.widths],
        "range": [math.log10(first.widths[0]) - 0.08, math.log10(first.widths[-1]) + 0.08],
        "anchor": "y3",
        "showgrid": False,
        "tickangle": 0,
        "title": {"text": "width of a head, dₖ", "standoff": 8, "font": {"size": 13}},
    }
    titles = {
        "y": "Variance of the scores",
        "y2": f"Entropy of the weights ÷ ln {first.keys}",
        "y3": "Norm of the softmax’s Jacobian",
    }
    return {
        "xaxis": x,
        "yaxis": y,
        "yaxis2": {**axis, "range": [-0.04, 1.04], "tickvals": [0, 0.5, 1],
                   "domain": PANELS["y2"]},
        "yaxis3": {**axis, "range": [-0.02, top + 0.01],
                   "tickvals": [0, 0.1, 0.2, 0.3, 0.4, 0.5],
                   "domain": PANELS["y3"]},
        "annotations": [
            {"text": f"<b>{text}</b>", "xref": "paper", "yref": "paper", "x": 0, "xshift": -28,
             "xanchor": "left", "y": PANELS[panel][1] + 0.008, "yanchor": "bottom",
             "showarrow": False, "font": {"size": 13}}
            for panel, text in titles.items()
        ],
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom",
                   "itemclick": False, "itemdoubleclick": False, "bgcolor": "rgba(0,0,0,0)"},
        "margin": {"l": 30, "r": 18, "t": 30, "b": 46},
        "hovermode": "closest",
    }  # fmt: skip
