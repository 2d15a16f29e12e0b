"""Guesses: committed to before they are shown, compared within a tolerance, never forced."""

from __future__ import annotations

import pytest

from transformer_lab.exercises import EXERCISES, guess, progress, reveal, task
from transformer_lab.exercises.guess import GuessExercise

pytestmark = pytest.mark.plain
COMMON = {"chapter": "04-x", "title": "t", "task": "How much?", "why": "For a reason."}
NUMBER = GuessExercise(id="test.number", tolerance=0.5, unit="nats", **COMMON)
RATIO = GuessExercise(id="test.ratio", ratio=2.0, **COMMON)
CHOICE = GuessExercise(id="test.choice", choices=("one", "two", "three"), right=2, **COMMON)


@pytest.fixture(autouse=True)
def registered(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.delenv("TRANSFORMER_LAB_UNATTENDED", raising=False)
    progress._here.clear()
    for e in (NUMBER, RATIO, CHOICE):
        monkeypatch.setitem(EXERCISES, e.id, e)


def never() -> float:
    raise AssertionError("shown before anybody had committed to an answer")


def test_nothing_is_shown_before_a_guess(capsys):
    reveal("test.number", never)
    assert "First commit to a guess" in capsys.readouterr().out
    guess("test.number")
    assert "Commit to an answer first" in capsys.readouterr().out
    reveal("test.number", never)


def test_the_first_guess_counts(capsys):
    guess("test.number", 3)
    guess("test.number", 5)
    told = capsys.readouterr().out
    assert "Committed: 3 nats" in told and "Your first guess counts: 3 nats" in told
    reveal("test.number", lambda: 3.4)
    told = capsys.readouterr().out
    assert "well guessed" in told and "you said: 3 nats" in told and "it is: 3.4 nats" in told
    assert progress.guessed("test.number").right is True


def test_a_guess_that_is_off_is_told_so_with_the_reason(capsys):
    guess("test.number", 3)
    reveal("test.number", lambda: 3.6)
    told = capsys.readouterr().out
    assert "another answer than yours" in told and "For a reason." in told
    assert progress.guessed("test.number").right is False


def test_without_a_guess_one_may_go_on_and_nothing_is_counted(capsys):
    guess("test.number", None)
    reveal("test.number", lambda: 3.6)
    told = capsys.readouterr().out
    assert "no guess was made" in told and "It is 3.6 nats. For a reason." in told
    assert progress.guessed("test.number").right is None


def test_unattended_everything_is_shown(monkeypatch, capsys):
    monkeypatch.setenv("TRANSFORMER_LAB_UNATTENDED", "1")
    guess("test.choice", ...)
    reveal("test.choice", lambda: print("the figure"))
    told = capsys.readouterr().out
    assert "the figure" in told and "It is answer 2, two." in told


@pytest.mark.parametrize(
    "answer, right", [(2, True), (1, True), (4, True), (0.9, False), (4.1, False), (-2, False)]
)
def test_a_ratio_is_a_factor_either_way(answer, right):
    assert RATIO.compare(answer, 2.0).passed == right


@pytest.mark.parametrize("answer", ["two", 0, 4, 2.5, True, [2]])
def test_what_is_no_choice_is_not_committed_to(answer, capsys):
    guess("test.choice", answer)
    assert "Choose a number from 1 to 3" in capsys.readouterr().out
    assert progress.guessed("test.choice") is None


@pytest.mark.parametrize("answer", ["two", float("nan"), float("inf"), True, [2]])
def test_what_is_no_number_is_not_committed_to(answer, capsys):
    guess("test.number", answer)
    assert f"not {answer!r}" in capsys.readouterr().out
    assert progress.guessed("test.number") is None


def test_a_choice_that_a_cell_measures(capsys):
    guess("test.choice", 3)
    reveal("test.choice", lambda: 3)
    assert "well guessed" in capsys.readouterr().out


def test_the_task_shows_its_choices(capsys):
    task("test.choice")
    assert "1. one\n2. two\n3. three" in capsys.readouterr().out


def test_a_guess_is_not_checked_nor_an_exercise_guessed():
    with pytest.raises(ValueError, match="use check"):
        guess("softmax.stable", 1)


@pytest.mark.parametrize(
    "settings, said",
    [
        ({}, "either a tolerance or a ratio"),
        ({"tolerance": 1.0, "ratio": 2.0}, "either a tolerance or a ratio"),
        ({"choices": ("a",), "right": 2}, "1 choices, but the right one is 2"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        GuessExercise(id="test.bad", **settings, **COMMON)


def test_a_measurement_is_needed_where_no_choice_is_right_beforehand():
    with pytest.raises(ValueError, match="needs to be told"):
        NUMBER.compare(1.0)
