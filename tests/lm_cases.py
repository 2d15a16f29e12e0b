"""A tiny decoder-only model, and the writing loop in its plainest form."""

from __future__ import annotations

import torch
from helpers import MAX_LENGTH, D, F, H, default_dtype, shake

from transformer_lab.models import DecoderOnly, DecoderOnlyConfig

SIZE = 31


def tiny_decoder(seed=0, **changes):
    """A decoder-only model in double precision whose sizes all differ."""
    fields = {"d_model": D, "h": H, "d_ff": F, "layers": 3, "max_length": MAX_LENGTH} | changes
    with default_dtype(torch.float64):
        torch.manual_seed(seed)
        model = shake(DecoderOnly(DecoderOnlyConfig(SIZE, **fields)), seed + 1, 0.1)
    return model.double().eval()


def naive(model, prompt, length, draw):
    """One text, no cache, no batch, no padding: the window of the last tokens, read anew.

    ``draw(logits_V, ids)`` gives the next id. When the window is full, it keeps the last half.
    """
    ids, start, limit = list(prompt), 0, model.config.max_length
    if len(ids) > limit:
        start = len(ids) - limit // 2
    for _ in range(length):
        if len(ids) - start > limit:
            start = len(ids) - limit // 2
        with torch.no_grad():
            logits_V = model(torch.tensor([ids[start:]]))[0, -1]
        logits_V[:2] = -torch.inf
        ids.append(draw(logits_V, ids))
    return ids[len(prompt) :]
