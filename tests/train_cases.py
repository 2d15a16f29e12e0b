"""A small model to train, and what several tests of training ask of a run."""

from __future__ import annotations

import torch

from transformer_lab.models import EncoderDecoder, ModelConfig


def fresh(task, seed: int = 1, dropout: float = 0.2) -> EncoderDecoder:
    torch.manual_seed(seed)
    return EncoderDecoder(
        ModelConfig(
            len(task.source), len(task.target), d_model=22, h=2, d_ff=34, encoder_layers=1,
            decoder_layers=1, dropout=dropout,
        )
    )  # fmt: skip


def timeless(records: list[dict]) -> list[dict]:
    return [{k: v for k, v in r.items() if not k.endswith("_seconds")} for r in records]
