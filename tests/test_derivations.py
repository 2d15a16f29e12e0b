"""Every derivation: verified, each assumption needed, each mutant refused, held against code."""

from __future__ import annotations

import pytest
from derivation_survivors import SURVIVORS

from transformer_lab.derivations import DERIVATIONS, FalseStep, GradeNotReached, verify
from transformer_lab.derivations.bridge import cross
from transformer_lab.derivations.mutate import check, mutants
from transformer_lab.derivations.tex import tex

pytestmark = pytest.mark.plain  # symbols, no shapes

LABELS = sorted(DERIVATIONS)
BRIDGED = [label for label in LABELS if DERIVATIONS[label].bridge is not None]
SEEDS = 5


@pytest.mark.parametrize("label", LABELS)
def test_every_line_reaches_the_grade_it_declares(label):
    checked = verify(DERIVATIONS[label])
    assert len(checked) == len(DERIVATIONS[label].steps)
    for one in checked:
        assert one.grade.strength >= one.step.grade.strength


@pytest.mark.parametrize(
    ("label", "name"), [(x, a.name) for x in LABELS for a in DERIVATIONS[x].assumptions]
)
def test_every_assumption_is_needed(label, name):
    with pytest.raises((FalseStep, GradeNotReached), match="step"):
        verify(DERIVATIONS[label].without(name))


@pytest.mark.parametrize("label", LABELS)
def test_every_mutant_is_refused_but_those_that_are_equal(label):
    survivors = []
    for mutant in mutants(DERIVATIONS[label]):
        try:
            check(DERIVATIONS[label], mutant)
        except FalseStep:
            continue
        survivors.append((mutant.number, mutant.operator, tex(mutant.expression)))
    assert sorted(survivors) == sorted(key for key in SURVIVORS.get(label, {}))


def test_survivors_belong_to_derivations_and_have_reasons():
    assert set(SURVIVORS) <= set(DERIVATIONS)
    assert all(reason for listed in SURVIVORS.values() for reason in listed.values())


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("label", BRIDGED)
def test_the_result_equals_code_autograd_and_differences(label, seed):
    crossing = cross(DERIVATIONS[label], seed)
    assert crossing.holds, crossing
    bridge = DERIVATIONS[label].bridge
    sides = {"function"} | ({"autograd", "central differences"} if bridge.forward else set())
    assert set(crossing.differences) == sides


def test_a_wrong_formula_does_not_cross():
    right = DERIVATIONS["eq-softmax-jacobian"]
    wrong = right.with_step(len(right.steps), 2 * right.claim.rhs)
    crossing = cross(wrong, 0)
    assert not crossing.holds
    assert all(difference > 0.01 for difference in crossing.differences.values())
