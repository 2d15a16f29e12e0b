r"""What scores are made of: how far q · k varies, why, and what the softmax makes of it.

"The variance of a score is d_k, so divide by √d_k" rests on assumptions about the entries of
queries and keys. Here each is a function that predicts the variance from less and less, beside
one that measures it. All variances are those of the numbers at hand (divided by n, not n − 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from .dot_product import masked_softmax
from .masks import Mask

ROWS_AT_ONCE = 256
"""Rows of queries whose products with all keys are held in memory together."""


@dataclass(frozen=True)
class ScoreStatistics:
    r"""The unscaled scores q · k of *all* pairs of N queries and M keys, and their predictions.

    ``mean``, ``variance``: measured over the N × M pairs.
    ``variance_unit``: d_k, what entries that are independent, of mean 0 and variance 1, would
    give. ``variance_means``: see :func:`variance_from_means`. ``variance_covariance``: see
    :func:`variance_from_covariances`; equal to ``variance``. ``variance_within``: the part of it
    that lies within rows (see :func:`variance_within_rows`).
    ``entry_variance_q``, ``entry_variance_k``: mean variance of one entry.
    """

    d_k: int
    mean: float
    variance: float
    variance_unit: float
    variance_means: float
    variance_covariance: float
    variance_within: float
    entry_variance_q: float
    entry_variance_k: float


@dataclass(frozen=True)
class RowStatistics:
    r"""What the softmax sees in rows of scores, and what it answers; means over the rows.

    ``variance``: of the scores within a row (a constant added to a row changes no weight).
    ``top``: the largest weight. ``entropy``: as a share of ln(number of allowed keys), so 1 is
    even attention and 0 a single key. ``jacobian_norm``: ‖∂a/∂s‖ (Frobenius), how strongly the
    weights answer to the scores: near 0 nothing is learned through them.
    """

    variance: float
    top: float
    entropy: float
    jacobian_norm: float


@dataclass(frozen=True)
class PairStatistics:
    r"""The scores of the pairs that really meet: same sequence, allowed by the mask.

    ``pairs``: how many; ``mean``, ``variance``: of the unscaled q · k over them.
    ``rows``: queries with at least two allowed keys (of one key the weight is always 1); over
    them go ``unscaled`` (softmax of q · k), ``by_root`` (of q · k / √d_k, as the model has it)
    and ``by_width`` (of q · k / d_k).
    """

    pairs: int
    mean: float
    variance: float
    rows: int
    unscaled: RowStatistics
    by_root: RowStatistics
    by_width: RowStatistics


def variance_from_means(q_NK: Float[np.ndarray, "N K"], k_MK: Float[np.ndarray, "M K"]) -> float:
    r"""The variance of q · k, if entries have their own means and are independent.

    .. math::
        \operatorname{Var}(q \cdot k) = \sum_{l=1}^{d_k} \bigl(
            \sigma_{q,l}^2 \sigma_{k,l}^2 + \mu_{q,l}^2 \sigma_{k,l}^2
            + \mu_{k,l}^2 \sigma_{q,l}^2 \bigr)

    μ, σ²: mean and variance of entry l over the queries ``q_NK`` and over
    the keys ``k_MK``. Taken to be independent: entries of q from those of k,
    and the entries of one vector from each other. With all μ = 0 and all
    σ² = 1 it is d_k.
    Equation: eq-score-variance-means
    """
    _check(q_NK, k_MK)
    mean_q, mean_k, var_q, var_k = q_NK.mean(0), k_MK.mean(0), q_NK.var(0), k_MK.var(0)
    return float((var_q * var_k + mean_q**2 * var_k + mean_k**2 * var_q).sum())


def variance_from_covariances(
    q_NK: Float[np.ndarray, "N K"], k_MK: Float[np.ndarray, "M K"]
) -> float:
    r"""The variance of q · k, if queries are independent of keys: nothing else is assumed.

    .. math::
        \operatorname{Var}(q \cdot k) = \operatorname{tr}(C_q C_k)
            + \mu_q C_k \mu_q^\top + \mu_k C_q \mu_k^\top

    μ_q (1 × d_k) and C_q (d_k × d_k): mean and covariance of the queries
    ``q_NK``; μ_k, C_k: those of the keys ``k_MK``. Over all N × M pairs
    this is an identity: where each query meets each key once, which query
    it is says nothing about the key. What really meets may be dependent.
    Equation: eq-score-variance-covariance
    """
    _check(q_NK, k_MK)
    mean_k, C_q = k_MK.mean(0), _covariance(q_NK)
    return variance_within_rows(q_NK, k_MK) + float(mean_k @ C_q @ mean_k)


def variance_within_rows(q_NK: Float[np.ndarray, "N K"], k_MK: Float[np.ndarray, "M K"]) -> float:
    r"""The part of the variance that the softmax sees: within a row, the mean over rows.

    .. math::
        \tfrac1N \textstyle\sum_t \operatorname{Var}_s(q_t \cdot k_s)
            = \operatorname{tr}(C_q C_k) + \mu_q C_k \mu_q^\top

    The rest, μ_k C_q μ_kᵀ, is the variance of q · μ_k: a constant of each
    row, which no weight depends on. Over all pairs, as
    :func:`variance_from_covariances`.
    """
    _check(q_NK, k_MK)
    mean_q, C_q, C_k = q_NK.mean(0), _covariance(q_NK), _covariance(k_MK)
    return float((C_q * C_k).sum() + mean_q @ C_k @ mean_q)


def score_statistics(
    q_NK: Float[np.ndarray, "N K"], k_MK: Float[np.ndarray, "M K"]
) -> ScoreStatistics:
    """Measure the scores of all pairs of queries and keys of one head, and predict them."""
    _check(q_NK, k_MK)
    blocks = range(0, len(q_NK), ROWS_AT_ONCE)
    pairs = len(q_NK) * len(k_MK)
    mean = sum((q_NK[i : i + ROWS_AT_ONCE] @ k_MK.T).sum() for i in blocks) / pairs
    squares = (((q_NK[i : i + ROWS_AT_ONCE] @ k_MK.T - mean) ** 2).sum() for i in blocks)
    return ScoreStatistics(
        d_k=q_NK.shape[1],
        mean=float(mean),
        variance=float(sum(squares) / pairs),
        variance_unit=float(q_NK.shape[1]),
        variance_means=variance_from_means(q_NK, k_MK),
        variance_covariance=variance_from_covariances(q_NK, k_MK),
        variance_within=variance_within_rows(q_NK, k_MK),
        entry_variance_q=float(q_NK.var(0).mean()),
        entry_variance_k=float(k_MK.var(0).mean()),
    )


def pair_statistics(
    q_BTK: Float[np.ndarray, "B T K"],
    k_BSK: Float[np.ndarray, "B S K"],
    allowed_BTS: Bool[np.ndarray, "B T S"],
) -> PairStatistics:
    """Measure the scores of the pairs that meet in one head: those where ``allowed_BTS``.

    Mark what is padding as not allowed, queries too. Raises ``ValueError`` if no query has two
    allowed keys.
    """
    _check(q_BTK, k_BSK)
    if allowed_BTS.shape != (*q_BTK.shape[:2], k_BSK.shape[1]):
        raise ValueError(
            f"The pairs need one entry for each query and key, "
            f"{(*q_BTK.shape[:2], k_BSK.shape[1])}, but they are {allowed_BTS.shape}; "
            f"broadcast the mask to that."
        )
    scores_BTS = q_BTK @ k_BSK.transpose(0, 2, 1)
    d_k = q_BTK.shape[-1]
    unscaled, by_root, by_width = (
        row_statistics(scores_BTS / divisor, allowed_BTS) for divisor in (1, math.sqrt(d_k), d_k)
    )
    met = scores_BTS[allowed_BTS]
    return PairStatistics(
        pairs=met.size,
        mean=float(met.mean()),
        variance=float(met.var()),
        rows=int((allowed_BTS.sum(-1) > 1).sum()),
        unscaled=unscaled,
        by_root=by_root,
        by_width=by_width,
    )


def row_statistics(
    scores_BTS: Float[np.ndarray, "B T S"], allowed_BTS: Bool[np.ndarray, "B T S"]
) -> RowStatistics:
    """Means over all rows with at least two allowed keys; the softmax is the models' own."""
    some = allowed_BTS.sum(-1) > 1
    if not some.any():
        raise ValueError(
            "A row needs two allowed keys to say something, but no row has them; "
            "give longer sequences, or look at the mask."
        )
    scores_NS, allowed_NS = scores_BTS[some], allowed_BTS[some]
    a_NS = masked_softmax(
        torch.from_numpy(scores_NS)[:, None, None],
        Mask(paths_BTS=torch.from_numpy(allowed_NS)[:, None]),
    )[:, 0, 0].numpy()
    count_N = allowed_NS.sum(-1)
    mean_N = np.where(allowed_NS, scores_NS, 0).sum(-1) / count_N
    away_NS = np.where(allowed_NS, scores_NS - mean_N[:, None], 0)
    log_NS = np.log(a_NS, where=a_NS > 0, out=np.zeros_like(a_NS))
    return RowStatistics(
        variance=float(((away_NS**2).sum(-1) / count_N).mean()),
        top=float(a_NS.max(-1).mean()),
        entropy=float((-(a_NS * log_NS).sum(-1) / np.log(count_N)).mean()),
        jacobian_norm=float(jacobian_norm(a_NS).mean()),
    )


