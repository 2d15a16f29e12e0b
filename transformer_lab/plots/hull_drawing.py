"""The plane of the values as SVG: axes, hull, values, their weights, the output.

hull.js moves what depends on the weights; it finds it by the classes and data attributes set here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from math import ceil, floor, log10, sqrt

import numpy as np

from .widgets import fixed, weight_text

RIGHT, TOP, BOTTOM = 10.0, 10.0, 46.0  # margins around the plane, SVG units
ACROSS = 360.0  # width of the plane
FLATTEST, TALLEST = 0.62, 1.1  # height of the plane as a share of its width
ROOM = 0.16  # free on every side of the values, as a share of their extent
LETTER, LINE = 7.6, 15.0  # width of a letter of a label, height of its line: estimates

OUTPUT = "M0 -8L8 0L0 8L-8 0Z"  # the output's mark: a diamond

_KEYS = (  # what the legend shows, in words and as a mark
    (f'<path class="tdh-output" d="{OUTPUT}"/>', "output <i>o</i>"),
    (f'<path class="tdh-origin" d="{OUTPUT}"/>', "output with nothing added to the chosen score"),
    ('<circle class="tdh-value" r="7"/>', "value; the larger, the more weight"),
    (
        '<circle class="tdh-value" r="5"/><circle class="tdh-ring" r="10"/>',
        "value of the chosen key",
    ),
    (
        '<path class="tdh-way" d="M-12 0H12"/>',
        "way of the output as the chosen score goes from −∞ to ∞",
    ),
)
LEGEND = '<ul class="tdh-legend">{}</ul>'.format(
    "".join(
        f'<li><svg class="tdh-key" viewBox="-12 -12 24 24" aria-hidden="true">{mark}</svg>'
        f"<span>{words}</span></li>"
        for mark, words in _KEYS
    )
)


@dataclass(frozen=True)
class Plane:
    """Where a point (x, y) of the values stands: (x0 + unit·x, y0 − unit·y), in SVG units.

    left, height    margin to the left of the plane, with room for the numbers; height of the plane
    step            from one number of the axes to the next
    places          decimals that coordinates are printed with

    One unit for both coordinates, so that lengths and shares of lengths can be seen.
    """

    x0: float
    y0: float
    unit: float
    left: float
    height: float
    step: float
    places: int

    @classmethod
    def of(cls, values_S2: np.ndarray) -> Plane:
        """The plane in which all the values have room."""
        low, high = values_S2.min(axis=0), values_S2.max(axis=0)
        middle, extent = (low + high) / 2, (high - low).max()
        across, up = high - low + 2 * ROOM * extent
        unit = ACROSS / max(across, up / TALLEST)
        height = min(max(up * unit, FLATTEST * ACROSS), TALLEST * ACROSS)
        rough = ACROSS / unit / 7
        power = 10.0 ** floor(log10(rough))
        step = next(n * power for n in (1, 2, 5, 10) if n * power >= rough)
        y0 = TOP + height / 2 + unit * middle[1]
        bare = cls(0.0, float(y0), float(unit), 0.0, float(height), step, 0)
        left = 30 + 8.0 * max(len(text) for _, text in bare.ticks(*bare.span_y))
        x0 = float(left + ACROSS / 2 - unit * middle[0])
        places = min(max(0, 2 - floor(log10(step))), 12)
        return replace(bare, x0=x0, left=left, places=places)

    @property
    def span_x(self) -> tuple[float, float]:
        """First coordinates at the left and right end of the plane."""
        return (self.left - self.x0) / self.unit, (self.left + ACROSS - self.x0) / self.unit

    @property
    def span_y(self) -> tuple[float, float]:
        """Second coordinates at the lower and upper end of the plane."""
        return (self.y0 - TOP - self.height) / self.unit, (self.y0 - TOP) / self.unit

    def at(self, point_2: np.ndarray) -> tuple[float, float]:
        """A point's place in the drawing."""
        return self.x0 + self.unit * float(point_2[0]), self.y0 - self.unit * float(point_2[1])

    def ticks(self, low: float, high: float) -> list[tuple[float, str]]:
        """The multiples of the step from ``low`` to ``high``, each with its text."""
        first, last = ceil(low / self.step - 1e-9), floor(high / self.step + 1e-9)
        decimals = max(0, -floor(log10(self.step)))
        return [(n * self.step, fixed(n * self.step, decimals)) for n in range(first, last + 1)]


