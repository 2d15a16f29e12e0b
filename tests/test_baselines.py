"""What a language model must beat: n-grams by the letter of their formula, and compressors."""

from __future__ import annotations

import bz2
import lzma
import math
from fractions import Fraction
from itertools import pairwise
from random import Random

import pytest
from helpers import properties
from hypothesis import given
from hypothesis import strategies as st

from transformer_lab.baselines import (
    CODECS,
    TEXT_BASELINES,
    KneserNey,
    compressed_nats,
    kneser_ney_nats,
)
from transformer_lab.baselines.kneser_ney import discounts
from transformer_lab.data import TextData, fetch, load_shakespeare

ABC = "abcd "
DEGENERATE = ["a", "ab", "aaaaaaaa", "abababab", "abcd", "aabbccdd", "a" * 50 + "b", "dcba" * 9]
HALF = Fraction(1, 2)
texts = st.text("abcd", min_size=1, max_size=60)


@pytest.fixture(scope="module")
def plays() -> TextData:
    fetch(["shakespeare"], report=lambda line: None)
    return load_shakespeare()


@pytest.fixture(scope="module")
def fitted(plays) -> KneserNey:
    return KneserNey(plays.symbols, 5).fit(plays.train)


# ---- the formula once more, slowly ----


class Literal:
    """The recursion as Chen and Goodman print it, in fractions, every count by brute force."""

    def __init__(self, text: str, size: int, order: int):
        self.text, self.size, self.order = text, size, order

    def places(self, sequence: str) -> list[int]:
        starts = range(len(self.text) - len(sequence) + 1)
        return [i for i in starts if self.text[i : i + len(sequence)] == sequence]

    def c(self, sequence: str) -> int:
        """Occurrences at the highest order; below, different characters before it."""
        places = self.places(sequence)
        if len(sequence) == self.order:
            return len(places)
        before = {self.text[i - 1] for i in places if i > 0}
        return len(before) or (1 if places else 0)

    def d(self, n: int) -> list[Fraction]:
        """D(0), D(1), D(2), D(3 and more) of order n."""
        sequences = {self.text[i : i + n] for i in range(len(self.text) - n + 1)}
        counts = [self.c(s) for s in sequences]
        n1, n2, n3, n4 = (counts.count(r) for r in (1, 2, 3, 4))
        if n1 == 0:
            return [Fraction(0), HALF, HALF, HALF]
        y = Fraction(n1, n1 + 2 * n2)
        found = [
            1 - 2 * y * Fraction(n2, n1),
            2 - 3 * y * Fraction(n3, n2) if n2 else None,
            3 - 4 * y * Fraction(n4, n3) if n3 else None,
        ]
        return [Fraction(0), *(x if x and 0 < x <= r else HALF for r, x in enumerate(found, 1))]

    def p(self, w: str, h: str, n: int) -> Fraction:
        """p_n(w | h): n - 1 characters of h are looked at."""
        if n == 0:
            return Fraction(1, self.size)
        h = h[len(h) - (n - 1) :]
        counts = {v: self.c(h + v) for v in set(self.text)}
        total = sum(counts.values())
        lower = self.p(w, h, n - 1)
        if total == 0:
            return lower
        d = self.d(n)
        seen = [sum(count == i for count in counts.values()) for i in (1, 2)]
        more = sum(count >= 3 for count in counts.values())
        gamma = (d[1] * seen[0] + d[2] * seen[1] + d[3] * more) / total
        count = counts.get(w, 0)
        return max(count - d[min(count, 3)], Fraction(0)) / total + gamma * lower


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("text", [*DEGENERATE, "abracadabra, a cad", "dad bad cab a dab caddab"])
def test_every_probability_is_that_of_the_formula(text, order):
    symbols = sorted(set(ABC + text))
    model, slow = KneserNey(symbols, order).fit(text), Literal(text, len(symbols), order)
    rng = Random(order)
    contexts = ["", text[: order - 1], text[-order:], "dd ", "  ", "ba", "da"]
    contexts += ["".join(rng.choices(symbols, k=rng.randint(0, 5))) for _ in range(5)]
    for before in contexts:
        for w in symbols:
            expected = slow.p(w, before, 1 + min(order - 1, len(before)))
            assert model.probability(w, before) == pytest.approx(float(expected), rel=1e-12)


