r"""Scaled dot-product attention: the one formula everything else is built around.

Weights and output are two functions. The weights are what one plots and derives; the output
is what a model needs, and for it torch has a fused kernel that never stores the weights.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from .masks import EVERYTHING, Mask


def attention_scores(
    q_BHTK: Float[Tensor, "B H T K"],
    k_BGSK: Float[Tensor, "B G S K"],
) -> Float[Tensor, "B H T S"]:
    r"""How well each query fits each key.

    .. math:: S = Q K^\top / \sqrt{d_k}

    ``q_BHTK``: one row a query; ``k_BGSK``: one row a key; d_k: the width
    of a head (axis K). Where keys have fewer heads (G < H), H / G heads
    of queries share each of them.
    Source: Vaswani et al. 2017, equation 1.
    """
    _check_alike(q_BHTK, k_BGSK)
    k_BHSK = _share(k_BGSK, q_BHTK.shape[1])
    return q_BHTK @ k_BHSK.transpose(-2, -1) / math.sqrt(q_BHTK.shape[-1])


def masked_softmax(
    scores_BHTS: Float[Tensor, "B H T S"],
    mask: Mask,
) -> Tensor:
    r"""Softmax of each row over its allowed keys; others get exactly 0.

    .. math::
        A_{ts} = \frac{e^{S_{ts}}}{\sum_{s' \text{ allowed}} e^{S_{ts'}}}

    A row with no allowed key is all zeros: it looks at nothing, and its
    output is zero.
    """
    allowed = mask.dense(*scores_BHTS.shape[-2:], scores_BHTS.device)
    if allowed is None:
        return scores_BHTS.softmax(-1)
    some = allowed.any(-1, keepdim=True)
    hidden = ~allowed & some
    weights_BHTS = scores_BHTS.masked_fill(hidden, -math.inf).softmax(-1)
    return weights_BHTS.masked_fill(~some, 0.0)


def attention_weights(
    q_BHTK: Float[Tensor, "B H T K"],
    k_BGSK: Float[Tensor, "B G S K"],
    mask: Mask = EVERYTHING,
    scores: Float[Tensor, "#B H T S"] | None = None,
) -> Float[Tensor, "B H T S"]:
    r"""The attention weights, in the open.

    .. math:: A = \operatorname{softmax}(Q K^\top / \sqrt{d_k} + R)

    Q, K: ``q_BHTK``, ``k_BGSK``. ``scores`` is R, what a position
    scheme adds (nothing by default). Every row sums to 1, or to 0
    where nothing is allowed.
    Equation: eq-attention-weights
    """
    scores_BHTS = attention_scores(q_BHTK, k_BGSK)
    if scores is not None:
        scores_BHTS = scores_BHTS + scores
    return masked_softmax(scores_BHTS, mask)


def attend(
    q_BHTK: Float[Tensor, "B H T K"],
    k_BGSK: Float[Tensor, "B G S K"],
    v_BGSK: Float[Tensor, "B G S K"],
    mask: Mask = EVERYTHING,
    scores: Float[Tensor, "#B H T S"] | None = None,
) -> Float[Tensor, "B H T K"]:
    r"""The output of attention, by torch's fused kernel.

    .. math:: O = A V

    Equal to ``attention_weights(...) @ v`` (a test holds it to that); the weights are never
    stored. See :func:`attention_weights` for the arguments.
    """
    _check_alike(q_BHTK, k_BGSK)
    H, T = q_BHTK.shape[1:3]
    S = k_BGSK.shape[2]
    k_BHSK, v_BHSK = _share(k_BGSK, H), _share(v_BGSK, H)
    if scores is None and mask.only_causal and (not mask.causal or T == S or T == 1):
        return F.scaled_dot_product_attention(
            q_BHTK, k_BHSK, v_BHSK, is_causal=mask.causal and T > 1
        )
    allowed = mask.dense(T, S, q_BHTK.device)
    if scores is not None:
        bias = scores if allowed is None else scores.masked_fill(~allowed, -math.inf)
    else:
        bias = allowed
    out_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, attn_mask=bias)
    if allowed is not None and not mask.only_causal:
        out_BHTK = torch.where(allowed.any(-1, keepdim=True), out_BHTK, 0.0)
    return out_BHTK


def _check_alike(q_BHTK: Tensor, k_BGSK: Tensor) -> None:
    """Queries and keys must fit each other, or no product of them exists."""
    if k_BGSK.shape[-1] != q_BHTK.shape[-1]:
        raise ValueError(
            f"Queries and keys must be equally wide, but queries are {q_BHTK.shape[-1]} and keys "
            f"are {k_BGSK.shape[-1]} wide; project both to d_k."
        )
    if k_BGSK.dtype != q_BHTK.dtype:
        raise ValueError(
            f"Queries and keys must be of one type, but queries are {q_BHTK.dtype} and keys are "
            f"{k_BGSK.dtype}; convert one of them, e.g. by .float()."
        )


def _share(x_BGSK: Tensor, heads: int) -> Tensor:
    """Repeat each head of keys or values so that ``heads`` heads of queries find theirs."""
    groups = x_BGSK.shape[1]
    if heads == groups:
        return x_BGSK
    if heads % groups:
        raise ValueError(
            f"Heads of queries must be a multiple of the heads of keys, but there are {heads} "
            f"and {groups}; choose a divisor of {heads}."
        )
    return x_BGSK.repeat_interleave(heads // groups, dim=1)