def convex_hull(points_S2: np.ndarray) -> list[int]:
    """Indices of the hull's corners, counter-clockwise (Andrew's monotone chain).

    Points on an edge are left out; points on one line give the two ends.
    """

    def left(a: int, b: int, c: int) -> bool:
        (ax, ay), (bx, by), (cx, cy) = points_S2[a], points_S2[b], points_S2[c]
        return bool((bx - ax) * (cy - ay) - (by - ay) * (cx - ax) > 0)

    def chain(order: list[int]) -> list[int]:
        kept: list[int] = []
        for i in order:
            while len(kept) > 1 and not left(kept[-2], kept[-1], i):
                kept.pop()
            kept.append(i)
        return kept[:-1]

    order = sorted(range(len(points_S2)), key=lambda i: tuple(points_S2[i]))
    return chain(order) + chain(order[::-1])


def radius(weight: float) -> float:
    """Radius of a value's disc: its area grows with the weight, from a dot that is still seen."""
    return 3 + 12 * sqrt(weight)


def drawing(
    values_S2: np.ndarray,
    labels: list[str],
    weights_S: np.ndarray,
    output_2: np.ndarray,
    far_2: np.ndarray,
    chosen: int,
    plane: Plane,
) -> str:
    """The SVG at the start; its name says in words what one sees.

    values_S2, labels, weights_S    the values, their names, their weights
    output_2                        where the output stands
    far_2                           where it goes when the chosen score goes to −∞
    """
    wide, high = plane.left + ACROSS + RIGHT, TOP + plane.height + BOTTOM
    at_S = [plane.at(value) for value in values_S2]
    ox, oy = plane.at(output_2)
    fx, fy = plane.at(far_2)
    (cx, cy), parts = at_S[chosen], _axes(plane)
    corners = " ".join(f"{at_S[i][0]:.1f},{at_S[i][1]:.1f}" for i in convex_hull(values_S2))
    parts.append(f'<polygon class="tdh-hull" points="{corners}"/>')
    for i, ((x, y), weight) in enumerate(zip(at_S, weights_S, strict=True)):
        parts.append(
            f'<line class="tdh-pull" data-i="{i}" style="--w:{weight:.4f}" '
            f'x1="{ox:.2f}" y1="{oy:.2f}" x2="{x:.2f}" y2="{y:.2f}"/>'
        )
    parts.append(f'<line class="tdh-way" x1="{fx:.2f}" y1="{fy:.2f}" x2="{cx:.2f}" y2="{cy:.2f}"/>')
    for i, ((x, y), weight) in enumerate(zip(at_S, weights_S, strict=True)):
        parts.append(
            f'<circle class="tdh-value" data-i="{i}" cx="{x:.2f}" cy="{y:.2f}" '
            f'r="{radius(float(weight)):.2f}"/>'
        )
    r = radius(float(weights_S[chosen])) + 4
    parts.append(f'<circle class="tdh-ring" cx="{cx:.2f}" cy="{cy:.2f}" r="{r:.2f}"/>')
    for kind in ("origin", "output"):
        parts.append(
            f'<path class="tdh-{kind}" d="{OUTPUT}" transform="translate({ox:.2f} {oy:.2f})"/>'
        )
    places = _label_places(at_S, (ox, oy), labels, convex_hull(values_S2), plane)
    for i, (x, y) in enumerate(places):
        parts.append(
            f'<text class="tdh-label" x="{x:.1f}" y="{y:.1f}"><tspan class="tdh-name">'
            f'{escape(labels[i])}</tspan> <tspan data-i="{i}">'
            f"{escape(weight_text(float(weights_S[i])))}</tspan></text>"
        )
    name = (
        f"{len(labels)} values in the plane, {', '.join(labels)}; their convex hull; the output "
        f"inside of it, a line to each value; a dashed line to the chosen value {labels[chosen]}."
    )
    return (
        f'<svg class="tdh-svg" viewBox="0 0 {wide:.0f} {high:.0f}" role="img" '
        f'aria-label="{escape(name)}">{"".join(parts)}</svg>'
    )


