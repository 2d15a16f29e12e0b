"""Symbols to ids and back."""

import re

import pytest
from helpers import properties
from hypothesis import given
from hypothesis import strategies as st

from transformer_lab.tokens import BOS, EOS, PAD, SPECIAL, Vocabulary

symbols = st.text(min_size=1, max_size=3).filter(lambda s: s not in SPECIAL)
vocabularies = st.lists(symbols, min_size=1, max_size=30, unique=True).map(tuple)


@properties
@given(st.data(), vocabularies)
def test_what_is_encoded_is_decoded(data, known):
    vocabulary = Vocabulary(known)
    sequence = tuple(data.draw(st.lists(st.sampled_from(known), max_size=20)))
    ids = vocabulary.encode(sequence)
    assert vocabulary.decode(ids) == sequence
    assert all(3 <= i < len(vocabulary) for i in ids)
    # what a decoder meets around it: BOS before, EOS and padding behind, anything after EOS
    assert vocabulary.decode([BOS, *ids, PAD, EOS, *ids, PAD]) == sequence


@properties
@given(vocabularies)
def test_ids_are_a_bijection(known):
    vocabulary = Vocabulary(known)
    assert len(vocabulary) == len(known) + 3
    assert vocabulary.encode(known) == list(range(3, len(vocabulary)))
    labels = [vocabulary.label(i) for i in range(len(vocabulary))]
    assert labels == [*SPECIAL, *known]
    assert [vocabulary.decode([i]) for i in range(3, len(vocabulary))] == [(s,) for s in known]


def test_special_symbols_come_first():
    assert (PAD, BOS, EOS) == (0, 1, 2)
    vocabulary = Vocabulary(("x", "y"))
    assert [vocabulary.label(i) for i in (PAD, BOS, EOS)] == ["<pad>", "<bos>", "<eos>"]
    assert vocabulary.decode([PAD, BOS, 3, PAD, BOS, 4]) == ("x", "y")
    assert vocabulary.decode([]) == vocabulary.decode([EOS, 3]) == ()


def test_of_sorts_and_does_not_repeat():
    vocabulary = Vocabulary.of(["banana", ("n", "AA", "b")])
    assert vocabulary.symbols == ("AA", "a", "b", "n")


def test_vocabularies_compare_by_their_symbols():
    assert Vocabulary(("a", "b")) == Vocabulary(("a", "b"))
    assert Vocabulary(("a", "b")) != Vocabulary(("b", "a"))
    assert len({Vocabulary(("a", "b")), Vocabulary(("a", "b"))}) == 1


@pytest.mark.plain
@pytest.mark.parametrize("bad", ["", "<eos>", "<pad>", "<bos>"])
def test_a_symbol_must_be_non_empty_and_not_special(bad):
    rule = f"Symbol 1 of the vocabulary is {bad!r}, but a symbol must be non-empty and none of"
    with pytest.raises(ValueError, match=re.escape(rule)):
        Vocabulary(("a", bad))


@pytest.mark.plain
def test_a_symbol_may_not_stand_twice():
    with pytest.raises(ValueError, match=r"must differ, but 'b' stands at 1 and at 3; remove"):
        Vocabulary(("a", "b", "c", "b"))


@pytest.mark.plain
def test_unknown_symbols_are_named_with_the_known_ones():
    with pytest.raises(ValueError, match=r"but '7', 'ß' are not among them; use these: a b c$"):
        Vocabulary(("a", "b", "c")).encode("ßab7ß")
    many = Vocabulary(tuple(f"s{i}" for i in range(100)))
    with pytest.raises(ValueError, match=r"but 'x' is not among them.* s58 s59 …$"):
        many.encode("x")
    with pytest.raises(ValueError, match=r"use these: '\\n' ' ' '\\u2009' a ä$"):  # one line
        Vocabulary(("\n", " ", "\u2009", "a", "ä")).encode("x")


@pytest.mark.plain
@pytest.mark.parametrize("bad", [-1, 5, 99])
def test_an_id_out_of_range_is_refused(bad):
    message = rf"between 0 and 4 \(the vocabulary has 5 symbols\), but got {bad};"
    with pytest.raises(ValueError, match=message):
        Vocabulary(("a", "b")).decode([3, bad])
