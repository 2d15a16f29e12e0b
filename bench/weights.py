"""Our weights in the models of others, so that what they compute can be compared with ours."""

from __future__ import annotations

import torch
from peers import PlainGPT, PlainSeq2Seq
from torch import nn
from transformers import GPT2LMHeadModel, PegasusForConditionalGeneration

from transformer_lab.models import DecoderOnly, EncoderDecoder


@torch.no_grad()
def copy_gpt(ours: DecoderOnly, peer: PlainGPT | GPT2LMHeadModel) -> dict[str, float]:
    r"""Into a GPT; by how much which of its parameters exceed ours.

    We multiply embeddings E by √d on the way in and not on the way out; they do neither. With
    E' = √d E and, in the last norm, γ' = γ/√d and β' = β/√d both compute the same.
    """
    root = ours.config.d_model**0.5
    plain = isinstance(peer, PlainGPT)
    body = peer if plain else peer.transformer
    body.wte.weight.copy_(ours.embedding.weight * root)
    body.wpe.weight.copy_(ours.positions.table_nD)
    body.ln_f.weight.copy_(ours.norm.gamma_D / root)
    body.ln_f.bias.copy_(ours.norm.beta_D / root)
    for layer, other in zip(ours.layers, body.h, strict=True):
        _norm(layer.around_attention.norm, other.ln_1)
        _norm(layer.around_feed_forward.norm, other.ln_2)
        if plain:
            theirs = (other.c_attn, other.c_proj, other.c_fc, other.c_out)
        else:
            theirs = (other.attn.c_attn, other.attn.c_proj, other.mlp.c_fc, other.mlp.c_proj)
        attention, ff = layer.attention, layer.feed_forward
        own = (attention.qkv, attention.out, ff.inner, ff.outer)
        for mine, copy in zip(own, theirs, strict=True):
            copy.weight.copy_(mine.weight if plain else mine.weight.T)  # GPT-2 computes x W
            copy.bias.copy_(mine.bias)
    over = {"wte.weight": root, "ln_f.weight": 1 / root, "ln_f.bias": 1 / root}
    return {name if plain else f"transformer.{name}": factor for name, factor in over.items()}


@torch.no_grad()
def copy_seq2seq(ours: EncoderDecoder, peer: PlainSeq2Seq) -> None:
    """Into `torch.nn.Transformer` and what stands around it."""
    peer.source.weight.copy_(ours.source_embedding.weight)
    peer.target.weight.copy_(ours.target_embedding.weight)
    peer.source_positions.weight.copy_(ours.source_positions.table_nD)
    peer.target_positions.weight.copy_(ours.target_positions.table_nD)
    encoder, decoder = peer.transformer.encoder, peer.transformer.decoder
    _norm(ours.encoder_norm, encoder.norm)
    _norm(ours.decoder_norm, decoder.norm)
    for layer, other in zip(ours.encoder, encoder.layers, strict=True):
        _joined(layer.attention, other.self_attn)
        _norm(layer.around_attention.norm, other.norm1)
        _norm(layer.around_feed_forward.norm, other.norm2)
        _linear(layer.feed_forward.inner, other.linear1)
        _linear(layer.feed_forward.outer, other.linear2)
    for layer, other in zip(ours.decoder, decoder.layers, strict=True):
        _joined(layer.self_attention, other.self_attn)
        _joined(layer.cross_attention, other.multihead_attn)
        _norm(layer.around_self.norm, other.norm1)
        _norm(layer.around_cross.norm, other.norm2)
        _norm(layer.around_feed_forward.norm, other.norm3)
        _linear(layer.feed_forward.inner, other.linear1)
        _linear(layer.feed_forward.outer, other.linear2)


@torch.no_grad()
def copy_pegasus(ours: EncoderDecoder, peer: PegasusForConditionalGeneration) -> None:
    """Into Pegasus, whose tables of positions (constants) are overwritten.

    Ours must embed source and target alike, since Pegasus has one matrix for both.
    """
    assert torch.equal(ours.source_embedding.weight, ours.target_embedding.weight)
    encoder, decoder = peer.model.encoder, peer.model.decoder
    peer.model.shared.weight.copy_(ours.target_embedding.weight)
    encoder.embed_positions.weight.copy_(ours.source_positions.table_nD)
    decoder.embed_positions.weight.copy_(ours.target_positions.table_nD)
    _norm(ours.encoder_norm, encoder.layer_norm)
    _norm(ours.decoder_norm, decoder.layer_norm)
    for layer, other in zip(ours.encoder, encoder.layers, strict=True):
        _apart(layer.attention, other.self_attn)
        _norm(layer.around_attention.norm, other.self_attn_layer_norm)
    for layer, other in zip(ours.decoder, decoder.layers, strict=True):
        _apart(layer.self_attention, other.self_attn)
        _apart(layer.cross_attention, other.encoder_attn)
        _norm(layer.around_self.norm, other.self_attn_layer_norm)
        _norm(layer.around_cross.norm, other.encoder_attn_layer_norm)
    both = [*zip(ours.encoder, encoder.layers, strict=True)]
    both += zip(ours.decoder, decoder.layers, strict=True)
    for layer, other in both:
        _norm(layer.around_feed_forward.norm, other.final_layer_norm)
        _linear(layer.feed_forward.inner, other.fc1)
        _linear(layer.feed_forward.outer, other.fc2)


def _norm(ours: nn.Module, peer: nn.Module) -> None:
    peer.weight.copy_(ours.gamma_D)
    peer.bias.copy_(ours.beta_D)


def _linear(ours: nn.Module, peer: nn.Module) -> None:
    peer.weight.copy_(ours.weight)
    peer.bias.copy_(ours.bias)


def _joined(ours: nn.Module, peer: nn.MultiheadAttention) -> None:
    """Attention whose three projections are stored as one, like ours."""
    peer.in_proj_weight.copy_(ours.qkv.weight)
    peer.in_proj_bias.copy_(ours.qkv.bias)
    _linear(ours.out, peer.out_proj)


def _apart(ours: nn.Module, peer: nn.Module) -> None:
    """Attention whose three projections are stored one by one."""
    weights, biases = ours.qkv.weight.chunk(3), ours.qkv.bias.chunk(3)
    maps = (peer.q_proj, peer.k_proj, peer.v_proj)
    for copy, weight, bias in zip(maps, weights, biases, strict=True):
        copy.weight.copy_(weight)
        copy.bias.copy_(bias)
    _linear(ours.out, peer.out_proj)
