"""Attention: weights, masks, heads and the cache; one file for each."""

from .cache import DecoderState, KVCache, empty_caches
from .dot_product import attend, attention_scores, attention_weights, masked_softmax
from .heads import MultiHeadAttention, merge_heads, split_heads
from .masks import CAUSAL, EVERYTHING, Mask, padding_mask

__all__ = [
    "CAUSAL",
    "EVERYTHING",
    "DecoderState",
    "KVCache",
    "Mask",
    "MultiHeadAttention",
    "attend",
    "attention_scores",
    "attention_weights",
    "empty_caches",
    "masked_softmax",
    "merge_heads",
    "padding_mask",
    "split_heads",
]
