"""Shakespeare's plays as plain text, their two cuts, and readers' own texts."""

from __future__ import annotations

import re
import string

import pytest

from transformer_lab.data import DataError, fetch, load_shakespeare, member, read_text
from transformer_lab.data.text import HELD_OUT, TINY, all_plays, load_play, plain_text

ALPHABET = set(string.ascii_letters + "\n !$&',-.:;?")


@pytest.fixture(scope="module", autouse=True)
def fetched() -> None:
    """Have the data; nothing happens where they are already there."""
    fetch(["shakespeare"], report=lambda line: None)


# ---- the conversion -------------------------------------------------------------

# ~ stands for the two spaces that end a line in Markdown
MARKDOWN = r"""# The Play

## ACT I

### SCENE I. A room.

_Enter **nobody**, and others who
stay_

**ANNE**~
_\[Aside]_~
First line,~
_Drums_~
second line. _\[To BEN]_~
'Third,'\--she said.

_A cry within_

Fourth line &amp; last.

**First Citizen**~
__\[Reads]_~
Well.


### SCENE II. The same.

Spoken by nobody.

**BEN**~
[Within]_~
Who's there?

_Burthen _\[dispersedly, within_

**ANNE**~
_\[Sings_~
1\. A song.
""".replace("~", "  ")

PLAIN = """ANNE:
First line,
second line.
'Third,'--she said.
Fourth line & last.

First Citizen:
Well.

Spoken by nobody.

BEN:
Who's there?

ANNE:
1. A song.
"""


def test_conversion_by_hand():
    assert plain_text(MARKDOWN) == PLAIN


def test_conversion_of_a_very_long_speech():
    # 40,000 paragraphs of one speech: work that grows with the square would take minutes
    text = "**A**~\n".replace("~", "  ") + "word [_word\n\n" * 40_000
    assert plain_text(text) == "A:\n" + "word word\n" * 40_000


def test_every_play_is_clean():
    for play in all_plays():
        text = load_play(play)
        lines = text.split("\n")
        assert text.endswith("\n") and not text.startswith("\n"), play
        assert "\n\n\n" not in text and "  " not in text, play
        assert not any(line != line.strip() for line in lines), play
        assert not set(text) & set("_*#\\[]<>"), play


def test_every_speech_keeps_its_speaker():
    for play in all_plays():
        source = member("shakespeare", f"{play}.md").decode("utf-8")
        names = [f"{name}:" for name in re.findall(r"^\*\*(.+)\*\*", source, re.M)]
        known = set(names)
        assert [line for line in load_play(play).split("\n") if line in known] == names, play


def test_speeches_survive_the_stage_directions():
    """Where a mark is missing in the source, no line of a speech may be swallowed."""
    tempest, wives = load_play("the-tempest"), load_play("the-merry-wives-of-windsor")
    assert "\nHark, hark!\nThe watch-dogs bark!\nHark, hark! I hear\n" in tempest
    assert "dispersedly" not in tempest
    assert "\nPAGE:\nWho's there?\n" in wives
    assert "\nShallow:" not in wives and "\nWithin\n" not in wives


# ---- the cuts -------------------------------------------------------------------


def test_tiny():
    data = load_shakespeare()
    text = data.train + data.held_out
    assert (len(text), len(data.held_out)) == (1_189_048, 118_905)
    assert len(data.train) == len(text) * 9 // 10
    assert set(text) == ALPHABET and len(data.symbols) == 64
    assert set(data.held_out) <= set(data.train)
    assert text.startswith("First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:")
    starts = [text.index(load_play(play)) for play in TINY]
    assert starts == sorted(starts) and starts[0] == 0


def test_full():
    data = load_shakespeare("full")
    assert (len(data.train), len(data.held_out)) == (4_376_620, 298_801)
    assert set(data.symbols) == ALPHABET | set(string.digits) and len(data.symbols) == 74
    assert set(data.held_out) <= set(data.train)
    assert len(all_plays()) == 37 and set(HELD_OUT) | set(TINY) <= set(all_plays())
    assert data.held_out == "\n".join(load_play(play) for play in HELD_OUT)
    assert not any(load_play(play)[:2000] in data.train for play in HELD_OUT)


def test_unknown_cut():
    with pytest.raises(ValueError, match=r'must be "tiny" or "full", not .huge.'):
        load_shakespeare("huge")


# ---- a reader's own text --------------------------------------------------------


def test_own_text(tmp_path):
    path = tmp_path / "own.txt"
    path.write_bytes("\ufeffäöü 789\r\n".encode() * 200)
    text = ("\ufeffäöü 789\n" * 200).removeprefix("\ufeff")
    data = read_text(path)
    assert data.train + data.held_out == text
    assert len(data.train) == len(text) * 9 // 10
    assert "ä" in data.symbols


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty: give a text of at least 1000 characters"),
        (b"\n \t\r\n", "holds only white space: give a text of at least 1000 characters"),
        (b"x" * 999, "is too short: it has 999 characters, and at least 1000 are needed"),
        (b"x\n" * 600 + b"\xff", "line 601: not UTF-8, byte 0xff at offset 1200"),
    ],
)
def test_own_text_that_will_not_do(tmp_path, content, told):
    path = tmp_path / "own.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"own\.txt") as caught:
        read_text(path)
    assert told in str(caught.value)
