"""What several test files share: sizes, tiny models, torch's own layers with our weights.

Free sizes are primes, composed ones are products of them, and no two are equal: an axis that
is swapped, or a size that is taken for another, cannot pass unnoticed. torch is imported inside
the functions, so that the rooms which need none can be tested without it.
"""

from __future__ import annotations

from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

from hypothesis import settings

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from transformer_lab.data import G2PData
    from transformer_lab.models import EncoderDecoder, ModelConfig

B, T, S = 11, 13, 17
H, K = 5, 7
D = H * K
F = 41
SOURCE_SIZE, TARGET_SIZE = 29, 23
ENCODER_LAYERS, DECODER_LAYERS = 2, 3
MAX_LENGTH = 19

# Properties run the same examples every time and leave nothing on disk.
properties = settings(max_examples=150, deadline=None, database=None, derandomize=True)


@contextmanager
def default_dtype(dtype: torch.dtype):
    """Inside, new floating-point tensors (and modules) have this type."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def shake(module: nn.Module, seed: int = 0, scale: float = 0.3) -> nn.Module:
    """Add noise to every parameter: biases at 0 and gains at 1 would hide mistakes."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p += scale * torch.randn(p.shape, generator=generator, dtype=p.dtype)
    return module


def randn(*shape: int, seed: int = 0, dtype: torch.dtype | None = None) -> Tensor:
    """Standard normal numbers (float64 unless told otherwise), the same for one seed."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype or torch.float64)


def lengths_to_keys(lengths: list[int], size: int) -> Tensor:
    """Booleans (len(lengths), size): True for the first ``lengths[b]`` places of row b."""
    import torch

    return torch.arange(size)[None, :] < torch.tensor(lengths)[:, None]


def ragged(rows: int, longest: int, size: int, seed: int = 0) -> Tensor:
    """Ids of ``rows`` sequences of different lengths (one has ``longest``), padded with 0."""
    import torch

    rng = Random(seed)
    ids = torch.zeros(rows, longest, dtype=torch.long)
    for b in range(rows):
        length = longest if b == rows // 2 else rng.randint(1, longest - 1)
        ids[b, :length] = torch.tensor([rng.randrange(3, size) for _ in range(length)])
    return ids


def targets(rows: int, length: int, size: int, seed: int = 1) -> Tensor:
    """Ids (rows, length) that begin with BOS and go on with symbols."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, size, (rows, length), generator=generator)
    ids[:, 0] = 1
    return ids


def tiny_config(**changes) -> ModelConfig:
    """A configuration whose sizes all differ, without dropout; ``changes`` replace fields."""
    from transformer_lab.models import ModelConfig

    fields = {
        "source_size": SOURCE_SIZE,
        "target_size": TARGET_SIZE,
        "d_model": D,
        "h": H,
        "d_ff": F,
        "encoder_layers": ENCODER_LAYERS,
        "decoder_layers": DECODER_LAYERS,
        "dropout": 0.0,
        "max_length": MAX_LENGTH,
    }
    return ModelConfig(**(fields | changes))


def tiny_model(seed: int = 0, dtype: torch.dtype | None = None, **changes) -> EncoderDecoder:
    """A model of :func:`tiny_config` with shaken weights, in float64, ready to be asked."""
    import torch

    from transformer_lab.models import EncoderDecoder

    with default_dtype(dtype or torch.float64):
        torch.manual_seed(seed)
        return shake(EncoderDecoder(tiny_config(**changes)), seed, 0.1).eval()


def tiny_data(words: int = 40, seed: int = 0) -> G2PData:
    """A spelling task made by hand: every letter has its sound, and ``e`` at the end is silent.

    Some words have two right answers (``c`` is K or S). No download, no file.
    """
    from transformer_lab.data import G2PData

    sounds = {"a": "AE", "b": "B", "c": "K", "d": "D", "e": "EH", "t": "T"}
    rng = Random(seed)
    entries: dict[str, tuple[tuple[str, ...], ...]] = {}
    while len(entries) < words:
        word = "".join(rng.choice("abcdet") for _ in range(rng.randint(2, 6)))
        spoken = word[:-1] if word.endswith("e") else word
        first = tuple(sounds[letter] for letter in spoken)
        second = tuple("S" if phone == "K" else phone for phone in first)
        entries[word] = (first,) if first == second else (first, second)
    rows = tuple(entries.items())
    cut = words // 5
    return G2PData(train=rows[2 * cut :], dev=rows[:cut], test=rows[cut : 2 * cut])


def copy_attention(ours: nn.Module, theirs: nn.Module) -> None:
    """Give ``torch.nn.MultiheadAttention`` the weights of our MultiHeadAttention."""
    theirs.in_proj_weight.data.copy_(ours.qkv.weight)
    theirs.in_proj_bias.data.copy_(ours.qkv.bias)
    copy_linear(ours.out, theirs.out_proj)


def copy_linear(ours: nn.Module, theirs: nn.Module) -> None:
    """Give one ``torch.nn.Linear`` the weights of another."""
    theirs.weight.data.copy_(ours.weight)
    theirs.bias.data.copy_(ours.bias)


def copy_norm(ours: nn.Module, theirs: nn.Module) -> None:
    """Give ``torch.nn.LayerNorm`` the weights of our LayerNorm."""
    theirs.weight.data.copy_(ours.gamma_D)
    theirs.bias.data.copy_(ours.beta_D)


def torch_encoder_layer(ours: nn.Module, norm: str, activation: str = "relu") -> nn.Module:
    """``torch.nn.TransformerEncoderLayer`` with the weights of our EncoderLayer."""
    import torch

    theirs = torch.nn.TransformerEncoderLayer(
        D, H, F, 0.0, activation, batch_first=True, norm_first=norm == "pre", dtype=torch.float64
    )
    copy_attention(ours.attention, theirs.self_attn)
    copy_linear(ours.feed_forward.inner, theirs.linear1)
    copy_linear(ours.feed_forward.outer, theirs.linear2)
    copy_norm(ours.around_attention.norm, theirs.norm1)
    copy_norm(ours.around_feed_forward.norm, theirs.norm2)
    return theirs


def torch_decoder_layer(ours: nn.Module, norm: str, activation: str = "relu") -> nn.Module:
    """``torch.nn.TransformerDecoderLayer`` with the weights of our DecoderLayer."""
    import torch

    theirs = torch.nn.TransformerDecoderLayer(
        D, H, F, 0.0, activation, batch_first=True, norm_first=norm == "pre", dtype=torch.float64
    )
    copy_attention(ours.self_attention, theirs.self_attn)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    copy_linear(ours.feed_forward.inner, theirs.linear1)
    copy_linear(ours.feed_forward.outer, theirs.linear2)
    copy_norm(ours.around_self.norm, theirs.norm1)
    copy_norm(ours.around_cross.norm, theirs.norm2)
    copy_norm(ours.around_feed_forward.norm, theirs.norm3)
    return theirs
