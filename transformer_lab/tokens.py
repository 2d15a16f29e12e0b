r"""From symbols to ids and back.

A model sees integers. Ids 0, 1 and 2 are the same in every vocabulary of the book:
``PAD`` fills short sequences of a batch, ``BOS`` opens a target, ``EOS`` closes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

PAD, BOS, EOS = 0, 1, 2
SPECIAL = ("<pad>", "<bos>", "<eos>")


@dataclass(frozen=True)
class Vocabulary:
    r"""A bijection between V symbols and the ids 0 … V − 1.

    ``symbols`` are the V − 3 symbols of the data, in the order of their ids 3, 4, …; the three
    special symbols stand before them.

    Raises ``ValueError`` if a symbol is empty, stands twice or is one of the special ones.
    """

    symbols: tuple[str, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        seen: dict[str, int] = {}
        for position, symbol in enumerate(self.symbols):
            if not symbol or symbol in SPECIAL:
                raise ValueError(
                    f"Symbol {position} of the vocabulary is {symbol!r}, but a symbol must be "
                    f"non-empty and none of {', '.join(SPECIAL)}; rename it."
                )
            if symbol in seen:
                raise ValueError(
                    f"Symbols of a vocabulary must differ, but {symbol!r} stands at "
                    f"{seen[symbol]} and at {position}; remove one."
                )
            seen[symbol] = position
        object.__setattr__(self, "_ids", {s: i + len(SPECIAL) for s, i in seen.items()})

    @classmethod
    def of(cls, sequences: Iterable[Iterable[str]]) -> Vocabulary:
        """The vocabulary of everything that occurs in ``sequences``, in sorted order."""
        return cls(tuple(sorted({symbol for sequence in sequences for symbol in sequence})))

    def __len__(self) -> int:
        return len(SPECIAL) + len(self.symbols)

    def encode(self, sequence: Iterable[str]) -> list[int]:
        """Ids of the symbols of ``sequence``; ``ValueError`` names symbols that are unknown."""
        sequence = list(sequence)
        try:
            return [self._ids[symbol] for symbol in sequence]
        except KeyError:
            unknown = sorted({s for s in sequence if s not in self._ids})
            shown = (s if s.isprintable() and s.strip() else repr(s) for s in self.symbols[:60])
            known = " ".join(shown) + (" …" if len(self.symbols) > 60 else "")
            raise ValueError(
                f"Only symbols of the vocabulary can be encoded, but "
                f"{', '.join(map(repr, unknown))} {'is' if len(unknown) == 1 else 'are'} not "
                f"among them; "
                f"use these: {known}"
            ) from None

    def decode(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Symbols of ``ids`` up to the first ``EOS``; ``PAD`` and ``BOS`` are left out."""
        out: list[str] = []
        for i in ids:
            i = int(i)
            if not 0 <= i < len(self):
                raise ValueError(
                    f"An id must lie between 0 and {len(self) - 1} (the vocabulary has "
                    f"{len(self)} symbols), but got {i}; was it made with another vocabulary?"
                )
            if i == EOS:
                break
            if i not in (PAD, BOS):
                out.append(self.symbols[i - len(SPECIAL)])
        return tuple(out)

    def label(self, i: int) -> str:
        """The symbol of id ``i``, special ones included (for axes of plots)."""
        return SPECIAL[i] if i < len(SPECIAL) else self.symbols[i - len(SPECIAL)]
