"""Schedules: values one can check by hand, and what all of them promise."""

import math

import pytest
from helpers import properties
from hypothesis import given
from hypothesis import strategies as st

from transformer_lab.schedules import SCHEDULES, constant, cosine, inverse_sqrt, linear

FALLING_TO_ZERO = ("cosine", "linear")


@properties
@given(st.sampled_from(sorted(SCHEDULES)), st.integers(1, 300), st.integers(0, 300), st.data())
def test_all_lie_between_0_and_1(name, steps, warmup, data):
    step = data.draw(st.integers(0, steps + 5))
    value = SCHEDULES[name](step, steps, warmup)
    assert isinstance(value, float) and math.isfinite(value)
    assert 0.0 <= value <= 1.0


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(("steps", "warmup"), [(100, 10), (37, 1), (20, 7)])
def test_all_rise_in_a_straight_line_to_the_peak_and_never_rise_again(name, steps, warmup):
    f = [SCHEDULES[name](s, steps, warmup) for s in range(steps + 1)]
    assert f[:warmup] == pytest.approx([(s + 1) / warmup for s in range(warmup)])
    assert f[warmup - 1] == 1.0  # the last step of the rise is at the peak
    assert all(b <= a for a, b in zip(f[warmup:], f[warmup + 1 :], strict=False))
    if name in FALLING_TO_ZERO:
        assert f[warmup] == 1.0
        assert f[steps] == pytest.approx(0, abs=1e-15) and f[steps - 1] > 0  # no step is lost


@pytest.mark.parametrize("name", SCHEDULES)
def test_without_warmup_all_start_at_the_peak(name):
    assert SCHEDULES[name](0, 50, 0) == 1.0


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_run_shorter_than_its_warmup_only_rises(name):
    f = [SCHEDULES[name](s, 5, 50) for s in range(5)]
    assert f == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1])


@pytest.mark.parametrize("name", SCHEDULES)
def test_after_the_end_nothing_odd_happens(name):
    at_end = SCHEDULES[name](50, 50, 5)
    for step in (51, 63, 80, 95, 5000):
        after = SCHEDULES[name](step, 50, 5)
        assert 0 <= after <= at_end
        if name in FALLING_TO_ZERO:
            assert after == pytest.approx(0, abs=1e-15)


def test_values_by_hand():
    """40 steps, 10 of warmup: a half, a third, a quarter of the way down."""
    assert [constant(s, 40, 10) for s in (0, 4, 9, 10, 39)] == [0.1, 0.5, 1, 1, 1]
    assert [linear(s, 40, 10) for s in (25, 20, 40)] == pytest.approx([1 / 2, 2 / 3, 0])
    assert [cosine(s, 40, 10) for s in (25, 20, 30, 40)] == pytest.approx([0.5, 0.75, 0.25, 0])
    assert [inverse_sqrt(s, 40, 10) for s in (0, 9, 39, 89)] == pytest.approx([0.1, 1, 0.5, 1 / 3])


@pytest.mark.parametrize("d_model", [64, 512])
@pytest.mark.parametrize("warmup", [1, 150, 4000])
def test_inverse_sqrt_is_the_papers_rate_up_to_a_factor(d_model, warmup):
    """lrate = d_model^-0.5 · min(s^-0.5, s · warmup^-1.5), s counted from 1."""
    ratios = []
    for s in (1, 2, 77, 150, 151, 3999, 4000, 4001, 100_000):
        paper = d_model**-0.5 * min(s**-0.5, s * warmup**-1.5)
        ratios.append(inverse_sqrt(s - 1, 100_000, warmup) / paper)
    assert ratios == pytest.approx([math.sqrt(d_model * warmup)] * len(ratios))
