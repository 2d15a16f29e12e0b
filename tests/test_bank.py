"""The bank of right and wrong answers is sound, also where no chapter uses it yet."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "bank"))

import prove

pytestmark = pytest.mark.plain
BANK = [ex for name in prove.MODULES for ex in importlib.import_module(name).EXERCISES]


def test_every_exercise_has_its_own_name():
    assert len({ex.id for ex in BANK}) == len(BANK) >= 82


@pytest.mark.parametrize("exercise", BANK, ids=lambda ex: ex.id)
def test_right_answers_agree_and_wrong_ones_do_not(exercise):
    faults, skipped, _ = prove.examine(exercise)
    assert faults == [] and skipped == 0


def test_a_fault_is_found():
    exercise = next(ex for ex in BANK if ex.id == "softmax.backward")
    right = exercise.right[0]
    exercise.wrong.append(type(exercise.wrong[0])("not wrong", "at all", "none", right.fn))
    try:
        faults, _, _ = prove.examine(exercise)
    finally:
        exercise.wrong.pop()
    assert any("agrees with the reference on every input" in fault for fault in faults)
