"""Multi-head attention: torch's own with the same weights, the cache, the seam for positions."""

import math

import pytest
import torch
from helpers import B, D, H, K, S, T, copy_attention, default_dtype, lengths_to_keys, randn, shake

from transformer_lab.attention import (
    CAUSAL,
    EVERYTHING,
    KVCache,
    Mask,
    MultiHeadAttention,
    merge_heads,
    split_heads,
)
from transformer_lab.positions import Positions

LENGTHS = [1, T, 3, 7, 2, T, 5, 12, 4, 9, 6]
KEYS = lengths_to_keys(LENGTHS, T)
MASKS = {
    "none": EVERYTHING,
    "causal": CAUSAL,
    "padding": Mask(keys_BS=KEYS),
    "both": Mask(True, KEYS),
}


def pair(seed=0):
    """Our attention and torch's, float64, with the same shaken weights."""
    with default_dtype(torch.float64):
        torch.manual_seed(seed)
        ours = shake(MultiHeadAttention(D, H, "layer"), seed)
        theirs = torch.nn.MultiheadAttention(D, H, batch_first=True)
    copy_attention(ours, theirs)
    return ours, theirs


def test_heads_are_neighbouring_columns():
    x = randn(B, T, D)
    heads = split_heads(x, H)
    assert heads.shape == (B, H, T, K)
    for i in range(H):
        assert torch.equal(heads[:, i], x[:, :, i * K : (i + 1) * K])
    assert torch.equal(merge_heads(heads), x)


@pytest.mark.parametrize("name", MASKS)
def test_self_attention_is_torchs(name):
    ours, theirs = pair()
    mask = MASKS[name]
    hidden = torch.ones(T, T).triu(1).bool() if mask.causal else None
    padding = None if mask.keys_BS is None else ~mask.keys_BS
    x = randn(B, T, D).requires_grad_()
    trace = {}
    out, weights = theirs(x, x, x, padding, attn_mask=hidden, average_attn_weights=False)
    cotangent = randn(B, T, D, seed=1)
    expected = torch.autograd.grad((out * cotangent).sum(), [x, *theirs.parameters()])
    for kept in (None, trace):
        got = ours(x, mask, trace=kept)
        torch.testing.assert_close(got, out, atol=1e-12, rtol=0)
        gradients = torch.autograd.grad((got * cotangent).sum(), [x, *ours.parameters()])
        for a, b in zip(gradients, expected, strict=True):
            torch.testing.assert_close(a, b, atol=1e-11, rtol=0)
    assert list(trace) == ["layer.q_BHTK", "layer.k_BHSK", "layer.weights_BHTS"]
    torch.testing.assert_close(trace["layer.weights_BHTS"], weights, atol=1e-12, rtol=0)


def test_cross_attention_is_torchs():
    ours, theirs = pair(1)
    x, y = randn(B, T, D), randn(B, S, D, seed=1)
    keys = lengths_to_keys([1, 17, 3, 7, 2, 16, 5, 12, 4, 9, 6], S)
    out, weights = theirs(x, y, y, ~keys, average_attn_weights=False)
    trace = {}
    mask = Mask(keys_BS=keys)
    for kept in (None, trace):
        got = ours.cross(x, ours.keys_values(y), mask, kept)
        torch.testing.assert_close(got, out, atol=1e-12, rtol=0)
    torch.testing.assert_close(trace["layer.weights_BHTS"], weights, atol=1e-12, rtol=0)


def test_each_projection_starts_in_its_own_range():
    """Xavier: ± √(6 / (fan in + fan out)) for a D × D matrix, not for the 3D × D they share."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(D, H)
    bound = math.sqrt(6 / (D + D))
    for weight in (*ours.qkv.weight.split(D), ours.out.weight):
        assert 0.98 * bound < weight.abs().max().item() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert (ours.qkv.bias == 0).all() and (ours.out.bias == 0).all()


def test_permuted_tokens_give_permuted_outputs():
    """Without positions and mask, attention does not know the order."""
    ours, _ = pair(2)
    x = randn(B, T, D)
    order = torch.randperm(T, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(x[:, order]), ours(x)[:, order], atol=1e-12, rtol=0)


class Slope(Positions):
    """Adds −|p − q|/3 to the scores: the further, the less."""

    def scores(self, q_BHTK, k_BGSK, pos_BT, pos_BS):
        far = (pos_BT[:, None, :, None] - pos_BS[:, None, None, :]).abs()
        return (-far / 3).to(q_BHTK.dtype).expand(-1, q_BHTK.shape[1], -1, -1)


class Stretch(Positions):
    """Makes queries and keys longer the later they stand."""

    def turn(self, q_BHTK, k_BGSK, pos_BT, pos_BS):
        return (
            q_BHTK * (1 + pos_BT[:, None, :, None] / 9),
            k_BGSK * (1 + pos_BS[:, None, :, None] / 5),
        )


class Offset(Positions):
    """Adds to a head's output the mean distance to what it looks at."""

    needs_weights = True

    def values(self, weights_BHTS, pos_BT, pos_BS):
        far = (pos_BT[:, :, None] - pos_BS[:, None, :]).to(weights_BHTS.dtype)
        mean = (weights_BHTS * far[:, None]).sum(-1, keepdim=True)
        return mean.expand(-1, -1, -1, K)


def written_out(ours, x, scheme):
    """Causal self-attention with a scheme's hooks, straight from the formulas."""
    q, k, v = (x @ W.T + b for W, b in zip(
        ours.qkv.weight.split(D), ours.qkv.bias.split(D), strict=True))  # fmt: skip
    q, k, v = (t.unflatten(-1, (H, K)).transpose(1, 2) for t in (q, k, v))
    pos = torch.arange(T)[None]
    q, k = scheme.turn(q, k, pos, pos)
    scores = q @ k.mT / math.sqrt(K)
    added = scheme.scores(q, k, pos, pos)
    scores = scores if added is None else scores + added
    weights = scores.masked_fill(torch.ones(T, T).triu(1).bool(), -math.inf).softmax(-1)
    out = weights @ v
    more = scheme.values(weights, pos, pos)
    out = out if more is None else out + more
    return out.transpose(1, 2).flatten(2) @ ours.out.weight.T + ours.out.bias


@pytest.mark.parametrize("kind", [Positions, Slope, Stretch, Offset])
def test_a_scheme_is_heard_with_and_without_a_cache(kind):
    """Whole, token by token, and in pieces of 1, 5, 4 and 3 tokens: always the same."""
    ours, scheme = pair(3)[0], kind()
    x = randn(B, T, D)
    expected = written_out(ours, x, scheme)
    pos = torch.arange(T)[None]
    torch.testing.assert_close(ours(x, CAUSAL, scheme, pos), expected, atol=1e-12, rtol=0)
    for pieces in ([1] * T, [1, 5, 4, 3]):
        cache, out = KVCache(T), []
        for part, at in zip(x.split(pieces, 1), pos.split(pieces, 1), strict=True):
            so_far = pos[:, : int(at[0, -1]) + 1]
            out.append(ours(part, CAUSAL, scheme, at, cache, pos_BS=so_far))
        torch.testing.assert_close(torch.cat(out, 1), expected, atol=1e-12, rtol=0)


@pytest.mark.plain
@pytest.mark.parametrize("h", [0, 3, 36])
def test_heads_must_divide_the_width(h):
    message = rf"must divide the width of the model, but h = {h} and d_model = 35; choose h"
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(35, h)
