r"""Beam search: keep the W best beginnings instead of one."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from ..models import EncoderDecoder
from ..tokens import BOS, EOS, PAD
from .base import Hypothesis, next_log_probabilities, step_limit

WIDEST = 1000
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
    Raises ``ValueError`` for a width outside 1 … 1000.
    """
    if not 1 <= width <= WIDEST:
        raise ValueError(f"A beam must be 1 to {WIDEST} wide, but got {width}; 5 is usual.")
    B, W = source_BS.shape[0], width
    device = source_BS.device
    state = model.start(source_BS)
    state.select(torch.arange(B, device=device).repeat_interleave(W))
    # Only the first hypothesis of each source counts at the start: all W are the same.
    total_BW = torch.full((B, W), -torch.inf, device=device)
    total_BW[:, 0] = 0.0
    tokens_NT = torch.full((B * W, 1), BOS, device=device)
    done_N = torch.zeros(B * W, dtype=torch.bool, device=device)
    first_of_source_B1 = torch.arange(B, device=device)[:, None] * W
    for _ in range(step_limit(model, max_symbols)):
        log_p_NV = next_log_probabilities(model, tokens_NT[:, -1], state)
        V = log_p_NV.shape[-1]
        log_p_NV[done_N] = -torch.inf
        log_p_NV[done_N, PAD] = 0.0
        total_BM = (total_BW[:, :, None] + log_p_NV.view(B, W, V)).flatten(1)
        # A stable sort, unlike topk, settles ties: the smaller id first.
        order = total_BM.sort(dim=-1, descending=True, stable=True)
        total_BW, choice_BW = order.values[:, :W], order.indices[:, :W]
        rows_N = (first_of_source_B1 + choice_BW // V).flatten()
        symbol_N1 = (choice_BW % V).flatten()[:, None]
        tokens_NT = torch.cat([tokens_NT[rows_N], symbol_N1], dim=1)
        done_N = done_N[rows_N] | (symbol_N1[:, 0] == EOS)
        if (done_N | (total_BW.flatten() == -torch.inf)).all():
            break
        state.select(rows_N)
    rows, done = tokens_NT.view(B, W, -1).tolist(), done_N.view(B, W).tolist()
    return [
        _ordered(rows[b], total_BW[b].tolist(), done[b], length_penalty) for b in range(B)
    ]


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
