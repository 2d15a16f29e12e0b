r"""Where a text is split before pieces of words are learned from it."""

from __future__ import annotations

import re
import unicodedata

_SPLIT = re.compile(
    r"'(?:[stmd]|re|ve|ll)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII
)
_SPACES = frozenset("\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | set(
    map(chr, range(0x2000, 0x200B))
)


def split(text: str) -> list[str]:
    r"""Cut a text where no token may reach across; joined, the parts are the text.

    A part is a run of letters, of digits, or of other signs, each with the one space before it;
    an English ending ('s 't 're 've 'm 'll 'd); or other white space, whose last space goes to
    what follows. This is GPT-2's pattern,

        's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

    Python's ``re`` knows no ``\p{L}`` and ``\p{N}``: here each character beyond ASCII is first
    replaced by a letter, a digit, a tab or a sign of ASCII, by its category in Python's own
    Unicode tables. Characters younger than these tables count as signs.
    """
    plain = text if text.isascii() else text.translate(_stand_ins(text))
    return [text[found.start() : found.end()] for found in _SPLIT.finditer(plain)]


def _stand_ins(text: str) -> dict[int, str]:
    """For each character beyond ASCII, one of ASCII of the same kind."""
    kinds = {"L": "A", "N": "0"}
    return {
        ord(c): "\t" if c in _SPACES else kinds.get(unicodedata.category(c)[0], "!")
        for c in set(text)
        if not c.isascii()
    }
