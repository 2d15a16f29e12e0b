r"""Beam search: keep the W best beginnings instead of one."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from ..models import EncoderDecoder
from ..tokens import BOS, EOS, PAD
from .base import Hypothesis, next_log_probabilities, step_limit

WIDEST = 200
"""A wider beam is refused: it would fill the memory of most computers."""


@torch.inference_mode()
def beam(
    model: EncoderDecoder,
    source_BS: Int[Tensor, "B S"],
    width: int = 5,
    length_penalty: float = 0.0,
    max_symbols: int | None = None,
) -> list[list[Hypothesis]]:
    r"""For each source, up to ``width`` targets, the best first.

    At every step each of the W hypotheses of a source is extended by every symbol, and the W
    extensions with the largest log p(y_{≤t} | x) survive. A hypothesis that has said EOS keeps
    its place and its score. At the end hypotheses are ordered by

    .. math:: \frac{\log p(y \mid x)}{\left(\frac{5 + |y|}{6}\right)^{\alpha}}

    |y| counts EOS, α = ``length_penalty`` (0: by probability alone; Wu et al. 2016, equation
    14). Width 1 is greedy decoding. A width larger than the number of hypotheses that exist
    returns fewer; one that the length limit cut off is ranked by what it has so far, without EOS.
    The hypotheses of a source are a tree: they share one cache, and each sees its own path
    (:meth:`~transformer_lab.attention.DecoderState.branch`).
    Raises ``ValueError`` for a width outside 1 … 200.
    """
    if not 1 <= width <= WIDEST:
        raise ValueError(f"A beam must be 1 to {WIDEST} wide, but got {width}; 5 is usual.")
    B, W = source_BS.shape[0], width
    device = source_BS.device
    state = model.start(source_BS, W)
    # Only the first hypothesis of each source counts at the start: all W are the same.
    total_BW = torch.full((B, W), -torch.inf, device=device)
    total_BW[:, 0] = 0.0
    symbol_BW = torch.full((B, W), BOS, device=device)
    parent_BW = torch.zeros((B, W), dtype=torch.long, device=device)
    done_BW = torch.zeros((B, W), dtype=torch.bool, device=device)
    steps = []
    for _ in range(step_limit(model, max_symbols)):
        log_p_BWV = next_log_probabilities(model.branch(symbol_BW, parent_BW, state))
        log_p_BWV.masked_fill_(done_BW[:, :, None], -torch.inf)
        log_p_BWV[:, :, PAD].masked_fill_(done_BW, 0.0)
        V = log_p_BWV.shape[-1]
        total_BM = (total_BW[:, :, None] + log_p_BWV).flatten(1)
        # A stable sort, unlike topk, settles ties: the smaller id first.
        order = total_BM.sort(dim=-1, descending=True, stable=True)
        total_BW, choice_BW = order.values[:, :W], order.indices[:, :W]
        parent_BW, symbol_BW = choice_BW // V, choice_BW % V
        steps.append((symbol_BW, parent_BW))
        done_BW = done_BW.gather(1, parent_BW) | (symbol_BW == EOS)
        if (done_BW | (total_BW == -torch.inf)).all():
            break
    rows, done = _read_back(steps).tolist(), done_BW.tolist()
    return [
        _ordered(rows[b], total_BW[b].tolist(), done[b], length_penalty) for b in range(B)
    ]


def _read_back(steps: list[tuple[Tensor, Tensor]]) -> Int[Tensor, "B W T"]:
    """What each hypothesis said, from the last step back to the first along its parents."""
    place_BW = torch.arange(steps[0][0].shape[1], device=steps[0][0].device)
    place_BW = place_BW.expand_as(steps[0][0])
    columns = []
    for symbol_BW, parent_BW in reversed(steps):
        columns.append(symbol_BW.gather(1, place_BW))
        place_BW = parent_BW.gather(1, place_BW)
    return torch.stack(columns[::-1], dim=-1)


def _ordered(
    rows: list[list[int]], totals: list[float], done: list[bool], alpha: float
) -> list[Hypothesis]:
    """Hypotheses of one source that exist (log p > −∞), the best first."""
    found = [
        Hypothesis(tuple(i for i in row if i not in (PAD, BOS, EOS)), total, finished)
        for row, total, finished in zip(rows, totals, done, strict=True)
        if total > -torch.inf
    ]

    def rank(h: Hypothesis) -> float:
        return -h.log_probability / ((5 + len(h.ids) + h.finished) / 6) ** alpha

    return sorted(found, key=rank)
