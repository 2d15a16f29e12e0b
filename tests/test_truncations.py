"""Truncations: by hand, against exact fractions, against the processors of `transformers`."""

import math
from dataclasses import FrozenInstanceError, fields
from fractions import Fraction
from itertools import accumulate

import pytest
import torch
from helpers import properties, randn
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sampling_cases import HISTORY, INF, B, V, from_transformers, history, kept, logits

from transformer_lab.decode import TRUNCATIONS, Temperature, TopK, TopP
from transformer_lab.decode.truncations import SLACK

EXAMPLES = {
    "temperature": [0.3, 1.0, 2.5],
    "top_k": [1, 4, V, V + 8],
    "top_p": [1e-9, 0.35, 0.9, 1.0],
}
ALL = [TRUNCATIONS[name](x) for name in TRUNCATIONS for x in EXAMPLES[name]]
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(scope="module")
def theirs():
    return from_transformers()


def row(*z, dtype=torch.float64):
    return torch.tensor([z], dtype=dtype)


def apply(truncation, logits_BV):
    return truncation(logits_BV, history(logits_BV))


def same(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=0)


# --- what all of them promise ---


def test_every_truncation_has_examples():
    assert set(EXAMPLES) == set(TRUNCATIONS)


@pytest.mark.parametrize("truncation", ALL, ids=str)
@properties
@given(logits())
def test_ruled_out_stays_ruled_out_and_the_likeliest_stays(truncation, z_BV):
    before = z_BV.clone()
    out_BV = apply(truncation, z_BV)
    same(z_BV, before)  # nothing is written into what came in
    assert out_BV.shape == z_BV.shape
    assert (out_BV[z_BV == -INF] == -INF).all()
    same(out_BV.argmax(-1), z_BV.argmax(-1))
    assert out_BV.isfinite().any(-1).all() and not out_BV.isnan().any()


