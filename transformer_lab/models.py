r"""Whole models, put together from the rooms above."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .attention import CAUSAL, DecoderState, Mask, empty_caches, padding_mask
from .kernels import linear
from .layers import ACTIVATIONS, DecoderLayer, EncoderLayer
from .norms import ARRANGEMENTS, LayerNorm
from .positions import SCHEMES
from .tokens import PAD

DEEPEST, LARGEST = 1000, 10**9
"""More layers, or more weights (4 GB of them), are refused before memory is filled with them."""


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and choices of an encoder-decoder; saved as JSON beside every set of weights.

    ``source_size``, ``target_size``: symbols in the two vocabularies, special ones included.
    ``max_length``: longest source or target, in tokens, special ones included.
    ``dropout``: share of numbers set to zero in training, 0 ≤ dropout < 1.
    Raises ``ValueError`` for a size below 1, a model beyond ``DEEPEST`` or ``LARGEST``, or a
    choice that does not exist.
    """

    source_size: int
    target_size: int
    d_model: int = 64
    h: int = 4
    d_ff: int = 256
    encoder_layers: int = 2
    decoder_layers: int = 2
    dropout: float = 0.1
    norm: str = "pre"
    positions: str = "sinusoidal"
    activation: str = "relu"
    max_length: int = 64

    def __post_init__(self) -> None:
        _check_sizes(
            self, "source_size", "target_size", "encoder_layers", "decoder_layers", "max_length"
        )


def _check_sizes(config: ModelConfig | DecoderOnlyConfig, *fields: str) -> None:
    """The rules that every configuration of a model keeps; ``fields`` are its own sizes."""
    for field in (*fields, "d_model", "h", "d_ff"):
        value = getattr(config, field)
        if not isinstance(value, int) or value < 1:
            raise ValueError(
                f"{field} must be a whole number of at least 1, but got {value!r}; "
                f"set a larger one."
            )
    if config.d_model % config.h:
        raise ValueError(
            f"The number of heads must divide the width of the model, but h = {config.h} and "
            f"d_model = {config.d_model}; choose h among the divisors of {config.d_model}."
        )
    depths = {f: getattr(config, f) for f in fields if f.endswith("layers")}
    rows = sum(getattr(config, f) for f in fields if f not in depths)
    layers, D, F = sum(depths.values()), config.d_model, config.d_ff
    weights = D * (rows + layers * (4 * D + 2 * F))
    if layers > DEEPEST or weights > LARGEST:
        raise ValueError(
            f"A model may have at most {DEEPEST:,} layers and {LARGEST:,} weights, but d_model = "
            f"{D}, d_ff = {F}, {', '.join(f'{f} = {getattr(config, f)}' for f in fields)} ask for "
            f"more; choose smaller ones, or restore the configuration."
        )
    if not 0 <= config.dropout < 1:
        raise ValueError(
            f"dropout is a share and must lie in 0 ≤ dropout < 1, but got {config.dropout}; "
            f"0.1 is usual, 0 turns it off."
        )
    for field, known in (
        ("norm", ARRANGEMENTS), ("positions", SCHEMES), ("activation", ACTIVATIONS),
    ):  # fmt: skip
        if getattr(config, field) not in known:
            raise ValueError(
                f"{field} must be one of {', '.join(known)}, but got "
                f"{getattr(config, field)!r}; choose one of these."
            )


def _check_ids(what: str, ids_BT: Tensor) -> None:
    """Ids are what an embedding can look up."""
    if ids_BT.ndim != 2 or ids_BT.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"The ids of a {what} must be int64 or int32 and have two axes, rows and tokens, but "
            f"they are {ids_BT.dtype} and their shape is {tuple(ids_BT.shape)}; convert them by "
            f".long(), and write ids[None] for a single row."
        )


