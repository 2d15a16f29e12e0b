r"""Running text: Shakespeare's plays in two cuts, or a reader's own file.

`tiny` holds the nine plays of the well-known Tiny Shakespeare, in its order;
the last tenth of the stream is held out. `full` holds 37 plays; three whole
ones are held out. The text is plain ASCII: a speaker's name with a colon, the
lines of the speech, and one blank line before the next speaker.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path

from .pins import SOURCES
from .sources import DataError, member, read_utf8

TINY = (
    "coriolanus",
    "richard-iii",
    "richard-ii",
    "romeo-and-juliet",
    "henry-vi-part-3",
    "a-winter-s-tale",
    "measure-for-measure",
    "the-taming-of-the-shrew",
    "the-tempest",
)
HELD_OUT = ("the-tempest", "twelfth-night", "macbeth")

SHORTEST = 1_000
"""Fewer characters than this cannot be split into a text to learn and one to test."""


@dataclass(frozen=True)
class TextData:
    """A text to learn from and one that is held out."""

    train: str
    held_out: str

    @property
    def symbols(self) -> tuple[str, ...]:
        """The characters of both, sorted."""
        return tuple(sorted(set(self.train) | set(self.held_out)))


def load_shakespeare(cut: str = "tiny") -> TextData:
    """Shakespeare's plays; `cut` is "tiny" or "full".

    Raises `DataError` if the data were not fetched, `ValueError` for another cut.
    """
    if cut == "tiny":
        return _last_tenth("\n".join(load_play(play) for play in TINY))
    if cut == "full":
        train = [play for play in all_plays() if play not in HELD_OUT]
        return TextData(
            "\n".join(load_play(play) for play in train),
            "\n".join(load_play(play) for play in HELD_OUT),
        )
    raise ValueError(f'The cut must be "tiny" or "full", not {cut!r}.')


def all_plays() -> tuple[str, ...]:
    """The names of the 37 plays, in alphabetical order."""
    names = (path.rsplit("/", 1)[-1] for path in SOURCES["shakespeare"].members)
    return tuple(sorted(name.removesuffix(".md") for name in names if name.endswith(".md")))


def load_play(name: str) -> str:
    """One play as plain text, such as `load_play("macbeth")`."""
    return plain_text(member("shakespeare", f"{name}.md").decode("utf-8"))


# A stage direction stands between underscores and may run over lines. In some
# the opening or the closing mark is missing: `[Within]_`, `\[dispersedly, within_`.
_DIRECTION = re.compile(r"\\?\[[^\]_]*\]?_|_+[^_]+_")
_SPEAKER = re.compile(r"\*\*([^*]+)\*\*")
_ESCAPE = re.compile(r"\\(.)")


def plain_text(markdown: str) -> str:
    r"""The speeches of a play in Markdown: `**NAME**` becomes `NAME:`.

    Headings and stage directions are dropped; a speech that a direction
    interrupts goes on in the next line. Time grows linearly with the length.
    """
    speeches: list[list[str]] = []
    fresh = True  # a heading came before: the next lines belong to nobody yet
    for paragraph in re.split(r"\n{2,}", markdown.strip("\n")):
        if paragraph.startswith("#"):
            fresh = True
            continue
        spoken = _DIRECTION.sub("", paragraph).split("\n")
        lines = [line.strip() for line in spoken if line.strip()]
        if not lines:
            continue
        speaker = _SPEAKER.fullmatch(lines[0])
        if speaker:
            lines[0] = f"{speaker[1]}:"
        if speaker or fresh:
            speeches.append(lines)
        else:
            speeches[-1] += lines
        fresh = False
    text = "\n\n".join("\n".join(lines) for lines in speeches) + "\n"
    return html.unescape(_ESCAPE.sub(r"\1", text))


def read_text(path: str | Path) -> TextData:
    r"""A reader's own UTF-8 text; its last tenth is held out.

    Raises `DataError` if the file is missing, not UTF-8 (with the line),
    empty or shorter than `SHORTEST` characters.
    """
    text = read_utf8(path)
    if not text.strip():
        what = "holds only white space" if text else "is empty"
        raise DataError(f"{path} {what}: give a text of at least {SHORTEST} characters.")
    if len(text) < SHORTEST:
        raise DataError(
            f"{path} is too short: it has {len(text)} characters, and at least {SHORTEST} are "
            "needed to learn from nine tenths and hold out the rest."
        )
    return _last_tenth(text)


def _last_tenth(text: str) -> TextData:
    cut = len(text) * 9 // 10
    return TextData(text[:cut], text[cut:])