def _axes(plane: Plane) -> list[str]:
    """A frame, a grid, numbers and names."""
    left, right, bottom = plane.left, plane.left + ACROSS, TOP + plane.height
    parts = []
    for x, text in plane.ticks(*plane.span_x):
        at = plane.x0 + plane.unit * x
        parts.append(f'<path class="tdh-grid" d="M{at:.1f} {TOP}V{bottom:.1f}"/>')
        parts.append(f'<text class="tdh-x" x="{at:.1f}" y="{bottom + 17:.1f}">{text}</text>')
    for y, text in plane.ticks(*plane.span_y):
        at = plane.y0 - plane.unit * y
        parts.append(f'<path class="tdh-grid" d="M{left} {at:.1f}H{right}"/>')
        parts.append(f'<text class="tdh-y" x="{left - 7}" y="{at + 4.5:.1f}">{text}</text>')
    middle = TOP + plane.height / 2
    parts.append(
        f'<rect class="tdh-frame" x="{left}" y="{TOP}" width="{ACROSS}" '
        f'height="{plane.height:.1f}"/>'
        f'<text class="tdh-axis" x="{left + ACROSS / 2}" y="{bottom + 38:.1f}">'
        "first coordinate of the value</text>"
        f'<text class="tdh-axis" transform="translate(13 {middle:.1f}) rotate(-90)">'
        "second coordinate of the value</text>"
    )
    return parts


def _label_places(
    at_S: list[tuple[float, float]],
    output: tuple[float, float],
    labels: list[str],
    corners: list[int],
    plane: Plane,
) -> list[tuple[float, float]]:
    """For each value the middle of its label: outside of the hull if it can be, on nothing else.

    Of twelve places around the value the one that covers least: not past the frame, not on other
    labels, values, or the output at the start; inside of the hull on no way from the output; and
    then as far from the hull's middle as can be.
    """
    inside = np.mean([at_S[i] for i in corners], axis=0)
    ways = [np.linspace(output, at, 100) for at in at_S]
    taken: list[tuple[float, float, float]] = []
    places = []
    for i, (x, y) in enumerate(at_S):
        half = LETTER * (len(labels[i]) + 6) / 2
        best, least = (x, y), float("inf")
        for turn in range(12):
            ux, uy = np.cos(turn * np.pi / 6), np.sin(turn * np.pi / 6)
            away = 20 + half * abs(ux) * 0.9 + LINE / 2 * abs(uy)
            px, py = x + away * ux, y + away * uy
            cost = -0.02 * np.hypot(px - inside[0], py - inside[1])
            for tx, ty, wide in taken:
                cost += 60 * (abs(px - tx) < half + wide and abs(py - ty) < LINE)
            for j, (vx, vy) in enumerate([*at_S, output]):
                near = abs(px - vx) < half + 10 and abs(py - vy) < LINE / 2 + 10
                cost += 40 * (j != i and near)
            if i not in corners:
                for way in ways:
                    cost += (np.abs(way - (px, py)) < (half, LINE / 2)).all(-1).any()
            cost += 50 * max(0, plane.left + half - px, px + half - plane.left - ACROSS)
            cost += 50 * max(0, TOP + LINE / 2 - py, py + LINE / 2 - TOP - plane.height)
            if cost < least:
                best, least = (px, py), cost
        taken.append((*best, half))
        places.append((best[0], best[1] + 4.5))
    return places
