"""A model whose distribution is written down, and a search through every target there is."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import nn

from transformer_lab.attention import DecoderState, KVCache
from transformer_lab.models import EncoderDecoder
from transformer_lab.tokens import BOS, EOS, PAD

Next = Callable[[int, tuple[int, ...]], dict[int, float]]
"""(first symbol of the source, target so far) to the probabilities of what comes next."""


class Tree(EncoderDecoder):
    """A "model" that looks its probabilities up; symbols that are not named get none."""

    def __init__(self, table: Next, size: int, max_length: int = 9):
        nn.Module.__init__(self)
        self.config = SimpleNamespace(max_length=max_length)
        self.table, self.size, self.steps = table, size, 0

    def start(self, source_BS, width=1):
        """What was said so far, for each hypothesis of each source."""
        state = DecoderState([KVCache(1)])
        state.said = [(s, [()] * width) for s in source_BS[:, 0].tolist()]
        return state

    def step(self, target_BT, state):
        return self.branch(target_BT, torch.zeros_like(target_BT), state)

    def branch(self, tokens_BW, parent_BW, state):
        self.steps += 1
        state.said = [
            (source, [(*said[p], symbol) for symbol, p in zip(symbols, parents, strict=True)])
            for (source, said), symbols, parents in zip(
                state.said, tokens_BW.tolist(), parent_BW.tolist(), strict=True
            )
        ]
        logits = torch.full((*tokens_BW.shape, self.size), -math.inf, dtype=torch.float64)
        for b, (source, hypotheses) in enumerate(state.said):
            for w, said in enumerate(hypotheses):
                # one that is done is fed PAD; whoever listens to its answer is led astray
                known = {3: 1.0} if PAD in said or EOS in said else self.table(source, said[1:])
                for symbol, probability in known.items():
                    logits[b, w, symbol] = math.log(probability)
        return logits


def best_first(found: dict[tuple[tuple[int, ...], bool], float], alpha: float = 0.0) -> list:
    """Targets ordered by log p / ((5 + |y|) / 6)^α, EOS counted; the best first."""

    def rank(key):
        ids, finished = key
        return -found[key] / ((5 + len(ids) + finished) / 6) ** alpha

    return sorted(found, key=rank)


def all_targets(model: EncoderDecoder, source_1S, steps: int) -> dict:
    """log p of every target that ``steps`` steps can give, by teacher forcing, one by one.

    Keys are (symbols, finished): fewer than ``steps`` symbols and EOS, or ``steps`` symbols
    without. Nothing of the decoding room is used: no cache, no batch, the plain forward pass.
    """
    found = {}

    def visit(ids, log_p):
        if len(ids) == steps:
            found[(ids, False)] = log_p
            return
        with torch.inference_mode():
            after = model(source_1S, torch.tensor([[BOS, *ids]]))[0, -1].log_softmax(-1).tolist()
        found[(ids, True)] = log_p + after[EOS]
        for symbol in range(3, model.config.target_size):
            visit((*ids, symbol), log_p + after[symbol])

    visit((), 0.0)
    return found


def alone(source_BS, b: int):
    """Row b of a batch of sources, without its padding."""
    return source_BS[b : b + 1, : int((source_BS[b] != PAD).sum())]


def teacher_forced(model: EncoderDecoder, source_1S, ids: tuple[int, ...], finished: bool) -> float:
    """log p of a target from one forward pass (in nats; with EOS if it was said)."""
    said = [*ids, *[EOS] * finished]
    with torch.inference_mode():
        log_p = model(source_1S, torch.tensor([[BOS, *said[:-1]]]))[0].log_softmax(-1)
    return sum(log_p[t, symbol].item() for t, symbol in enumerate(said))
