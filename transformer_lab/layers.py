r"""The layers of the encoder and of the decoder."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import CAUSAL, EVERYTHING, KVCache, Mask, MultiHeadAttention
from .kernels import Linear, gelu
from .norms import ARRANGEMENTS
from .positions import Positions

ACTIVATIONS = {"relu": F.relu, "gelu": gelu}
"""What can stand between the two matrices of a feed-forward layer."""


class FeedForward(nn.Module):
    r"""The same two-layer map on every token by itself.

    .. math:: \mathrm{FFN}(x) = \phi(x W_1 + b_1)\, W_2 + b_2

    ``W_1`` is d_model × d_ff, ``W_2`` is d_ff × d_model, φ is ReLU or GELU (the exact one).
    Source: Vaswani et al. 2017, section 3.3.
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu"):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"The activation must be one of {', '.join(ACTIVATIONS)}, but got "
                f"{activation!r}; choose one of these."
            )
        self.inner = Linear(d_model, d_ff)
        self.outer = Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x_BTD: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.outer(self.activation(self.inner(x_BTD)))


class EncoderLayer(nn.Module):
    r"""Self-attention, then the feed-forward layer, each inside a residual block.

    .. math::
        a &= \mathrm{residual}(x,\ \mathrm{MHA}(\cdot, \cdot)) \\
        y &= \mathrm{residual}(a,\ \mathrm{FFN}(\cdot))

    ``norm`` is ``"post"`` or ``"pre"``: see :mod:`transformer_lab.norms`. Dropout stands on
    the output of each sub-layer, as in the paper (torch's own layer drops weights as well).
    Under a causal mask the same layer is that of a decoder-only model; ``cache`` and ``pos_BS``
    are for its decoding (see :class:`~transformer_lab.attention.MultiHeadAttention`).
    """

    def __init__(
        self,
        d_model: int,
        h: int,
        d_ff: int,
        dropout: float = 0.1,
        norm: str = "pre",
        activation: str = "relu",
        name: str = "encoder",
    ):
        super().__init__()
        arrangement = ARRANGEMENTS[norm]
        self.attention = MultiHeadAttention(d_model, h, f"{name}.self")
        self.feed_forward = FeedForward(d_model, d_ff, activation)
        self.around_attention = arrangement(d_model, dropout)
        self.around_feed_forward = arrangement(d_model, dropout)

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        mask: Mask = EVERYTHING,
        scheme: Positions | None = None,
        pos_BT: Int[Tensor, "#B T"] | None = None,
        trace: dict[str, Tensor] | None = None,
        cache: KVCache | None = None,
        pos_BS: Int[Tensor, "#B S"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        x_BTD = self.around_attention(
            x_BTD, lambda x: self.attention(x, mask, scheme, pos_BT, cache, trace, pos_BS)
        )
        return self.around_feed_forward(x_BTD, self.feed_forward)


class DecoderLayer(nn.Module):
    r"""Masked self-attention, cross-attention, feed-forward: three residual blocks.

    .. math::
        a &= \mathrm{residual}(x,\ \mathrm{MHA}_{\text{causal}}(\cdot, \cdot)) \\
        c &= \mathrm{residual}(a,\ \mathrm{MHA}(\cdot, \text{memory})) \\
        y &= \mathrm{residual}(c,\ \mathrm{FFN}(\cdot))

    ``memory`` is the output of the encoder; its keys and values come from
    ``layer.cross_attention.keys_values(memory_BSD)`` and do not change during decoding.
    ``pos_BN`` are the positions of all N keys of the self-attention, those of ``cache`` included.
    """

    def __init__(
        self,
        d_model: int,
        h: int,
        d_ff: int,
        dropout: float = 0.1,
        norm: str = "pre",
        activation: str = "relu",
        name: str = "decoder",
    ):
        super().__init__()
        arrangement = ARRANGEMENTS[norm]
        self.self_attention = MultiHeadAttention(d_model, h, f"{name}.self")
        self.cross_attention = MultiHeadAttention(d_model, h, f"{name}.cross")
        self.feed_forward = FeedForward(d_model, d_ff, activation)
        self.around_self = arrangement(d_model, dropout)
        self.around_cross = arrangement(d_model, dropout)
        self.around_feed_forward = arrangement(d_model, dropout)

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        memory: tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H S K"]],
        memory_mask: Mask = EVERYTHING,
        mask: Mask = CAUSAL,
        scheme: Positions | None = None,
        pos_BT: Int[Tensor, "#B T"] | None = None,
        cache: KVCache | None = None,
        trace: dict[str, Tensor] | None = None,
        pos_BN: Int[Tensor, "#B N"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        x_BTD = self.around_self(
            x_BTD, lambda x: self.self_attention(x, mask, scheme, pos_BT, cache, trace, pos_BN)
        )
        x_BTD = self.around_cross(
            x_BTD, lambda x: self.cross_attention.cross(x, memory, memory_mask, trace)
        )
        return self.around_feed_forward(x_BTD, self.feed_forward)
