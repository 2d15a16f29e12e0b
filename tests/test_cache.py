"""The cache: what is appended comes back, what is selected stays together."""

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


def test_select_reorders_repeats_and_drops_rows():
    cache, _ = filled([5])
    rows = torch.tensor([3, 3, 0, 10])
    cache.select(rows)
    new_k, new_v = K_ALL[rows, :, 5:6], V_ALL[rows, :, 5:6]
    k, v = cache.append(new_k, new_v)
    assert torch.equal(k, K_ALL[rows, :, :6]) and torch.equal(v, V_ALL[rows, :, :6])


def test_repeated_rows_do_not_share_memory():
    """Two hypotheses with one parent go on by themselves."""
    cache, _ = filled([2])
    cache.select(torch.tensor([4, 4]))
    k, _ = cache.append(K_ALL[:2, :, 2:3], V_ALL[:2, :, 2:3])
    assert torch.equal(k[0, :, :2], k[1, :, :2]) and not torch.equal(k[0, :, 2], k[1, :, 2])


def test_select_on_an_empty_cache_changes_nothing():
    cache = KVCache(3)
    cache.select(torch.tensor([1, 0]))
    assert cache.length == 0
    assert cache.append(K_ALL[:, :, :1], V_ALL[:, :, :1])[0].shape == (B, H, 1, K)


def test_a_state_keeps_each_source_with_its_row():
    caches = empty_caches(2, 13)
    for layer, cache in enumerate(caches):
        cache.append(K_ALL[:, :, :3] + layer, V_ALL[:, :, :3] - layer)
    memory = [(randn(B, H, 17, K, seed=i), randn(B, H, 17, K, seed=9 + i)) for i in range(2)]
    keys = randn(B, 17, seed=5) > 0
    state = DecoderState(caches, memory, Mask(keys_BS=keys))
    assert state.length == 3
    rows = torch.tensor([7, 2, 7])
    state.select(rows)
    assert state.length == 3
    assert torch.equal(state.mask.keys_BS, keys[rows])
    for layer in range(2):
        for got, was in zip(state.memory[layer], memory[layer], strict=True):
            assert torch.equal(got, was[rows])
        k, v = state.caches[layer].append(K_ALL[rows, :, 3:4], V_ALL[rows, :, 3:4])
        assert torch.equal(k[:, :, :3], K_ALL[rows, :, :3] + layer)
        assert torch.equal(v[:, :, :3], V_ALL[rows, :, :3] - layer)


def test_a_state_without_padding_can_be_selected():
    state = DecoderState(empty_caches(1, 3), [(K_ALL, V_ALL)], Mask())
    state.select(torch.tensor([1]))
    assert state.mask.keys_BS is None and state.memory[0][0].shape[0] == 1


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
