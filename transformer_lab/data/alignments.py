r"""Which letters say which phone: gold alignments, to hold attention against.

A dozen are written here by hand; a large table, made by others and by another method, can be
read from the lexicon of the package `gruut-lang-en` by whoever has it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .g2p import Entry
from .sources import DataError


@dataclass(frozen=True)
class Alignment:
    """A word, its phones, and for each phone the places (from 0) of the letters that say it.

    A letter that says nothing is in no group; two phones may share a letter (the `x` of *box*).
    """

    word: str
    phones: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]


HAND_MADE = """
kn:N a:AE ck:K
c:K r:R u:AH mb:M
c:K al:AE f:F
f:F ol:OW k:K s:S
m:M i:IH d:D n:N igh:AY t:T
pn:N eu:UW m:M o:OW n:N i:Y a:AH
wr:R ea:IY th:TH
ph:F o:OW n:N e:
th:TH i:IH n:NG k:K i:IH ng:NG
ph:F y:AH s:Z i:IY que:K
s:S igh:AY s:Z
a:AO l:L th:DH ough:OW
"""
"""Held-out words as `letters:phone`; letters of one phone stand together (`igh:AY`)."""


def by_hand() -> list[Alignment]:
    """The alignments of `HAND_MADE`."""
    return [_parse(line) for line in HAND_MADE.split("\n") if line]


def _parse(line: str) -> Alignment:
    pairs = (pair.split(":") for pair in line.split())
    return _aligned((letters, (phone,) if phone else ()) for letters, phone in pairs)


def _aligned(pairs: Iterable[tuple[str, tuple[str, ...]]]) -> Alignment:
    """From (letters, phones) in the order of the word; every phone has all letters of its pair."""
    word, phones, groups = "", [], []
    for letters, said in pairs:
        places = tuple(range(len(word), len(word) + len(letters)))
        word += letters
        phones += said
        groups += [places] * len(said)
    return Alignment(word, tuple(phones), tuple(groups))


ARPABET = dict(
    pair.split(":")
    for pair in (
        "ɑ:AA æ:AE ə:AH ʌ:AH ɔ:AO aʊ:AW aɪ:AY b:B t͡ʃ:CH d:D ð:DH ɛ:EH ɚ:ER eɪ:EY f:F ɡ:G h:HH "
        "ɪ:IH i:IY d͡ʒ:JH k:K l:L m:M n:N ŋ:NG oʊ:OW ɔɪ:OY p:P ɹ:R s:S ʃ:SH t:T θ:TH ʊ:UH u:UW "
        "v:V w:W j:Y z:Z ʒ:ZH"
    ).split()
)
"""The phones of gruut's lexicon (IPA, without stress) in those of CMUdict."""


def read_gruut(path: Path | str, entries: Sequence[Entry]) -> list[Alignment]:
    """Alignments of dictionary `entries` from the file `lexicon.db` of `gruut-lang-en`.

    Only words whose phones there equal one of the dictionary's pronunciations, in the order of
    `entries`. Raises `DataError` for a file that is no such table.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(
            f"The table of alignments must be gruut's lexicon.db, but there is no file {path}; "
            f"it is in the package gruut-lang-en."
        )
    try:
        read_only = f"{path.resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(read_only, uri=True)) as table:
            rows = dict(table.execute("SELECT word, alignment FROM g2p_alignments"))
    except sqlite3.Error as error:
        raise DataError(
            f"{path} is no lexicon of gruut ({error}); give the lexicon.db of gruut-lang-en."
        ) from None
    found = []
    for word, pronunciations in entries:
        aligned = _from_gruut(rows[word]) if word in rows else None
        if aligned is not None and aligned.word == word and aligned.phones in pronunciations:
            found.append(aligned)
    return found


def _from_gruut(text: str) -> Alignment | None:
    """`k|n}n i}ˈaɪ g|h}_ t}t`; None where a phone has no name in CMUdict."""
    pairs = []
    for pair in text.split(" "):
        letters, _, phones = pair.partition("}")
        plain = [phone.strip("ˈˌ") for phone in phones.split("|") if phone != "_"]
        if not all(phone in ARPABET for phone in plain):
            return None
        pairs.append((letters.replace("|", ""), tuple(ARPABET[phone] for phone in plain)))
    return _aligned(pairs)