def test_a_tiny_case_worked_on_paper():
    """The bigram model of "aabab", whose discounts are all in use.

    Bigrams: aa 1, ab 2, ba 1, so n_1 = 2, n_2 = 1, Y = 2/4; D_1 = 1 - 2 · 1/2 · 1/2 = 1/2,
    D_2 = 2 - 0 = 2. Different characters stand before a: a and b, 2; before b: a, 1. So for
    single characters n_1 = n_2 = 1, Y = 1/3; D_1 = 1 - 2/3 = 1/3, D_2 = 2.

        p_1(a) = (0 + (1/3 + 2) / 2) / 3 = 7/18
        p_1(b) = (2/3 + (1/3 + 2) / 2) / 3 = 11/18
        p_2(a | a) = (1/2 + (1/2 + 2) · 7/18) / 3 = 53/108
        p_2(b | a) = (0 + (1/2 + 2) · 11/18) / 3 = 55/108
        p_2(a | b) = 1/2 + 1/2 · 7/18 = 25/36
    """
    model = KneserNey("ab", 2).fit("aabab")
    assert model.discounts == [(pytest.approx(1 / 3), 2, 0.5), (0.5, 2, 0.5)]
    assert model.probability("a", "") == pytest.approx(7 / 18, rel=1e-15)
    assert model.probability("b", "") == pytest.approx(11 / 18, rel=1e-15)
    assert model.probability("a", "bba") == pytest.approx(53 / 108, rel=1e-15)
    assert model.probability("b", "a") == pytest.approx(55 / 108, rel=1e-15)
    assert model.probability("a", "b") == pytest.approx(25 / 36, rel=1e-15)
    assert model.probability("b", "b") == pytest.approx(11 / 36, rel=1e-15)
    product = (11 / 18) * (25 / 36) * (53 / 108)  # of b, then a, then a
    assert model.nats("baa") == pytest.approx(-math.log(product) / 3, rel=1e-14)


# ---- it is a distribution ----


@properties
@given(texts, st.text("abcd ", max_size=9), st.integers(1, 7))
def test_probabilities_are_positive_and_sum_to_one(text, before, order):
    model = KneserNey(ABC, order).fit(text)
    found = [model.probability(w, before) for w in ABC]
    assert min(found) > 0 and math.fsum(found) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("order", [1, 2, 5, 9])
@pytest.mark.parametrize("text", DEGENERATE)
def test_degenerate_texts_give_distributions_too(text, order):
    model = KneserNey(ABC, order).fit(text)
    for before in ("", text, text[:3], "a", "ab ab", " " * 12):
        found = [model.probability(w, before) for w in ABC]
        assert min(found) > 0 and math.fsum(found) == pytest.approx(1, abs=1e-12)
    assert math.isfinite(model.nats(ABC + text))


def test_on_the_plays_they_sum_to_one_where_it_is_judged(plays, fitted):
    rng, held_out = Random(7), plays.held_out
    for i in (*range(6), *(rng.randrange(len(held_out)) for _ in range(60))):
        before = held_out[max(0, i - 9) : i]
        found = [fitted.probability(w, before) for w in plays.symbols]
        assert min(found) > 0 and math.fsum(found) == pytest.approx(1, abs=1e-12)


# ---- discounts ----


def test_discounts_are_those_of_the_paper():
    """n_1 … n_4 = 40, 12, 6, 3 by hand: Y = 40/64 = 5/8."""
    counts = [1] * 40 + [2] * 12 + [3] * 6 + [4] * 3 + [5] * 2 + [97]
    assert discounts(counts) == (5 / 8, 2 - 3 * 5 / 8 / 2, 3 - 4 * 5 / 8 / 2)
    assert discounts(reversed(counts)) == discounts(counts)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([], (0.5, 0.5, 0.5)),
        ([7, 9], (0.5, 0.5, 0.5)),
        ([2, 2, 3], (0.5, 0.5, 0.5)),  # none seen once: Y would be 0
        ([1, 1, 5], (1, 0.5, 0.5)),  # none seen twice
        ([1, 2], (1 / 3, 2, 0.5)),  # none seen three times
        ([1, 2, 3, 3], (1 / 3, 0.5, 3)),  # D_2 = 2 - 3 · 1/3 · 2 would be 0
        ([1, 2, 3, 3, 3], (1 / 3, 0.5, 3)),  # and here -1
        ([1, 2, 3, *[4] * 3], (1 / 3, 1, 0.5)),  # D_3 = 3 - 4 · 1/3 · 3 would be -1
    ],
)
def test_where_the_estimate_fails_one_half_stands_in(counts, expected):
    assert discounts(counts) == pytest.approx(expected)


