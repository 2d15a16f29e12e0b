"""Sampling: the distribution first, then draws that follow it and nothing else."""

import math
from bisect import bisect_right
from itertools import accumulate

import pytest
import torch
from helpers import properties, randn
from hypothesis import given
from hypothesis import strategies as st
from sampling_cases import HISTORY, INF, B, V, from_transformers, history, logits
from torch.utils._python_dispatch import TorchDispatchMode

from transformer_lab.decode import (
    GREEDY,
    Greedy,
    Strategy,
    Temperature,
    TopK,
    TopP,
    pick,
    sampling,
)

STRATEGIES = [
    GREEDY,
    Strategy(),
    sampling(temperature=0.7),
    sampling(top_k=4),
    sampling(top_p=0.8),
    sampling(1.6, top_k=6, top_p=0.9),
]
JUST_BELOW_1 = 1 - 2.0**-53


@pytest.fixture(scope="module")
def theirs():
    return from_transformers()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def same(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=0)


# --- distributions ---


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@properties
@given(logits(dtype=torch.float32))
def test_every_strategy_yields_a_distribution(strategy, z_BV):
    p_BV = strategy.distribution(z_BV, history(z_BV))
    assert p_BV.shape == z_BV.shape and p_BV.dtype == torch.float64
    assert (p_BV >= 0).all() and (p_BV[z_BV == -INF] == 0).all()
    torch.testing.assert_close(p_BV.sum(-1), torch.ones_like(p_BV[:, 0]), rtol=0, atol=1e-14)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_row_does_not_depend_on_its_neighbours(strategy):
    z_BV = 3 * randn(B, V, dtype=torch.float32)
    p_BV = strategy.distribution(z_BV, HISTORY)
    for b in range(B):
        same(strategy.distribution(z_BV[b : b + 1], HISTORY[b : b + 1]), p_BV[b : b + 1])


def test_without_truncations_it_is_the_models_own():
    z_BV = randn(B, V)
    same(Strategy().distribution(z_BV, HISTORY), z_BV.softmax(-1))
    same(sampling().distribution(z_BV, HISTORY), z_BV.softmax(-1))


@pytest.mark.parametrize("T", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("k", [None, 1, 5, V + 2])
@pytest.mark.parametrize("p", [None, 0.6, 0.95])
def test_sampling_is_what_transformers_makes_of_the_same_numbers(theirs, T, k, p):
    z_BV = 2 * randn(B, V, seed=4)
    w_BV = theirs.temperature(T)(HISTORY, z_BV)
    if k is not None:
        w_BV = theirs.top_k(k)(HISTORY, w_BV)
    if p is not None:
        w_BV = theirs.top_p(p)(HISTORY, w_BV)
    ours = sampling(temperature=T, top_k=k, top_p=p).distribution(z_BV, HISTORY)
    torch.testing.assert_close(ours, w_BV.softmax(-1), rtol=1e-12, atol=0)


def test_sampling_by_hand():
    """p = 16, 9, 4, 1 of 30; T = 2 makes them 4, 3, 2, 1 of 10; top-k leaves 4, 3, 2 of 9."""
    z_BV = torch.tensor([[9.0, 1.0, 16.0, 4.0]], dtype=torch.float64).div(30).log()
    expect = {
        (2.0, None, None): [0.3, 0.1, 0.4, 0.2],
        (2.0, 3, None): [3 / 9, 0, 4 / 9, 2 / 9],
        (2.0, 3, 0.75): [3 / 7, 0, 4 / 7, 0],  # 7/9 of what top-k left is beyond 0.75
        (2.0, None, 0.75): [3 / 9, 0, 4 / 9, 2 / 9],  # 7/10 is not
        (1.0, None, 0.75): [9 / 25, 0, 16 / 25, 0],  # nor is the nucleus that of T = 1
    }
    for numbers, p in expect.items():
        got = sampling(*numbers).distribution(z_BV, HISTORY[:1])
        torch.testing.assert_close(got, torch.tensor([p], dtype=torch.float64))


def test_the_order_of_the_truncations_matters():
    z_BV, H = torch.tensor([[9.0, 1.0, 16.0, 4.0]]).log(), HISTORY[:1]
    hot, nucleus = Temperature(2.0), TopP(0.75)
    assert Strategy((hot, nucleus)).distribution(z_BV, H).count_nonzero() == 3
    assert Strategy((nucleus, hot)).distribution(z_BV, H).count_nonzero() == 2
    assert sampling(0.7, 3, 0.9) == Strategy((Temperature(0.7), TopK(3), TopP(0.9)))
    assert sampling(top_p=0.9) == Strategy((Temperature(1.0), TopP(0.9)))


def test_a_truncation_of_ones_own_sees_the_history():
    def never_twice(logits_BV, history_BT):
        return logits_BV.scatter(1, history_BT, -INF)

    said = torch.tensor([[0, 1, 0], [2, 2, 2]])
    z_BV = torch.tensor([[5.0, 4.0, 3.0, 2.0], [1.0, 1.0, 9.0, 0.0]])
    p_BV = Strategy((never_twice, TopK(2))).distribution(z_BV, said)
    assert [p.nonzero()[:, 0].tolist() for p in p_BV] == [[2, 3], [0, 1]]
    p_BV = Strategy((TopK(3), never_twice)).distribution(z_BV, said)
    assert [p.nonzero()[:, 0].tolist() for p in p_BV] == [[2], [0, 1]]


# --- draws ---


@properties
@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1)), min_size=1, max_size=9).filter(any),
    st.one_of(st.floats(0, 1, exclude_max=True), st.sampled_from([0.0, 2.0**-53, JUST_BELOW_1])),
)
def test_pick_finds_the_piece_that_u_falls_on(weights, u):
    p_BV = torch.tensor([weights, weights[::-1]], dtype=torch.float64)
    p_BV = p_BV / p_BV.sum(-1, keepdim=True)
    got = pick(p_BV, torch.tensor([u, u], dtype=torch.float64)).tolist()
    for v, p in zip(got, p_BV.tolist(), strict=True):
        ends = list(accumulate(p))
        assert v == bisect_right(ends, u * ends[-1])
        assert p[v] > 0


