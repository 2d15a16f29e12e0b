"""Gold alignments, and how well cross-attention agrees with them."""

import sqlite3
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from transformer_lab import pretrained
from transformer_lab.data import Alignment, DataError, by_hand, fetch, load_g2p, read_gruut
from transformer_lab.metrics import alignment_agreement
from transformer_lab.pretrained import agreement


@pytest.fixture(scope="module")
def test_part():
    fetch(report=lambda line: None)  # the first file of the suite that needs the dictionary
    return load_g2p().test


@pytest.fixture(scope="module")
def lexicon() -> Path:
    """The table of the package gruut-lang-en, found without importing it."""
    return Path(find_spec("gruut_lang_en").origin).parent / "lexicon.db"


@pytest.fixture(scope="module")
def gold(lexicon, test_part):
    return read_gruut(lexicon, test_part)


def test_hand_made_alignments_are_of_held_out_words_and_cover_every_phone(test_part):
    known, found = dict(test_part), by_hand()
    assert len(found) == len({a.word for a in found}) == 12
    for a in found:
        assert a.phones in known[a.word]
        assert len(a.groups) == len(a.phones) and all(a.groups)
        places = [place for group in a.groups for place in group]
        assert places == sorted(set(places)) and places[-1] < len(a.word)
        assert all(b - a == 1 for group in a.groups for a, b in pairwise(group))


def test_midnight_by_hand():
    midnight = next(a for a in by_hand() if a.word == "midnight")
    assert midnight == Alignment(
        "midnight",
        ("M", "IH", "D", "N", "AY", "T"),
        ((0,), (1,), (2,), (3,), (4, 5, 6), (7,)),
    )


def test_the_large_table_says_what_it_is_known_to_say(gold, test_part):
    found = {a.word: a for a in gold}
    assert len(found) == len(gold) > 0.9 * len(test_part)
    known = dict(test_part)
    for word, a in found.items():
        assert a.phones in known[word] and len(a.groups) == len(a.phones)
        assert max(place for group in a.groups for place in group) < len(word)
    # two methods: a hand and a machine
    hand = [a for a in by_hand() if a.word in found and a.phones == found[a.word].phones]
    pairs = [
        (ours, theirs)
        for a in hand
        for ours, theirs in zip(a.groups, found[a.word].groups, strict=True)
    ]
    assert len(hand) >= 10
    assert all(set(theirs) <= set(ours) for ours, theirs in pairs)


def table(path: Path, rows) -> Path:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE g2p_alignments (word TEXT, alignment TEXT)")
        db.executemany("INSERT INTO g2p_alignments VALUES (?, ?)", rows)
    db.close()
    return path


def test_reading_a_table(tmp_path):
    """Silent letters, two phones from one letter, stress, foreign phones, other words."""
    entries = [
        ("knight", (("N", "AY", "T"),)),
        ("box", (("B", "AA", "K", "S"),)),
        ("use", (("Y", "UW", "Z"), ("Y", "UW", "S"))),
        ("loch", (("L", "AA", "K"),)),
        ("read", (("R", "EH", "D"),)),
        ("absent", (("AE",),)),
    ]
    rows = [
        ("knight", "k|n}n i}ˈaɪ g|h}_ t}t"),
        ("box", "b}b o}ˈɑ x}k|s"),
        ("use", "u}j|ˈu s}s e}_"),
        ("loch", "l}l o}ɑ c|h}x"),  # a phone that English has not
        ("read", "r}ɹ e|a}i d}d"),  # the other pronunciation
        ("more", "m}m o}ɔ r}ɹ e}_"),
    ]
    assert read_gruut(table(tmp_path / "lexicon.db", rows), entries) == [
        Alignment("knight", ("N", "AY", "T"), ((0, 1), (2,), (5,))),
        Alignment("box", ("B", "AA", "K", "S"), ((0,), (1,), (2,), (2,))),
        Alignment("use", ("Y", "UW", "S"), ((0,), (0,), (1,))),
    ]


@pytest.mark.plain
def test_a_file_that_is_no_table_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"there is no file .*nowhere; it is in the package"):
        read_gruut(tmp_path / "nowhere", [])
    text = tmp_path / "text"
    text.write_text("not a database at all, however long it may be", encoding="utf-8")
    with pytest.raises(DataError, match=r"text is no lexicon of gruut \(file is not a database\)"):
        read_gruut(text, [])
    empty = tmp_path / "empty.db"
    sqlite3.connect(empty).close()
    with pytest.raises(DataError, match="no such table: g2p_alignments"):
        read_gruut(empty, [])


def test_agreement_counts_by_hand():
    weights = [[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.0, 0.1, 0.9], [0.2, 0.3, 0.5]]
    assert alignment_agreement(weights, [(0,), (0,), (2,), (1,)]) == (3, 4)  # a tie: the first
    assert alignment_agreement(weights, [(1, 2), (1,), (), (0, 2)]) == (1, 3)
    assert alignment_agreement([], []) == (0, 0)


@pytest.mark.plain
def test_rows_and_phones_must_match():
    with pytest.raises(ValueError, match="there are 1 rows and 2 phones; leave out the row of the"):
        alignment_agreement([[1.0]], [(0,), (0,)])


class Looks(pretrained.Pronouncer):
    """A "speaker" whose two heads look where they are told."""

    def __init__(self, speaker, where):
        self.model, self.where = speaker.model, where

    def explain(self, word, phones):
        T, S = len(phones), len(word)
        maps = np.zeros((len(self.model.decoder), self.model.config.h, T + 1, S))
        maps[..., 0] = 0.1
        maps[1, 2, np.arange(T), [self.where[word][t][0] for t in range(T)]] = 9.0
        return type("Seen", (), {"cross_LHTS": maps})()


def test_agreement_by_head():
    speaker, gold = pretrained.load("g2p-class"), by_hand()
    looks = Looks(speaker, {a.word: a.groups for a in gold})
    found = agreement(looks, gold)
    assert found["heads"][1][2] == found["mean"] == 1.0
    first = sum(0 in group for a in gold for group in a.groups) / found["phones"]
    assert found["heads"][0][0] == pytest.approx(first)
    assert (found["words"], found["phones"]) == (12, sum(len(a.phones) for a in gold))
    straight = sum(
        int((t + 0.5) * len(a.word) / len(a.phones)) in group
        for a in gold
        for t, group in enumerate(a.groups)
    )
    assert found["diagonal"] == pytest.approx(straight / found["phones"])


@pytest.mark.parametrize("name", [n for n in pretrained.available() if n.startswith("g2p")])
def test_the_recorded_agreement_is_found_again(name, gold):
    """On every 19th word: the recorded shares within what such a sample allows."""
    speaker = pretrained.load(name)
    recorded = speaker.about["figures"]["test alignment"]
    few = gold[::19]
    found = agreement(speaker, few)
    assert recorded["words"] == len(gold) and found["words"] == len(few)
    shares = [(recorded["mean"], found["mean"]), (recorded["diagonal"], found["diagonal"])]
    shares += zip(np.ravel(recorded["heads"]), np.ravel(found["heads"]), strict=True)
    for expected, got in shares:
        error = (expected * (1 - expected) / found["phones"]) ** 0.5
        assert abs(expected - got) < 5 * error + 1e-3
    assert recorded["mean"] > recorded["diagonal"]


@pytest.mark.plain
def test_agreement_needs_alignments():
    with pytest.raises(ValueError, match="at least one alignment, but there is none"):
        agreement(pretrained.load("g2p-class"), [])
