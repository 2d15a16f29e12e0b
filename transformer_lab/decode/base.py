r"""What every decoding strategy shares: hypotheses, and the distribution of the next symbol."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..models import EncoderDecoder
from ..tokens import BOS, PAD


@dataclass(frozen=True)
class Hypothesis:
    r"""One decoded target.

    ``ids`` without BOS and EOS; ``log_probability`` is log p(ids, EOS | source) in nats under
    the model (without EOS if ``finished`` is false: the length limit came first).
    """

    ids: tuple[int, ...]
    log_probability: float
    finished: bool


def next_log_probabilities(logits_BTV: Float[Tensor, "B T V"]) -> Float[Tensor, "B T V"]:
    r"""log p(y_t | y_<t, x) of every symbol that may come next.

    .. math:: \log p_v = z_v - \log \textstyle\sum_{v'} e^{z_{v'}}

    z are the model's logits. The sum runs over the whole vocabulary, so these are the model's
    own probabilities; PAD and BOS can never come next and are set to −∞ afterwards.
    """
    log_p_BTV = logits_BTV.float().log_softmax(-1)
    log_p_BTV[..., [PAD, BOS]] = -torch.inf
    return log_p_BTV


def step_limit(model: EncoderDecoder, max_symbols: int | None) -> int:
    """How many steps a decoder may take: ``max_symbols`` plus one for EOS, or what fits.

    The last step may say a symbol instead of EOS; such a hypothesis is unfinished and holds
    ``max_symbols + 1`` symbols.
    """
    room = model.config.max_length - 1
    if room < 1:
        raise ValueError(
            f"To decode, a model must take at least 2 tokens (BOS and one more), but max_length "
            f"is {model.config.max_length}; make a model with a larger one."
        )
    if max_symbols is None:
        return room
    if not 1 <= max_symbols <= room - 1:
        raise ValueError(
            f"The number of symbols to decode must lie between 1 and {room - 1} (the model "
            f"takes {model.config.max_length} tokens), but got {max_symbols}; choose one between."
        )
    return max_symbols + 1
