r"""A spelling-to-pronunciation model, ready for use."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np
import torch

from ..batches import pad
from ..decode import Hypothesis, beam, greedy
from ..models import EncoderDecoder
from ..tokens import BOS, EOS, Vocabulary


@dataclass(frozen=True)
class Explanation:
    r"""One word and what the model does with it.

    ``letters`` (S of them); ``symbols`` (T of them: the phonemes, then ``<eos>``,
    whether or not the model wrote it);
    ``probability_T``: what the model gave each symbol when its turn came;
    ``cross_LHTS``: cross-attention weights of every decoder layer and head. Row t of a map is
    the distribution over the letters used to predict symbol t.
    """

    letters: tuple[str, ...]
    symbols: tuple[str, ...]
    probability_T: np.ndarray
    cross_LHTS: np.ndarray

    @property
    def phones(self) -> tuple[str, ...]:
        """The phonemes: the symbols without the end symbol."""
        return self.symbols[:-1]


class Pronouncer:
    """A spelling-to-pronunciation model, ready for use: see :func:`~transformer_lab.load`."""

    def __init__(self, model: EncoderDecoder, source: Vocabulary, target: Vocabulary, about: dict):
        self.model, self.source, self.target, self.about = model.eval(), source, target, about

    def spelling(self, word: str) -> str:
        """``word`` as the model reads it: composed (NFC), small letters unless it knows others."""
        word = unicodedata.normalize("NFC", word.strip())
        if not any(symbol != symbol.lower() for symbol in self.source.symbols):
            word = word.lower()
        if not word:
            raise ValueError(
                "A word needs at least one letter, but got an empty one; write its letters."
            )
        return word

    def _ids(self, word: str) -> torch.Tensor:
        device = next(self.model.parameters()).device
        return pad([self.source.encode(self.spelling(word))]).to(device)

    def pronounce(self, word: str, width: int = 1) -> tuple[str, ...]:
        """The phonemes of ``word``: greedy, or the best of a beam of ``width``."""
        return self.nbest(word, width)[0][0]

    def nbest(self, word: str, width: int = 5) -> list[tuple[tuple[str, ...], float]]:
        """Up to ``width`` pronunciations with their log-probabilities (nats), best first."""
        ids_BS = self._ids(word)
        found: list[Hypothesis] = (
            greedy(self.model, ids_BS) if width == 1 else beam(self.model, ids_BS, width)[0]
        )
        return [(self.target.decode(h.ids), h.log_probability) for h in found]

    @torch.inference_mode()
    def explain(self, word: str, phones: tuple[str, ...] | None = None) -> Explanation:
        """What the model looks at while it says ``phones`` (by default: its greedy answer)."""
        ids_BS = self._ids(word)
        phones = self.pronounce(word) if phones is None else tuple(phones)
        ids = self.target.encode(phones)
        trace: dict[str, torch.Tensor] = {}
        inputs_BT = torch.tensor([[BOS, *ids]], device=ids_BS.device)
        logits_TV = self.model(ids_BS, inputs_BT, trace)[0].float()
        said = torch.tensor([*ids, EOS], device=ids_BS.device)
        probability_T = logits_TV.softmax(-1).gather(-1, said[:, None])[:, 0]
        layers = range(len(self.model.decoder))
        cross = torch.stack([trace[f"decoder.{i}.cross.weights_BHTS"][0] for i in layers])
        return Explanation(
            tuple(self.spelling(word)),
            (*phones, "<eos>"),
            probability_T.cpu().numpy(),
            cross.float().cpu().numpy(),
        )
