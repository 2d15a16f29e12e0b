r"""Looking inside: the queries and keys of every head of a model, and what their scores say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..attention import CAUSAL, Mask, padding_mask
from ..attention.statistics import (
    PairStatistics,
    ScoreStatistics,
    pair_statistics,
    score_statistics,
)
from ..models import DecoderOnly, EncoderDecoder
from ..tokens import PAD


@dataclass(frozen=True, eq=False)
class HeadInputs:
    """What meets in one attention of a model, all heads: arrays in float64.

    ``name`` is that of the attention: ``"encoder.0.self"``, ``"decoder.1.cross"``,
    ``"layers.2.self"``, layers counted from 0. Queries and keys are as they meet: projected,
    and turned if the position scheme turns them. ``weights_BHTS`` are the model's own.
    ``allowed_BTS`` is True where a query that is a token may look at a key.
    """

    name: str
    q_BHTK: Float[np.ndarray, "B H T K"]
    k_BHSK: Float[np.ndarray, "B H S K"]
    weights_BHTS: Float[np.ndarray, "B H T S"]
    allowed_BTS: Bool[np.ndarray, "B T S"]


@dataclass(frozen=True)
class HeadStatistics:
    """The scores of one head: over ``all_pairs`` of its queries and keys, and where they meet.

    ``attention`` as in :class:`HeadInputs`; ``head`` counted from 0.
    """

    attention: str
    head: int
    all_pairs: ScoreStatistics
    meeting: PairStatistics


@torch.inference_mode()
def head_inputs(
    model: EncoderDecoder | DecoderOnly,
    tokens_BT: Int[Tensor, "B T"],
    source_BS: Int[Tensor, "B S"] | None = None,
) -> dict[str, HeadInputs]:
    """Queries, keys and weights of every attention while ``model`` reads these ids, by name.

    ``tokens_BT`` is what a decoder sees, BOS included; ``source_BS`` what an encoder reads (none
    in a decoder-only model). Both padded with ``PAD`` on the right, as batches are. The model
    collects them on request (``trace``); nothing is left in it. Raises ``ValueError`` for a
    model in training, which drops numbers at random, and for a source too many or too few.
    """
    if model.training:
        raise ValueError(
            "Scores are looked at without dropout, but the model is in training; "
            "call model.eval() first."
        )
    if isinstance(model, EncoderDecoder) != (source_BS is not None):
        raise ValueError(
            f"An encoder-decoder reads a source and a decoder-only model reads none, but this is "
            f"a {type(model).__name__} and there is {'no' if source_BS is None else 'a'} source; "
            f"{'give source_BS' if source_BS is None else 'leave source_BS out'}."
        )
    trace: dict[str, Tensor] = {}
    model(tokens_BT, trace) if source_BS is None else model(source_BS, tokens_BT, trace)
    names = [name.removesuffix(".q_BHTK") for name in trace if name.endswith(".q_BHTK")]
    found = {}
    for name in names:
        asks_BT, seen_BS, mask = tokens_BT, tokens_BT, CAUSAL
        if not name.endswith(".cross") and name.startswith("encoder."):
            asks_BT, seen_BS, mask = source_BS, source_BS, padding_mask(source_BS, PAD)
        elif name.endswith(".cross"):
            seen_BS, mask = source_BS, padding_mask(source_BS, PAD)
        arrays = [
            trace[f"{name}.{part}"].double().cpu().numpy()
            for part in ("q_BHTK", "k_BHSK", "weights_BHTS")
        ]
        found[name] = HeadInputs(name, *arrays, _allowed(asks_BT, seen_BS, mask))
    return found


def _allowed(asks_BT: Tensor, seen_BS: Tensor, mask: Mask) -> np.ndarray:
    """Where a token meets a token that it may see."""
    B, T, S = *asks_BT.shape, seen_BS.shape[1]
    asks_BT1 = (asks_BT != PAD)[:, :, None]
    dense = mask.dense(T, S, asks_BT.device)
    allowed_BTS = asks_BT1.expand(B, T, S)
    if dense is not None:  # one query or one key only: nothing is hidden from it
        allowed_BTS = allowed_BTS & dense[:, 0]
    return allowed_BTS.cpu().numpy()


def head_statistics(inputs: dict[str, HeadInputs]) -> list[HeadStatistics]:
    """What the scores of every head are made of; ``inputs`` come from :func:`head_inputs`.

    Queries and keys that take part in no pair (padding) are left out.
    """
    rows = []
    for name, found in inputs.items():
        asks_BT, seen_BS = found.allowed_BTS.any(2), found.allowed_BTS.any(1)
        for head in range(found.q_BHTK.shape[1]):
            q_BTK, k_BSK = found.q_BHTK[:, head], found.k_BHSK[:, head]
            rows.append(
                HeadStatistics(
                    name,
                    head,
                    score_statistics(q_BTK[asks_BT], k_BSK[seen_BS]),
                    pair_statistics(q_BTK, k_BSK, found.allowed_BTS),
                )
            )
    return rows


def untrained(
    model: EncoderDecoder | DecoderOnly, seed: int = 0
) -> EncoderDecoder | DecoderOnly:
    """A fresh model of the same shape: how ``model`` may have looked before it learned anything.

    The same seed gives the same one; torch's own random state stays as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = type(model)(model.config)
    return fresh.to(next(model.parameters()).device).eval()
