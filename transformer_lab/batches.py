r"""From id sequences to batches: padding and bucketing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from .tokens import BOS, EOS, PAD


@dataclass(frozen=True)
class Batch:
    """Pairs of sequences, padded to rectangles with ``PAD`` on the right.

    ``source_BS`` is what is read; ``target_in_BT`` begins with BOS and is what the decoder
    sees; ``target_out_BT`` is the same shifted left by one and ends with EOS: what it must say.
    """

    source_BS: Int[Tensor, "B S"]
    target_in_BT: Int[Tensor, "B T"]
    target_out_BT: Int[Tensor, "B T"]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return Batch(
            self.source_BS.to(device, non_blocking=True),
            self.target_in_BT.to(device, non_blocking=True),
            self.target_out_BT.to(device, non_blocking=True),
        )


@dataclass(frozen=True)
class WindowBatch:
    """Windows of a running text: ``target_BT`` is ``input_BT`` one token later."""

    input_BT: Int[Tensor, "B T"]
    target_BT: Int[Tensor, "B T"]

    def to(self, device: torch.device | str) -> WindowBatch:
        """The same batch on another device."""
        return WindowBatch(
            self.input_BT.to(device, non_blocking=True),
            self.target_BT.to(device, non_blocking=True),
        )


def pad(sequences: Sequence[Sequence[int]]) -> Int[Tensor, "B S"]:
    """Sequences of ids as the rows of one tensor, filled with ``PAD`` on the right."""
    if not sequences or not max(map(len, sequences)):
        raise ValueError(
            f"A batch needs at least one sequence with at least one token, but got "
            f"{len(sequences)} sequences, the longest of length "
            f"{max(map(len, sequences), default=0)}; leave empty ones out."
        )
    length = max(map(len, sequences))
    return torch.tensor([[*s, *[PAD] * (length - len(s))] for s in sequences])


def pair_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """A batch of (source, target) pairs; BOS and EOS are added to the targets here."""
    return Batch(
        pad(sources),
        pad([[BOS, *t] for t in targets]),
        pad([[*t, EOS] for t in targets]),
    )


def bucketed_indices(
    lengths: Sequence[tuple[int, int]], batch_size: int, seed: int, epoch: int, chunk: int = 40
) -> Iterator[list[int]]:
    """Indices of one epoch in batches of similar length, in an order fixed by seed and epoch.

    All pairs are shuffled, cut into chunks of ``chunk`` batches, sorted by length inside a
    chunk, cut into batches, and the batches of a chunk are shuffled again. So padding is small
    and the order still random. Nothing is remembered between epochs: batch k of epoch e is the
    same whenever it is asked for, which is what makes a resumed run exact.
    """
    if batch_size < 1:
        raise ValueError(f"A batch holds at least 1 pair, but batch_size = {batch_size}.")
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    order = torch.randperm(len(lengths), generator=generator).tolist()
    size = batch_size * chunk
    for start in range(0, len(order), size):
        part = sorted(order[start : start + size], key=lambda i: lengths[i])
        batches = [part[i : i + batch_size] for i in range(0, len(part), batch_size)]
        for i in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[i]


def random_windows(
    text_N: Int[Tensor, " N"], length: int, batch_size: int, seed: int, epoch: int
) -> Iterator[WindowBatch]:
    """One epoch of windows of ``length`` tokens that begin anywhere in the text.

    An epoch has as many batches as cut the text once; where they begin is fixed by seed and
    epoch, so batch k of epoch e is the same whenever it is asked for. Raises ``ValueError`` if
    the text is not longer than a window.
    """
    if len(text_N) <= length:
        raise ValueError(
            f"A text must be longer than a window, but it has {len(text_N)} tokens and a window "
            f"holds {length}; give a longer text or take a shorter window."
        )
    if batch_size < 1:
        raise ValueError(f"A batch holds at least 1 window, but batch_size = {batch_size}.")
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    steps_T = torch.arange(length)
    for _ in range(max(1, len(text_N) // (length * batch_size))):
        starts_B = torch.randint(len(text_N) - length, (batch_size,), generator=generator)
        index_BT = starts_B[:, None] + steps_T
        yield WindowBatch(text_N[index_BT], text_N[index_BT + 1])
