r"""A language model, ready for use."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float

from ..decode import GREEDY, Greedy, Strategy, generate, stream
from ..models import DecoderOnly
from ..tokens import BOS, EOS, PAD, SPECIAL, ByteBPE, Vocabulary

NEVER = (PAD, BOS, EOS)
"""What is no symbol of a running text: the model has never seen it there."""


class Writer:
    """A language model that continues texts: see :func:`~transformer_lab.load`.

    Its symbols are characters, or pieces of words (:class:`~transformer_lab.ByteBPE`).
    """

    def __init__(self, model: DecoderOnly, vocabulary: Vocabulary | ByteBPE, about: dict):
        self.model, self.vocabulary, self.about = model.eval(), vocabulary, about

    def write(
        self,
        prompt: str,
        length: int = 200,
        strategy: Strategy | Greedy = GREEDY,
        seed: int = 1,
        stop: str | None = None,
    ) -> str:
        """What the model writes after ``prompt``: ``length`` symbols, or up to ``stop`` (included).

        ``stop`` is a character (of several, the last). The same seed gives the same text. Pieces
        of words are decoded together, so a character that they cut is whole; only one that the
        model left unfinished is written as �. Raises ``ValueError`` for symbols it does not know.
        """
        return "".join(self.stream(prompt, length, strategy, seed, stop))

    def stream(
        self,
        prompt: str,
        length: int = 200,
        strategy: Strategy | Greedy = GREEDY,
        seed: int = 1,
        stop: str | None = None,
    ) -> Iterator[str]:
        """The text of :meth:`write` in pieces, each as soon as its characters are whole."""
        ids, ends = [self._ids(prompt)], [] if stop is None else self._ends(stop)
        steps = stream(self.model, ids, length, strategy, _generator(seed), ends, never=NEVER)
        return self._pieces(steps, stop)

    def _pieces(self, steps: Iterator[list[int | None]], stop: str | None) -> Iterator[str]:
        pieces = isinstance(self.vocabulary, ByteBPE)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for (token,) in steps:
            if pieces:
                text = decoder.decode(self.vocabulary.bytes_of(token))
            else:
                text = self.vocabulary.label(token)
            if stop is not None and stop[-1] in text:
                yield _up_to(stop[-1], text)
                return
            yield text
        yield decoder.decode(b"", final=True)

    def write_many(
        self,
        prompts: list[str],
        length: int = 200,
        strategy: Strategy | Greedy = GREEDY,
        seed: int = 1,
        stop: str | None = None,
    ) -> list[str]:
        """One text after each prompt, all written side by side.

        As each alone, until the longest fills what the model sees at once: they forget together.
        """
        ids = [self._ids(prompt) for prompt in prompts]
        ends = [] if stop is None else self._ends(stop)
        found = generate(self.model, ids, length, strategy, _generator(seed), ends, never=NEVER)
        texts = ["".join(self.vocabulary.decode(answer)) for answer in found]
        return texts if stop is None else [_up_to(stop[-1], text) for text in texts]

    @torch.inference_mode()
    def distribution(
        self, text: str, strategy: Strategy | Greedy | None = None
    ) -> dict[str, float]:
        """The probability of each symbol that may come after ``text``, the largest first.

        The model's own distribution, or the one that ``strategy`` makes of it. Of a longer text
        the model sees the last symbols, as many as it can at once.
        """
        strategy = Strategy() if strategy is None else strategy
        seen_BT = self._window(text)
        logits_BV = self.model(seen_BT)[:, -1].float()
        logits_BV[:, list(NEVER)] = -torch.inf
        p_V = strategy.distribution(logits_BV, seen_BT)[0].tolist()
        order = sorted(range(len(p_V)), key=lambda i: -p_V[i])
        return {self.vocabulary.label(i): p_V[i] for i in order if i not in NEVER}

    @torch.inference_mode()
    def surprise(self, text: str) -> Float[np.ndarray, " n"]:
        r"""Nats of each symbol of ``text`` but the first, given those before it.

        .. math:: -\log p(y_t \mid y_{<t})

        In a text longer than the model sees at once, windows overlap by half and the second half
        of each counts, as when a model is judged: each symbol has at least half a window before
        it, as far as the text goes back.
        """
        text_N = torch.tensor(self._ids(text), device=self.model.embedding.weight.device)
        T = self.model.config.max_length
        stride = max(1, T // 2)
        nats = []
        for start in range(0, max(1, len(text_N) - 1 - (T - stride)), stride):
            window_T = text_N[start : start + T + 1]
            log_p_TV = self.model(window_T[None, :-1])[0].float().log_softmax(-1)
            nats_T = -log_p_TV.gather(-1, window_T[1:, None])[:, 0]
            nats.append(nats_T if start == 0 else nats_T[T - stride :])
        return torch.cat(nats).cpu().numpy()

    def _ends(self, stop: str) -> list[int]:
        """The symbols with the last character of ``stop`` in them."""
        if not stop:
            raise ValueError("Writing stops at a character, but stop is empty; give one, or None.")
        if isinstance(self.vocabulary, Vocabulary):
            return self.vocabulary.encode(stop[-1])
        ids = range(len(SPECIAL), len(self.vocabulary))
        return [i for i in ids if stop[-1].encode() in self.vocabulary.bytes_of(i)]

    def _ids(self, text: str) -> list[int]:
        if not text:
            raise ValueError(
                "A prompt needs at least one symbol, but got an empty one; a line end will do."
            )
        return self.vocabulary.encode(text)

    def _window(self, text: str) -> torch.Tensor:
        """The last symbols of a text, as many as the model sees at once."""
        ids = self._ids(text)[-self.model.config.max_length :]
        return torch.tensor([ids], device=self.model.embedding.weight.device)


def _generator(seed: int) -> torch.Generator:
    if not 0 <= seed < 2**32:
        raise ValueError(
            f"A seed must lie between 0 and 2³² − 1, but got {seed}; choose one of these."
        )
    return torch.Generator().manual_seed(seed)


def _up_to(character: str, text: str) -> str:
    """The text up to the first time the character stands there: a piece may reach beyond it."""
    before, found, _ = text.partition(character)
    return before + found
