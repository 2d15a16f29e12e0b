"""Every registered exercise: right answers accepted, wrong ones refused with their own message."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "bank"))

import prove
from exercise_mutants import mutants
from exercise_survivors import SURVIVORS
from own import AGAIN, RIGHT, STRANGE

from transformer_lab.exercises import EXERCISES, NOT_STARTED, REFUSED, examine
from transformer_lab.exercises.error import ErrorExercise
from transformer_lab.exercises.function import FunctionExercise
from transformer_lab.exercises.gaps import GapsExercise
from transformer_lab.exercises.guess import GuessExercise
from transformer_lab.exercises.message import as_html, text
from transformer_lab.exercises.order import OrderExercise

pytestmark = pytest.mark.plain  # answers here are wrong on purpose, also in their shapes

BANK = {ex.id: ex for name in prove.MODULES for ex in importlib.import_module(name).EXERCISES}
# where the package calls a mistake by another name than the bank does
CALLED = importlib.import_module("names").CALLED
ASKED = [e for e in EXERCISES.values() if not isinstance(e, GuessExercise)]
IN_BANK = [e for e in ASKED if e.id in BANK]


def right_answers():
    for e in ASKED:
        for form, answer in RIGHT.get(e.id, []):
            yield pytest.param(e, answer, id=f"{e.id}: {form}")
        for right in BANK[e.id].right if e.id in BANK else []:
            yield pytest.param(e, right.fn, id=f"{e.id}: {right.form}")


def known_mistakes():
    """(exercise, answer, its name): the package's, the bank's, and the same in other words."""
    for e in ASKED:
        inner = e.mended if isinstance(e, ErrorExercise) else e
        for m in getattr(inner, "misconceptions", ()):
            answer = (e.wrong, m.answer) if isinstance(e, ErrorExercise) else m.answer
            answer = dict([m.answer]) if isinstance(e, GapsExercise) else answer
            yield pytest.param(e, answer, m.name, id=f"{e.id}: {m.name}")
        for wrong in BANK[e.id].wrong if e.id in BANK else []:
            name = CALLED.get((e.id, wrong.name), wrong.name)
            yield pytest.param(e, wrong.fn, name, id=f"{e.id}: bank, {wrong.name}")
        for name, answer in AGAIN.get(e.id, []):
            yield pytest.param(e, answer, name, id=f"{e.id}: again, {name}")


def strange_answers():
    for id, answers in STRANGE.items():
        for k, answer in enumerate(answers):
            yield pytest.param(id, answer, id=f"{id}: {k}")


@pytest.mark.parametrize("exercise, answer", right_answers())
def test_every_right_form_is_accepted(exercise, answer):
    verdict = exercise.examine(answer)
    assert verdict.passed, text(verdict)


@pytest.mark.parametrize("exercise, answer, name", known_mistakes())
def test_every_known_mistake_is_refused_by_its_name(exercise, answer, name):
    verdict = exercise.examine(answer)
    assert verdict.state == REFUSED
    assert verdict.misconception == name, text(verdict)
    assert " ".join(name.split()) in " ".join(text(verdict).replace("*", "").split()) or "*" in name
    assert len(verdict.because.split()) >= 4


@pytest.mark.parametrize("id, answer", strange_answers())
def test_what_nobody_foresaw_is_refused_all_the_same(id, answer):
    verdict = examine(id, answer)
    assert verdict.state == REFUSED, text(verdict)
    assert len(verdict.says.split()) >= 4


@pytest.mark.parametrize("exercise", ASKED, ids=lambda e: e.id)
def test_the_untouched_template_is_not_started(exercise):
    assert exercise.examine(...).state == exercise.examine(None).state == NOT_STARTED
    space: dict[str, object] = {}
    exec(exercise.template, space)
    if isinstance(exercise, FunctionExercise):
        answer = [v for v in space.values() if callable(v) and hasattr(v, "__code__")][-1]
    elif isinstance(exercise, GapsExercise):
        answer = space["lines"]
    elif isinstance(exercise, OrderExercise):
        answer = space["order"]
    else:
        answer = (space["part"], space["mended"])
    assert exercise.examine(answer).state == NOT_STARTED


@pytest.mark.parametrize("exercise", ASKED, ids=lambda e: e.id)
def test_it_is_told_well(exercise):
    assert exercise.id in exercise.template or len(exercise.template) > 10
    assert len(exercise.hints) >= 2 and len(set(exercise.hints)) == len(exercise.hints)
    assert exercise.task.strip().endswith((".", "?", ":"))
    inner = exercise.mended if isinstance(exercise, ErrorExercise) else exercise
    for m in getattr(inner, "misconceptions", ()):
        assert m.hint.endswith(".") and not m.name.endswith(".")


@pytest.mark.parametrize("exercise", IN_BANK, ids=lambda e: e.id)
def test_the_reference_agrees_with_the_bank(exercise):
    """The library's own function against code that was written apart from it."""
    assert exercise.examine(BANK[exercise.id].reference).passed


FUNCTIONS = [e for e in ASKED if isinstance(e, FunctionExercise)]


def sources(exercise):
    """Right answers whose source can be changed: written out, not only a name for a library's."""
    found = [r.fn for r in BANK[exercise.id].right] if exercise.id in BANK else []
    return found + [fn for _, fn in RIGHT.get(exercise.id, [])]


def tried(exercise):
    """(what was changed, whether it was refused) for every mutant of every right answer."""
    for k, function in enumerate(sources(exercise)):
        for said, mutant in mutants(function):
            yield f"{k}: {said}", not exercise.examine(mutant).passed


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda e: e.id)
def test_mutants_are_refused_or_explained(exercise):
    results = list(tried(exercise))
    assert len({said for said, _ in results}) == len(results)
    survivors = {said for said, refused in results if not refused}
    assert survivors == set(SURVIVORS.get(exercise.id, {})), sorted(survivors)


def test_no_survivor_is_listed_in_vain():
    assert set(SURVIVORS) <= {e.id for e in FUNCTIONS}
    assert all(len(why.split()) >= 3 for listed in SURVIVORS.values() for why in listed.values())


@pytest.mark.parametrize("exercise", ASKED, ids=lambda e: e.id)
def test_a_message_reads_the_same_in_text_and_html(exercise):
    verdict = exercise.examine(lambda *a: 1.0) if exercise in FUNCTIONS else exercise.examine("?")
    words, page = text(verdict), as_html(verdict)
    assert exercise.id in words and exercise.id in page
    assert verdict.state in words and verdict.state in page
    assert "role" in page and "color" not in page