class EncoderDecoder(nn.Module):
    r"""The Transformer of the paper: an encoder reads, a decoder writes.

    .. math:: p(y \mid x) = \prod_{t=1}^{n} p(y_t \mid y_{<t}, x)

    Source ids x (B, S) go through the encoder; the decoder gives, for each position t of the
    target, logits over the V symbols that could stand at t + 1. The matrix that embeds target
    symbols is also the one that scores them (Press and Wolf 2017). Embeddings are scaled by
    √d_model. Source: Vaswani et al. 2017.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        c = self.config = config
        self.source_embedding = nn.Embedding(c.source_size, c.d_model)
        self.target_embedding = nn.Embedding(c.target_size, c.d_model)
        scheme = SCHEMES[c.positions]
        self.source_positions = scheme(c.d_model, c.max_length)
        self.target_positions = scheme(c.d_model, c.max_length)
        self.dropout = nn.Dropout(c.dropout)
        sizes = (c.d_model, c.h, c.d_ff, c.dropout, c.norm, c.activation)
        self.encoder = nn.ModuleList(
            EncoderLayer(*sizes, name=f"encoder.{i}") for i in range(c.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(*sizes, name=f"decoder.{i}") for i in range(c.decoder_layers)
        )
        final = ARRANGEMENTS[c.norm].final_norm
        self.encoder_norm = LayerNorm(c.d_model) if final else nn.Identity()
        self.decoder_norm = LayerNorm(c.d_model) if final else nn.Identity()
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=c.d_model**-0.5)

    def _check_length(self, what: str, length: int) -> None:
        if length > self.config.max_length:
            raise ValueError(
                f"A {what} may hold at most {self.config.max_length} tokens (special ones "
                f"included), but this one holds {length}; shorten it or raise max_length."
            )

    def encode(
        self, source_BS: Int[Tensor, "B S"], trace: dict[str, Tensor] | None = None
    ) -> tuple[Float[Tensor, "B S D"], Mask]:
        """The source as vectors, and the mask that hides its padding."""
        _check_ids("source", source_BS)
        S = source_BS.shape[1]
        self._check_length("source", S)
        mask = padding_mask(source_BS, PAD)
        pos_1S = torch.arange(S, device=source_BS.device)[None]
        x_BSD = self.source_embedding(source_BS) * math.sqrt(self.config.d_model)
        x_BSD = self.dropout(self.source_positions.embed(x_BSD, pos_1S))
        for layer in self.encoder:
            x_BSD = layer(x_BSD, mask, self.source_positions, pos_1S, trace)
        return self.encoder_norm(x_BSD), mask

    def memory(
        self, encoded_BSD: Float[Tensor, "B S D"]
    ) -> list[tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H S K"]]]:
        """Keys and values of the source for the cross-attention of each decoder layer."""
        return [layer.cross_attention.keys_values(encoded_BSD) for layer in self.decoder]

    def start(self, source_BS: Int[Tensor, "B S"], width: int = 1) -> DecoderState:
        """Encode a source and prepare to decode it: see :meth:`step` and :meth:`branch`.

        ``width`` is how many hypotheses of each source will share its cache.
        """
        encoded_BSD, mask = self.encode(source_BS)
        caches = empty_caches(len(self.decoder), self.config.max_length * width)
        return DecoderState(caches, self.memory(encoded_BSD), mask)

    def step(
        self, target_BT: Int[Tensor, "B T"], state: DecoderState
    ) -> Float[Tensor, "B T V"]:
        """Logits for T further target tokens; ``state`` remembers the earlier ones."""
        _check_ids("target", target_BT)
        T = target_BT.shape[1]
        self._check_length("target", state.depth + T)
        return self._further(target_BT, state, *state.follow(T, target_BT.device))

    def branch(
        self,
        tokens_BW: Int[Tensor, "B W"],
        parent_BW: Int[Tensor, "B W"],
        state: DecoderState,
    ) -> Float[Tensor, "B W V"]:
        """Logits after one further token of each of W hypotheses of every source.

        Hypothesis w continues what hypothesis ``parent_BW[b, w]`` of the step before had said.
        """
        self._check_length("target", state.depth + 1)
        return self._further(tokens_BW, state, *state.branch(parent_BW))

    def _further(self, target_BT, state, pos_BT, pos_BS, mask) -> Tensor:
        """Logits of tokens that ``state`` has placed; their keys and values go into its caches."""
        x_BTD = self._embed_target(target_BT, pos_BT)
        for layer, memory, cache in zip(self.decoder, state.memory, state.caches, strict=True):
            x_BTD = layer(
                x_BTD, memory, state.mask, mask, self.target_positions, pos_BT, cache,
                pos_BN=pos_BS,
            )  # fmt: skip
        return self.logits(self.decoder_norm(x_BTD))

    def _embed_target(self, target_BT, pos_BT) -> Tensor:
        x_BTD = self.target_embedding(target_BT) * math.sqrt(self.config.d_model)
        return self.dropout(self.target_positions.embed(x_BTD, pos_BT))

    def logits(self, x_BTD: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        r"""Scores of all symbols by the transposed embedding: z = x Eᵀ."""
        return linear(x_BTD, self.target_embedding.weight)

    def forward(
        self,
        source_BS: Int[Tensor, "B S"],
        target_BT: Int[Tensor, "B T"],
        trace: dict[str, Tensor] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits of every target position at once (teacher forcing).

        ``target_BT`` begins with BOS; position t sees tokens 0 … t and scores token t + 1.
        Padding at the end of a target needs no mask: a causal decoder never looks forward.
        ``trace``, if given, collects ``"decoder.0.cross.weights_BHTS"`` and its like, and the
        queries and keys (``"….q_BHTK"``, ``"….k_BHSK"``) the weights are made of.
        """
        _check_ids("target", target_BT)
        T = target_BT.shape[1]
        self._check_length("target", T)
        encoded_BSD, mask = self.encode(source_BS, trace)
        pos_1T = torch.arange(T, device=target_BT.device)[None]
        x_BTD = self._embed_target(target_BT, pos_1T)
        for layer, memory in zip(self.decoder, self.memory(encoded_BSD), strict=True):
            x_BTD = layer(
                x_BTD, memory, mask, CAUSAL, self.target_positions, pos_1T, trace=trace
            )
        return self.logits(self.decoder_norm(x_BTD))

    def parameters_count(self) -> int:
        """Number of trained numbers; the shared matrix counts once."""
        return sum(p.numel() for p in self.parameters())


