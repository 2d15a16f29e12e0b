r"""Losses: what training makes small."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from .tokens import PAD


def smoothed_cross_entropy(
    logits_NV: Float[Tensor, "N V"], target_N: Int[Tensor, " N"], smoothing: float = 0.0
) -> Float[Tensor, " N"]:
    r"""Cross-entropy of each token against a smoothed target, in nats, in the open.

    .. math::
        \ell = -\sum_{v} q_v \log p_v, \qquad
        q_v = (1 - \alpha)\,[v = y] + \frac{\alpha}{V}, \qquad p = \operatorname{softmax}(z)

    z are the logits, y the true symbol, α = ``smoothing`` the share spread evenly over all V
    symbols. Source: Szegedy et al. 2016. :func:`cross_entropy` calls torch's kernel for it.
    """
    log_p_NV = logits_NV.log_softmax(-1)
    true_N = log_p_NV.gather(-1, target_N[:, None])[:, 0]
    return -(1 - smoothing) * true_N - smoothing * log_p_NV.mean(-1)


def cross_entropy(
    logits_BTV: Float[Tensor, "B T V"], target_BT: Int[Tensor, "B T"], smoothing: float = 0.0
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """Sum of the losses over all tokens that are not padding (nats), and how many they are.

    A sum and a count, not a mean: batches differ in length, and means of means are wrong.
    """
    total = F.cross_entropy(
        logits_BTV.flatten(0, 1),
        target_BT.flatten(),
        ignore_index=PAD,
        reduction="sum",
        label_smoothing=smoothing,
    )
    return total, (target_BT != PAD).sum()
