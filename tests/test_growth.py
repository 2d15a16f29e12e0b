"""How scores grow: what is drawn is what theory speaks of."""

import numpy as np
import pytest

from transformer_lab.attention.growth import (
    DISTRIBUTIONS,
    KEYS,
    RHO,
    SEEDS,
    WIDTHS,
    score_growth_data,
)

ARRAYS = ("mean", "variance", "entropy", "entropy_scaled", "top", "top_scaled", "norm",
          "norm_scaled")  # fmt: skip


@pytest.fixture(scope="module")
def growth():
    return score_growth_data()


def test_every_distribution_is_measured_at_every_width(growth):
    assert list(growth) == list(DISTRIBUTIONS)
    assert (WIDTHS[0], WIDTHS[-1], KEYS, RHO) == (4, 1024, 64, 0.3)
    for found in growth.values():
        assert found.widths.tolist() == list(WIDTHS) and found.keys == KEYS
        for field in ARRAYS:
            assert getattr(found, field).shape == (SEEDS, len(WIDTHS))
            assert len(np.unique(getattr(found, field)[:, 0])) == SEEDS  # no draw comes twice
        for field in ("mean_theory", "variance_theory"):
            assert getattr(found, field).shape == (len(WIDTHS),)


def test_what_theory_says():
    d = np.array([2, 5])
    found = {name: f for name, f in score_growth_data([2, 5], 3, 1).items()}
    assert found["normal"].variance_theory.tolist() == [2, 5]
    assert found["mean 1"].variance_theory.tolist() == [6, 15]
    assert found["heavy tails"].variance_theory.tolist() == [2, 5]
    np.testing.assert_allclose(found["correlated"].variance_theory, d + d * (d - 1) * 0.09)
    assert found["q = k"].variance_theory.tolist() == [4, 10]
    means = {name: f.mean_theory.tolist() for name, f in found.items()}
    assert means == {"normal": [0, 0], "mean 1": [2, 5], "heavy tails": [0, 0],
                     "correlated": [0, 0], "q = k": [2, 5]}  # fmt: skip


def test_theory_agrees_with_many_pairs():
    """1,024 queries and keys: five standard errors of the mean of six draws, or less."""
    many = score_growth_data([4, 31], 1024, 6)
    tolerance = {"normal": 0.05, "mean 1": 0.1, "correlated": 0.15, "q = k": 0.2}
    for name, share in tolerance.items():
        found = many[name]
        ratio = found.variance.mean(0) / found.variance_theory
        assert np.abs(ratio - 1).max() < share, name
        spread = np.sqrt(found.variance_theory)
        assert (np.abs(found.mean.mean(0) - found.mean_theory) < 0.1 * spread).all(), name


def test_heavy_tails_make_a_bad_estimate(growth):
    """The mean of the score is d_k's as ever, but ten draws of its variance differ by factors."""
    heavy, normal = growth["heavy tails"], growth["normal"]
    spread = {
        name: (f.variance.max(0) / f.variance.min(0)) for name, f in growth.items()
    }
    assert spread["heavy tails"].max() > 3 > spread["normal"].max()
    medians = np.median(heavy.variance / heavy.variance_theory, 0)
    assert 0.6 < medians.min() and medians.max() < 1.2  # most draws fall short of d_k
    assert np.abs(normal.variance.mean(0) / normal.variance_theory - 1).max() < 0.05


def test_scaling_keeps_the_softmax_alive_where_its_assumptions_hold(growth):
    normal = growth["normal"]
    entropy, scaled = normal.entropy.mean(0), normal.entropy_scaled.mean(0)
    assert (np.diff(entropy) < 0).all() and entropy[0] > 0.6 and entropy[-1] < 0.05
    assert np.ptp(scaled) < 0.01 and abs(scaled.mean() - 0.888) < 0.005
    assert normal.top.mean(0)[-1] == pytest.approx(0.95, abs=0.02)
    assert normal.top_scaled.mean(0)[-1] == pytest.approx(0.11, abs=0.01)
    assert normal.norm.mean(0)[-1] == pytest.approx(0.07, abs=0.01)
    assert normal.norm_scaled.mean(0)[-1] == pytest.approx(0.184, abs=0.003)
    at_64 = WIDTHS.index(64)  # not smaller yet: a softmax of few keys answers most strongly
    assert normal.norm.mean(0)[at_64] > normal.norm_scaled.mean(0)[at_64]


def test_scaling_is_not_enough_where_they_do_not(growth):
    for name in ("correlated", "q = k"):
        assert growth[name].entropy_scaled.mean(0)[-1] < 0.4
    assert growth["q = k"].top_scaled.mean(0)[-1] > 0.99
    assert np.ptp(growth["mean 1"].entropy_scaled.mean(0)) < 0.05  # 3 d_k grows like d_k
    assert growth["mean 1"].entropy_scaled.mean() < growth["normal"].entropy_scaled.mean() - 0.05


def test_the_same_numbers_every_time_and_each_width_by_itself(growth):
    again = score_growth_data([64, 16], KEYS, 2)
    for name, found in again.items():
        for field in ARRAYS:
            expected = getattr(growth[name], field)[:2][:, [WIDTHS.index(64), WIDTHS.index(16)]]
            assert np.array_equal(getattr(found, field), expected)


@pytest.mark.plain
@pytest.mark.parametrize("bad", [([4], 1, 1), ([4], 2, 0), ([], 2, 1), ([0, 4], 2, 1)])
def test_what_cannot_be_measured(bad):
    with pytest.raises(ValueError, match=r"at least 2 keys, 1 seed and widths of at least 1, but"):
        score_growth_data(*bad)
