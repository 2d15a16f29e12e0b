r"""A language model, ready for use."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float

from ..decode import GREEDY, Greedy, Strategy, generate
from ..models import DecoderOnly
from ..tokens import BOS, PAD, Vocabulary


class Writer:
    """A language model that continues texts: see :func:`~transformer_lab.load`."""

    def __init__(self, model: DecoderOnly, vocabulary: Vocabulary, about: dict):
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

        The same seed gives the same text. Raises ``ValueError`` for symbols it does not know.
        """
        return self.write_many([prompt], length, strategy, seed, stop)[0]

    def write_many(
        self,
        prompts: list[str],
        length: int = 200,
        strategy: Strategy | Greedy = GREEDY,
        seed: int = 1,
        stop: str | None = None,
    ) -> list[str]:
        """One text after each prompt, all written side by side."""
        if not 0 <= seed < 2**32:
            raise ValueError(
                f"A seed must lie between 0 and 2³² − 1, but got {seed}; choose one of these."
            )
        generator = torch.Generator().manual_seed(seed)
        ids = [self._ids(prompt) for prompt in prompts]
        ends = () if stop is None else self.vocabulary.encode(stop)[-1:]
        found = generate(self.model, ids, length, strategy, generator, ends)
        return ["".join(self.vocabulary.decode(answer)) for answer in found]

    @torch.inference_mode()
    def distribution(
        self, text: str, strategy: Strategy | Greedy | None = None
    ) -> dict[str, float]:
        """The probability of each symbol that may come after ``text``, the largest first.

        The model's own distribution, or the one that ``strategy`` makes of it.
        """
        strategy = Strategy() if strategy is None else strategy
        seen_BT = self._window(text)
        logits_BV = self.model(seen_BT)[:, -1].float()
        logits_BV[:, [PAD, BOS]] = -torch.inf
        p_V = strategy.distribution(logits_BV, seen_BT)[0].tolist()
        order = sorted(range(len(p_V)), key=lambda i: -p_V[i])
        return {self.vocabulary.label(i): p_V[i] for i in order if i not in (PAD, BOS)}

    @torch.inference_mode()
    def surprise(self, text: str) -> Float[np.ndarray, " n"]:
        r"""Nats of each symbol of ``text`` but the first, given those before it.

        .. math:: -\log p(y_t \mid y_{<t})
        """
        seen_BT = self._window(text)
        log_p_TV = self.model(seen_BT[:, :-1])[0].float().log_softmax(-1)
        return -log_p_TV.gather(-1, seen_BT[0, 1:, None])[:, 0].cpu().numpy()

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
