r"""One query over its keys, at a temperature of the reader's choice.

    a = softmax(s),  s_i = q·k_i / τ,      J = ∂a/∂s,  J_ij = a_i (δ_ij − a_j)

q·k_i   raw dot product of the query with key i, i = 1 … m
τ       temperature > 0; 1: no scaling, √d_k: Vaswani et al. (2017), d_k: the width itself
a       weights, a_i > 0, Σ a_i = 1; entropy H = −Σ a_i ln a_i, 0 … ln m nats
J       the Jacobian of the softmax; its largest entry is a_i (1 − a_i) ≤ 1/4, on the diagonal

When one weight is near 1 every entry of J is near 0: the softmax is saturated, and next to nothing
of a gradient comes through. Arrays in, a self-contained HTML figure out; no kernel, no network.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, log, sqrt

import numpy as np

from .widgets import LiveFigure, fixed, frame, small, table, tau_text, weight_text

MOST_KEYS = 64
LARGEST = 1e6  # of a raw product, either sign: beyond it no bar and no score can be read
REACH = 4.0  # the slider goes from 1/4 to 4 d_k: the stop √d_k is its middle
D_K = "<i>d</i><sub>k</sub>"

CAPTION = (
    "The softmax weights of one query over its keys; the scale is fixed, 0 to 1. A small "
    "temperature puts all weight on one key, and then the softmax passes almost no gradient on; a "
    "large one makes all keys alike."
)


@dataclass(frozen=True, eq=False)
class Query:
    """One query and its keys.

    name    what the case is called in the list
    keys    m labels, 1 ≤ m ≤ 64, one a key; a label may come twice
    raw     m dot products q·k_i, not scaled, between ±1e6
    d_k     width of query and key, ≥ 1

    Raises ValueError if the parts do not fit together or a product is not finite, or past ±1e6.
    """

    name: str
    keys: tuple[str, ...]
    raw: Sequence[float] | np.ndarray
    d_k: int

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ValueError(
                f"A query needs a name for the list of cases, and has {self.name!r}; name it after "
                "its word."
            )
        raw, m = np.asarray(self.raw, dtype=float), len(self.keys)
        if not 1 <= m <= MOST_KEYS:
            raise ValueError(
                f"{self.name}: a query needs 1 to {MOST_KEYS} keys, so that its bars can be read, "
                f"and has {m}; pass the keys that matter."
            )
        if raw.shape != (m,):
            raise ValueError(
                f"{self.name}: each key needs one raw dot product, {m} keys a shape of {(m,)}; got "
                f"the shape {raw.shape}. Pass one row of Q Kᵀ."
            )
        unfit = ~(np.abs(raw) <= LARGEST)  # so that NaN is unfit too
        if unfit.any():
            i = int(unfit.argmax())
            raise ValueError(
                f"{self.name}: dot products must be finite and lie between ±{LARGEST:g}, and the "
                f"one of key {i + 1} ({self.keys[i]}) is {raw[i]}; leave masked keys out."
            )
        whole = isinstance(self.d_k, (int, np.integer)) and not isinstance(self.d_k, bool)
        if not whole or self.d_k < 1:
            raise ValueError(
                f"{self.name}: d_k is the whole number of coordinates of query and key, at least "
                f"1, and is {self.d_k!r}."
            )

    @property
    def stops(self) -> tuple[tuple[str, float], ...]:
        """The marked temperatures, smallest first: (name, τ); one of them where d_k = 1."""
        if self.d_k == 1:
            return (("1 = d_k", 1.0),)
        return (("1", 1.0), ("√d_k", sqrt(self.d_k)), ("d_k", float(self.d_k)))

    def weights(self, tau: float) -> np.ndarray:
        """softmax(q·k / τ), the largest subtracted first."""
        raw = np.asarray(self.raw, dtype=float)
        powers = np.exp((raw - raw.max()) / tau)
        return powers / powers.sum()


@dataclass(frozen=True)
class Readings:
    """What one row of weights says: its peak, its spread, what its Jacobian lets through.

    largest          max_i a_i
    entropy          H = −Σ a_i ln a_i, nats
    share            H / ln m; nan for one key
    jacobian_max     max_ij |J_ij| = max_i a_i (1 − a_i)
    jacobian_norm    Frobenius norm, √(Σ_ij J_ij²)
    """

    largest: float
    entropy: float
    share: float
    jacobian_max: float
    jacobian_norm: float


def readings(a: np.ndarray) -> Readings:
    """The readings of m weights ``a`` (≥ 0, of sum 1).

    1 − a_i is taken as the sum of the other weights, so that saturated weights lose no digits.
    """
    a = np.asarray(a, dtype=float)
    m = a.size
    rest = np.array([a[:i].sum() + a[i + 1 :].sum() for i in range(m)])
    J = -np.outer(a, a)
    np.fill_diagonal(J, a * rest)
    entropy = float(-np.sum(a * np.log(a, where=a > 0, out=np.zeros(m)))) + 0.0
    return Readings(
        largest=float(a.max()),
        entropy=entropy,
        share=entropy / log(m) if m > 1 else float("nan"),
        jacobian_max=float(np.abs(J).max()),
        jacobian_norm=float(np.linalg.norm(J)),
    )


def share_text(share: float) -> str:
    """A share in per cent, one decimal; a dash where there is none."""
    return f"{100 * share:.1f} %" if share == share else "–"


def temperature_bars(
    queries: Sequence[Query],
    *,
    start: str | None = None,
    tau: float | None = None,
    caption: str = CAPTION,
) -> LiveFigure:
    """The figure: choose a query, move its temperature, read weights, entropy and Jacobian.

    queries    the cases of the list, in this order; each name once
    start      the name shown first (the first query if None)
    tau        the temperature shown first, 1/4 … 4 d_k (√d_k if None)
    caption    plain text below the figure

    Without JavaScript, and on paper, tables hold every query at the three stops.
    Raises ValueError if there is no query, a name comes twice, ``start`` is no name, or ``tau``
    lies outside of the slider.
    """
    queries = list(queries)
    names = [query.name for query in queries]
    if not queries:
        raise ValueError("The figure needs at least 1 query and got 0; pass a list of Query(…).")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Each name may stand once in the list; {name!r} comes twice.")
    if start is not None and start not in names:
        raise ValueError(f"start={start!r} is none of the {len(names)} names: {', '.join(names)}.")
    first = queries[names.index(start) if start is not None else 0]
    low, high = 1 / REACH, REACH * first.d_k
    if tau is not None and not (isfinite(tau) and low <= tau <= high):
        raise ValueError(
            f"tau={tau} must lie between {low:g} and 4 d_k = {high:g}, where the slider of "
            f"{first.name!r} ends; or be None, for √d_k."
        )
    data = {
        "reach": REACH,
        "start": names.index(first.name),
        "tau": sqrt(first.d_k) if tau is None else float(tau),
        "queries": [
            {
                "name": query.name,
                "keys": list(query.keys),
                "raw": [float(x) for x in query.raw],
                "dk": int(query.d_k),
                "stops": [list(stop) for stop in query.stops],
            }
            for query in queries
        ],
    }
    counted = f"{len(queries)} quer{'y' if len(queries) == 1 else 'ies'}"
    summary = f"Weights at a temperature of your choice ({counted})"
    return LiveFigure(frame("bars", _static(queries, first, data["tau"]), data, caption), summary)


def _static(queries: list[Query], first: Query, tau: float) -> str:
    """The first query's table, also at the ``tau`` of the start, then the others', folded."""
    columns = first.stops
    if tau not in [stop for _, stop in columns]:
        columns = tuple(sorted([*columns, ("", tau)], key=lambda column: column[1]))
    parts = [_table(first, columns)]
    for query in queries:
        if query is not first:
            name, numbers = html.escape(query.name), _table(query, query.stops)
            parts.append(f"<details><summary>{name}</summary>{numbers}</details>")
    parts.append('<p class="tdw-promise">With JavaScript, a slider moves the temperature.</p>')
    return "".join(parts)


def _table(query: Query, temperatures: tuple[tuple[str, float], ...]) -> str:
    """Weights and readings of a query at some temperatures, each (name or "", τ)."""
    columns = [query.weights(tau) for _, tau in temperatures]
    said = [readings(a) for a in columns]
    head = ["key", "<i>q</i>·<i>k</i>"]
    for name, tau in temperatures:
        symbol = [name.replace("d_k", D_K)] if name else []
        value = [] if name.startswith("1") else [tau_text(tau)]
        head.append(" = ".join(["τ", *symbol, *value]))
    body = []
    for i, key in enumerate(query.keys):
        cells = [
            f'{html.escape(weight_text(a[i]))}<span class="tdb-mini" style="--w:{a[i]:.4f}"></span>'
            for a in columns
        ]
        body.append([html.escape(key), fixed(float(query.raw[i]), 2), *cells])
    foot = [
        ["largest weight", "", *(html.escape(weight_text(r.largest)) for r in said)],
        ["entropy, nats", "", *(fixed(r.entropy, 3) for r in said)],
        ["share of ln <i>m</i>", "", *(share_text(r.share) for r in said)],
        ["largest |<i>J</i><sub>ij</sub>|", "", *(small(r.jacobian_max) for r in said)],
        ["norm ‖<i>J</i>‖<sub>F</sub>", "", *(small(r.jacobian_norm) for r in said)],
    ]
    return table(f"{query.name}: softmax weights at temperature τ", head, body, foot)