@pytest.mark.parametrize("truncation", ALL, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_type_stays_and_a_row_does_not_see_its_neighbours(truncation, dtype):
    z_BV = (3 * randn(B, V)).to(dtype)
    out_BV = truncation(z_BV, HISTORY)
    assert out_BV.dtype == dtype
    for b in range(B):
        same(apply(truncation, z_BV[b : b + 1]), out_BV[b : b + 1])


@pytest.mark.parametrize("truncation", ALL, ids=str)
def test_symbols_that_change_places_take_their_logits_along(truncation):
    z_BV, order = 3 * randn(B, V, seed=1), torch.randperm(V, generator=torch.manual_seed(0))
    same(truncation(z_BV[:, order], HISTORY), truncation(z_BV, HISTORY)[:, order])
    same(truncation(z_BV.T.contiguous().T, HISTORY), truncation(z_BV, HISTORY))


@pytest.mark.parametrize("truncation", ALL, ids=str)
def test_a_constant_added_to_a_row_changes_no_probability(truncation):
    z_BV = 3 * randn(B, V, seed=2)
    shifted_BV = z_BV + torch.tensor([[-9.0], [20.0], [0.5], [300.0], [-64.0]])
    a, b = truncation(z_BV, HISTORY), truncation(shifted_BV, HISTORY)
    torch.testing.assert_close(a.softmax(-1), b.softmax(-1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("truncation", ALL, ids=str)
def test_they_are_values(truncation):
    twin = type(truncation)(*[getattr(truncation, f.name) for f in fields(truncation)])
    assert truncation == twin and hash(truncation) == hash(twin)
    with pytest.raises(FrozenInstanceError):
        setattr(truncation, fields(truncation)[0].name, 0.5)


# --- temperature ---


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("T", [0.05, 0.7, 1.0, 2.0, 30.0])
def test_temperature_is_theirs_to_the_last_bit(theirs, dtype, T):
    z_BV = (5 * randn(B, V)).to(dtype)
    z_BV[2, 3] = -INF
    same(Temperature(T)(z_BV, HISTORY), theirs.temperature(T)(HISTORY, z_BV))


@pytest.mark.parametrize("T", [0.2, 0.5, 3.0])
def test_temperature_raises_probabilities_to_a_power(T):
    p_BV = randn(B, V, seed=3).softmax(-1)
    q_BV = p_BV ** (1 / T)
    q_BV = q_BV / q_BV.sum(-1, keepdim=True)
    torch.testing.assert_close(Temperature(T)(p_BV.log(), HISTORY).softmax(-1), q_BV)


def test_temperature_one_is_the_identity():
    z_BV = randn(B, V)
    same(Temperature(1.0)(z_BV, HISTORY), z_BV)


# --- top-k ---


@pytest.mark.parametrize(
    ("k", "z", "expected"),
    [
        (1, (0.0, 3.0, 1.0, 2.0), (-INF, 3.0, -INF, -INF)),
        (3, (0.0, 3.0, 1.0, 2.0), (-INF, 3.0, 1.0, 2.0)),
        (4, (0.0, 3.0, 1.0, 2.0), (0.0, 3.0, 1.0, 2.0)),
        (9, (0.0, 3.0, 1.0, 2.0), (0.0, 3.0, 1.0, 2.0)),
        (2, (1.0, 5.0, 1.0, 1.0), (1.0, 5.0, -INF, -INF)),  # ties: the smaller id
        (3, (7.0, 7.0, 7.0, 7.0, 7.0), (7.0, 7.0, 7.0, -INF, -INF)),
        (3, (-INF, -2.0, -INF, -1.0), (-INF, -2.0, -INF, -1.0)),  # fewer than k are there
        (5, (-4.0,), (-4.0,)),
    ],
)
def test_top_k_by_hand(k, z, expected):
    same(apply(TopK(k), row(*z)), row(*expected))


@properties
@given(logits(), st.integers(1, 12))
def test_top_k_keeps_k_and_theirs_besides_what_ties_with_the_last(theirs, z_BV, k):
    ours, other = apply(TopK(k), z_BV), theirs.top_k(k)(history(z_BV), z_BV)
    for z, a, b in zip(z_BV.tolist(), kept(ours), kept(other), strict=True):
        there = sum(x > -INF for x in z)
        assert len(a) == min(k, there) and set(a) <= set(b)
        assert all(z[v] == min(z[w] for w in a) and v > max(w for w in a if z[w] == z[v])
                   for v in set(b) - set(a))  # fmt: skip
        if len(set(z)) == len(z):
            assert a == b
    same(ours[ours > -INF], z_BV[ours > -INF])  # what is kept is not touched


def test_top_k_differs_from_theirs_where_symbols_tie_at_the_edge(theirs):
    z_BV = row(2.0, 1.0, 1.0, 1.0, 0.0)
    assert kept(theirs.top_k(2)(history(z_BV), z_BV)) == [[0, 1, 2, 3]]
    assert kept(apply(TopK(2), z_BV)) == [[0, 1]]


# --- top-p ---

NINE = (0.03, 0.9, 0.05, 0.02)
TIES = (0.1, 0.3, 0.1, 0.3, 0.1, 0.1)


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        (0.6, NINE, [1]),  # one symbol is beyond p
        (0.9, NINE, [1]),  # one symbol is p
        (0.91, NINE, [1, 2]),
        (0.99, NINE, [0, 1, 2, 3]),
        (1e-9, NINE, [1]),  # at least one
        (0.9, (0.1, 0.4, 0.5), [1, 2]),  # a sum hits p: 0.5 + 0.4 in floats is 0.9 or not
        (0.5, (0.1, 0.4, 0.5), [2]),
        (0.501, (0.1, 0.4, 0.5), [1, 2]),
        (0.3, TIES, [1]),
        (0.65, TIES, [0, 1, 3]),
        (0.8, TIES, [0, 1, 2, 3]),
        (0.3, (0.25, 0.25, 0.25, 0.25), [0, 1]),
        (0.4, (1.0,), [0]),
        (0.7, (0.0, 0.6, 0.4, 0.0), [1, 2]),  # 0: ruled out before
        (1.0, (0.0, 0.6, 0.4, 0.0), [1, 2]),
    ],
)
def test_top_p_by_hand(p, q, expected, dtype):
    z_BV = torch.tensor([q], dtype=torch.float64).log().to(dtype)
    out_BV = apply(TopP(p), z_BV)
    assert kept(out_BV) == [expected]
    same(out_BV[0, expected], z_BV[0, expected])


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@properties
@given(st.lists(st.integers(0, 40), min_size=1, max_size=9), st.data(), st.floats(-40, 40))
def test_top_p_keeps_the_smallest_prefix_exact_fractions_name(dtype, counts, data, shift):
    """Probabilities n_v/Σn and a p = m/Σn that their sums hit or miss by at least 1/Σn."""
    whole = sum(counts)
    assume(whole > 0)
    share = Fraction(data.draw(st.integers(1, whole)), whole)
    order = sorted(range(len(counts)), key=lambda v: (-counts[v], v))
    masses = list(accumulate(Fraction(counts[v], whole) for v in order))
    size = next(i for i, mass in enumerate(masses, 1) if mass >= share)
    z = [math.log(n / whole) + shift if n else -INF for n in counts]
    got = kept(apply(TopP(float(share)), row(*z, dtype=dtype)))
    assert got == [sorted(order[:size])]


@properties
@given(logits(), st.floats(0.01, 0.99))
def test_top_p_is_theirs_up_to_the_choice_among_ties(theirs, z_BV, p):
    """Away from the edge: no sum of the likeliest within twice SLACK of p, all in float64."""
    sums = z_BV.softmax(-1).sort(descending=True).values.cumsum(-1)
    assume(((sums - p).abs() > 2 * SLACK).all())
    ours, other = apply(TopP(p), z_BV), theirs.top_p(p)(history(z_BV), z_BV)
    same(ours.sort(-1).values, other.sort(-1).values)
    for z, a, b in zip(z_BV, ours, other, strict=True):
        if len(z.unique()) == len(z):
            same(a, b)


@properties
@given(logits(dtype=torch.float32), st.floats(1e-9, 1, exclude_max=True))
@example(torch.tensor([[300.0, -300.0, 0.0]]), 0.999)
def test_the_nucleus_reaches_p_and_no_smaller_one_does(z_BV, p):
    out_BV = apply(TopP(p), z_BV)
    q_BV = z_BV.double().softmax(-1)
    for z, q, ids in zip(z_BV, q_BV, kept(out_BV), strict=True):
        last = max(ids, key=lambda v: (-z[v].item(), v))
        mass = q[ids].sum().item()
        assert mass >= p - SLACK - 1e-12
        assert len(ids) == 1 or mass - q[last].item() < p - SLACK + 1e-12
        out = [v for v in range(len(z)) if v not in ids]
        assert all((z[v], -v) < (z[last], -last) for v in out)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_p_one_is_the_identity(dtype):
    z_BV = torch.tensor([[0.0, -3e4, 8.0, -INF], [1.0, 1.0, 1.0, 1.0]], dtype=dtype)
    same(apply(TopP(1.0), z_BV), z_BV)


SHARES = [(5, 4, 1), (7, 2, 1), (6, 3, 1), (5, 3, 2), (8, 1, 1), (4, 3, 2, 1), (3, 3, 3, 1)]


def test_top_p_differs_from_theirs_where_a_sum_hits_p(theirs):
    """Tenths whose sums are p: rounding decides in theirs, ours counts them as p in any type."""
    right = {"ours": 0, "theirs": 0}
    for dtype in DTYPES[:2]:
        for tenths in SHARES:
            z_BV = torch.tensor([tenths], dtype=torch.float64).div(10).log().to(dtype)
            for size, mass in enumerate(accumulate(tenths), 1):
                p = mass / 10
                right["ours"] += len(kept(apply(TopP(p), z_BV))[0]) == size
                right["theirs"] += len(kept(theirs.top_p(p)(history(z_BV), z_BV))[0]) == size
    cases = 2 * sum(len(tenths) for tenths in SHARES)
    assert right["ours"] == cases > right["theirs"] >= cases / 2


def test_top_p_differs_from_theirs_at_p_one(theirs):
    """A probability that rounds to 0: theirs rules the symbol out, ours is the identity."""
    z_BV = row(0.0, -900.0, 2.0)
    assert kept(theirs.top_p(1.0)(history(z_BV), z_BV)) == [[0, 2]]
    assert kept(apply(TopP(1.0), z_BV)) == [[0, 1, 2]]


def test_top_p_differs_from_theirs_in_the_choice_among_ties(theirs):
    """Theirs sorts from below and keeps the larger ids here; ours keeps the smaller ones."""
    z_BV = row(0.0, 0.0, 0.0, 0.0, 0.0)
    assert kept(theirs.top_p(0.5)(history(z_BV), z_BV)) == [[2, 3, 4]]
    assert kept(apply(TopP(0.5), z_BV)) == [[0, 1, 2]]


def test_slack_is_as_wide_as_it_says():
    z_BV = row(*[math.log(n / 10) for n in (5, 4, 1)])
    assert kept(apply(TopP(0.9 + 0.9 * SLACK), z_BV)) == [[0, 1]]
    assert kept(apply(TopP(0.9 + 1.1 * SLACK), z_BV)) == [[0, 1, 2]]


# --- refusals ---


@pytest.mark.plain
@pytest.mark.parametrize("T", [0, 0.0, -1.0, INF, math.nan, "hot", None, True, torch.tensor(0.5)])
def test_temperatures_out_of_range_are_refused(T):
    with pytest.raises(ValueError, match=r"finite number greater than 0, but got .*use greedy"):
        Temperature(T)


@pytest.mark.plain
@pytest.mark.parametrize("k", [0, -3, 2.0, 1.5, math.nan, INF, "5", None, True])
def test_numbers_of_symbols_out_of_range_are_refused(k):
    with pytest.raises(ValueError, match=r"whole number of symbols, at least 1, but got .*; 1 ke"):
        TopK(k)


@pytest.mark.plain
@pytest.mark.parametrize("p", [0, 0.0, -0.1, 1.0000001, 90, math.nan, INF, "0.9", None, True])
def test_masses_out_of_range_are_refused(p):
    with pytest.raises(ValueError, match=r"greater than 0 and at most 1, but got .*use greedy"):
        TopP(p)


@pytest.mark.plain
def test_whole_numbers_are_numbers_too():
    z_BV = row(0.0, 4.0, 1.0)
    same(apply(Temperature(2), z_BV), row(0.0, 2.0, 0.5))
    same(apply(TopP(1), z_BV), z_BV)


@pytest.mark.plain
@pytest.mark.parametrize("truncation", ALL, ids=str)
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ((0.0, math.nan, 1.0), "nan"),
        ((-INF, math.nan, -INF), "nan"),
        ((0.0, INF, 1.0), "inf"),
        ((-INF, -INF, -INF), "-inf"),
    ],
)
def test_logits_that_make_no_distribution_are_refused(truncation, bad, said):
    z_BV = torch.tensor([(1.0, 2.0, 3.0), bad])
    with pytest.raises(ValueError, match=rf"the largest of row 1 is {said}; look for"):
        apply(truncation, z_BV)


@pytest.mark.plain
@pytest.mark.parametrize("T", [1e-40, 1e-300])
@pytest.mark.parametrize("z", [(30.0, 1.0), (-30.0, -31.0), (0.0, 1.0)])
def test_a_temperature_that_overflows_is_refused(T, z):
    with pytest.raises(ValueError, match=r"a temperature so small that GREEDY is meant"):
        apply(Temperature(T), row(*z, dtype=torch.float32))


@pytest.mark.plain
@pytest.mark.parametrize("truncation", ALL, ids=str)
def test_logits_without_rows_are_refused(truncation):
    with pytest.raises(ValueError, match=r"two axes.*their shape is \(7,\); .*logits\[None, :\]"):
        truncation(torch.zeros(7), HISTORY)