def test_what_was_never_seen_stays_possible():
    """Bigrams here: four once, one twice, one three times, so D_2 = 2 - 3 · 4/6 · 1/1 is 0.

    After c only b was seen, twice: with that discount nothing would be left for another.
    """
    model = KneserNey(ABC, 2).fit("aaaabacbcb")
    assert model.following[1]["c"] == {"b": 2} and model.discounts[1][1] == 0.5
    assert math.isfinite(model.nats("cac d"))


# ---- contexts and orders ----


def test_order_one_counts_occurrences_and_nothing_else():
    text = "abacabad" * 3  # a 12, b 6, c 3, d 3: n_3 = 2, so D = 1/2
    model = KneserNey("abcde", 1).fit(text)
    for w, count in (("a", 12), ("b", 6), ("c", 3), ("d", 3)):
        assert model.probability(w, "aba") == pytest.approx((count - 0.5 + 2 / 5) / 24)
    assert model.probability("e", "") == pytest.approx(2 / 5 / 24)


def test_below_the_highest_order_contexts_count_and_not_occurrences():
    """Ten u, but always after q: without a context it is no likelier than what comes once."""
    model = KneserNey("qux", 2).fit("qu" * 10 + "x")
    assert model.probability("u", "") == pytest.approx(model.probability("x", ""))
    assert model.probability("u", "q") > 0.9
    single = KneserNey("qux", 1).fit("qu" * 10 + "x")
    assert single.probability("u", "") > 5 * single.probability("x", "")


@properties
@given(texts, st.text("abcd ", min_size=5, max_size=9), st.text("abcd ", max_size=9))
def test_only_the_last_characters_count(text, before, far):
    model = KneserNey(ABC, 4).fit(text)
    for w in ABC:
        assert model.probability(w, before) == model.probability(w, far + before[-3:])


@properties
@given(texts, st.text("abcd ", max_size=6), st.text("abcd ", min_size=1, max_size=9))
def test_nats_are_the_mean_of_what_each_character_costs(text, other, held_out):
    model = KneserNey(ABC, 3).fit(text + other)
    costs = [
        -math.log(model.probability(w, held_out[max(0, i - 2) : i]))
        for i, w in enumerate(held_out)
    ]
    assert model.nats(held_out) == pytest.approx(math.fsum(costs) / len(held_out), rel=1e-12)


def test_unknown_characters_before_are_contexts_never_seen(plays, fitted):
    for before in ("ü", "thü", "üühe "):
        known = before[before.rindex("ü") + 1 :]
        assert fitted.probability("e", before) == fitted.probability("e", known)


# ---- what it is good for, and what it has seen ----


def test_a_regular_text_is_learned_and_chance_is_not():
    rng = Random(3)
    dice = "".join(rng.choices("abcd", k=8000))
    model = KneserNey("abcd", 4).fit(dice[:6000])
    assert math.log(4) - 0.01 < model.nats(dice[6000:]) < math.log(4) + 0.02
    assert KneserNey("abcd", 4).fit("abcd" * 500).nats("abcd" * 50) < 0.05


def test_nothing_of_the_held_out_text_is_counted():
    """The value is that of a model which never met it; its characters alone are named before."""
    rng = Random(5)
    train = "".join(rng.choices("abc", k=700))
    fitted = KneserNey("abcdz", 5).fit(train)
    for held_out in ("zzzz", "dabc", train[:50] + "dz", "zd" * 30):
        symbols = sorted(set(train + held_out))
        alone = KneserNey(symbols, 5).fit(train)
        assert kneser_ney_nats(train, held_out) == alone.nats(held_out)
        shorter = KneserNey(symbols, 2).fit(train).nats(held_out)
        assert kneser_ney_nats(train, held_out, order=2) == shorter
        before = [dict(f) for f in alone.following]
        alone.nats(held_out)
        assert alone.following == before and all(held_out[:5] not in f for f in before)
    assert fitted.nats("z" * 9) == pytest.approx(fitted.nats("z"))  # z does not become known


def test_the_two_halves_of_a_repetition_do_not_leak():
    """A text that only repeats itself when held out stays as costly as its first copy."""
    rng = Random(11)
    train, fresh = ("".join(rng.choices("abcdefgh", k=k)) for k in (3000, 1500))
    once, twice = kneser_ney_nats(train, fresh), kneser_ney_nats(train, fresh * 2)
    assert once == pytest.approx(twice, abs=0.002) and once > math.log(8) - 0.02


# ---- compressors ----

SIZES = {
    "xz": lambda data: len(lzma.compress(data, lzma.FORMAT_XZ, -1, 9 | lzma.PRESET_EXTREME)),
    "bz2": lambda data: len(bz2.compress(data, 9)),
}


