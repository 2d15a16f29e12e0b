r"""Language modelling: the next character of a text."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ..batches import WindowBatch, random_windows
from ..data.text import TextData
from ..losses import cross_entropy
from ..tokens import Vocabulary


class LM:
    """Characters of a text in, the next character out.

    ``context`` is the length of a window in characters. The vocabulary holds the characters of
    the whole text, held-out part included, so that no character is unknown.
    """

    def __init__(self, data: TextData, context: int):
        self.data, self.context = data, context
        self.vocabulary = Vocabulary(data.symbols)
        if context < 2:
            raise ValueError(f"A window holds at least 2 characters, but context = {context}.")
        shortest = min(len(data.train), len(data.held_out))
        if shortest <= context:
            raise ValueError(
                f"Both parts of a text must be longer than a window, but a window holds "
                f"{context} characters and the shorter part {shortest}; give a longer text."
            )
        self._train_N = torch.tensor(self.vocabulary.encode(data.train))
        self._held_out_N = torch.tensor(self.vocabulary.encode(data.held_out))

    def describe(self) -> dict:
        return {
            "task": "lm",
            "symbols": list(self.vocabulary.symbols),
            "context": self.context,
        }

    def batches(self, seed: int, epoch: int, batch_size: int) -> Iterator[WindowBatch]:
        yield from random_windows(self._train_N, self.context, batch_size, seed, epoch)

    def loss(
        self, model: nn.Module, batch: WindowBatch, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        return cross_entropy(model(batch.input_BT), batch.target_BT, smoothing)

    @torch.inference_mode()
    def judge(self, model: nn.Module, part: str, limit: int | None) -> dict[str, float]:
        r"""Mean loss per held-out character (nats), and in bits (divided by ln 2).

        Windows overlap by half, and only the second half of each counts (all of the first
        window). So every character but the very first is predicted once, and all but those of
        the first half-window with at least half a window before them. ``limit`` judges about
        that many windows, from the beginning.
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
                loss, tokens = cross_entropy(logits_BTV[:, skip:], windows_BN[:, 1 + skip :])
                total, count = total + float(loss), count + int(tokens)
            if first == 0:  # the first half of the very first window has no other window
                loss, tokens = cross_entropy(
                    model(whole[0][None, :-1].to(device))[:, :skip],
                    whole[0][None, 1 : 1 + skip].to(device),
                )
                total, count = total + float(loss), count + int(tokens)
        nats = total / count
        return {f"{part}_loss": nats, f"{part}_bits": nats / math.log(2)}
