r"""What a network must beat, counted without a gradient.

`context` pronounces words, `kneser_ney` predicts the next character, `compression` asks a
compressor.
"""

from collections.abc import Callable
from functools import partial

from .compression import CODECS, compressed_nats
from .context import ContextModel
from .kneser_ney import KneserNey


def kneser_ney_nats(train: str, held_out: str, order: int = 5) -> float:
    """Nats a character of `held_out` for a Kneser-Ney model that has counted `train`.

    Its symbols are those of both parts, as they are for the networks; nothing else of `held_out`
    is known to it before.
    """
    return KneserNey(sorted(set(train + held_out)), order).fit(train).nats(held_out)


TEXT_BASELINES: dict[str, Callable[[str, str], float]] = {
    **{f"Kneser–Ney {n}-gram": partial(kneser_ney_nats, order=n) for n in (5, 7)},
    **{codec: partial(compressed_nats, codec=codec) for codec in CODECS},
}
"""From the two parts of a text to nats a character, by name: lines in every loss figure.

Of the orders 5 to 8, 7 is best on the last tenth of Tiny Shakespeare's training part.
"""

__all__ = [
    "CODECS",
    "TEXT_BASELINES",
    "ContextModel",
    "KneserNey",
    "compressed_nats",
    "kneser_ney_nats",
]