@dataclass(frozen=True)
class DecoderOnlyConfig:
    """Sizes and choices of a decoder-only model; see :class:`ModelConfig` for the shared ones.

    ``size``: symbols in the vocabulary. ``max_length``: longest text it can see, in tokens.
    """

    size: int
    d_model: int = 96
    h: int = 4
    d_ff: int = 384
    layers: int = 3
    dropout: float = 0.0
    norm: str = "pre"
    positions: str = "sinusoidal"
    activation: str = "gelu"
    max_length: int = 64

    def __post_init__(self) -> None:
        _check_sizes(self, "size", "layers", "max_length")


class DecoderOnly(nn.Module):
    r"""A language model: each token from those before it.

    .. math:: p(y) = \prod_{t=1}^{n} p(y_t \mid y_{<t})

    The encoder's layers under a causal mask; there is nothing to cross-attend to. The matrix
    that embeds symbols also scores them. Source: Radford et al. 2018, pre-norm by default.
    """

    def __init__(self, config: DecoderOnlyConfig):
        super().__init__()
        c = self.config = config
        self.embedding = nn.Embedding(c.size, c.d_model)
        self.positions = SCHEMES[c.positions](c.d_model, c.max_length)
        self.dropout = nn.Dropout(c.dropout)
        sizes = (c.d_model, c.h, c.d_ff, c.dropout, c.norm, c.activation)
        self.layers = nn.ModuleList(
            EncoderLayer(*sizes, name=f"layers.{i}") for i in range(c.layers)
        )
        final = ARRANGEMENTS[c.norm].final_norm
        self.norm = LayerNorm(c.d_model) if final else nn.Identity()
        nn.init.normal_(self.embedding.weight, std=c.d_model**-0.5)

    def forward(
        self, tokens_BT: Int[Tensor, "B T"], trace: dict[str, Tensor] | None = None
    ) -> Float[Tensor, "B T V"]:
        """Logits of the token after each position; position t sees tokens 0 … t."""
        _check_ids("text", tokens_BT)
        T = tokens_BT.shape[1]
        self._check_length(T)
        pos_1T = torch.arange(T, device=tokens_BT.device)[None]
        x_BTD = self._embed(tokens_BT, pos_1T)
        for layer in self.layers:
            x_BTD = layer(x_BTD, CAUSAL, self.positions, pos_1T, trace)
        return self.logits(self.norm(x_BTD))

    def start(self, padding_B: Int[Tensor, " B"] | None = None) -> DecoderState:
        """Prepare to read and write token by token (see :meth:`step`).

        ``padding_B``: how many tokens on the left of each row are only padding, where rows of
        unequal length are brought to one; they are seen by nobody and take no position.
        """
        caches = empty_caches(len(self.layers), self.config.max_length)
        return DecoderState(caches, padding_B=padding_B)

    def step(self, tokens_BT: Int[Tensor, "B T"], state: DecoderState) -> Float[Tensor, "B T V"]:
        """Logits after each of T further tokens; ``state`` remembers the earlier ones."""
        _check_ids("text", tokens_BT)
        T = tokens_BT.shape[1]
        self._check_length(state.depth + T)
        pos_BT, pos_BS, mask = state.follow(T, tokens_BT.device)
        x_BTD = self._embed(tokens_BT, pos_BT)
        for layer, cache in zip(self.layers, state.caches, strict=True):
            x_BTD = layer(x_BTD, mask, self.positions, pos_BT, None, cache, pos_BS)
        return self.logits(self.norm(x_BTD))

    def logits(self, x_BTD: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        r"""Scores of all symbols by the transposed embedding: z = x Eᵀ."""
        return linear(x_BTD, self.embedding.weight)

    def _embed(self, tokens_BT, pos_BT) -> Tensor:
        x_BTD = self.embedding(tokens_BT) * math.sqrt(self.config.d_model)
        return self.dropout(self.positions.embed(x_BTD, pos_BT))

    def _check_length(self, length: int) -> None:
        if length > self.config.max_length:
            raise ValueError(
                f"A text may hold at most {self.config.max_length} tokens, but this one holds "
                f"{length}; cut it or raise max_length."
            )

    def parameters_count(self) -> int:
        """Number of trained numbers; the shared matrix counts once."""
        return sum(p.numel() for p in self.parameters())
