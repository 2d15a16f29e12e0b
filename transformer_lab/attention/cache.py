r"""The key-value cache: what a decoder need not compute twice.

Token t of a decoder looks at keys and values of tokens 0 … t. Those of earlier tokens do not
change when a token is added (the mask is causal), so they are kept.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor


class KVCache:
    """Keys and values of one self-attention, in memory reserved once for ``max_length`` tokens.

    ``append`` writes new ones in place and returns all so far; ``select`` reorders the batch
    axis, as beam search needs when hypotheses survive, split or die.
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
        B, G, T, K = k_BGTK.shape
        end = self.length + T
        if end > self.max_length:
            raise ValueError(
                f"A cache holds at most {self.max_length} tokens, but {end} were asked for; "
                f"stop earlier or make a longer cache."
            )
        if self._k is None or self._v is None:
            self._k = k_BGTK.new_empty(B, G, self.max_length, K)
            self._v = v_BGTK.new_empty(B, G, self.max_length, K)
        self._k[:, :, self.length : end] = k_BGTK
        self._v[:, :, self.length : end] = v_BGTK
        self.length = end
        return self._k[:, :, :end], self._v[:, :, :end]

    def select(self, rows_B: Int[Tensor, " b"]) -> None:
        """Keep the given rows of the batch axis, in the given order (rows may repeat)."""
        if self._k is not None and self._v is not None:
            self._k, self._v = self._k[rows_B], self._v[rows_B]


class DecoderState:
    """All a decoder remembers between two steps: one cache a layer, and the source.

    ``memory`` holds, for each layer, the keys and values of the source, computed once;
    ``mask`` hides the padding of the source.
    """

    def __init__(self, caches: list[KVCache], memory: list[tuple[Tensor, Tensor]], mask):
        self.caches, self.memory, self.mask = caches, memory, mask

    @property
    def length(self) -> int:
        return self.caches[0].length

    def select(self, rows_B: Int[Tensor, " b"]) -> None:
        """Reorder the batch axis of every cache (the source of a row moves with it)."""
        for cache in self.caches:
            cache.select(rows_B)
        self.memory = [(k[rows_B], v[rows_B]) for k, v in self.memory]
        if self.mask.keys_BS is not None:
            self.mask = type(self.mask)(keys_BS=self.mask.keys_BS[rows_B])


def empty_caches(layers: int, max_length: int) -> list[KVCache]:
    """One empty cache for each of ``layers`` layers."""
    return [KVCache(max_length) for _ in range(layers)]


__all__ = ["DecoderState", "KVCache", "empty_caches"]
