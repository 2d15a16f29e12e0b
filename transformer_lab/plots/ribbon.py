r"""Attention of one word drawn as ribbons: arrays in, a piece of SVG out.

Row t of the weights is what output symbol t looks at: $A_{ts} \ge 0$,
$\sum_s A_{ts} \le 1$. It is drawn as bands from symbol t up to every letter s,
each band as wide as its weight. A letter that nobody looks at has no band.
"""

from collections.abc import Sequence
from html import escape

import numpy as np

STEP = 96.0  # distance of two neighbours in a row, in SVG units
TOP, BOTTOM = 60.0, 240.0  # where the bands start and end
HEIGHT = 296.0
THINNEST = 0.012  # weights below this are left out: they would be hairlines


def _centres(count: int, width: float, step: float) -> list[float]:
    first = (width - step * (count - 1)) / 2
    return [first + step * i for i in range(count)]


def _band(x0: float, w0: float, x1: float, w1: float) -> str:
    """Outline of one band from (x0, TOP) to (x1, BOTTOM), w0 and w1 wide."""
    mid = (TOP + BOTTOM) / 2
    return (
        f"M{x0:.1f} {TOP:.1f}"
        f"C{x0:.1f} {mid:.1f} {x1:.1f} {mid:.1f} {x1:.1f} {BOTTOM:.1f}"
        f"h{w1:.1f}"
        f"C{x1 + w1:.1f} {mid:.1f} {x0 + w0:.1f} {mid:.1f} {x0 + w0:.1f} {TOP:.1f}Z"
    )


def _sentence(letters: Sequence[str], phones: Sequence[str], weights_TS: np.ndarray) -> str:
    parts = []
    for t, phone in enumerate(phones):
        best = int(weights_TS[t].argmax())
        share = weights_TS[t, best]
        parts.append(f"{phone} looks most at {letters[best]} ({share:.0%})")
    received = weights_TS.sum(axis=0)
    least = int(received.argmin())
    return "; ".join(parts) + f". Least looked at: {letters[least]}, letter {least + 1}."


def ribbon(letters: Sequence[str], phones: Sequence[str], weights_TS: np.ndarray) -> str:
    r"""Draw $A$ as bands between letters (top) and phones (bottom); return SVG.

    letters     S symbols that are read
    phones      T symbols that are said
    weights_TS  $A_{ts}$, what phone t looks at: $A_{ts} \ge 0$, $\sum_s A_{ts} \le 1$

    The SVG has a title and a description in words, takes its colours from the page
    (``currentColor``, ``--td-accent``, ``--td-accent-2``) and scales to any width.
    Raises ValueError if the shape is not (T, S) or a row is no row of weights.
    """
    weights_TS = np.asarray(weights_TS, dtype=float)
    T, S = len(phones), len(letters)
    if T == 0 or S == 0:
        raise ValueError(f"a ribbon needs a letter and a phone, got {S} letters and {T} phones")
    if weights_TS.shape != (T, S):
        raise ValueError(
            f"weights must have one row per phone and one column per letter, {(T, S)}, "
            f"got {weights_TS.shape}; transpose them if the two are swapped"
        )
    if not np.isfinite(weights_TS).all() or weights_TS.min() < 0:
        raise ValueError(
            "weights must be finite and not negative, "
            f"got a smallest value of {weights_TS.min()}; pass weights, not scores"
        )
    if weights_TS.sum(axis=1).max() > 1 + 1e-3:
        raise ValueError(
            "the weights of one phone sum to at most 1, "
            f"got {weights_TS.sum(axis=1).max():.3f}; average over heads, do not add"
        )

    width = STEP * max(S, T)
    tops = _centres(S, width, STEP)
    bottoms = _centres(T, width, min(width / T, 1.5 * STEP))
    received_S = weights_TS.sum(axis=0)
    unit = min(0.86 * STEP / max(received_S.max(), 1e-9), 0.62 * STEP)  # width of weight 1

    # each letter's bands lie side by side, from the left in the order of the phones
    start_top = [tops[s] - unit * received_S[s] / 2 for s in range(S)]
    bands, ends = [], []
    for t in range(T):
        x = bottoms[t] - unit * weights_TS[t].sum() / 2
        ends.append((x, unit * weights_TS[t].sum()))
        for s in range(S):
            w = unit * weights_TS[t, s]
            if weights_TS[t, s] >= THINNEST:
                colour = f"td-ribbon-{t % 2}"
                bands.append(f'<path class="{colour}" d="{_band(start_top[s], w, x, w)}"/>')
            start_top[s] += w
            x += w

    out = []
    for s in range(S):
        strength = 0.55 + 0.45 * min(1.0, received_S[s] / 0.25)
        out.append(
            f'<text x="{tops[s]:.1f}" y="42" opacity="{strength:.2f}">{escape(letters[s])}</text>'
        )
        out.append(f'<path class="td-ribbon-edge" d="M{tops[s] - 15:.1f} {TOP - 6}h30"/>')
    for t in range(T):
        x, w = ends[t]
        out.append(
            f'<text class="td-ribbon-phone" x="{bottoms[t]:.1f}" y="{BOTTOM + 44}">'
            f"{escape(phones[t])}</text>"
        )
        out.append(f'<path class="td-ribbon-edge" d="M{x:.1f} {BOTTOM + 6}h{w:.1f}"/>')

    word = escape("".join(letters))
    plain = "".join([*letters, "-", *phones])
    name = "ribbon-" + "".join(c if c.isalnum() else "-" for c in plain)
    return (
        f'<svg class="td-ribbon" viewBox="0 0 {width:.0f} {HEIGHT:.0f}" role="img" '
        f'aria-labelledby="{name}-t {name}-d" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="{name}-t">Which letters of “{word}” each sound looks at</title>'
        f'<desc id="{name}-d">{escape(_sentence(letters, phones, weights_TS))}</desc>'
        "<style>"
        ".td-ribbon text{font:italic 46px Charter,'Bitstream Charter',Georgia,serif;"
        "text-anchor:middle;fill:currentColor}"
        ".td-ribbon .td-ribbon-phone{font:600 30px ui-sans-serif,system-ui,sans-serif;"
        "letter-spacing:.06em}"
        ".td-ribbon-0{fill:var(--td-accent,#a5371f)}"
        ".td-ribbon-1{fill:var(--td-accent-2,#1c5f66)}"
        ".td-ribbon path{opacity:.72}"
        ".td-ribbon .td-ribbon-edge{stroke:currentColor;stroke-width:1.5;fill:none;opacity:.55}"
        "</style>" + "".join(bands) + "".join(out) + "</svg>"
    )
