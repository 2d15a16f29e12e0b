"""Positions: the sinusoidal table, rotary embedding, position numbers. Part 2 of 2."""

import numpy as np
from bank import Exercise, t, torch
from positions_shared import _angles, _rotate


def _qk(start, n=3, d=4):
    return lambda rng: (rng.normal(size=(n, d)), start)


rope_offset = Exercise(
    "positions.rope_with_cache",
    "x (T, d) are the new positions after `past` cached ones. Apply the rotary embedding of "
    "positions.rope to them.",
    "def rope_new(x, past): ...",
    lambda x, past: _rotate(x, _angles(*x.shape, start=past)),
    {
        "one new token": _qk(5, 1),
        "a chunk": _qk(4, 3),
        "nothing cached": _qk(0, 3),
        "as many cached as new": _qk(3, 3),
    },
)


@rope_offset.accept("rotate a padded sequence, keep the end")
def _(x, past):
    y = np.concatenate([np.zeros((past, x.shape[1])), x])
    return _rotate(y, _angles(*y.shape))[past:]


@rope_offset.accept("rotate twice: by T and by past")
def _(x, past):
    base = _angles(1, x.shape[1], start=past)
    return _rotate(_rotate(x, _angles(*x.shape)), np.repeat(base, len(x), 0))


@rope_offset.reject(
    "one too far", "The first new position is `past` (counting from 0), not past + 1."
)
def _(x, past):
    return _rotate(x, _angles(*x.shape, start=past + 1))


@rope_offset.reject(
    "all new tokens at the same position", "Within the chunk the position must go on counting."
)
def _(x, past):
    return _rotate(x, np.repeat(_angles(1, x.shape[1], start=past), len(x), 0))


def _bf16(x):
    """Round to bfloat16 precision (8 significant bits), kept in float32."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


long_angles = Exercise(
    "positions.precision",
    "Return cos(p * 10000^(-2i/d)) for given integer positions p (up to 10^5), correct to 0.02.",
    "def cosines(positions, d): ...",
    lambda p, d: np.cos(np.outer(p.astype(np.float64), 10000.0 ** (-np.arange(0, d, 2) / d))),
    {
        "up to 200": lambda rng: (rng.integers(0, 200, 20), 8),
        "up to 4000": lambda rng: (rng.integers(3000, 4000, 20), 8),
        "around 10^5": lambda rng: (rng.integers(90000, 100000, 20), 8),
    },
    rtol=0,
    atol=0.02,
)


@long_angles.accept("float64")
def _(p, d):
    return np.cos(p[:, None] / 10000.0 ** (np.arange(0, d, 2) / d))


@long_angles.accept("float32 angles")
def _(p, d):
    f = (1.0 / 10000.0 ** (np.arange(0, d, 2, dtype=np.float32) / d)).astype(np.float32)
    return np.cos(np.outer(p.astype(np.float32), f))


@long_angles.accept("float32 angles, result rounded to bfloat16")
def _(p, d):
    f = np.float32(10000.0) ** (-np.arange(0, d, 2, dtype=np.float32) / np.float32(d))
    return _bf16(np.cos(p[:, None].astype(np.float32) * f))


@long_angles.reject(
    "positions in bfloat16",
    "bfloat16 has 8 bits: above 256 it skips positions. Build the angles in float32, round "
    "afterwards.",
    "huggingface/transformers#29285, KellerJordan/modded-nanogpt#39, nkalyanv99/UNI-D2#6",
)
def _(p, d):
    return np.cos(np.outer(_bf16(p), 10000.0 ** (-np.arange(0, d, 2) / d)))


@long_angles.reject(
    "frequencies in bfloat16",
    "A small relative error of the frequency, times a large position, is a large angle.",
    "EleutherAI/gpt-neox#1003, NVIDIA/Megatron-LM#744",
)
def _(p, d):
    return np.cos(np.outer(p, _bf16(10000.0 ** (-np.arange(0, d, 2) / d))))


@long_angles.reject(
    "angles in float16",
    "The product position * frequency is rounded to float16 before the cosine.",
    "EleutherAI/gpt-neox#1003",
)
def _(p, d):
    return np.cos(
        np.outer(p, 10000.0 ** (-np.arange(0, d, 2) / d)).astype(np.float16).astype(np.float64)
    )


def _left(pads):
    def make(rng):
        n = 6
        m = np.ones((len(pads), n), int)
        for row, k in enumerate(pads):
            m[row, :k] = 0
        return (m,)

    return make


left = Exercise(
    "positions.left_padding",
    "A batch is padded on the left; attention_mask (B, T) is 1 at real tokens. Return the "
    "position numbers: 0 at the "
    "first real token of each row, counting up; 0 at the padding.",
    "def position_ids(attention_mask): ...",
    lambda m: np.where(m == 1, np.cumsum(m, -1) - 1, 0),
    {"generic": _left([0, 2, 5]), "no padding": _left([0, 0])},
)


@left.accept("cumulative sum, clipped")
def _(m):
    return np.maximum(m.cumsum(1) - 1, 0)


@left.accept("arange minus the number of pads")
def _(m):
    return np.clip(np.arange(m.shape[1]) - (m == 0).sum(1, keepdims=True), 0, None)


@left.accept("loop")
def _(m):
    return [[max(0, sum(row[: j + 1]) - 1) for j in range(len(row))] for row in m]


@left.accept("torch")
def _(m):
    m = t(m)
    return torch.clamp(torch.cumsum(m, 1) - 1, min=0) * m


@left.reject("starts at 1", "The cumulative sum starts at 1 at the first real token; subtract 1.")
def _(m):
    return np.cumsum(m, -1) * m


@left.reject(
    "minus one at the padding",
    "-1 at the padding is a valid index from the end of the table; put a harmless 0 there.",
    "huggingface/transformers#3021 (the same clamp in its fix)",
)
def _(m):
    return np.cumsum(m, -1) - 1


EXERCISES = [rope_offset, long_angles, left]
