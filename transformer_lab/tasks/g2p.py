r"""Spelling to pronunciation: letters in, phonemes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from ..batches import Batch, bucketed_indices, pad, pair_batch
from ..data.g2p import Entry, G2PData
from ..decode import beam, greedy
from ..losses import cross_entropy
from ..metrics import Scores, score
from ..models import EncoderDecoder
from ..tokens import Vocabulary


class G2P:
    """Spelling to pronunciation: letters in, phonemes out.

    Every pronunciation of a training word is a pair of its own; in judging, a word is right
    if the answer equals any of its pronunciations.
    """

    def __init__(self, data: G2PData):
        self.data = data
        self.source = Vocabulary(tuple(data.source_symbols))
        self.target = Vocabulary(tuple(data.target_symbols))
        pairs = data.pairs("train")
        self._sources = [self.source.encode(word) for word, _ in pairs]
        self._targets = [self.target.encode(phones) for _, phones in pairs]
        self._lengths = [
            (len(t), len(s)) for s, t in zip(self._sources, self._targets, strict=True)
        ]

    def describe(self) -> dict:
        return {
            "task": "g2p",
            "source_symbols": list(self.source.symbols),
            "target_symbols": list(self.target.symbols),
        }

    @property
    def longest(self) -> int:
        """Tokens in the longest source or target of any part, BOS or EOS included."""
        entries = [e for part in ("train", "dev", "test") for e in getattr(self.data, part)]
        return max(
            max(len(word), 1 + max(len(p) for p in phones)) for word, phones in entries
        )

    def batches(self, seed: int, epoch: int, batch_size: int) -> Iterator[Batch]:
        for indices in bucketed_indices(self._lengths, batch_size, seed, epoch):
            yield pair_batch(
                [self._sources[i] for i in indices], [self._targets[i] for i in indices]
            )

    def loss(self, model: nn.Module, batch: Batch, smoothing: float) -> tuple[Tensor, Tensor]:
        logits_BTV = model(batch.source_BS, batch.target_in_BT)
        return cross_entropy(logits_BTV, batch.target_out_BT, smoothing)

    @torch.inference_mode()
    def judge(self, model: EncoderDecoder, part: str, limit: int | None) -> dict[str, float]:
        """Greedy error rates and the loss per phoneme (nats, no smoothing) on a part."""
        entries = sample(getattr(self.data, part), limit)
        scores = score_words(model, entries, self.source, self.target)
        total, count = 0.0, 0
        device = next(model.parameters()).device
        for start in range(0, len(entries), 512):
            chunk = entries[start : start + 512]
            batch = pair_batch(
                [self.source.encode(word) for word, _ in chunk],
                [self.target.encode(phones[0]) for _, phones in chunk],
            ).to(device)
            loss, tokens = self.loss(model, batch, 0.0)
            total, count = total + float(loss), count + int(tokens)
        return {
            f"{part}_loss": total / count,
            f"{part}_per": scores.per,
            f"{part}_wer": scores.wer,
        }


def sample(entries: Sequence[Entry], limit: int | None) -> Sequence[Entry]:
    """Every k-th entry, so that about ``limit`` are left (all of them if ``None``)."""
    if limit is None or limit >= len(entries):
        return entries
    return entries[:: len(entries) // limit][:limit]


def transcribe(
    model: EncoderDecoder,
    words: Sequence[str],
    source: Vocabulary,
    target: Vocabulary,
    width: int = 1,
    batch_size: int = 512,
    advance: Callable[[int, int], None] | None = None,
) -> list[tuple[str, ...]]:
    """The model's answer for every word, greedy (``width`` 1) or by beam search, in order.

    ``advance`` hears how many words are done, and out of how many.
    """
    device = next(model.parameters()).device
    order = sorted(range(len(words)), key=lambda i: len(words[i]))
    answers: list[tuple[str, ...]] = [()] * len(words)
    # rows of a beam, and who sees whom among them, fill the memory
    batch_size = max(1, min(batch_size, 4096 // width, 100_000 // width**2))
    for start in range(0, len(order), batch_size):
        indices = order[start : start + batch_size]
        ids_BS = pad([source.encode(words[i]) for i in indices]).to(device)
        if width == 1:
            found = greedy(model, ids_BS)
        else:
            found = [hypotheses[0] for hypotheses in beam(model, ids_BS, width)]
        for i, hypothesis in zip(indices, found, strict=True):
            answers[i] = target.decode(hypothesis.ids)
        if advance is not None:
            advance(start + len(indices), len(order))
    return answers


def score_words(
    model: EncoderDecoder,
    entries: Sequence[Entry],
    source: Vocabulary,
    target: Vocabulary,
    width: int = 1,
    advance: Callable[[int, int], None] | None = None,
) -> Scores:
    """Error rates of the model on dictionary entries (see :func:`transformer_lab.score`)."""
    words = [word for word, _ in entries]
    answers = transcribe(model, words, source, target, width, advance=advance)
    return score(answers, [phones for _, phones in entries])