def test_pick_by_hand():
    p_BV = torch.tensor([[0.0, 0.25, 0.5, 0.0, 0.25, 0.0]], dtype=torch.float64)
    for u, v in {0.0: 1, 0.2: 1, 0.25: 2, 0.74: 2, 0.75: 4, JUST_BELOW_1: 4}.items():
        assert pick(p_BV, torch.tensor([u], dtype=torch.float64)).tolist() == [v]


@pytest.mark.parametrize("strategy", STRATEGIES[1:], ids=str)
def test_row_b_depends_on_number_b_and_its_own_distribution(strategy):
    z_BV = randn(B, V, dtype=torch.float32)
    got = strategy.draw(z_BV, HISTORY, seeded(7))
    assert got.shape == (B,) and got.dtype == torch.long
    u_B = torch.rand(B, dtype=torch.float64, generator=seeded(7))
    for b in range(B):
        p_1V = strategy.distribution(z_BV[b : b + 1], HISTORY[:1])
        assert pick(p_1V, u_B[b : b + 1]).item() == got[b]
        others = 3 * randn(B, V, seed=b, dtype=torch.float32)
        others[b] = z_BV[b]
        assert strategy.draw(others, HISTORY, seeded(7))[b] == got[b]
    wider = torch.cat([z_BV, z_BV, z_BV, z_BV])  # beyond 16 rows torch fills some types otherwise
    same(strategy.draw(wider, history(wider), seeded(7))[:B], got)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_the_same_seed_gives_the_same_draws(strategy):
    z_BV = randn(B, V)
    ids = [[strategy.draw(z_BV, HISTORY, g) for _ in range(20)] for g in map(seeded, (3, 3, 4))]
    assert torch.stack(ids[0]).equal(torch.stack(ids[1]))
    if strategy != GREEDY:
        assert not torch.stack(ids[0]).equal(torch.stack(ids[2]))
        assert len({tuple(x.tolist()) for x in ids[0]}) > 10  # the generator moves on


def test_a_draw_takes_one_number_for_each_row():
    used, expected = seeded(5), seeded(5)
    sampling(0.7, 4, 0.9).draw(randn(B, V), HISTORY, used)
    torch.rand(B, dtype=torch.float64, generator=expected)
    assert used.get_state().equal(expected.get_state())


def test_without_a_generator_torchs_own_is_used():
    z_BV = randn(B, V)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        got = Strategy().draw(z_BV, HISTORY)
    assert got.equal(Strategy().draw(z_BV, HISTORY, seeded(11)))


def chi_square(counts_V, p_V):
    """Σ (O − E)²/E over what can happen, and a bound that chance passes once in a million.

    Under the null this is χ² with d degrees of freedom, and P(χ² ≥ d + 2√(d x) + 2 x) ≤ e⁻ˣ
    (Laurent and Massart 2000, lemma 1).
    """
    can = p_V > 0
    assert counts_V[~can].sum() == 0  # what cannot happen did not
    expected = counts_V.sum() * p_V[can]
    assert expected.min() > 20  # enough for χ² to describe counts
    d, x = int(can.sum()) - 1, math.log(1e6)
    return (((counts_V[can] - expected) ** 2) / expected).sum(), d + 2 * math.sqrt(d * x) + 2 * x


Z = torch.tensor([0.3, -INF, 0.6, 0.0, 0.3, -0.3, -INF, 0.8, -0.1, -0.4, -INF])


