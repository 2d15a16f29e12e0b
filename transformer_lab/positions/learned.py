r"""Learned positions: one trained vector for each place."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .base import Positions


class Learned(Positions):
    r"""Adds a trained row to the token at each position.

    .. math:: x'_p = x_p + P_p, \qquad P \in \mathbb{R}^{n_{\max} \times d_{\mathrm{model}}}

    Rows start at N(0, 0.02²) and are trained like any weight; a position that training never
    met keeps its random row, so nothing can be said beyond the training length.

    Source: Gehring et al. 2017; Vaswani et al. 2017, table 3, row (E).
    """

    def __init__(self, d_model: int, max_length: int):
        super().__init__()
        self.table_nD = nn.Parameter(torch.randn(max_length, d_model) * 0.02)

    def embed(
        self, x_BTD: Float[Tensor, "B T D"], pos_BT: Int[Tensor, "#B T"]
    ) -> Float[Tensor, "B T D"]:
        return x_BTD + self.table_nD[pos_BT]
