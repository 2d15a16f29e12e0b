"""Byte-level BPE: splits, learns and encodes as `tokenizers` does; any text returns."""

from __future__ import annotations

import json
import re
import unicodedata
from random import Random

import pytest
from bpe_cases import (
    byte_level,
    merges_of,
    random_merges,
    random_text,
    trained,
    with_merges,
)
from helpers import properties
from hypothesis import given
from hypothesis import strategies as st

from transformer_lab.data import load_shakespeare
from transformer_lab.tokens import BOS, EOS, PAD, SPECIAL, ByteBPE, split

BYTES_ONLY = ByteBPE(())


@pytest.fixture(scope="module")
def plays():
    return load_shakespeare("tiny")


@pytest.fixture(scope="module")
def learned(plays):
    return ByteBPE.train(plays.train, 1024)


def theirs(text):
    return [text[start:end] for _, (start, end) in byte_level().pre_tokenize_str(text)]


# ---- splitting ----


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("I'll say: it's 20 past", ["I", "'ll", " say", ":", " it", "'s", " 20", " past"]),
        ("a  b\n\n c", ["a", " ", " b", "\n\n", " c"]),
        ("x1_y  ", ["x", "1", "_", "y", "  "]),
        ("IT'S Ça² va", ["IT", "'", "S", " Ça", "²", " va"]),
        ("", []),
    ],
)
def test_a_split_by_hand(text, parts):
    assert split(text) == parts == theirs(text)


def test_every_kind_of_character_is_split_as_tokenizers_does():
    """Those that this Python's Unicode tables know: all of the first planes' start, then some."""
    codes = [*range(0x3400), *range(0x3400, 0x110000, 41)]
    known = [c for c in map(chr, codes) if unicodedata.category(c) not in ("Cn", "Cs")]
    assert len(known) > 15_000
    for start in range(0, len(known), 256):
        text = "".join(f"a{c} {c}0{c}  {c}'s" for c in known[start : start + 256])
        assert split(text) == theirs(text)


@properties
@given(st.text(max_size=80))
def test_parts_joined_are_the_text(text):
    assert "".join(split(text)) == text and all(split(text))


# ---- learning ----


def test_merges_by_hand():
    """a b occurs 5 times, ab c 4, then two pairs 2 times each: the smaller ids first."""
    text = "abc abc abcd abcd ab"
    bpe = ByteBPE.train(text, 259 + 9)
    assert bpe.merges == ("a b", "Ġ ab", "Ġab c", "Ġabc d") == tuple(merges_of(trained(text, 268)))
    assert [bpe.bytes_of(i) for i in range(259, len(bpe))] == [b"ab", b" ab", b" abc", b" abcd"]
    assert bpe.encode("abc abcd") == [259, 3 + ord("c") - 33, 262]


def test_the_bytes_have_gpt2s_order():
    assert len(BYTES_ONLY) == 259
    assert BYTES_ONLY.encode("!~") == [3, 3 + 93]
    assert sorted(BYTES_ONLY.bytes_of(i)[0] for i in range(3, 259)) == list(range(256))
    assert BYTES_ONLY.bytes_of(3 + 188) == b"\x00" and BYTES_ONLY.encode(" ") == [3 + 188 + 32]


def test_what_occurs_once_is_not_joined_and_learning_ends():
    assert ByteBPE.train("abcdef", 300).merges == ()
    assert ByteBPE.train("ab ab", 300).merges == ("a b",)
    assert ByteBPE.train("ab" * 50, 259).merges == ()


def test_the_plays_give_the_merges_and_ids_of_tokenizers(plays, learned):
    peer = trained(plays.train, 1024)
    assert list(learned.merges) == merges_of(peer) and len(learned) == 1024 == len(SPECIAL) + 1021
    assert learned.encode(plays.held_out) == peer.encode(plays.held_out).ids
    assert learned.decode(learned.encode(plays.held_out)) == plays.held_out


def test_hard_texts_give_the_merges_and_ids_of_tokenizers():
    random, joined = Random(1), 0
    for _ in range(150):
        text, other = random_text(random, 400), random_text(random, 200)
        size = 259 + random.randint(0, 80)
        bpe, peer = ByteBPE.train(text, size), trained(text, size)
        assert list(bpe.merges) == merges_of(peer), text
        assert bpe.encode(other) == peer.encode(other).ids == with_merges(bpe).encode(other).ids
        assert bpe.decode(bpe.encode(other)) == other
        joined += len(bpe.merges)
    assert joined > 2000


# ---- encoding and decoding ----