@pytest.mark.parametrize("strategy", STRATEGIES[1:], ids=str)
def test_draws_follow_the_distribution(strategy):
    """40 000 rows at once: each symbol, and each pair of neighbours, as often as it should."""
    z_BV = Z.expand(40_000, V)
    p_V = strategy.distribution(z_BV[:1], HISTORY[:1])[0]
    ids = strategy.draw(z_BV, history(z_BV), seeded(1))
    found, bound = chi_square(ids.bincount(minlength=V), p_V)
    assert found < bound
    pairs = (V * ids[0::2] + ids[1::2]).bincount(minlength=V * V)
    found, bound = chi_square(pairs, torch.outer(p_V, p_V).flatten())
    assert found < bound


def test_draws_one_after_another_follow_it_too():
    z_BV, g = Z.expand(2, V), seeded(2)
    strategy = sampling(1.2, top_k=5)
    ids = torch.cat([strategy.draw(z_BV, HISTORY[:2], g) for _ in range(2000)])
    found, bound = chi_square(
        ids.bincount(minlength=V), strategy.distribution(z_BV, HISTORY[:2])[0]
    )
    assert found < bound


def test_the_bound_of_these_tests_finds_a_small_mistake():
    """Draws of T = 1.3 are not taken for draws of T = 1."""
    z_BV = Z.expand(40_000, V)
    ids = sampling(temperature=1.3).draw(z_BV, history(z_BV), seeded(1))
    p_V = Strategy().distribution(z_BV[:1], HISTORY[:1])[0]
    found, bound = chi_square(ids.bincount(minlength=V), p_V)
    assert found > 2 * bound


def test_gradients_views_and_small_types_do_no_harm():
    z_BV = randn(V, B, dtype=torch.float32).T.requires_grad_()  # not contiguous
    for strategy in STRATEGIES:
        plain = strategy.draw(z_BV.detach().clone(), HISTORY, seeded(6))
        assert strategy.draw(z_BV, HISTORY, seeded(6)).equal(plain)
        for dtype in (torch.bfloat16, torch.float16):
            p_BV = strategy.distribution(z_BV.detach().to(dtype), HISTORY)
            same(p_BV, strategy.distribution(z_BV.detach().to(dtype).double(), HISTORY))


# --- greedy ---


@properties
@given(logits(dtype=torch.float32), st.integers(0, 99))
def test_greedy_is_certain_of_the_first_of_the_largest(z_BV, seed):
    g, untouched = seeded(seed), seeded(seed)
    ids, p_BV = GREEDY.draw(z_BV, history(z_BV), g), GREEDY.distribution(z_BV, history(z_BV))
    for z, v, p in zip(z_BV.tolist(), ids.tolist(), p_BV.tolist(), strict=True):
        assert v == z.index(max(z))
        assert p == [float(w == v) for w in range(len(z))]
    assert g.get_state().equal(untouched.get_state())
    same(p_BV, Strategy((TopK(1),)).distribution(z_BV, history(z_BV)))


def test_greedy_is_the_limit_of_a_falling_temperature():
    z_BV = randn(B, V, dtype=torch.float32) * 300
    expected = GREEDY.distribution(z_BV, HISTORY)
    for T in (1e-3, 1e-30, 1e-300):
        same(sampling(temperature=T).distribution(z_BV, HISTORY), expected)
    assert Greedy() == GREEDY


class Calls(TorchDispatchMode):
    """Writes down the operators that torch runs."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_greedy_draw_is_one_operator():
    with Calls() as calls:
        GREEDY.draw(randn(B, V, dtype=torch.float32), HISTORY)
    assert [n for n in calls.names if "randn" not in n] == ["aten.argmax.default"]


# --- refusals ---


@pytest.mark.plain
@pytest.mark.parametrize("wrong", [[TopK(5)], TopK(5), None, (TopK(5), 0.9), "top_k"])
def test_truncations_that_are_no_tuple_of_functions_are_refused(wrong):
    with pytest.raises(ValueError, match=r"a tuple of functions .* write for example \(TopK"):
        Strategy(wrong)


@pytest.mark.plain
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("bad", [math.nan, INF])
def test_logits_that_make_no_distribution_are_refused(strategy, bad):
    z_BV = randn(B, V)
    z_BV[3, 2] = bad
    with pytest.raises(ValueError, match=rf"the largest of row 3 is {bad}; look for"):
        strategy.distribution(z_BV, HISTORY)
    z_BV[3] = -INF
    with pytest.raises(ValueError, match=r"the largest of row 3 is -inf; look for"):
        strategy.distribution(z_BV, HISTORY)


@pytest.mark.plain
def test_a_truncation_that_leaves_nothing_is_refused():
    strategy = Strategy((TopK(3), lambda logits_BV, history_BT: logits_BV - INF))
    with pytest.raises(ValueError, match=r"a mask that rules out every symbol"):
        strategy.draw(randn(B, V), HISTORY)


@pytest.mark.plain
def test_the_numbers_of_sampling_are_checked():
    for numbers in ({"temperature": 0}, {"top_k": 0}, {"top_p": 0}, {"top_p": 1.5}):
        with pytest.raises(ValueError, match="but got"):
            sampling(**numbers)
