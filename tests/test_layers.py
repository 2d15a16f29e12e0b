"""Encoder and decoder layers: torch's own layers with the same weights, in float64."""

import math

import pytest
import torch
from helpers import (
    B,
    D,
    F,
    H,
    K,
    S,
    T,
    default_dtype,
    lengths_to_keys,
    randn,
    shake,
    torch_decoder_layer,
    torch_encoder_layer,
)
from torch.nn import functional

from transformer_lab.attention import CAUSAL, EVERYTHING, KVCache, Mask
from transformer_lab.layers import ACTIVATIONS, DecoderLayer, EncoderLayer, FeedForward
from transformer_lab.norms import ARRANGEMENTS

SOURCE = lengths_to_keys([1, S, 3, 7, 2, 16, 5, 12, 4, 9, 6], S)
TARGET = lengths_to_keys([4, 2, T, 5, 1, 6, 12, 3, 8, 11, 7], T)
LATER = torch.ones(T, T).triu(1).bool()  # torch's masks say True for what is hidden

everywhere = pytest.mark.parametrize(
    ("norm", "activation"), [(n, a) for n in ARRANGEMENTS for a in ACTIVATIONS]
)


def encoder_layers(norm, activation):
    with default_dtype(torch.float64):
        torch.manual_seed(0)
        ours = shake(EncoderLayer(D, H, F, 0.0, norm, activation))
    return ours, torch_encoder_layer(ours, norm, activation)


def decoder_layers(norm, activation):
    with default_dtype(torch.float64):
        torch.manual_seed(1)
        ours = shake(DecoderLayer(D, H, F, 0.0, norm, activation))
    return ours, torch_decoder_layer(ours, norm, activation)


def assert_same(ours, theirs, inputs, named):
    """Outputs equal to 1e-12, and the gradients of all inputs and weights to 1e-11.

    ``named`` pairs our parameters with torch's.
    """
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)
    cotangent = randn(*ours.shape, seed=6)
    mine = torch.autograd.grad((ours * cotangent).sum(), [*inputs, *[a for a, _ in named]])
    wanted = torch.autograd.grad((theirs * cotangent).sum(), [*inputs, *[b for _, b in named]])
    for a, b in zip(mine, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-11, rtol=0)


@everywhere
@pytest.mark.parametrize("kind", ["none", "padding", "causal", "both"])
def test_the_encoder_layer_is_torchs(norm, activation, kind):
    ours, theirs = encoder_layers(norm, activation)
    x = randn(B, T, D).requires_grad_()
    keys = TARGET if kind in ("padding", "both") else None
    causal = kind in ("causal", "both")
    expected = theirs(
        x,
        src_mask=LATER if causal else None,
        src_key_padding_mask=None if keys is None else ~keys,
    )
    named = [
        (ours.attention.qkv.weight, theirs.self_attn.in_proj_weight),
        (ours.attention.out.bias, theirs.self_attn.out_proj.bias),
        (ours.feed_forward.inner.weight, theirs.linear1.weight),
        (ours.feed_forward.outer.bias, theirs.linear2.bias),
        (ours.around_attention.norm.gamma_D, theirs.norm1.weight),
        (ours.around_feed_forward.norm.beta_D, theirs.norm2.bias),
    ]
    assert_same(ours(x, Mask(causal, keys)), expected, [x], named)
    # torch's fast path, which runs without gradients, may leave rubbish on padded places
    real = torch.ones(B, T, dtype=torch.bool) if keys is None else keys
    with torch.inference_mode():
        fast = theirs.eval()(
            x,
            src_mask=LATER if causal else None,
            src_key_padding_mask=None if keys is None else ~keys,
        )
        got = ours.eval()(x, Mask(causal, keys))
        torch.testing.assert_close(got[real], fast[real], atol=1e-12, rtol=0)


@everywhere
@pytest.mark.parametrize("kind", ["none", "source padding", "both paddings"])
def test_the_decoder_layer_is_torchs(norm, activation, kind):
    ours, theirs = decoder_layers(norm, activation)
    x, y = randn(B, T, D).requires_grad_(), randn(B, S, D, seed=1).requires_grad_()
    source = None if kind == "none" else SOURCE
    target = TARGET if kind == "both paddings" else None
    expected = theirs(
        x,
        y,
        tgt_mask=LATER,
        tgt_key_padding_mask=None if target is None else ~target,
        memory_key_padding_mask=None if source is None else ~source,
    )
    got = ours(x, ours.cross_attention.keys_values(y), Mask(keys_BS=source), Mask(True, target))
    named = [
        (ours.self_attention.qkv.weight, theirs.self_attn.in_proj_weight),
        (ours.self_attention.qkv.bias, theirs.self_attn.in_proj_bias),
        (ours.cross_attention.qkv.weight, theirs.multihead_attn.in_proj_weight),
        (ours.cross_attention.qkv.bias, theirs.multihead_attn.in_proj_bias),
        (ours.feed_forward.inner.bias, theirs.linear1.bias),
        (ours.around_self.norm.gamma_D, theirs.norm1.weight),
        (ours.around_cross.norm.gamma_D, theirs.norm2.weight),
        (ours.around_feed_forward.norm.gamma_D, theirs.norm3.weight),
    ]
    assert_same(got, expected, [x, y], named)


