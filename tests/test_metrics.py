"""Edit distance and error rates: a plain table of partial distances, and cases by hand."""

import pytest
from helpers import properties
from hypothesis import given
from hypothesis import strategies as st

from transformer_lab.metrics import Scores, closest, edit_distance, score

phones = st.lists(st.sampled_from(["AA", "B", "CH", "D", "ER"]), max_size=8).map(tuple)


def plain_distance(a, b):
    """The textbook table: row i, column j is the distance of a[:i] and b[:j]."""
    table = [[i + j for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i][j] = min(
                table[i - 1][j] + 1,
                table[i][j - 1] + 1,
                table[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
            )
    return table[-1][-1]


@properties
@given(phones, phones)
def test_edit_distance_is_the_textbook_table(a, b):
    assert edit_distance(a, b) == plain_distance(a, b)


@properties
@given(st.text("abc", max_size=9), st.text("abc", max_size=9))
def test_edit_distance_of_letters(a, b):
    expected = plain_distance(a, b)
    assert edit_distance(a, b) == edit_distance(tuple(a), tuple(b)) == expected


@properties
@given(phones, phones, phones)
def test_edit_distance_is_a_distance(a, b, c):
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, b) == edit_distance(b, a)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert abs(len(a) - len(b)) <= edit_distance(a, b) <= max(len(a), len(b))


@properties
@given(phones, st.lists(phones, min_size=1, max_size=5))
def test_closest_is_the_first_of_the_nearest(answer, references):
    distances = [plain_distance(answer, r) for r in references]
    expected = references[distances.index(min(distances))]
    assert closest(answer, references) == (expected, min(distances))


def test_of_equally_near_references_the_first_counts():
    """Both are 1 away; the length of the first goes into the phoneme error rate."""
    short, long = ("A", "B"), ("A", "B", "C", "D")
    answer = ("A", "B", "C")
    assert closest(answer, [short, long]) == (short, 1)
    assert closest(answer, [long, short]) == (long, 1)
    assert score([answer], [[short, long]]).per == 1 / 2
    assert score([answer], [[long, short]]).per == 1 / 4


def test_error_rates_by_hand():
    """Three words: right by the second reference; one phone wrong; one missing, one too much."""
    answers = [("IY", "DH", "ER"), ("K", "AE", "D"), ("S", "AA", "M", "M")]
    references = [
        [("AY", "DH", "ER"), ("IY", "DH", "ER")],
        [("K", "AE", "T")],
        [("P", "S", "AA", "M")],
    ]
    scores = score(answers, references)
    assert scores == Scores(words=3, wrong=2, edits=0 + 1 + 2, phones=3 + 3 + 4)
    assert (scores.wer, scores.per) == (2 / 3, 3 / 10)


def test_an_empty_answer_costs_its_reference_and_a_long_one_more_than_all():
    assert score([()], [[("K", "AE", "T")]]).per == 1.0
    assert score([("K",) * 9], [[("K", "AE", "T")]]).per == 8 / 3


@properties
@given(st.lists(st.tuples(phones, st.lists(phones, min_size=1, max_size=3)), min_size=1))
def test_scores_are_sums_over_words(rows):
    answers, references = [a for a, _ in rows], [r for _, r in rows]
    scores = score(answers, references)
    assert scores.words == len(rows)
    assert scores.wrong == sum(a not in r for a, r in rows)
    assert scores.edits == sum(min(plain_distance(a, x) for x in r) for a, r in rows)
    assert scores.phones == sum(len(closest(a, r)[0]) for a, r in rows)


@pytest.mark.plain
@pytest.mark.parametrize(("answers", "words"), [(2, 3), (4, 3), (0, 0), (0, 1)])
def test_lists_of_different_lengths_or_none_at_all_are_refused(answers, words):
    message = rf"one answer for each word .* there are {answers} answers and {words} words\."
    with pytest.raises(ValueError, match=message):
        score([("A",)] * answers, [[("A",)]] * words)


@pytest.mark.plain
def test_a_word_without_references_is_refused():
    with pytest.raises(ValueError, match=r"at least one reference, but this one has none\."):
        score([("A",), ("B",)], [[("A",)], []])