@pytest.mark.parametrize("codec", ["xz", "bz2"])
def test_a_compressor_costs_the_bytes_that_the_held_out_text_adds(codec):
    rng = Random(2)
    train, held_out = ("".join(rng.choices("abcé", k=k)) for k in (6000, 700))
    size = SIZES[codec]
    added = size((train + held_out).encode("utf-8")) - size(train.encode("utf-8"))
    nats = compressed_nats(train, held_out, codec)
    assert nats == pytest.approx(added * 8 * math.log(2) / 700, rel=1e-15)
    assert 0.9 * math.log(4) < nats < 1.3 * math.log(4)  # four letters by chance
    alone = size(held_out.encode("utf-8")) * 8 * math.log(2) / 700
    assert compressed_nats("", held_out, codec) == pytest.approx(alone, rel=1e-15)
    assert compressed_nats(train, train[:700], codec) < 0.5 * nats or codec == "bz2"


def test_xz_is_meant_unless_another_is_named():
    parts = "".join(Random(4).choices("abc", k=600)), "cab" * 70
    by_name = {codec: compressed_nats(*parts, codec) for codec in CODECS}
    assert compressed_nats(*parts) == by_name["xz"] != by_name["bz2"]
    assert list(CODECS) == ["xz", "bz2"]


# ---- on the plays ----


@pytest.mark.plain  # the check of every call would take longer than the counting
def test_the_baselines_of_every_loss_figure(plays):
    """Measured once, on the last tenth of the nine plays; zlib and guessing would be worse."""
    found = {name: method(plays.train, plays.held_out) for name, method in TEXT_BASELINES.items()}
    counted = {"Kneser–Ney 5-gram": 1.647452, "Kneser–Ney 7-gram": 1.606682}
    packed = {"xz": 1.7867, "bz2": 1.6769}
    assert list(found) == [*counted, *packed]
    for name, nats in counted.items():
        assert found[name] == pytest.approx(nats, abs=1e-5)
    for name, nats in packed.items():  # compressors may differ between versions
        assert found[name] == pytest.approx(nats, abs=3e-3)


def test_longer_contexts_help_as_far_as_the_text_reaches(plays):
    """On a part of the plays: each order beats the one before, until the counts run out."""
    counted, part = plays.train[:100_000], plays.held_out[:5_000]
    models = [KneserNey(plays.symbols, order).fit(counted) for order in (1, 2, 3, 4, 8)]
    nats = [model.nats(part) for model in models]
    gains = [a - b for a, b in pairwise(nats)]
    assert nats[0] < math.log(len(plays.symbols)) and min(gains[:3]) > 0.1 and abs(gains[3]) < 0.1
    assert models[3].nats(counted[-5_000:]) < 0.8 * nats[3]  # what it has counted is cheaper


# ---- what is refused ----


@pytest.mark.plain
def test_what_cannot_be_counted_is_refused():
    with pytest.raises(ValueError, match=r"must be at least 1, but got 0; at 1 it only counts"):
        KneserNey("ab", 0)
    with pytest.raises(ValueError, match=r"at least one symbol, but got none; name all that may"):
        KneserNey("", 3)
    with pytest.raises(ValueError, match=r"'b' has 1 characters and is named 2 times; mend"):
        KneserNey("abb", 3)
    with pytest.raises(ValueError, match=r"'bc' has 2 characters and is named 1 times; mend"):
        KneserNey(("a", "bc"), 3)
    with pytest.raises(ValueError, match=r"'' has 0 characters"):
        KneserNey(("a", ""), 3)
    with pytest.raises(ValueError, match=r"has counted no text yet: call fit\(text\) first"):
        KneserNey("ab").probability("a", "b")
    model = KneserNey("ab ", 3).fit("ab ba")
    with pytest.raises(ValueError, match=r"3 symbols of the model, but 'c' is not among .* name"):
        model.probability("c", "ab")
    with pytest.raises(ValueError, match=r"but 'c', 'x' are not among them; name all symbols"):
        model.nats("abxcab")
    with pytest.raises(ValueError, match=r"but '!', 'm', 'o', 'p', 's' are not"):
        KneserNey("ab", 2).fit("possum!")
    for use, verb in ((model.fit, "count"), (model.nats, "judge")):
        with pytest.raises(ValueError, match=f"A text to {verb} needs at least one .* is empty"):
            use("")


@pytest.mark.plain
def test_what_cannot_be_compressed_is_refused():
    with pytest.raises(ValueError, match=r"one of xz, bz2, but got 'zip'; choose one"):
        compressed_nats("ab", "a", "zip")
    with pytest.raises(ValueError, match=r"A held-out text needs .* is empty; give a longer one"):
        compressed_nats("ab", "")
