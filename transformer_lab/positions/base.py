r"""The seam through which order enters a Transformer.

Attention by itself does not know where a token stands. A position scheme tells it, at one or
more of four places; every hook does nothing unless a scheme overrides it, and attention never
asks which scheme it is. Positions are an argument: they are never counted inside a layer,
so padding and caches cannot make them wrong.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn


class Positions(nn.Module):
    """No positions at all: the four hooks with their defaults."""

    def embed(
        self, x_BTD: Float[Tensor, "B T D"], pos_BT: Int[Tensor, "#B T"]
    ) -> Float[Tensor, "B T D"]:
        """Add to (or change) the token vectors ``x_BTD`` that stand at positions ``pos_BT``."""
        return x_BTD

    def turn(
        self,
        q_BHTK: Float[Tensor, "B H T K"],
        k_BGSK: Float[Tensor, "B G S K"],
        pos_BT: Int[Tensor, "#B T"],
        pos_BS: Int[Tensor, "#B S"],
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B G S K"]]:
        """Change queries and keys before they meet (rotary schemes do)."""
        return q_BHTK, k_BGSK

    def scores(
        self,
        q_BHTK: Float[Tensor, "B H T K"],
        k_BGSK: Float[Tensor, "B G S K"],
        pos_BT: Int[Tensor, "#B T"],
        pos_BS: Int[Tensor, "#B S"],
    ) -> Float[Tensor, "#B H T S"] | None:
        """What is added to the scores before the softmax, or ``None`` for nothing."""
        return None

    def values(
        self,
        weights_BHTS: Float[Tensor, "B H T S"],
        pos_BT: Int[Tensor, "#B T"],
        pos_BS: Int[Tensor, "#B S"],
    ) -> Float[Tensor, "B H T K"] | None:
        """What is added to the output of a head, or ``None`` for nothing.

        A scheme that overrides this hook needs the weights, so attention cannot take the fused
        kernel; such a scheme sets ``needs_weights = True``.
        """
        return None

    needs_weights: bool = False
