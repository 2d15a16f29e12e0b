r"""What a network must beat, counted without a gradient.

`context` pronounces words, `kneser_ney` predicts the next character, `compression` asks a
compressor.
"""

from collections.abc import Callable
from functools import partial

from .compression import CODECS, compressed_nats
from .context import ContextModel
from .kneser_ney import KneserNey


def kneser_ney_nats(train: str, held_out: str) -> float:
    """Nats a character of `held_out` for a Kneser-Ney 5-gram that has counted `train`."""
    return KneserNey(sorted(set(train + held_out)), 5).fit(train).nats(held_out)


TEXT_BASELINES: dict[str, Callable[[str, str], float]] = {
    "Kneser–Ney 5-gram": kneser_ney_nats,
    **{codec: partial(compressed_nats, codec=codec) for codec in CODECS},
}
"""From the two parts of a text to nats a character, by name: lines in every loss figure."""

__all__ = [
    "CODECS",
    "TEXT_BASELINES",
    "ContextModel",
    "KneserNey",
    "compressed_nats",
    "kneser_ney_nats",
]
