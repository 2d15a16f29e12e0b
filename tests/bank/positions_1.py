"""Positions: the sinusoidal table, rotary embedding, position numbers. Part 1 of 2."""

import numpy as np
from bank import Exercise, t, torch
from positions_shared import _angles, _rotate


def _table(n, d):
    pos, i = np.arange(n)[:, None], np.arange(d)
    angle = pos / 10000.0 ** (2 * (i // 2) / d)
    return np.where(i % 2 == 0, np.sin(angle), np.cos(angle))


sinus = Exercise(
    "positions.sinusoidal",
    "Return the (T, d) table of the original paper, d even: PE[p, 2i] = sin(p / 10000^(2i/d)), "
    "PE[p, 2i+1] = cos of "
    "the same angle, p from 0.",
    "def sinusoidal(T, d): ...",
    _table,
    {
        "generic": lambda rng: (7, 8),
        "d = 2": lambda rng: (5, 2),
        "d = 4": lambda rng: (6, 4),
        "T = 1": lambda rng: (1, 6),
    },
)


@sinus.accept("torch, complex exponential")
def _(n, d):
    f = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    z = torch.polar(
        torch.ones(n, d // 2, dtype=torch.float64),
        torch.outer(torch.arange(n, dtype=torch.float64), f),
    )
    return torch.stack((z.imag, z.real), -1).flatten(1)


@sinus.reject(
    "exponent doubled",
    "Your exponent uses 2c/d with c the channel itself: channels 2i and 2i+1 share the exponent "
    "2i/d, so "
    "use 2*(c//2)/d.",
    "jadore801120/attention-is-all-you-need-pytorch#32, shenweichen/DeepCTR#379, "
    "DongjunLee/transformer-tensorflow#6, SamLynnEvans/Transformer#25",
)
def _(n, d):
    c = np.arange(d)
    a = np.arange(n)[:, None] / 10000.0 ** (2 * c / d)
    return np.where(c % 2 == 0, np.sin(a), np.cos(a))


@sinus.reject(
    "cosine with its own exponent",
    "The cosine of channel 2i+1 uses the angle of its sine partner, exponent 2i/d, not (2i+1)/d.",
    "maxjcohen/transformer#62, luhengshiwo/LLMForEverybody#106",
)
def _(n, d):
    c = np.arange(d)
    a = np.arange(n)[:, None] / 10000.0 ** (c / d)
    return np.where(c % 2 == 0, np.sin(a), np.cos(a))


odd = Exercise(
    "positions.sinusoidal_odd",
    "The same table for any width d, also odd (then there is one sine more than cosines).",
    "def sinusoidal(T, d): ...",
    _table,
    {"odd": lambda rng: (6, 5), "even": lambda rng: (6, 6), "d = 1": lambda rng: (4, 1)},
)


@odd.accept("cosines cut to d // 2")
def _(n, d):
    f = 10000.0 ** (-np.arange(0, d, 2) / d)
    pe = np.zeros((n, d))
    pe[:, 0::2] = np.sin(np.outer(np.arange(n), f))
    pe[:, 1::2] = np.cos(np.outer(np.arange(n), f[: d // 2]))
    return pe


@odd.accept("one column after the other")
def _(n, d):
    p = np.arange(n)
    return np.stack(
        [(np.sin, np.cos)[c % 2](p / 10000 ** ((c - c % 2) / d)) for c in range(d)], axis=1
    )


@odd.accept("pairs, last one cut off")
def _(n, d):
    a = np.outer(np.arange(n), 10000.0 ** (-np.arange(0, d, 2) / d))
    return np.stack([np.sin(a), np.cos(a)], -1).reshape(n, -1)[:, :d]


@odd.reject(
    "table of width d + 1 cut to d",
    "Cutting a wider table changes every exponent: 2i/(d+1) instead of 2i/d.",
)
def _(n, d):
    return _table(n, d + d % 2)[:, :d]


@odd.reject(
    "last column left zero", "The last sine is missing; only complete pairs were filled in."
)
def _(n, d):
    pe = _table(n, d)
    pe[:, d - d % 2 :] = 0
    return pe


def _x(n, d):
    return lambda rng: (rng.normal(size=(n, d)),)


rope = Exercise(
    "positions.rope",
    "Rotary embedding of x (T, d), d even, as in its paper: the neighbouring channels 2i and "
    "2i+1 of position p are "
    "rotated by the angle p * 10000^(-2i/d).",
    "def rope(x): ...",
    lambda x: _rotate(x, _angles(*x.shape)),
    {"generic": _x(6, 8), "d = 2": _x(5, 2), "one position": _x(1, 4), "d = 4": _x(6, 4)},
)


@rope.accept("2 x 2 rotation matrices")
def _(x):
    a = _angles(*x.shape)
    m = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    return np.einsum("jkti,tik->tij", m, x.reshape(len(x), -1, 2)).reshape(x.shape)


@rope.accept("x*cos + swap(x)*sin")
def _(x):
    a = np.repeat(_angles(*x.shape), 2, axis=1)
    swapped = np.stack([-x[:, 1::2], x[:, 0::2]], -1).reshape(x.shape)
    return x * np.cos(a) + swapped * np.sin(a)


@rope.accept("torch view_as_complex")
def _(x):
    z = torch.view_as_complex(t(x).reshape(len(x), -1, 2))
    a = t(_angles(*x.shape))
    return torch.view_as_real(z * torch.polar(torch.ones_like(a), a)).flatten(1)


@rope.reject(
    "pairs channel i with i + d/2",
    "You rotate the pairs (i, i + d/2). That layout is also in use, but is not the one asked "
    "for: here the "
    "neighbours 2i and 2i+1 form a pair.",
    "huggingface/transformers#25199, karpathy/nanochat#264, EleutherAI/gpt-neox#834, "
    "rasbt/LLMs-from-scratch#838, pytorch/torchtitan#801, tenstorrent/tt-metal#26844",
)
def _(x):
    n, d = x.shape
    a = np.tile(_angles(n, d), 2)
    return x * np.cos(a) + np.concatenate([-x[:, d // 2 :], x[:, : d // 2]], 1) * np.sin(a)


@rope.reject(
    "mixed layouts",
    "The angles are laid out for neighbours (a0, a0, a1, a1), the rotation for halves: each "
    "pair is rotated "
    "by two different angles.",
    "karpathy/nanochat#264, EleutherAI/gpt-neox#834",
)
def _(x):
    n, d = x.shape
    a = np.repeat(_angles(n, d), 2, axis=1)
    return x * np.cos(a) + np.concatenate([-x[:, d // 2 :], x[:, : d // 2]], 1) * np.sin(a)


@rope.reject(
    "rotates backwards",
    "The sign of the sine is turned. Scores stay relative, but the answer is the rotation by "
    "minus the angle.",
)
def _(x):
    return _rotate(x, -_angles(*x.shape))


@rope.reject(
    "halves not woven back together",
    "The rotated even and odd channels were put one after the other; weave them back (stack, "
    "then flatten).",
)
def _(x):
    y = _rotate(x, _angles(*x.shape))
    return np.concatenate([y[:, 0::2], y[:, 1::2]], 1)


@rope.reject(
    "exponent doubled",
    "i already runs over the pairs in steps of two: the exponent is 2i/d with i = 0, 1, .., not "
    "4i/d.",
)
def _(x):
    n, d = x.shape
    return _rotate(x, np.outer(np.arange(n), 10000.0 ** (-2 * np.arange(0, d, 2) / d)))


EXERCISES = [sinus, odd, rope]
