"""What scores are made of: identities over all pairs, rows against a slow way to count."""

import math

import numpy as np
import pytest
from helpers import B, K, S, T, lengths_to_keys

from transformer_lab.attention.statistics import (
    ROWS_AT_ONCE,
    jacobian_norm,
    pair_statistics,
    row_statistics,
    score_statistics,
    variance_from_covariances,
    variance_from_means,
    variance_within_rows,
)
from transformer_lab.backward import softmax_jacobian

N, M = 2 * ROWS_AT_ONCE + 89, 61  # three blocks of rows, the last one short


def vectors(kind, rows, seed):
    """Rows of K numbers: of mean 0 and variance 1, shifted, heavy-tailed, or correlated."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, K))
    if kind == "shifted":
        return x * rng.uniform(0.2, 3, K) + rng.normal(size=K)
    if kind == "heavy":
        return rng.standard_t(3, size=(rows, K)) + 1
    if kind == "correlated":
        return x @ rng.normal(size=(K, K)) + rng.normal(size=K)
    return x


KINDS = ["normal", "shifted", "heavy", "correlated"]


@pytest.mark.parametrize("kind_k", KINDS)
@pytest.mark.parametrize("kind_q", KINDS)
def test_over_all_pairs_covariances_say_all(kind_q, kind_k):
    """An identity: no assumption about the numbers, no estimate, only rounding."""
    q, k = vectors(kind_q, N, 1), vectors(kind_k, M, 2)
    scores = q @ k.T
    found = score_statistics(q, k)
    assert found.d_k == found.variance_unit == K
    assert found.mean == pytest.approx(scores.mean(), abs=1e-10)
    assert found.mean == pytest.approx(q.mean(0) @ k.mean(0), abs=1e-10)
    assert found.variance == pytest.approx(scores.var(), rel=1e-12)
    assert found.variance_covariance == pytest.approx(scores.var(), rel=1e-12)
    assert found.variance_within == pytest.approx(scores.var(1).mean(), rel=1e-12)
    rest = found.variance_covariance - found.variance_within
    assert rest == pytest.approx(scores.mean(1).var(), rel=1e-9)  # constants of the rows
    assert found.entry_variance_q == pytest.approx(q.var(0).mean(), rel=1e-12)
    assert found.entry_variance_k == pytest.approx(k.var(0).mean(), rel=1e-12)


def grid(*entries):
    """Every combination of these entries once: entries exactly independent of each other."""
    return np.array(np.meshgrid(*entries)).reshape(len(entries), -1).T.astype(float)


def test_independent_entries_need_no_covariances():
    q, k = grid([0, 1, 5], [2, 3], [-1, 0, 4, 6]), grid([1, 2], [-3, 0, 1], [7, 8])
    assert variance_from_means(q, k) == pytest.approx((q @ k.T).var(), rel=1e-12)
    assert (q @ k.T).var() > 100


def test_signs_have_variance_d_k():
    """Entries ±1, all combinations: mean 0, variance 1, independent. Every prediction is 5."""
    signs = grid(*[[-1, 1]] * 5)
    found = score_statistics(signs, signs)
    assert found.mean == 0
    for name in ("variance", "variance_unit", "variance_means", "variance_covariance"):
        assert getattr(found, name) == pytest.approx(5, rel=1e-14)


def test_entries_that_move_together_add_up():
    """Correlation ρ between all entries of q, and of k: d_k + d_k (d_k − 1) ρ², not d_k."""
    rho = 0.5
    shared = grid([-1, 1], *[[-1, 1]] * 4)  # one sign in common, four of their own
    mixed = math.sqrt(rho) * shared[:, :1] + math.sqrt(1 - rho) * shared[:, 1:]
    C = np.cov(mixed.T, bias=True)
    assert np.allclose(C, np.where(np.eye(4) > 0, 1, rho))
    assert variance_from_means(mixed, mixed) == pytest.approx(4)
    assert variance_from_covariances(mixed, mixed) == pytest.approx(4 + 4 * 3 * rho**2)


def test_a_shift_of_all_keys_adds_nothing_within_rows():
    q, k = vectors("correlated", N, 1), vectors("shifted", M, 2)
    moved = k + 10
    assert variance_within_rows(q, moved) == pytest.approx(variance_within_rows(q, k), rel=1e-10)
    assert variance_from_covariances(q, moved) > 2 * variance_from_covariances(q, k)


@pytest.mark.parametrize("missing", ["product of variances", "mean of q", "mean of k"])
def test_each_term_counts(missing):
    q, k = vectors("shifted", N, 1) + 1, vectors("shifted", M, 2) + 1
    terms = {
        "product of variances": q.var(0) * k.var(0),
        "mean of q": q.mean(0) ** 2 * k.var(0),
        "mean of k": k.mean(0) ** 2 * q.var(0),
    }
    assert variance_from_means(q, k) == pytest.approx(sum(terms.values()).sum(), rel=1e-12)
    assert terms[missing].sum() > 0.05 * variance_from_means(q, k)


# ---- pairs that meet, and rows ----


def allowed_pairs():
    """Causal and padded: row t of sequence b sees some of the keys, a few rows only one or none."""
    keys = lengths_to_keys([0, 1, 3, 16, 7, 2, 12, 5, 9, 4, 17], S).numpy()
    return keys[:, None] & (np.arange(S) <= np.arange(T)[:, None] + 2)


def slowly(scores, allowed):
    """(variance within, top weight, entropy share, norm), one row at a time; None: no choice."""
    s = scores[allowed]
    if len(s) < 2:
        return None
    a = np.exp(s - s.max())
    a /= a.sum()
    entropy = -sum(p * math.log(p) for p in a if p > 0)
    norm = np.linalg.norm(softmax_jacobian(a))
    return s.var(), a.max(), entropy / math.log(len(s)), norm


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_what_a_slow_count_finds(kind):
    q, k = (vectors(kind, B * n, i).reshape(B, n, K) for i, n in enumerate((T, S)))
    allowed, scores = allowed_pairs(), q @ k.transpose(0, 2, 1)
    found = pair_statistics(q, k, allowed)
    met = np.array([scores[b, t, s] for b, t, s in np.argwhere(allowed)])
    assert (found.pairs, found.mean) == (allowed.sum(), pytest.approx(met.mean(), rel=1e-12))
    assert found.variance == pytest.approx(met.var(), rel=1e-12)
    for part, divisor in (("unscaled", 1), ("by_root", math.sqrt(K)), ("by_width", K)):
        rows = [
            slowly(scores[b, t] / divisor, allowed[b, t]) for b in range(B) for t in range(T)
        ]
        rows = [row for row in rows if row is not None]
        assert found.rows == len(rows) < B * T
        *expected, norm = np.mean(rows, axis=0).tolist()
        got = getattr(found, part)
        assert [got.variance, got.top, got.entropy] == pytest.approx(expected, rel=1e-10)
        assert got.jacobian_norm == pytest.approx(norm, abs=1e-8)


def test_pairs_that_depend_on_each_other_are_not_what_all_pairs_say():
    """Each query meets its own copy: mean and variance follow q · q, not independent vectors."""
    x = np.random.default_rng(0).normal(size=(4000, 1, 64))
    other = np.random.default_rng(1).normal(size=(4000, 1, 64))
    same = pair_statistics(x, np.concatenate([x, x], 1), np.ones((4000, 1, 2), dtype=bool))
    apart = pair_statistics(x, np.concatenate([other, other], 1), np.ones((4000, 1, 2), bool))
    assert same.mean == pytest.approx(64, rel=0.01)
    assert same.variance == pytest.approx(2 * 64, rel=0.1)
    assert apart.mean == pytest.approx(0, abs=0.5)
    assert apart.variance == pytest.approx(64, rel=0.1)
    assert score_statistics(x[:, 0], x[:, 0]).variance == pytest.approx(64, rel=0.1)


def test_even_attention_and_a_single_key():
    allowed = np.ones((B, T, S), dtype=bool)
    even = row_statistics(np.full((B, T, S), 3.0), allowed)
    assert (even.variance, even.top) == (0, pytest.approx(1 / S))
    assert even.entropy == pytest.approx(1)
    assert even.jacobian_norm == pytest.approx(math.sqrt(S - 1) / S)
    scores = np.zeros((B, T, S))
    scores[..., 4] = 1e4
    sharp = row_statistics(scores, allowed)
    assert (sharp.top, sharp.entropy, sharp.jacobian_norm) == (1, 0, 0)


def test_a_constant_of_each_row_changes_nothing():
    rng = np.random.default_rng(0)
    scores, allowed = rng.normal(size=(B, T, S)), allowed_pairs()
    moved = row_statistics(scores + 7 * rng.normal(size=(B, T, 1)), allowed)
    plain = row_statistics(scores, allowed)
    for name in ("variance", "top", "entropy", "jacobian_norm"):
        assert getattr(moved, name) == pytest.approx(getattr(plain, name), rel=1e-10)


def test_the_norm_of_the_jacobian_needs_no_jacobian():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.dirichlet(np.full(S, size), 300) for size in (0.02, 0.3, 5)])
    expected = [np.linalg.norm(softmax_jacobian(a)) for a in rows]
    np.testing.assert_allclose(jacobian_norm(rows), expected, atol=1e-8)
    assert max(expected) <= 0.5
    assert jacobian_norm(np.array([[0.5, 0, 0.5]])) == 0.5  # two keys, half each: the most


# ---- what they refuse ----


@pytest.mark.plain
def test_what_has_no_statistics():
    q, k = np.ones((N, K)), np.ones((M, K))
    for function in (score_statistics, variance_from_means, variance_from_covariances):
        with pytest.raises(ValueError, match=r"queries are 7 and keys are 6 wide"):
            function(q, k[:, 1:])
        with pytest.raises(ValueError, match=r"at least one query and one key, .* 0 and 61"):
            function(q[:0], k)
    q, k = np.ones((B, T, K)), np.ones((B, S, K))
    with pytest.raises(ValueError, match=r"\(11, 13, 17\), but they are \(11, 17, 13\)"):
        pair_statistics(q, k, np.ones((B, S, T), dtype=bool))
    with pytest.raises(ValueError, match=r"two allowed keys to say something, but no row has"):
        pair_statistics(q, k, np.broadcast_to(np.arange(S) == 3, (B, T, S)))
