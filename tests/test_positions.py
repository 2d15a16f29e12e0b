"""Position schemes: the paper's numbers, and what sines can do."""

import math

import pytest
import torch
from helpers import D, T, default_dtype, randn, tiny_model
from mpmath import cos, mp, mpf, sin

from transformer_lab.positions import SCHEMES, Learned, Positions, Sinusoidal, sinusoidal_table


def table64(length, d_model, base=10000.0):
    with default_dtype(torch.float64):
        return sinusoidal_table(length, d_model, base)


@pytest.mark.parametrize("d_model", [1, 2, 7, 10])
@pytest.mark.parametrize("base", [10000.0, 17.0])
def test_the_table_is_the_papers_formula(d_model, base):
    """PE(p, 2i) = sin(p / base^(2i/d)), PE(p, 2i + 1) = cos of the same, to 40 digits."""
    length = 29
    ours = table64(length, d_model, base)
    assert ours.shape == (length, d_model)
    with mp.workdps(40):
        for p in range(length):
            for column in range(d_model):
                i = column // 2
                angle = p / mpf(base) ** (mpf(2 * i) / d_model)
                expected = float(sin(angle) if column % 2 == 0 else cos(angle))
                assert abs(ours[p, column].item() - expected) < 1e-14


def test_values_one_can_check_by_hand():
    table = table64(3, 4)
    assert table[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert table[1].tolist() == pytest.approx(
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)], abs=1e-15
    )
    assert table[2, 0].item() == pytest.approx(0.9092974268256817, abs=1e-15)


def test_a_shift_is_a_rotation_that_does_not_depend_on_the_place():
    d_model, k = 10, 4
    table = table64(31, d_model)
    for i in range(d_model // 2):
        turn = k * 10000.0 ** (-2 * i / d_model)
        rotation = torch.tensor(
            [[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]],
            dtype=torch.float64,
        )
        pair = table[:, 2 * i : 2 * i + 2]
        torch.testing.assert_close(pair[:-k] @ rotation.T, pair[k:], rtol=0, atol=1e-13)


def test_products_of_rows_depend_on_their_distance_alone():
    table = table64(31, 10)
    gram = table @ table.T
    for distance in range(31):
        diagonal = gram.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-12, rtol=0)
    assert torch.allclose(gram.diagonal(), torch.tensor(5.0, dtype=torch.float64))


def test_rounded_once():
    """float32 entries are the nearest to the exact ones, also far from the beginning."""
    table = sinusoidal_table(5000, 6)
    assert table.dtype == torch.float32
    assert torch.equal(table, table64(5000, 6).float())


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_adds_the_row_of_its_position(name):
    """For all schemes of this kind: embed(x, pos) - x is row ``pos``, whatever x and batch."""
    torch.manual_seed(0)
    with default_dtype(torch.float64):
        scheme = SCHEMES[name](D, T)
    x = randn(3, 5, D)
    pos = torch.tensor([[0, 1, 2, 3, 4], [4, 4, 0, T - 1, 2], [7, 6, 5, 4, 3]])
    added = scheme.embed(x, pos) - x
    torch.testing.assert_close(added, scheme.table_nD[pos], atol=1e-15, rtol=1e-12)
    same = scheme.embed(x, pos[:1]) - x  # one row of positions for the whole batch
    torch.testing.assert_close(same, scheme.table_nD[pos[:1]].expand_as(x), atol=1e-14, rtol=0)


@pytest.mark.parametrize("name", ["none", *SCHEMES])
def test_hooks_a_scheme_does_not_use_change_nothing(name):
    scheme = Positions() if name == "none" else SCHEMES[name](D, T)
    q, k = randn(2, 5, 3, 7), randn(2, 5, 11, 7, seed=1)
    at_q, at_k = torch.arange(3)[None], torch.arange(11)[None]
    turned = scheme.turn(q, k, at_q, at_k)
    assert turned[0] is q and turned[1] is k
    assert scheme.scores(q, k, at_q, at_k) is None
    assert scheme.values(randn(2, 5, 3, 11), at_q, at_k) is None
    assert scheme.needs_weights is False


def test_no_scheme_leaves_the_tokens_alone():
    x = randn(2, 3, D)
    assert Positions().embed(x, torch.arange(3)[None]) is x


def test_what_is_trained_and_what_is_saved():
    fixed, learned = Sinusoidal(D, T), Learned(D, T)
    assert not list(fixed.parameters()) and not fixed.state_dict()
    assert [p.shape for p in learned.parameters()] == [(T, D)]
    torch.manual_seed(1)
    spread = Learned(101, 103).table_nD.std().item()
    assert spread == pytest.approx(0.02, rel=0.05)


def test_only_rows_that_were_used_are_trained():
    scheme = Learned(D, T)
    scheme.embed(torch.zeros(1, 2, D), torch.tensor([[1, 4]])).sum().backward()
    moved = scheme.table_nD.grad.abs().sum(-1) > 0
    assert moved.nonzero().flatten().tolist() == [1, 4]


@pytest.mark.plain
@pytest.mark.parametrize("name", SCHEMES)
def test_a_sequence_longer_than_the_table_is_refused(name):
    model = tiny_model(positions=name)
    too_long = torch.full((1, 20), 3)
    with pytest.raises(ValueError, match=r"source may hold at most 19 tokens.* holds 20;"):
        model(too_long, torch.ones(1, 1, dtype=torch.long))
    with pytest.raises(ValueError, match=r"target may hold at most 19 tokens.* holds 20;"):
        model(torch.full((1, 3), 3), too_long)