@pytest.mark.parametrize("norm", ARRANGEMENTS)
def test_a_decoder_layer_is_causal_unless_told_otherwise(norm):
    ours, theirs = decoder_layers(norm, "relu")
    x, y = randn(B, T, D), randn(B, S, D, seed=1)
    memory = ours.cross_attention.keys_values(y)
    assert torch.equal(ours(x, memory), ours(x, memory, EVERYTHING, CAUSAL))
    open_ended = ours(x, memory, mask=EVERYTHING)
    torch.testing.assert_close(open_ended, theirs(x, y), atol=1e-12, rtol=0)


@pytest.mark.parametrize("norm", ARRANGEMENTS)
def test_a_decoder_layer_with_a_cache_says_the_same(norm):
    ours, _ = decoder_layers(norm, "gelu")
    x, y = randn(B, T, D), randn(B, S, D, seed=1)
    memory, cache = ours.cross_attention.keys_values(y), KVCache(T)
    mask = Mask(keys_BS=SOURCE)
    parts = [ours(x[:, t : t + 1], memory, mask, cache=cache) for t in range(T)]
    torch.testing.assert_close(torch.cat(parts, 1), ours(x, memory, mask), atol=1e-12, rtol=0)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_feed_forward_by_hand(activation):
    """Two matrices with a bend between them; GELU is the exact one, x Φ(x)."""
    torch.manual_seed(0)
    ours, x = shake(FeedForward(D, F, activation).double()), randn(B, T, D)
    inner = x @ ours.inner.weight.T + ours.inner.bias
    bend = {
        "relu": inner.clamp(min=0),
        "gelu": inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2))),
    }[activation]
    expected = bend @ ours.outer.weight.T + ours.outer.bias
    torch.testing.assert_close(ours(x), expected, atol=1e-12, rtol=0)
    # each token by itself
    torch.testing.assert_close(ours(x[:, 3:4]), ours(x)[:, 3:4], atol=1e-12, rtol=0)


def test_feed_forward_starts_in_xaviers_range():
    torch.manual_seed(0)
    ours = FeedForward(D, F)
    bound = math.sqrt(6 / (D + F))
    for linear in (ours.inner, ours.outer):
        assert 0.98 * bound < linear.weight.abs().max().item() <= bound
        assert (linear.bias == 0).all()


def test_the_trace_names_every_attention():
    encoder, decoder = EncoderLayer(D, H, F, name="e"), DecoderLayer(D, H, F, name="d")
    trace = {}
    y = encoder(torch.zeros(B, S, D), trace=trace)
    decoder(torch.zeros(B, T, D), decoder.cross_attention.keys_values(y), trace=trace)
    assert {name: tuple(w.shape) for name, w in trace.items()} == {
        "e.self.q_BHTK": (B, H, S, K),
        "e.self.k_BHSK": (B, H, S, K),
        "e.self.weights_BHTS": (B, H, S, S),
        "d.self.q_BHTK": (B, H, T, K),
        "d.self.k_BHSK": (B, H, T, K),
        "d.self.weights_BHTS": (B, H, T, T),
        "d.cross.q_BHTK": (B, H, T, K),
        "d.cross.k_BHSK": (B, H, S, K),
        "d.cross.weights_BHTS": (B, H, T, S),
    }


@pytest.mark.parametrize("norm", ARRANGEMENTS)
def test_dropout_is_passed_on(norm):
    layers = EncoderLayer(D, H, F, 0.3, norm), DecoderLayer(D, H, F, 0.3, norm)
    rates = [[m.p for m in layer.modules() if isinstance(m, torch.nn.Dropout)] for layer in layers]
    assert rates == [[0.3] * 2, [0.3] * 3]


def test_the_activations_are_torchs():
    assert set(ACTIVATIONS) == {"relu", "gelu"}
    x = randn(B, T, D).requires_grad_()
    for name, ours in ACTIVATIONS.items():
        theirs = getattr(functional, name)
        for part in (x, x[:1, :1]):
            torch.testing.assert_close(ours(part), theirs(part), atol=1e-15, rtol=0)
        slopes = [torch.autograd.grad(f(x).square().sum(), x)[0] for f in (ours, theirs)]
        torch.testing.assert_close(*slopes, atol=1e-14, rtol=0)


@pytest.mark.plain
def test_an_unknown_activation_is_refused():
    message = r"activation must be one of relu, gelu, but got 'swish'; choose one of these"
    with pytest.raises(ValueError, match=message):
        FeedForward(35, 41, "swish")
