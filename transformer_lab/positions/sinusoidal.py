r"""Sinusoidal positions: fixed waves of geometrically growing length."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .base import Positions


def sinusoidal_table(length: int, d_model: int, base: float = 10000.0) -> Float[Tensor, "n D"]:
    r"""The table of position vectors, for positions 0 … ``length`` − 1.

    .. math::
        P_{p,2i} = \sin(p\,\omega_i), \qquad P_{p,2i+1} = \cos(p\,\omega_i), \qquad
        \omega_i = \mathrm{base}^{-2i/d_{\mathrm{model}}}

    ``p`` is the position, ``i`` = 0 … ⌈d_model / 2⌉ − 1 the index of a pair of columns, ω_i in
    radians per position. An odd ``d_model`` leaves the last sine without its cosine.
    Computed in float64 and rounded once to the default dtype.

    Source: Vaswani et al. 2017, section 3.5.
    """
    p_n1 = torch.arange(length, dtype=torch.float64)[:, None]
    i = torch.arange((d_model + 1) // 2, dtype=torch.float64)
    angle = p_n1 * base ** (-2.0 * i / d_model)
    table_nD = torch.empty(length, d_model, dtype=torch.float64)
    table_nD[:, 0::2] = angle.sin()
    table_nD[:, 1::2] = angle.cos()[:, : d_model // 2]
    return table_nD.to(torch.get_default_dtype())


class Sinusoidal(Positions):
    """Adds row ``pos`` of :func:`sinusoidal_table` to the token at position ``pos``."""

    def __init__(self, d_model: int, max_length: int):
        super().__init__()
        table_nD = sinusoidal_table(max_length, d_model)
        self.register_buffer("table_nD", table_nD, persistent=False)

    def embed(
        self, x_BTD: Float[Tensor, "B T D"], pos_BT: Int[Tensor, "#B T"]
    ) -> Float[Tensor, "B T D"]:
        return x_BTD + self.table_nD[pos_BT]