def jacobian_norm(weights: Float[np.ndarray, "*N S"]) -> Float[np.ndarray, "*N"]:
    r"""How strongly the weights of each row answer to its scores.

    .. math::
        \lVert \operatorname{diag}(a) - a^\top a \rVert_F
            = \sqrt{\textstyle\sum_i a_i^2 - 2 \sum_i a_i^3 + \bigl(\sum_i a_i^2\bigr)^2}

    a: a row of ``weights``. 0 where one key has all the weight, √(m − 1)/m
    where m keys share evenly, at most ½ (two keys, ½ each). Exact to 1e-8:
    near 0 the terms cancel.
    """
    squares = (weights**2).sum(-1)
    norm2 = squares - 2 * (weights**3).sum(-1) + squares**2
    return np.sqrt(np.maximum(norm2, 0))


def _covariance(x_NK: np.ndarray) -> np.ndarray:
    """(K, K), divided by N."""
    away_NK = x_NK - x_NK.mean(0)
    return away_NK.T @ away_NK / len(x_NK)


def _check(q: np.ndarray, k: np.ndarray) -> None:
    """Queries and keys must be there, and equally wide."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"Queries and keys must be equally wide, but queries are {q.shape[-1]} and keys are "
            f"{k.shape[-1]} wide; give those of one head."
        )
    if not (q.size and k.size):
        raise ValueError(
            f"Statistics need at least one query and one key, but there are {len(q)} and "
            f"{len(k)}; give some."
        )
