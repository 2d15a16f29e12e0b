r"""Layer normalisation, and where it stands in a block."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


def layer_norm(
    x: Float[Tensor, "... D"],
    gamma_D: Float[Tensor, " D"],
    beta_D: Float[Tensor, " D"],
    epsilon: float = 1e-5,
) -> Float[Tensor, "... D"]:
    r"""Every token normalised over its own features, then scaled and shifted.

    .. math::
        y = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta, \qquad
        \mu = \tfrac1d \textstyle\sum_i x_i, \qquad
        \sigma^2 = \tfrac1d \textstyle\sum_i (x_i - \mu)^2

    ``x`` has tokens along its leading axes and d features along its last; γ and β have one
    entry for each feature. ε stands inside the root and the variance divides by d, not d − 1.

    Source: Ba, Kiros, Hinton 2016. :class:`LayerNorm` calls torch's kernel for the same.
    """
    mu = x.mean(-1, keepdim=True)
    variance = ((x - mu) ** 2).mean(-1, keepdim=True)
    return gamma_D * (x - mu) / torch.sqrt(variance + epsilon) + beta_D


class LayerNorm(nn.Module):
    """:func:`layer_norm` with its trained γ (starts at 1) and β (starts at 0)."""

    def __init__(self, d_model: int, epsilon: float = 1e-5):
        super().__init__()
        self.gamma_D = nn.Parameter(torch.ones(d_model))
        self.beta_D = nn.Parameter(torch.zeros(d_model))
        self.epsilon = epsilon

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        return F.layer_norm(x, self.gamma_D.shape, self.gamma_D, self.beta_D, self.epsilon)


class PostNorm(nn.Module):
    r"""The original arrangement: add, then normalise.

    .. math:: y = \mathrm{LN}(x + \mathrm{dropout}(f(x)))

    Source: Vaswani et al. 2017, section 3.1.
    """

    final_norm = False

    def __init__(self, d_model: int, dropout: float):
        super().__init__()
        self.norm = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], f: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "B T D"]:
        return self.norm(x_BTD + self.dropout(f(x_BTD)))


class PreNorm(nn.Module):
    r"""Normalise what goes into the sub-layer; the skip path stays untouched.

    .. math:: y = x + \mathrm{dropout}(f(\mathrm{LN}(x)))

    A stack of such blocks ends in one more layer norm. Source: Xiong et al. 2020.
    """

    final_norm = True

    def __init__(self, d_model: int, dropout: float):
        super().__init__()
        self.norm = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x_BTD: Float[Tensor, "B T D"], f: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "B T D"]:
        return x_BTD + self.dropout(f(self.norm(x_BTD)))


ARRANGEMENTS: dict[str, type[PostNorm] | type[PreNorm]] = {"post": PostNorm, "pre": PreNorm}
"""Where the norm can stand. Each is built as ``arrangement(d_model, dropout)``."""
