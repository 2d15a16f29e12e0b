r"""The output of attention moves in the convex hull of the values.

    a = softmax(s / τ + c),   o = Σ_i a_i v_i,   a_i > 0, Σ_i a_i = 1: o lies inside of the hull

Add c_j to the score of key j, leave the others alone, and o runs along a straight line to v_j:

    o(c_j) = v_j + (o(0) − v_j) / (1 + a_j (e^{c_j} − 1)),       a_j, o(0) at c_j = 0

v_i   value of key i, a point in the plane, i = 1 … m
s_i   its score before the softmax; τ > 0 the temperature; c_i what the reader adds (0 at first)
o     the output; c_j → ∞: v_j; c_j → −∞: the mean of the other values under their own weights

Arrays in, a self-contained HTML figure out; no kernel, no network. The drawing is drawing.py's.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from .hull_drawing import LEGEND, Plane, drawing
from .widgets import LiveFigure, fixed, frame, table, weight_text

FEWEST, MOST = 3, 8
ADDED = (-6.0, -3.0, 0.0, 3.0, 6.0)  # what the table without JavaScript adds to the chosen score
LARGEST = 1e6  # of a score or a coordinate, either sign: beyond it no number can be read
CLOSEST = 0.02  # of the hull's extent: values nearer than this cannot be told apart

CAPTION = (
    "The output is a weighted mean of the values and never leaves their convex hull. Raising one "
    "score moves it along a straight line to that value; it would arrive only at an infinite score."
)


def hull_figure(
    values_S2: Sequence[Sequence[float]] | np.ndarray,
    scores_S: Sequence[float] | np.ndarray,
    labels: Sequence[str] | None = None,
    *,
    chosen: int = 0,
    caption: str = CAPTION,
) -> LiveFigure:
    """The figure: raise or lower the score of a key, turn the temperature, watch the output.

    values_S2   S values, 3 to 8 points in the plane, no two of them at one place
    scores_S    S scores as they enter the softmax, such as q·k/√d_k; between ±1e6, as the values
    labels      S different short names (A, B, … if None)
    chosen      index of the key whose score is changed first, counted from 0
    caption     plain text below the figure

    Without JavaScript, and on paper: the drawing at the start, its numbers and the way in tables.
    Raises ValueError if numbers and names do not fit together, are not finite, or past ±1e6.
    """
    values_S2, scores_S = np.asarray(values_S2, dtype=float), np.asarray(scores_S, dtype=float)
    S = values_S2.shape[0] if values_S2.ndim else 0
    labels = [chr(ord("A") + i) for i in range(S)] if labels is None else list(labels)
    _check(values_S2, scores_S, labels)
    if not 0 <= chosen < S:
        raise ValueError(f"chosen={chosen} must be the index of a key, 0 to {S - 1}.")
    weights_S, output_2 = attend(values_S2, scores_S)
    plane = Plane.of(values_S2)
    data = {
        "values": values_S2.tolist(),
        "scores": scores_S.tolist(),
        "labels": labels,
        "chosen": chosen,
        "plane": [plane.x0, plane.y0, plane.unit],
        "places": plane.places,
    }
    rest = [i for i in range(S) if i != chosen]
    far_2 = attend(values_S2[rest], scores_S[rest])[1]
    picture = drawing(values_S2, labels, weights_S, output_2, far_2, chosen, plane)
    static = f'<div class="tdh-plot">{picture}{LEGEND}</div>' + "".join(
        [
            _says(output_2, plane.places),
            _start_table(values_S2, scores_S, labels, weights_S, plane.places),
            _way_table(values_S2, scores_S, labels, chosen, plane.places),
            '<p class="tdw-promise">With JavaScript, sliders move scores and temperature.</p>',
        ]
    )
    summary = f"The output in the convex hull of {S} values"
    return LiveFigure(frame("hull", static, data, caption), summary)


def attend(
    values_S2: np.ndarray, scores_S: np.ndarray, tau: float = 1.0, added_S: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """a = softmax(s / τ + c) and o = Σ a_i v_i; shapes (S,) and (2,)."""
    logits_S = np.asarray(scores_S, dtype=float) / tau + added_S
    powers_S = np.exp(logits_S - logits_S.max())
    weights_S = powers_S / powers_S.sum()
    return weights_S, weights_S @ np.asarray(values_S2, dtype=float)


def remaining(weight: float, added: float) -> float:
    """1 / (1 + a_j (e^c − 1)): the distance to v_j as a share of that at c = 0.

    weight   a_j at c = 0, between 0 and 1
    added    c, what is added to the score of j
    """
    return float(1 / (1 + weight * np.expm1(added)))


def _check(values_S2: np.ndarray, scores_S: np.ndarray, labels: list[str]) -> None:
    if values_S2.ndim != 2 or values_S2.shape[1] != 2:
        raise ValueError(
            f"Values must be points in the plane, of shape (S, 2), and have {values_S2.shape}; "
            "pass two coordinates of each."
        )
    S = len(values_S2)
    if not FEWEST <= S <= MOST:
        raise ValueError(
            f"The figure takes {FEWEST} to {MOST} values, so that it has a hull and can be read, "
            f"and got {S}."
        )
    if scores_S.shape != (S,) or len(labels) != S:
        raise ValueError(
            f"Each of the {S} values needs one score and one label; got scores of shape "
            f"{scores_S.shape} and {len(labels)} labels."
        )
    for name, array in (("value", values_S2), ("score", scores_S)):
        unfit = ~(np.abs(array.reshape(S, -1)) <= LARGEST).all(axis=1)  # so that NaN is unfit too
        if unfit.any():
            i = int(unfit.argmax())
            raise ValueError(
                f"Scores and values must be finite and lie between ±{LARGEST:g}, and the {name} of "
                f"{labels[i]!r} is {array[i].tolist()}; leave masked keys out."
            )
    for i, label in enumerate(labels):
        if not label.strip() or label in labels[:i]:
            raise ValueError(
                f"Labels must be different and not empty; label {i + 1} is {label!r}. Number "
                "those that are alike."
            )
    gaps_SS = np.linalg.norm(values_S2[:, None] - values_S2[None], axis=-1)
    least = CLOSEST * gaps_SS.max()
    for i, j in np.argwhere(np.triu(gaps_SS <= least, k=1)):
        raise ValueError(
            f"Values must lie apart to be told apart, by more than {CLOSEST:.0%} of the largest "
            f"distance, {least:.3g}; {labels[i]!r} and {labels[j]!r} are {gaps_SS[i, j]:.3g} apart."
        )


# ---- what can be read without JavaScript ----


def _point(point_2: np.ndarray, places: int) -> str:
    return f"({fixed(float(point_2[0]), places)}, {fixed(float(point_2[1]), places)})"


def _says(output_2: np.ndarray, places: int) -> str:
    return f"<p>Output at the start: <i>o</i> = {_point(output_2, places)}.</p>"


def _start_table(
    values_S2: np.ndarray,
    scores_S: np.ndarray,
    labels: list[str],
    weights_S: np.ndarray,
    places: int,
) -> str:
    rows = []
    for i, label in enumerate(labels):
        weight = html.escape(weight_text(float(weights_S[i])))
        score = fixed(float(scores_S[i]), 2)
        rows.append([html.escape(label), _point(values_S2[i], places), score, weight])
    return table("At the start", ["key", "value", "score", "weight"], rows)


def _way_table(
    values_S2: np.ndarray, scores_S: np.ndarray, labels: list[str], j: int, places: int
) -> str:
    """The way of the output as the score of key j rises."""
    start = attend(values_S2, scores_S)[0][j]
    rows = []
    for c in ADDED:
        weights_S, output_2 = attend(values_S2, scores_S, 1.0, c * np.eye(len(labels))[j])
        rows.append([
            f"{'+' if c > 0 else ''}{fixed(c, 0)}", html.escape(weight_text(float(weights_S[j]))),
            _point(output_2, places), f"{100 * remaining(float(start), c):.1f} %",
        ])  # fmt: skip
    head = ["added", "weight", "output", "distance left, share of the start"]
    return table(f"As the score of {labels[j]} changes", head, rows)
