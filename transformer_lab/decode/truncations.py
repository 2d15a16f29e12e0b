r"""Truncations: what reshapes the logits of the next symbol before one is drawn.

Each is a frozen dataclass that is called with ``logits_BV`` and ``history_BT`` (the ids so far;
the ones here do not look at them) and returns logits of the same shape and type. A symbol that
is ruled out has the logit −∞, so probability 0; one that was ruled out before stays so. Every
truncation refuses, with a ``ValueError``, logits that hold NaN or +∞ and rows in which no symbol
is left; with its own number outside the range it names, it cannot be made.

Equal logits are told apart by their ids: the smaller id counts as the likelier.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real

import torch
from jaxtyping import Float, Int
from torch import Tensor

SLACK = 1e-6
"""How far below p a mass may lie and still count as p.

Rounding to float32 moves a logit by at most half a unit in its last place: by δ = 2⁻¹⁹ if it lies
between −64 and 64. That moves the mass of a set by at most δ/2 (the slope of the logistic function,
1/4, times 2δ, the worst the set and the rest can drift apart), which is less than 10⁻⁶. Whether
a mass is p or a hair less is therefore nothing that such logits can say.
"""


def checked(logits_BV: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
    r"""The same logits, if softmax makes a distribution of every row.

    .. math:: \max_v z_{bv} \in \mathbb{R} \text{ for every row } b

    This one condition rules out NaN, +∞ and a row of −∞ alone. Raises ``ValueError`` otherwise.
    """
    if logits_BV.ndim != 2:
        raise ValueError(
            f"Logits must have two axes, rows and symbols (B, V), but their shape is "
            f"{tuple(logits_BV.shape)}; for one row, write logits[None, :]."
        )
    largest_B = logits_BV.amax(-1)
    fine_B = largest_B.abs() < torch.inf  # false for NaN
    if not fine_B.all():
        b = int(fine_B.int().argmin())
        raise ValueError(
            "Logits must be numbers or −∞, at least one number in each row, but the largest of "
            f"row {b} is {largest_B[b].item()}; look for a division by zero, for a mask that "
            "rules out every symbol, or for a temperature so small that GREEDY is meant."
        )
    return logits_BV


@dataclass(frozen=True)
class Temperature:
    r"""Divide the logits: sharper below 1, flatter above, unchanged at 1.

    .. math:: z_v \mapsto \frac{z_v}{T}, \qquad p_v \mapsto \frac{p_v^{1/T}}{\sum_w p_w^{1/T}}

    z: logits, of shape (B, V); p: their softmax; T > 0: the temperature. As T → 0 all weight
    goes to the largest logit (equal ones share it): the limit is ``GREEDY``, which settles ties by
    the smaller id, and not T = 0, which divides by zero.
    Raises ``ValueError`` if T is not a finite number greater than 0.
    """

    T: float

    def __post_init__(self) -> None:
        if not (_is_number(self.T) and 0 < self.T < math.inf):
            raise ValueError(
                f"A temperature must be a finite number greater than 0, but got {self.T!r}; "
                "1 changes nothing, and for the limit at 0 use greedy (GREEDY)."
            )

    def __call__(
        self, logits_BV: Float[Tensor, "B V"], history_BT: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B V"]:
        return checked(logits_BV / self.T)


@dataclass(frozen=True)
class TopK:
    r"""Keep the k largest logits of each row.

    .. math:: z_v \mapsto \begin{cases} z_v & \mathrm{rank}(v) \le k \\ -\infty & \text{else}
              \end{cases}

    rank(v) counts from 1, from the largest logit down, equal ones in the order of their ids. So
    exactly min(k, V) symbols are kept (of which those at −∞ stay at −∞), ties or not;
    ``TopKLogitsWarper`` of ``transformers`` keeps, besides, every symbol that ties with the last.
    Raises ``ValueError`` if k is not a whole number of at least 1. Source: Fan et al. 2018.
    """

    k: int

    def __post_init__(self) -> None:
        if not (isinstance(self.k, Integral) and _is_number(self.k) and self.k >= 1):
            raise ValueError(
                f"Top-k must keep a whole number of symbols, at least 1, but got {self.k!r}; "
                "1 keeps the likeliest alone, the size of the vocabulary keeps all."
            )

    def __call__(
        self, logits_BV: Float[Tensor, "B V"], history_BT: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B V"]:
        z_BV, order_BV = checked(logits_BV).sort(dim=-1, descending=True, stable=True)
        ruled_out_BV = torch.full_like(logits_BV, -torch.inf)
        return ruled_out_BV.scatter_(-1, order_BV[:, : self.k], z_BV[:, : self.k])


@dataclass(frozen=True)
class TopP:
    r"""Keep the nucleus: the fewest of the likeliest symbols whose mass reaches p.

    .. math:: z_{v_i} \mapsto \begin{cases} z_{v_i} & i = 1 \text{ or }
              \sum_{j < i} p_{v_j} < p - \epsilon \\ -\infty & \text{else} \end{cases}

    v_1, v_2, …: the symbols from the likeliest down, equal ones in the order of their ids; p_v:
    their probabilities, the softmax of the row; 0 < p ≤ 1; ε = 10⁻⁶ is ``SLACK``. A symbol is
    kept as long as those before it do not reach p: the one that carries the sum over p belongs
    to the set, and the likeliest always does. p = 1 gives the logits back as they are, without
    ε and even where a probability rounds to 0. Sums are taken in float64 (on the CPU, since not
    every device has it), whatever the type of the logits.

    ``TopPLogitsWarper`` of ``transformers`` states the same set from below (drop the unlikeliest
    while their mass is at most 1 − p), but in the type of the logits and without ε: where a sum
    hits p, rounding decides there. It sorts ties in no promised order.
    Raises ``ValueError`` if p is not a number with 0 < p ≤ 1. Source: Holtzman et al. 2020.
    """

    p: float

    def __post_init__(self) -> None:
        if not (_is_number(self.p) and 0 < self.p <= 1):
            raise ValueError(
                f"Top-p must be a probability greater than 0 and at most 1, but got {self.p!r}; "
                "1 keeps every symbol, and for the likeliest alone use greedy (GREEDY)."
            )

    def __call__(
        self, logits_BV: Float[Tensor, "B V"], history_BT: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B V"]:
        checked(logits_BV)
        if self.p == 1:
            return logits_BV
        z_BV, order_BV = logits_BV.sort(dim=-1, descending=True, stable=True)
        p_BV = z_BV.to("cpu", torch.float64).softmax(-1)
        beyond_BV = p_BV.cumsum(-1) - p_BV >= self.p - SLACK
        beyond_BV[:, 0] = False
        z_BV = z_BV.masked_fill(beyond_BV.to(z_BV.device), -torch.inf)
        return torch.empty_like(logits_BV).scatter_(-1, order_BV, z_BV)


def _is_number(x: object) -> bool:
    """A real number; True and False are none."""
    return isinstance(x, Real) and not isinstance(x, bool)


TRUNCATIONS: dict[str, Callable] = {
    "temperature": Temperature,
    "top_k": TopK,
    "top_p": TopP,
}
"""Every truncation by its name; the tests run over them."""
