"""Masks: what they allow, entry by entry; how they combine; what they refuse."""

import pytest
import torch
from helpers import lengths_to_keys

from transformer_lab.attention import CAUSAL, EVERYTHING, Mask, padding_mask

LENGTHS = [7, 3, 0, 1, 5]
KEYS = lengths_to_keys(LENGTHS, 7)
NAMES = ["nothing", "causal", "padding", "both"]
LEFT = [Mask(), CAUSAL, Mask(keys_BS=KEYS), Mask(True, KEYS)]
RIGHT = [Mask(), CAUSAL, Mask(keys_BS=KEYS.flip(1)), Mask(True, KEYS.flip(1))]
PATHS = torch.rand(5, 3, 7, generator=torch.Generator().manual_seed(1)) > 0.5


def by_definition(mask, B, T, S):
    """May query t of sequence b look at key s? Written out, one entry at a time."""
    allowed = torch.zeros(B, T, S, dtype=torch.bool)
    for b in range(B):
        for t in range(T):
            for s in range(S):
                real = mask.keys_BS is None or bool(mask.keys_BS[b, s])
                # query t stands at place S - T + t of the S places
                past = not mask.causal or s <= S - T + t
                allowed[b, t, s] = real and past
    return allowed


@pytest.mark.parametrize("T", [1, 2, 5, 7])
@pytest.mark.parametrize("mask", LEFT, ids=NAMES)
def test_dense_is_the_definition(mask, T):
    dense = mask.dense(T, 7)
    expected = by_definition(mask, 5, T, 7)
    if dense is None:
        assert expected.all()
    else:
        assert dense.dtype == torch.bool and dense.ndim == 4 and dense.shape[1] == 1
        assert torch.equal(dense[:, 0].expand(5, T, 7), expected)


@pytest.mark.parametrize("mask", LEFT, ids=NAMES)
def test_paths_allow_what_they_say_where_the_rest_allows_it_too(mask):
    paths = Mask(paths_BTS=PATHS)
    assert torch.equal(paths.dense(3, 7), PATHS[:, None])
    expected = by_definition(mask, 5, 3, 7) & PATHS
    for both in (mask & paths, paths & mask):
        assert not both.only_causal and torch.equal(both.dense(3, 7)[:, 0], expected)
    other = Mask(paths_BTS=PATHS.flip(1))
    assert torch.equal((paths & other).dense(3, 7)[:, 0], PATHS & PATHS.flip(1))


@pytest.mark.plain
@pytest.mark.parametrize(("T", "S"), [(2, 7), (3, 6)])
def test_paths_must_fit_queries_and_keys(T, S):
    message = rf"row for each query and one column for each key, {T} and {S}, but it has 3 and 7"
    with pytest.raises(ValueError, match=message):
        Mask(paths_BTS=PATHS).dense(T, S)


def test_a_causal_square_is_the_lower_triangle_with_its_diagonal():
    assert torch.equal(CAUSAL.dense(5, 5)[0, 0], torch.ones(5, 5).tril().bool())


def test_with_more_keys_than_queries_the_queries_are_the_last():
    """The last rows of the whole triangle: what a cache needs."""
    whole = CAUSAL.dense(7, 7)[0, 0]
    for T in (2, 3, 6):
        assert torch.equal(CAUSAL.dense(T, 7)[0, 0], whole[-T:])
    assert CAUSAL.dense(1, 7) is None  # the last query sees everything


def test_padding_alone_needs_no_matrix():
    """One entry a key, the same for all queries: no T × S array is stored."""
    assert Mask(keys_BS=KEYS).dense(5, 7).shape == (5, 1, 1, 7)
    assert EVERYTHING.dense(5, 7) is None


@pytest.mark.parametrize("left", LEFT, ids=NAMES)
@pytest.mark.parametrize("right", RIGHT, ids=NAMES)
def test_and_allows_what_both_allow(left, right):
    both = by_definition(left, 5, 4, 7) & by_definition(right, 5, 4, 7)
    assert torch.equal(by_definition(left & right, 5, 4, 7), both)
    assert torch.equal(by_definition(right & left, 5, 4, 7), both)


def test_and_leaves_its_parts_as_they_were():
    left = Mask(keys_BS=KEYS.clone())
    _ = left & Mask(True, KEYS.flip(1))
    assert left.causal is False and torch.equal(left.keys_BS, KEYS)


def test_padding_mask_hides_padding():
    ids = torch.tensor([[5, 6, 0, 0], [7, 0, 8, 9]])
    assert padding_mask(ids).keys_BS.tolist() == [
        [True, True, False, False],
        [True, False, True, True],
    ]
    assert padding_mask(ids, pad=7).keys_BS.tolist() == [[True] * 4, [False, True, True, True]]
    assert padding_mask(ids).causal is False


@pytest.mark.plain
def test_a_causal_mask_with_fewer_keys_than_queries_is_refused():
    message = r"at least as many keys as queries, but got 3 keys and 5 queries; between two"
    with pytest.raises(ValueError, match=message):
        CAUSAL.dense(5, 3)
