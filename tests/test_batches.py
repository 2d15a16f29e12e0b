"""Padding, shifted targets, buckets."""

import random
from itertools import pairwise

import pytest
import torch
from helpers import properties
from hypothesis import given
from hypothesis import strategies as st

from transformer_lab.batches import Batch, bucketed_indices, pad, pair_batch
from transformer_lab.tokens import BOS, EOS, PAD

rows = st.lists(st.integers(3, 50), max_size=9)
batches_of_rows = st.lists(rows, min_size=1, max_size=7).filter(any)


@properties
@given(batches_of_rows)
def test_padding_stands_on_the_right_and_nothing_else_changes(sequences):
    ids_BS = pad(sequences)
    assert ids_BS.shape == (len(sequences), max(map(len, sequences)))
    assert ids_BS.dtype == torch.int64
    for row, sequence in zip(ids_BS.tolist(), sequences, strict=True):
        assert row[: len(sequence)] == sequence
        assert set(row[len(sequence) :]) <= {PAD}


@properties
@given(batches_of_rows)
def test_the_decoder_must_say_what_it_sees_next(sequences):
    """``target_out`` is ``target_in`` shifted left by one: BOS opens, EOS closes."""
    batch = pair_batch([[3]] * len(sequences), sequences)
    for row, seen, said in zip(sequences, batch.target_in_BT, batch.target_out_BT, strict=True):
        n = len(row)
        assert seen.tolist()[: n + 1] == [BOS, *row]
        assert said.tolist()[: n + 1] == [*row, EOS]
        assert seen[n + 1 :].tolist() == said[n + 1 :].tolist() == [PAD] * (len(seen) - n - 1)
        assert torch.equal(seen[1 : n + 1], said[:n])


def test_a_pair_batch_by_hand():
    batch = pair_batch([[5, 6, 7], [8]], [[9], [10, 11]])
    assert batch.source_BS.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert batch.target_in_BT.tolist() == [[1, 9, 0], [1, 10, 11]]
    assert batch.target_out_BT.tolist() == [[9, 2, 0], [10, 11, 2]]


def test_a_batch_moves_as_a_whole():
    batch = pair_batch([[5]], [[6]]).to("meta")
    parts = (batch.source_BS, batch.target_in_BT, batch.target_out_BT)
    assert isinstance(batch, Batch) and {t.device.type for t in parts} == {"meta"}


def some_lengths(count, seed=0):
    rng = random.Random(seed)
    return [(rng.randint(1, 20), rng.randint(1, 20)) for _ in range(count)]


@properties
@given(st.integers(1, 200), st.integers(1, 17), st.integers(0, 9), st.integers(0, 9))
def test_an_epoch_holds_every_pair_once(count, size, seed, epoch):
    batches = list(bucketed_indices(some_lengths(count), size, seed, epoch, chunk=3))
    assert sorted(i for batch in batches for i in batch) == list(range(count))
    assert all(1 <= len(batch) <= size for batch in batches)
    # only the last batch of the last chunk may be short
    assert sum(len(batch) < size for batch in batches) <= 1


def test_seed_and_epoch_fix_the_order_and_nothing_else_does():
    lengths = some_lengths(500)

    def order(seed, epoch):
        return list(bucketed_indices(lengths, 7, seed, epoch))

    first = order(3, 5)
    torch.manual_seed(99)  # the global generator plays no part
    torch.rand(3)
    assert order(3, 5) == first
    assert len({str(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9
    # another epoch is another grouping, not only another order of the same batches
    assert set(map(tuple, order(3, 6))).isdisjoint(map(tuple, first))


def test_the_global_generator_is_left_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    list(bucketed_indices(some_lengths(100), 7, 1, 1))
    assert torch.equal(torch.rand(3), expected)


def padded_share(batches, lengths):
    """Share of the target's places that hold padding."""
    places = sum(len(b) * max(lengths[i][0] for i in b) for b in batches)
    return 1 - sum(n for n, _ in lengths) / places


def test_batches_hold_similar_lengths_in_random_order():
    lengths = some_lengths(2000, seed=4)
    batches = list(bucketed_indices(lengths, 16, 0, 0))
    shuffled = list(range(2000))
    random.Random(0).shuffle(shuffled)
    plain = [shuffled[i : i + 16] for i in range(0, 2000, 16)]
    assert padded_share(batches, lengths) < 0.15 * padded_share(plain, lengths)
    longest = [max(lengths[i][0] for i in b) for b in batches]
    ups = sum(a < b for a, b in pairwise(longest))
    downs = sum(a > b for a, b in pairwise(longest))
    assert min(ups, downs) > 30  # neither rising nor falling: the batches are shuffled


@pytest.mark.plain
@pytest.mark.parametrize(("bad", "count"), [([], 0), ([[], []], 2)])
def test_a_batch_of_nothing_is_refused(bad, count):
    message = rf"at least one token, but got {count} sequences, the longest of length 0;"
    with pytest.raises(ValueError, match=message):
        pad(bad)


@pytest.mark.plain
@pytest.mark.parametrize("bad", [0, -3])
def test_a_batch_size_below_one_is_refused(bad):
    with pytest.raises(ValueError, match=rf"holds at least 1 pair, but batch_size = {bad}\."):
        list(bucketed_indices([(1, 1)], bad, 0, 0))
