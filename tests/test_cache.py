"""The cache: what is appended comes back, and every token knows its place and its past."""

import pytest
import torch
from helpers import H, K, randn

from transformer_lab.attention import DecoderState, KVCache, Mask, empty_caches

B = 11
K_ALL, V_ALL = randn(B, H, 13, K), randn(B, H, 13, K, seed=1)


def filled(pieces, max_length=13):
    """A cache that was given the first tokens in pieces, and what it answered last."""
    cache, start, answer = KVCache(max_length), 0, None
    for n in pieces:
        part = slice(start, start + n)
        answer = cache.append(K_ALL[:, :, part], V_ALL[:, :, part])
        start += n
    return cache, answer


@pytest.mark.parametrize("pieces", [[13], [1] * 13, [3, 1, 7, 2], [5, 3]])
def test_append_returns_all_so_far_in_order(pieces):
    cache, (k, v) = filled(pieces)
    n = sum(pieces)
    assert cache.length == n
    assert torch.equal(k, K_ALL[:, :, :n]) and torch.equal(v, V_ALL[:, :, :n])


def test_append_stores_a_copy():
    cache = KVCache(5)
    k = torch.ones(2, 3, 1, 7)
    cache.append(k, k)
    k.zero_()
    assert (cache.append(k, k)[0][:, :, 0] == 1).all()


def test_memory_is_reserved_once():
    cache = KVCache(13)
    places = {cache.append(K_ALL[:, :, :2], V_ALL[:, :, :2])[0].data_ptr() for _ in range(6)}
    assert len(places) == 1


def test_steps_place_tokens_one_after_another():
    state = DecoderState(empty_caches(1, 13))
    for T, first in ((3, 0), (1, 3), (2, 4)):
        pos_BT, pos_BS, mask = state.follow(T, torch.device("cpu"))
        assert pos_BT.tolist() == [list(range(first, first + T))]
        assert pos_BS.tolist() == [list(range(first + T))]
        assert mask == Mask(causal=True)


def test_padding_on_the_left_takes_no_position_and_is_seen_by_nobody():
    state = DecoderState(empty_caches(1, 13), padding_B=torch.tensor([0, 2, 1]))
    pos_BT, pos_BS, mask = state.follow(3, torch.device("cpu"))
    assert pos_BT.tolist() == pos_BS.tolist() == [[0, 1, 2], [0, 0, 0], [0, 0, 1]]
    assert mask.causal and mask.keys_BS.tolist() == [[1, 1, 1], [0, 0, 1], [0, 1, 1]]
    pos_BT, pos_BS, mask = state.follow(1, torch.device("cpu"))
    assert pos_BT.tolist() == [[3], [1], [2]]
    assert pos_BS.tolist() == [[0, 1, 2, 3], [0, 0, 0, 1], [0, 0, 1, 2]]
    assert mask.keys_BS.tolist() == [[1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1]]


def test_a_branching_sees_its_own_path_and_no_other():
    """Three hypotheses, three steps, parents by hand."""
    state = DecoderState(empty_caches(1, 9))
    _, _, mask = state.branch(torch.tensor([[0, 0, 0], [0, 0, 0]]))
    own = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert mask.paths_BTS.int().tolist() == [own, own]
    _, _, mask = state.branch(torch.tensor([[1, 1, 0], [2, 0, 1]]))
    first = [[0, 1, 0], [0, 1, 0], [1, 0, 0]]  # whose first token each of source 0 goes back to
    second = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert mask.paths_BTS[:, :, :3].int().tolist() == [first, second]
    assert mask.paths_BTS[:, :, 3:].int().tolist() == [own, own]
    pos_BT, pos_BS, mask = state.branch(torch.tensor([[2, 0, 2], [1, 1, 1]]))
    assert pos_BT.tolist() == [[2, 2, 2]] and pos_BS.tolist() == [[0, 0, 0, 1, 1, 1, 2, 2, 2]]
    assert mask.paths_BTS[0, 0].int().tolist() == [1, 0, 0, 0, 0, 1, 1, 0, 0]
    assert mask.paths_BTS[0, 1].int().tolist() == [0, 1, 0, 1, 0, 0, 0, 1, 0]
    assert mask.paths_BTS[1, 2].int().tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 1]


def test_caches_of_layers_are_separate():
    one, two = empty_caches(2, 5)
    one.append(K_ALL[:, :, :2], V_ALL[:, :, :2])
    assert (one.length, two.length) == (2, 0)


@pytest.mark.plain
@pytest.mark.parametrize(("pieces", "asked"), [([13, 1], 14), ([5, 8, 3], 16)])
def test_a_full_cache_says_so(pieces, asked):
    cache, _ = filled(pieces[:-1])
    with pytest.raises(ValueError, match=rf"at most 13 tokens, but {asked} were asked for; stop"):
        cache.append(K_ALL[:, :, : pieces[-1]], V_ALL[:, :, : pieces[-1]])
    assert cache.length == 13  # and nothing was half-written
