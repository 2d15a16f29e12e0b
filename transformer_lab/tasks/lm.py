r"""Language modelling: the next character of a text, or the next piece of a word."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ..batches import WindowBatch, random_windows
from ..data.text import TextData
from ..losses import cross_entropy
from ..tokens import SPECIAL, ByteBPE, Vocabulary

VOCABULARY_SIZE = 1024
"""Tokens of a vocabulary of pieces, if nothing else is asked for."""


class LM:
    r"""Tokens of a text in, the next token out.

    Tokens are characters, or the pieces of a :class:`~transformer_lab.ByteBPE` that is given as
    ``pieces``; ``context`` is the length of a window in tokens. The vocabulary of characters
    holds those of the whole text, held-out part included, so that none is unknown.

    Pieces differ in length, so a loss per piece says little. All figures are nats a character,

    .. math:: \frac{\sum_t -\log p(y_t \mid y_{<t})}{\sum_t n(y_t)}

    with n(y) the number of characters of token y: 1 for a character; for a piece, how many begin
    in it (the bytes of a character may be spread over several). They can be compared whatever
    the tokens are.
    """

    def __init__(self, data: TextData, context: int, pieces: ByteBPE | None = None):
        self.data, self.context = data, context
        self.vocabulary = Vocabulary(data.symbols) if pieces is None else pieces
        unit, least = ("characters", 2) if pieces is None else ("tokens", 4)
        if context < least:  # a character may need four bytes, and a window must begin one
            raise ValueError(
                f"A window holds at least {least} {unit}, but context = {context}; take a longer "
                f"one."
            )
        self._train_N = torch.tensor(self.vocabulary.encode(data.train))
        self._held_out_N = torch.tensor(self.vocabulary.encode(data.held_out))
        shortest = min(len(self._train_N), len(self._held_out_N))
        if shortest <= context:
            raise ValueError(
                f"Both parts of a text must be longer than a window, but a window holds "
                f"{context} {unit} and the shorter part {shortest}; give a longer text."
            )
        self._characters_V = torch.tensor(
            [_characters(self.vocabulary, i) for i in range(len(self.vocabulary))]
        )

    @classmethod
    def learn(
        cls, data: TextData, context: int, tokens: str = "characters", size: int | None = None
    ) -> LM:
        """A task whose ``tokens`` are "characters" or "bpe".

        The pieces of bpe, ``size`` tokens (1,024 if ``None``), are learned from the part to
        train on, and from no other.
        """
        if tokens not in ("characters", "bpe"):
            raise ValueError(
                f"The tokens must be characters or bpe, but got {tokens!r}; choose one of these."
            )
        if tokens == "bpe":
            pieces = ByteBPE.train(data.train, VOCABULARY_SIZE if size is None else size)
            return cls(data, context, pieces)
        if size is not None:
            raise ValueError(
                f"Only a vocabulary of bpe has a size to choose, but got {size} for characters; "
                f"leave it out, or take bpe."
            )
        return cls(data, context)

    @property
    def predicted(self) -> int:
        """Characters of the held-out part that are judged: all but those of its first token."""
        return int(self._count(self._held_out_N[1:]))

    def describe(self) -> dict:
        if isinstance(self.vocabulary, ByteBPE):
            own = {"tokens": "bpe", "merges": list(self.vocabulary.merges)}
        else:
            own = {"tokens": "characters", "symbols": list(self.vocabulary.symbols)}
        return {"task": "lm", **own, "context": self.context}

    def batches(self, seed: int, epoch: int, batch_size: int) -> Iterator[WindowBatch]:
        yield from random_windows(self._train_N, self.context, batch_size, seed, epoch)

    def loss(
        self, model: nn.Module, batch: WindowBatch, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """Sum of the losses of all tokens in nats, and how many characters they stand for."""
        total, _ = cross_entropy(model(batch.input_BT), batch.target_BT, smoothing)
        return total, self._count(batch.target_BT)

    def _count(self, tokens: Tensor) -> Tensor:
        """How many characters these tokens stand for."""
        return self._characters_V.to(tokens.device)[tokens].sum()

    @torch.inference_mode()
    def judge(self, model: nn.Module, part: str, limit: int | None) -> dict[str, float]:
        r"""Mean loss per held-out character (nats), and in bits (divided by ln 2).

        Windows overlap by half, and only the second half of each counts (all of the first
        window). So every token but the very first is predicted once, and all but those of
        the first half-window with at least half a window before them. ``limit`` judges only
        that many windows, spread evenly over the text. Nats are summed over tokens and divided by
        the characters that they stand for.
        """
        text_N, T = self._held_out_N, self.context
        device = next(model.parameters()).device
        skip = T - T // 2
        starts = list(range(0, len(text_N) - 1 - skip, T // 2))
        if limit is not None and limit < len(starts):
            starts = [starts[i * len(starts) // limit] for i in range(limit)]
        total, count = 0.0, 0
        for first in range(0, len(starts), 64):
            whole = [text_N[s : s + T + 1] for s in starts[first : first + 64]]
            for length in sorted({len(window) for window in whole}):  # the last ones are shorter
                windows_BN = torch.stack([w for w in whole if len(w) == length]).to(device)
                logits_BTV = model(windows_BN[:, :-1])
                target_BT = windows_BN[:, 1 + skip :]
                loss, _ = cross_entropy(logits_BTV[:, skip:], target_BT)
                total, count = total + float(loss), count + int(self._count(target_BT))
            if first == 0:  # the first half of the very first window has no other window
                window_BN = whole[0][None].to(device)
                target_BT = window_BN[:, 1 : 1 + skip]
                loss, _ = cross_entropy(model(window_BN[:, :-1])[:, :skip], target_BT)
                total, count = total + float(loss), count + int(self._count(target_BT))
        nats = total / count
        return {f"{part}_loss": nats, f"{part}_bits": nats / math.log(2)}


def _characters(vocabulary: Vocabulary | ByteBPE, i: int) -> int:
    """How many characters begin in a token: bytes of UTF-8 that do not continue one."""
    if isinstance(vocabulary, Vocabulary):
        return int(i >= len(SPECIAL))
    return sum(byte & 0b1100_0000 != 0b1000_0000 for byte in vocabulary.bytes_of(i))
