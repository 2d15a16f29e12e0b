r"""Greedy decoding: always the likeliest next symbol."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from ..models import EncoderDecoder
from ..tokens import BOS, EOS, PAD
from .base import Hypothesis, next_log_probabilities, step_limit


@torch.inference_mode()
def greedy(
    model: EncoderDecoder, source_BS: Int[Tensor, "B S"], max_symbols: int | None = None
) -> list[Hypothesis]:
    r"""For each source, the target built from the likeliest symbol at every step.

    .. math:: y_t = \arg\max_v \; p(v \mid y_{<t}, x)

    Ties go to the smallest id. It need not find the likeliest target: a good first symbol can
    lead into a poor continuation (see :func:`transformer_lab.decode.beam`).
    """
    B = source_BS.shape[0]
    state = model.start(source_BS)
    last_B = torch.full((B,), BOS, device=source_BS.device)
    done_B = torch.zeros(B, dtype=torch.bool, device=source_BS.device)
    total_B = torch.zeros(B, device=source_BS.device)
    columns = []
    for _ in range(step_limit(model, max_symbols)):
        logits_BTV = model.step(last_B[:, None], state)
        log_p_B, best_B = next_log_probabilities(logits_BTV)[:, -1].max(-1)
        total_B = total_B + log_p_B.masked_fill(done_B, 0.0)
        last_B = best_B.masked_fill(done_B, PAD)
        columns.append(last_B)
        done_B = done_B | (last_B == EOS)
        if done_B.all():
            break
    rows = torch.stack(columns, dim=1).tolist()
    return [
        Hypothesis(tuple(i for i in row if i not in (PAD, EOS)), total, finished)
        for row, total, finished in zip(rows, total_B.tolist(), done_B.tolist(), strict=True)
    ]
