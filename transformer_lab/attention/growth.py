r"""How scores grow with the width of a head, and what becomes of the softmax.

Queries and keys are drawn at random, from distributions that keep or break the assumptions
behind the division by √d_k, and measured; beside each measurement stands what theory says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .statistics import RowStatistics, row_statistics

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
KEYS = 64
SEEDS = 10
RHO = 0.3
"""Correlation between any two entries of a vector, where they are correlated."""

Draw = Callable[[np.random.Generator, int, int], np.ndarray]


@dataclass(frozen=True)
class Entries:
    r"""How the entries of queries and keys are drawn, and what q · k must then be.

    ``label``: in words. ``draw(generator, rows, width)``: that many vectors. ``mean(d)`` and
    ``variance(d)``: of q · k at width d. ``equal``: q is k, and q · q is what is looked at.
    """

    label: str
    draw: Draw
    variance: Callable[[int], float]
    mean: Callable[[int], float] = lambda d: 0.0
    equal: bool = False


def _normal(generator: np.random.Generator, rows: int, width: int) -> np.ndarray:
    return generator.normal(size=(rows, width))


def _mean_one(generator: np.random.Generator, rows: int, width: int) -> np.ndarray:
    return 1 + generator.normal(size=(rows, width))


def _heavy_tails(generator: np.random.Generator, rows: int, width: int) -> np.ndarray:
    return generator.standard_t(3, size=(rows, width)) / math.sqrt(3)  # t₃ has variance 3


def _correlated(generator: np.random.Generator, rows: int, width: int) -> np.ndarray:
    shared, own = generator.normal(size=(rows, 1)), generator.normal(size=(rows, width))
    return math.sqrt(RHO) * shared + math.sqrt(1 - RHO) * own


DISTRIBUTIONS: dict[str, Entries] = {
    "normal": Entries("Normal, mean 0, variance 1", _normal, lambda d: d),
    "mean 1": Entries("Normal, mean 1, variance 1", _mean_one, lambda d: 3 * d, lambda d: d),
    "heavy tails": Entries(
        "Student t, 3 degrees of freedom, scaled to variance 1", _heavy_tails, lambda d: d
    ),
    "correlated": Entries(
        f"Normal; any two entries of a vector correlated, ρ = {RHO}",
        _correlated,
        lambda d: d + d * (d - 1) * RHO**2,
    ),
    "q = k": Entries(
        "Normal; each query equal to its own key, and the variance that of these pairs",
        _normal,
        lambda d: 2 * d,
        lambda d: d,
        equal=True,
    ),
}
"""What can be drawn, by name; each with the mean and the variance it must show."""


@dataclass(frozen=True, eq=False)
class Growth:
    r"""Scores of random queries and keys, measured at every width in several draws.

    ``label``: how entries were drawn. ``widths``: the values of d_k, (D,). ``keys``: m.
    ``mean``, ``variance``: of q · k, (seeds, D); ``mean_theory``, ``variance_theory``: what they
    must be, (D,). Divided by √d_k the mean is that over √d_k and the variance that over d_k.
    ``entropy`` (share of ln m), ``top`` (largest weight) and ``norm`` (Frobenius norm of the
    softmax's Jacobian): means over the rows, (seeds, D), of softmax(q · k); with ``_scaled``, of
    softmax(q · k / √d_k).
    """

    label: str
    keys: int
    widths: np.ndarray
    mean: np.ndarray
    mean_theory: np.ndarray
    variance: np.ndarray
    variance_theory: np.ndarray
    entropy: np.ndarray
    entropy_scaled: np.ndarray
    top: np.ndarray
    top_scaled: np.ndarray
    norm: np.ndarray
    norm_scaled: np.ndarray


def score_growth_data(
    widths: Sequence[int] = WIDTHS, keys: int = KEYS, seeds: int = SEEDS
) -> dict[str, Growth]:
    r"""Draw as many queries as ``keys`` from every distribution, at every width, ``seeds`` times.

    .. math::
        \operatorname{Var}(q \cdot k) = d_k,\quad 3 d_k,\quad d_k,\quad
        d_k + d_k (d_k - 1) \rho^2,\quad 2 d_k

    for entries that are normal, of mean 1, heavy-tailed, correlated, and for q = k: all of mean
    0 and variance 1 but the second. Where q = k, query t is key t: mean and variance are those
    of q_t · k_t, the softmax goes over all keys. The same arguments give the same numbers.
    Raises ``ValueError`` for fewer than two keys, no seed or no width.
    """
    if keys < 2 or seeds < 1 or not widths or min(widths) < 1:
        raise ValueError(
            f"Growth is measured with at least 2 keys, 1 seed and widths of at least 1, but got "
            f"{keys} keys, {seeds} seeds and widths {list(widths)}; choose others."
        )
    return {
        name: _measure(entries, number, tuple(widths), keys, seeds)
        for number, (name, entries) in enumerate(DISTRIBUTIONS.items())
    }


def _measure(entries: Entries, number: int, widths: tuple, keys: int, seeds: int) -> Growth:
    """One distribution; ``number`` and the seed choose its random numbers."""
    measured = [
        [
            _once(entries, np.random.default_rng([number, seed, width]), width, keys)
            for width in widths
        ]
        for seed in range(seeds)
    ]
    mean, variance, *unscaled, entropy_scaled, top_scaled, norm_scaled = np.moveaxis(
        np.array(measured), -1, 0
    )
    entropy, top, norm = unscaled
    theory = [np.array([float(f(d)) for d in widths]) for f in (entries.mean, entries.variance)]
    return Growth(
        label=entries.label,
        keys=keys,
        widths=np.array(widths),
        mean=mean,
        mean_theory=theory[0],
        variance=variance,
        variance_theory=theory[1],
        entropy=entropy,
        entropy_scaled=entropy_scaled,
        top=top,
        top_scaled=top_scaled,
        norm=norm,
        norm_scaled=norm_scaled,
    )


def _once(
    entries: Entries, generator: np.random.Generator, width: int, keys: int
) -> tuple[float, ...]:
    """Mean and variance of q · k, then what the softmax makes of it, unscaled and scaled."""
    q = entries.draw(generator, keys, width)
    k = q if entries.equal else entries.draw(generator, keys, width)
    scores = q @ k.T
    looked_at = np.diagonal(scores) if entries.equal else scores
    unscaled, scaled = (_rows(scores), _rows(scores / math.sqrt(width)))
    return (
        looked_at.mean(), looked_at.var(),
        unscaled.entropy, unscaled.top, unscaled.jacobian_norm,
        scaled.entropy, scaled.top, scaled.jacobian_norm,
    )  # fmt: skip


def _rows(scores_TS: np.ndarray) -> RowStatistics:
    return row_statistics(scores_TS[None], np.ones((1, *scores_TS.shape), dtype=bool))
