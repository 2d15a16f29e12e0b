"""What we are measured against: models of other libraries, equal to ours in size, no dropout.

`PlainGPT` and `PlainSeq2Seq` are written here, in the plain idiom of torch: the first after the
architecture of nanoGPT, the second is `torch.nn.Transformer` with what it leaves to its user.
The others are those of transformers. No model here ever says an end, so that all write equally
much. `weights.py` gives our weights to those that then compute what ours compute; BART and T5
are built a little differently (norm after the sub-layer, relative positions) and cannot.
"""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)

from transformer_lab.models import DecoderOnlyConfig, ModelConfig
from transformer_lab.tokens import BOS, PAD


class PlainBlock(nn.Module):
    """One pre-norm layer of `PlainGPT`."""

    def __init__(self, d_model: int, h: int, d_ff: int):
        super().__init__()
        self.h = h
        self.ln_1, self.ln_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.c_attn = nn.Linear(d_model, 3 * d_model)
        self.c_proj = nn.Linear(d_model, d_model)
        self.c_fc, self.c_out = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.gelu = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = (
            t.view(B, T, self.h, D // self.h).transpose(1, 2)
            for t in self.c_attn(self.ln_1(x)).split(D, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(B, T, D))
        return x + self.c_out(self.gelu(self.c_fc(self.ln_2(x))))


class PlainGPT(nn.Module):
    """A decoder-only model in the style of nanoGPT, written here: no cache, the head is tied."""

    def __init__(self, c: DecoderOnlyConfig):
        super().__init__()
        self.max_length = c.max_length
        self.wte = nn.Embedding(c.size, c.d_model)
        self.wpe = nn.Embedding(c.max_length, c.d_model)
        self.h = nn.ModuleList(PlainBlock(c.d_model, c.h, c.d_ff) for _ in range(c.layers))
        self.ln_f = nn.LayerNorm(c.d_model)
        self.head = nn.Linear(c.d_model, c.size, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids: Tensor, last_only: bool = False) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        return self.head(x[:, -1:] if last_only else x)

    @torch.inference_mode()
    def generate(self, ids: Tensor, max_new: int) -> Tensor:
        for _ in range(max_new):
            best = self(ids[:, -self.max_length :], last_only=True)[:, -1].argmax(-1)
            ids = torch.cat([ids, best[:, None]], dim=1)
        return ids


class PlainSeq2Seq(nn.Module):
    """`torch.nn.Transformer` (pre-norm) with embeddings, learned positions and a tied head."""

    def __init__(self, c: ModelConfig):
        super().__init__()
        self.source = nn.Embedding(c.source_size, c.d_model)
        self.target = nn.Embedding(c.target_size, c.d_model)
        self.source_positions = nn.Embedding(c.max_length, c.d_model)
        self.target_positions = nn.Embedding(c.max_length, c.d_model)
        with warnings.catch_warnings():  # it says that pre-norm has no nested tensors
            warnings.simplefilter("ignore", UserWarning)
            self.transformer = nn.Transformer(
                c.d_model, c.h, c.encoder_layers, c.decoder_layers, c.d_ff, 0.0, c.activation,
                batch_first=True, norm_first=True,
            )  # fmt: skip
        self.scale = math.sqrt(c.d_model)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        S, T = source.shape[1], target.shape[1]
        x = self.source(source) * self.scale + self.source_positions(torch.arange(S))
        y = self.target(target) * self.scale + self.target_positions(torch.arange(T))
        mask = nn.Transformer.generate_square_subsequent_mask(T)
        y = self.transformer(x, y, tgt_mask=mask, tgt_is_causal=True)
        return F.linear(y, self.target.weight)


def gpt2(c: DecoderOnlyConfig) -> GPT2LMHeadModel:
    """GPT-2 of our size, with our (exact) GELU."""
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=c.size, n_positions=c.max_length, n_embd=c.d_model, n_layer=c.layers,
            n_head=c.h, n_inner=c.d_ff, activation_function=c.activation, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
        )
    )  # fmt: skip


_ENDLESS = {
    "pad_token_id": PAD, "bos_token_id": None, "eos_token_id": None,
    "decoder_start_token_id": BOS,
}  # fmt: skip


def _sizes(c: ModelConfig) -> dict[str, object]:
    """The settings that BART and Pegasus share."""
    return {
        "vocab_size": c.target_size,
        "d_model": c.d_model,
        "encoder_layers": c.encoder_layers,
        "decoder_layers": c.decoder_layers,
        "encoder_attention_heads": c.h,
        "decoder_attention_heads": c.h,
        "encoder_ffn_dim": c.d_ff,
        "decoder_ffn_dim": c.d_ff,
        "activation_function": c.activation,
        "max_position_embeddings": c.max_length,
        "scale_embedding": True,
        "dropout": 0.0,
        **_ENDLESS,
        "forced_eos_token_id": None,
    }


def bart(c: ModelConfig) -> BartForConditionalGeneration:
    """BART of our size."""
    return BartForConditionalGeneration(BartConfig(**_sizes(c)))


def t5(c: ModelConfig) -> T5ForConditionalGeneration:
    """T5 of our size; its positions are relative and not learned for each place."""
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=c.target_size, d_model=c.d_model, d_kv=c.d_model // c.h, d_ff=c.d_ff,
            num_layers=c.encoder_layers, num_decoder_layers=c.decoder_layers, num_heads=c.h,
            feed_forward_proj=c.activation, dropout_rate=0.0, **_ENDLESS,
        )
    )  # fmt: skip


def pegasus(c: ModelConfig) -> PegasusForConditionalGeneration:
    """Pegasus of our size; it embeds source and target by one matrix."""
    return PegasusForConditionalGeneration(PegasusConfig(**_sizes(c)))
