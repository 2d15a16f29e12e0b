r"""The key-value cache: what a decoder need not compute twice.

Token t of a decoder looks at keys and values of tokens 0 … t. Those of earlier tokens do not
change when a token is added (the mask is causal), so they are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .masks import CAUSAL, EVERYTHING, Mask


class KVCache:
    """Keys and values of one self-attention, in memory reserved once for ``max_length`` tokens.

    ``append`` writes new ones in place and returns all so far.
    """

    def __init__(self, max_length: int):
        self.max_length = max_length
        self.length = 0
        self._k: Tensor | None = None
        self._v: Tensor | None = None

    def append(
        self, k_BGTK: Float[Tensor, "B G T K"], v_BGTK: Float[Tensor, "B G T K"]
    ) -> tuple[Float[Tensor, "B G S K"], Float[Tensor, "B G S K"]]:
        """Store the new keys and values; return those of all S tokens so far."""
        first, end = self.length, self.length + k_BGTK.shape[2]
        if end > self.max_length:
            raise ValueError(
                f"A cache holds at most {self.max_length} tokens, but {end} were asked for; "
                f"stop earlier or make a longer cache."
            )
        if self._k is None or self._v is None:
            B, G, _, K = k_BGTK.shape
            self._k = k_BGTK.new_empty(B, G, self.max_length, K)
            self._v = v_BGTK.new_empty(B, G, self.max_length, K)
        self._k[:, :, first:end] = k_BGTK
        self._v[:, :, first:end] = v_BGTK
        self.length = end
        return self._k[:, :, :end], self._v[:, :, :end]


def empty_caches(layers: int, max_length: int) -> list[KVCache]:
    """One empty cache for each of ``layers`` layers."""
    return [KVCache(max_length) for _ in range(layers)]


class DecoderState:
    """All a decoder remembers between two steps: one cache a layer, the source, who is where.

    ``memory`` holds, for each layer, the keys and values of the source, computed once (nothing
    in a decoder-only model); ``mask`` hides the padding of the source. ``padding_B`` counts the
    tokens on the left of each row that are only padding (``None``: there are none).

    Tokens come in one of two ways. A *step* adds tokens that follow one another: see
    :meth:`follow`. In a beam, W hypotheses of one source share one cache, and a *branching*
    adds one token to each of them: see :meth:`branch`.
    """

    def __init__(
        self,
        caches: list[KVCache],
        memory: Sequence[tuple[Tensor, Tensor]] = (),
        mask: Mask = EVERYTHING,
        padding_B: Int[Tensor, " B"] | None = None,
    ):
        self.caches, self.memory, self.mask, self.padding_B = caches, memory, mask, padding_B
        self.depth = 0
        self.paths_BWS: Tensor | None = None
        self._pos_S = torch.empty(0, dtype=torch.long)

    @property
    def length(self) -> int:
        """Tokens in each cache."""
        return self.caches[0].length

    def follow(
        self, T: int, device: torch.device
    ) -> tuple[Int[Tensor, "#B T"], Int[Tensor, "#B S"], Mask]:
        """Positions of T tokens that come next, positions of all keys, and who sees whom."""
        first, self.depth = self.depth, self.depth + T
        pos_1S = torch.arange(self.depth, device=device)[None]
        if self.padding_B is None:
            return pos_1S[:, first:], pos_1S, CAUSAL
        pos_BS = pos_1S - self.padding_B[:, None]
        mask = CAUSAL & Mask(keys_BS=pos_BS >= 0)
        pos_BS = pos_BS.clamp(min=0)
        return pos_BS[:, first:], pos_BS, mask

    def branch(
        self, parent_BW: Int[Tensor, "B W"]
    ) -> tuple[Int[Tensor, "#B W"], Int[Tensor, "#B S"], Mask]:
        """The same for one further token of each hypothesis; ``parent_BW`` tells whose it is.

        Hypothesis w goes on where hypothesis ``parent_BW[b, w]`` of the step before stood. The
        tokens of all hypotheses lie in one cache, and a token sees those on its own path: no
        key or value is ever copied when hypotheses survive, split or die.
        """
        B, W = parent_BW.shape
        own_BWW = torch.eye(W, dtype=torch.bool, device=parent_BW.device).expand(B, W, W)
        if self.paths_BWS is None:
            self.paths_BWS = own_BWW
        else:
            index_BWS = parent_BW[:, :, None].expand(-1, -1, self.paths_BWS.shape[-1])
            self.paths_BWS = torch.cat([self.paths_BWS.gather(1, index_BWS), own_BWW], dim=-1)
        now_W = torch.full((W,), self.depth, device=parent_BW.device)
        self._pos_S = torch.cat([self._pos_S.to(now_W.device), now_W])
        self.depth += 1
        return now_W[None], self._pos_S[None], Mask(paths_BTS=self.paths_BWS)


__all__ = ["DecoderState", "KVCache", "empty_caches"]