def test_any_rules_are_applied_as_tokenizers_applies_them():
    random, twice = Random(5), 0
    for letters in ("ab", "abc") * 150:
        bpe = random_merges(random, letters)
        peer = with_merges(bpe)
        twice += len(bpe) < 259 + len(bpe.merges)  # two rules make the same token
        for _ in range(6):
            text = "".join(random.choice(letters) for _ in range(random.randint(1, 40)))
            assert bpe.encode(text) == peer.encode(text).ids, (bpe.merges, text)
    assert twice > 10


@properties
@given(st.text(max_size=60))
def test_every_text_returns(learned, text):
    for bpe in (learned, BYTES_ONLY):
        assert bpe.decode(bpe.encode(text)) == text
        assert all(3 <= i < len(bpe) for i in bpe.encode(text))


def test_a_long_word_is_encoded_right():
    """Ten thousand letters without a space: the rules must not look at all of them each time."""
    bpe = ByteBPE(("a b", "ab ab", "abab abab"))
    assert bpe.encode("ab" * 5_002 + "a") == [261] * 1250 + [260, 3 + ord("a") - 33]


def test_special_ids_are_those_of_every_vocabulary():
    ids = BYTES_ONLY.encode("hé")
    assert BYTES_ONLY.decode([BOS, *ids[:1], PAD, *ids[1:], EOS, *ids]) == "hé"
    assert BYTES_ONLY.decode([]) == ""
    assert [BYTES_ONLY.bytes_of(i) for i in (PAD, BOS, EOS)] == [b""] * 3


def test_a_cut_character_is_written_as_a_question_mark():
    ids = BYTES_ONLY.encode("a😀b")
    assert BYTES_ONLY.decode(ids[:3]) == "a\ufffd"
    assert BYTES_ONLY.decode(ids[4:]) == "\ufffdb"
    assert BYTES_ONLY.decode(ids[:3]) + BYTES_ONLY.decode(ids[3:]) != "a😀b"


def test_labels_differ_and_name_bytes(learned):
    labels = [learned.label(i) for i in range(len(learned))]
    assert len(set(labels)) == len(learned) and labels[:3] == list(SPECIAL)
    assert labels[learned.encode(" the")[0]] == " the"
    cut = ByteBPE.train("日本 日本 日本", 259 + 4)
    assert cut.label(BYTES_ONLY.encode("é")[0]) == "<c3>"
    assert "<e6 97>" in {cut.label(i) for i in range(259, len(cut))}


def test_merges_are_all_there_is_to_save(learned):
    again = ByteBPE(tuple(json.loads(json.dumps(learned.merges))))
    assert again == learned and hash(again) == hash(learned)
    assert again.encode("O Romeo, Romeo!") == learned.encode("O Romeo, Romeo!")
    assert again != BYTES_ONLY


# ---- refusals ----


@pytest.mark.plain
def test_learning_needs_a_text_and_room():
    with pytest.raises(ValueError, match=r"at least 259 tokens .*but got size = 258; 1024"):
        ByteBPE.train("abc", 258)
    with pytest.raises(ValueError, match="it is empty; give a longer one"):
        ByteBPE.train("", 300)


@pytest.mark.plain
@pytest.mark.parametrize("do", [BYTES_ONLY.encode, lambda text: ByteBPE.train(text, 300)])
def test_lone_surrogates_are_refused(do):
    with pytest.raises(ValueError, match=r"'\\ud800' is half of a surrogate pair; read"):
        do("ab \ud800")


@pytest.mark.plain
@pytest.mark.parametrize("bad", [-1, 260])
def test_unknown_ids_are_refused(bad):
    bpe = ByteBPE(("a b",))
    rule = f"between 0 and 259 (the vocabulary has 260 tokens), but got {bad}; was it"
    for use in (lambda i: bpe.decode([5, i]), bpe.bytes_of, bpe.label):
        with pytest.raises(ValueError, match=re.escape(rule)):
            use(bad)


@pytest.mark.plain
@pytest.mark.parametrize(
    "bad", ["ab", "a b c", "a  b", " b", "a ", "ab c", "a \u20ac", "", 7, None]
)
def test_a_merge_that_cannot_be_read_is_named(bad):
    with pytest.raises(ValueError, match=re.escape(f"but merge 1 is {bad!r}; restore the list")):
        ByteBPE(("x y", bad))


@pytest.mark.plain
def test_a_merge_may_not_stand_twice():
    with pytest.raises(ValueError, match="'a b' stands at 0 and at 2; remove one"):
        ByteBPE(("a b", "b a", "a b"))
