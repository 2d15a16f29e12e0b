r"""Masks: which query may look at which key. ``True`` always means *allowed*."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor


@dataclass(frozen=True)
class Mask:
    r"""What is allowed, as a structure; the matrix is made on request.

    ``causal``: a query sees its own position and earlier ones, nothing later. When there are
    more keys than queries (S > T, a cache), the queries are the **last** T of the S positions:
    query t stands at position S − T + t.
    ``keys_BS``: which keys are real; ``False`` is padding.
    ``paths_BTS``: which keys lie on the path of each query, where several hypotheses share one
    sequence of keys (a beam; see :class:`~transformer_lab.attention.DecoderState`).

    ``a & b`` allows what both allow.
    """

    causal: bool = False
    keys_BS: Bool[Tensor, "B S"] | None = None
    paths_BTS: Bool[Tensor, "B T S"] | None = None

    def __post_init__(self) -> None:
        for part in (self.keys_BS, self.paths_BTS):
            if part is not None and part.dtype != torch.bool:
                raise ValueError(
                    f"A mask must hold booleans, True where a key is allowed, but got "
                    f"{part.dtype}; compare, e.g. mask > 0, or mask == 0 if 0 means allowed."
                )

    def __and__(self, other: Mask) -> Mask:
        return Mask(
            self.causal or other.causal,
            _both(self.keys_BS, other.keys_BS),
            _both(self.paths_BTS, other.paths_BTS),
        )

    @property
    def only_causal(self) -> bool:
        """Whether nothing but the order of tokens decides what is allowed."""
        return self.keys_BS is None and self.paths_BTS is None

    def dense(self, T: int, S: int, device: torch.device | None = None) -> Tensor | None:
        """The mask as booleans that broadcast to (B, 1, T, S); ``None`` if all is allowed."""
        if self.keys_BS is not None and self.keys_BS.shape[-1] != S:
            raise ValueError(
                f"A padding mask needs one entry for each key, but there are {S} keys and "
                f"{self.keys_BS.shape[-1]} entries; build it from the same source as the keys."
            )
        if self.causal and S < T:
            raise ValueError(
                f"A causal mask needs at least as many keys as queries, but got {S} keys and "
                f"{T} queries; between two sequences (cross-attention) nothing is causal."
            )
        allowed = None if self.keys_BS is None else self.keys_BS[:, None, None, :]
        if self.paths_BTS is not None:
            if self.paths_BTS.shape[1:] != (T, S):
                raise ValueError(
                    f"A mask of paths needs one row for each query and one column for each key, "
                    f"{T} and {S}, but it has {self.paths_BTS.shape[1]} and "
                    f"{self.paths_BTS.shape[2]}; build it anew at every step."
                )
            paths_B1TS = self.paths_BTS[:, None]
            allowed = paths_B1TS if allowed is None else allowed & paths_B1TS
        if self.causal and T > 1:
            if device is None and allowed is not None:
                device = allowed.device
            rows = torch.arange(S - T, S, device=device)[:, None]
            causal_TS = torch.arange(S, device=device)[None, :] <= rows
            allowed = causal_TS[None, None] if allowed is None else allowed & causal_TS
        return allowed


def _both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a & b


EVERYTHING = Mask()
CAUSAL = Mask(causal=True)


def padding_mask(ids_BS: Tensor, pad: int = 0) -> Mask:
    """The mask that hides padding: a key is allowed where ``ids_BS`` is not ``pad``."""
    return Mask(keys_BS=ids_BS != pad)
