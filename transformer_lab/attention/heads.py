r"""Multi-head attention: several attentions side by side, each in its own projection."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from ..kernels import Linear, linear
from ..positions import Positions
from .cache import KVCache
from .dot_product import attend, attention_weights
from .masks import EVERYTHING, Mask


def split_heads(x_BTD: Float[Tensor, "B T D"], h: int) -> Float[Tensor, "B {h} T K"]:
    r"""Cut the features of each token into h heads of d_model / h and bring heads forward.

    Head i holds columns i·d_k … (i+1)·d_k − 1 of every token; no token moves.
    """
    B, T, D = x_BTD.shape
    return x_BTD.reshape(B, T, h, D // h).transpose(1, 2)


def merge_heads(x_BHTK: Float[Tensor, "B H T K"]) -> Float[Tensor, "B T D"]:
    """The inverse of :func:`split_heads`: heads side by side again."""
    return x_BHTK.transpose(1, 2).flatten(2)


class MultiHeadAttention(nn.Module):
    r"""Attention in h heads, each d_model / h wide.

    .. math::
        \mathrm{head}_i &= \operatorname{softmax}\!\left(
            \frac{(X W_Q^i)(Y W_K^i)^\top}{\sqrt{d_k}}\right) Y W_V^i \\
        \mathrm{MHA}(X, Y) &= [\mathrm{head}_1, \dots, \mathrm{head}_h]\, W_O

    X (B, T, D) asks, Y (B, S, D) is looked at; Y = X is self-attention. Each projection
    also adds a bias, left out of the formula. Those of all heads are stored together: ``qkv``
    holds W_Q, W_K, W_V one after another, ``out`` holds W_O.
    torch stores a matrix transposed (it computes x Wᵀ); the book's W is ``weight.T``.

    Raises ``ValueError`` if h does not divide d_model. Source: Vaswani et al. 2017, 3.2.2.
    """

    def __init__(self, d_model: int, h: int, name: str = "attention"):
        super().__init__()
        if h < 1 or d_model % h:
            raise ValueError(
                f"The number of heads must divide the width of the model, but h = {h} and "
                f"d_model = {d_model}; choose h among the divisors of {d_model}."
            )
        self.h, self.d_model, self.name = h, d_model, name
        self.qkv = Linear(d_model, 3 * d_model)
        self.out = Linear(d_model, d_model)
        # The three projections are three matrices: each gets the range of its own size.
        for block in self.qkv.weight.split(d_model):
            nn.init.xavier_uniform_(block)
        nn.init.xavier_uniform_(self.out.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.out.bias)

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        mask: Mask = EVERYTHING,
        scheme: Positions | None = None,
        pos_BT: Int[Tensor, "#B T"] | None = None,
        cache: KVCache | None = None,
        trace: dict[str, Tensor] | None = None,
        pos_BS: Int[Tensor, "#B S"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Self-attention: queries, keys and values all come from ``x_BTD``.

        ``scheme`` and ``pos_BT`` tell where the tokens stand (neither: order is unknown);
        ``cache`` keeps keys and values of earlier tokens, which stand at ``pos_BS`` (given
        whenever there are more keys than queries); ``trace`` collects queries and keys as they
        meet (after the scheme has turned them) and the weights.
        """
        q_BHTK, k_BHTK, v_BHTK = split_heads(self.qkv(x_BTD), 3 * self.h).chunk(3, dim=1)
        if scheme is not None:
            q_BHTK, k_BHTK = scheme.turn(q_BHTK, k_BHTK, pos_BT, pos_BT)
        if cache is not None:
            k_BHTK, v_BHTK = cache.append(k_BHTK, v_BHTK)
        pos_BS = pos_BT if pos_BS is None else pos_BS
        return self._finish(q_BHTK, k_BHTK, v_BHTK, mask, scheme, pos_BT, pos_BS, trace)

    def keys_values(
        self, y_BSD: Float[Tensor, "B S D"]
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H S K"]]:
        """Keys and values of another sequence, computed once and used at every step."""
        D = self.d_model
        kv_BSE = linear(y_BSD, self.qkv.weight[D:], self.qkv.bias[D:])
        k_BHSK, v_BHSK = split_heads(kv_BSE, 2 * self.h).chunk(2, dim=1)
        return k_BHSK, v_BHSK

    def cross(
        self,
        x_BTD: Float[Tensor, "B T D"],
        memory: tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H S K"]],
        mask: Mask = EVERYTHING,
        trace: dict[str, Tensor] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Cross-attention: ``x_BTD`` asks, ``memory`` (see :meth:`keys_values`) is looked at."""
        D = self.d_model
        q_BHTK = split_heads(linear(x_BTD, self.qkv.weight[:D], self.qkv.bias[:D]), self.h)
        return self._finish(q_BHTK, *memory, mask, None, None, None, trace)

    def _finish(self, q_BHTK, k_BHSK, v_BHSK, mask, scheme, pos_BT, pos_BS, trace) -> Tensor:
        """From projected heads to the output; takes the open path only if weights are needed."""
        bias = extra = None
        if scheme is not None:
            bias = scheme.scores(q_BHTK, k_BHSK, pos_BT, pos_BS)
        if trace is None and (scheme is None or not scheme.needs_weights):
            out_BHTK = attend(q_BHTK, k_BHSK, v_BHSK, mask, bias)
        else:
            weights_BHTS = attention_weights(q_BHTK, k_BHSK, mask, bias)
            out_BHTK = weights_BHTS @ v_BHSK
            if scheme is not None:
                extra = scheme.values(weights_BHTS, pos_BT, pos_BS)
            if extra is not None:
                out_BHTK = out_BHTK + extra
            if trace is not None:
                trace[f"{self.name}.q_BHTK"] = q_BHTK
                trace[f"{self.name}.k_BHSK"] = k_BHSK
                trace[f"{self.name}.weights_BHTS"] = weights_BHTS
        return self.out(merge_heads(out_BHTK))
