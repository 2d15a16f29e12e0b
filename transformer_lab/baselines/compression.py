r"""A compressor as a language model: what predicts well compresses well.

A text that a model gives probability p can be coded in log2(1/p) bits (Shannon 1948), and a
code of b bits is a model that gives probability 2^-b. So the size of a compressed file is a
cross-entropy. Unlike the networks of the book, a compressor goes on learning while it reads
the held-out text. xz remembers 64 MiB, so all of a small text; bz2 begins anew every 900 kB, so
of a longer text it has only the end in mind.
"""

from __future__ import annotations

import bz2
import lzma
import math

CODECS = {
    "xz": lambda data: lzma.compress(data, preset=9 | lzma.PRESET_EXTREME),
    "bz2": lambda data: bz2.compress(data, compresslevel=9),
}
"""Compressors of the standard library, at their strongest."""


def compressed_nats(train: str, held_out: str, codec: str = "xz") -> float:
    r"""Nats a character of `held_out` for a compressor that has read `train` before.

        (size(train + held_out) - size(train)) * 8 ln 2 / n

    Sizes in bytes (of UTF-8, compressed), n the number of characters of `held_out`. With an
    empty `train`, what the compressor does on its own. Raises ValueError for an empty
    `held_out` or a codec that is not in `CODECS`.
    """
    if codec not in CODECS:
        raise ValueError(
            f"The codec must be one of {', '.join(CODECS)}, but got {codec!r}; choose one of these."
        )
    if not held_out:
        raise ValueError(
            "A held-out text needs at least one character, but it is empty; give a longer one."
        )
    size = CODECS[codec]
    before = len(size(train.encode())) if train else 0
    after = len(size((train + held_out).encode()))
    return (after - before) * 8 * math.log(2) / len(held_out)
