r"""Writing with a decoder-only model: one token after another, each from a distribution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..models import DecoderOnly
from ..tokens import BOS, PAD
from .sampling import GREEDY, Greedy, Strategy


def generate(
    model: DecoderOnly,
    prompts: Sequence[Sequence[int]],
    max_new: int,
    strategy: Strategy | Greedy = GREEDY,
    generator: torch.Generator | None = None,
    stop: Sequence[int] = (),
    cache: bool = True,
    never: Sequence[int] = (PAD, BOS),
) -> list[list[int]]:
    r"""Continue each prompt by up to ``max_new`` tokens.

    .. math:: y_t \sim q(\cdot \mid y_{<t}), \qquad q = \mathrm{strategy}(z(y_{<t}))

    z are the model's logits after everything so far, with −∞ for the tokens of ``never``: PAD
    and BOS, which can never come next, unless told otherwise. A prompt ends early with a token
    of ``stop``, which is the last of its answer. ``generator`` makes the draws repeatable;
    ``cache=False`` computes every prefix anew (the same answer, slowly: what the cache must
    equal).

    Prompts may differ in length: shorter ones are padded on the left. The model sees at most
    ``max_length`` tokens; when they are full, it forgets all but the last half and reads on
    from there, so every token is written with at least half a window before it.
    Raises ``ValueError`` for an empty prompt, no prompt, an unknown id or ``max_new`` < 1.
    """
    answers: list[list[int]] = [[] for _ in prompts]
    for said in stream(model, prompts, max_new, strategy, generator, stop, cache, never):
        for answer, token in zip(answers, said, strict=True):
            if token is not None:
                answer.append(token)
    return answers


def stream(
    model: DecoderOnly,
    prompts: Sequence[Sequence[int]],
    max_new: int,
    strategy: Strategy | Greedy = GREEDY,
    generator: torch.Generator | None = None,
    stop: Sequence[int] = (),
    cache: bool = True,
    never: Sequence[int] = (PAD, BOS),
) -> Iterator[list[int | None]]:
    """What :func:`generate` finds, step by step: the next token of each prompt as it is drawn.

    ``None`` stands for a prompt that has ended.
    """
    _check(model, prompts, max_new)
    return _steps(_Window(model, prompts, cache), max_new, strategy, generator, stop, never)


def _steps(
    window: _Window, max_new: int, strategy: Strategy | Greedy,
    generator: torch.Generator | None, stop: Sequence[int], never: Sequence[int],
) -> Iterator[list[int | None]]:  # fmt: skip
    unfinished, ends = set(range(len(window.padding_B))), frozenset(stop)
    next_B = None
    for _ in range(max_new):
        next_B = _draw(window, next_B, strategy, generator, never)
        said = next_B.tolist()
        yield [token if b in unfinished else None for b, token in enumerate(said)]
        unfinished -= {b for b, token in enumerate(said) if token in ends}
        if not unfinished:
            return


@torch.inference_mode()
def _draw(
    window: _Window, last_B: Int[Tensor, " B"] | None, strategy: Strategy | Greedy,
    generator: torch.Generator | None, never: Sequence[int],
) -> Int[Tensor, " B"]:  # fmt: skip
    """The next token of each text, after the one drawn last (if there was one)."""
    logits_BV = window.read() if last_B is None else window.append(last_B)
    logits_BV[:, list(never)] = -torch.inf
    return strategy.draw(logits_BV, window.seen_BT, generator)


class _Window:
    """The part of the texts that the model sees, and what it remembers of it."""

    def __init__(self, model: DecoderOnly, prompts: Sequence[Sequence[int]], cached: bool):
        self.model, self.cached, self.limit = model, cached, model.config.max_length
        device = model.embedding.weight.device
        longest = max(map(len, prompts))
        padding = [longest - len(prompt) for prompt in prompts]
        rows = [[*[PAD] * gap, *prompt] for gap, prompt in zip(padding, prompts, strict=True)]
        self.padding_B = torch.tensor(padding, device=device)
        self._hold(torch.tensor(rows, device=device))

    @property
    def seen_BT(self) -> Int[Tensor, "B T"]:
        """What the model sees, padding on the left."""
        return self.room_BN[:, : self.length]

    def _hold(self, tokens_BT: Tensor) -> None:
        """Begin a window with these tokens, or with their last half window if they are more."""
        B, T = tokens_BT.shape
        if T > self.limit:
            kept = max(1, self.limit // 2)
            self.padding_B = (self.padding_B - (T - kept)).clamp(min=0)
            tokens_BT = tokens_BT[:, -kept:]
        self.length = tokens_BT.shape[1]
        self.room_BN = tokens_BT.new_empty(B, self.limit)
        self.room_BN[:, : self.length] = tokens_BT

    def read(self) -> Float[Tensor, "B V"]:
        """Logits after the window, read from its start."""
        padded = bool(self.padding_B.any())
        self.state = self.model.start(self.padding_B if padded else None)
        return self.model.step(self.seen_BT, self.state)[:, -1]

    def append(self, next_B: Int[Tensor, " B"]) -> Float[Tensor, "B V"]:
        """Logits after one more token of each text."""
        if self.length == self.limit:
            self._hold(torch.cat([self.seen_BT, next_B[:, None]], dim=1))
            return self.read()
        self.room_BN[:, self.length] = next_B
        self.length += 1
        if not self.cached:
            return self.read()
        return self.model.step(next_B[:, None], self.state)[:, -1]


def _check(model: DecoderOnly, prompts: Sequence[Sequence[int]], max_new: int) -> None:
    if not prompts or not all(prompts):
        raise ValueError(
            f"There must be at least one prompt, each of at least one token, but got "
            f"{len(prompts)}, the shortest of length {min(map(len, prompts), default=0)}; give "
            f"the model something to continue (BOS or a line end will do)."
        )
    if max_new < 1:
        raise ValueError(f"max_new must be at least 1, but got {max_new}; ask for a token or more.")
    ids, size = [i for prompt in prompts for i in prompt], model.config.size
    if min(ids) < 0 or max(ids) >= size:
        wrong = min(ids) if min(ids) < 0 else max(ids)
        raise ValueError(
            f"An id must lie between 0 and {size - 1} (the vocabulary has {size} symbols), but "
            f"got {wrong}; was the prompt encoded with another vocabulary?"
        )
    if any(i == PAD for i in ids):
        raise ValueError(
            "A prompt holds no padding (id 0), but one of these does; leave it out: shorter "
            "prompts are padded here."
        )
