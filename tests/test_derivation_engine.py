"""The verifier itself: its normal form is sound, its refutations are true, its limits hold."""

from __future__ import annotations

import time

import derivation_random as drawn
import pytest
import sympy as sp
from derivation_numbers import NoValue, Value, close, numbers

from transformer_lab.derivations import (
    DERIVATIONS,
    EVALUATED,
    Definition,
    Derivation,
    FalseStep,
    GradeNotReached,
    Step,
    proved_to,
    verify,
    weakest,
)
from transformer_lab.derivations import softmax as topic
from transformer_lab.derivations.forms import array, delta, index, over, size, times, total
from transformer_lab.derivations.limit import time_limit
from transformer_lab.derivations.symbolic import Known, TooLarge, is_zero, normal

pytestmark = pytest.mark.plain  # symbols, no shapes

n, m = size("n m")
i, j, k = index("i j k")
x, y = array("x"), array("y")

KNOWN = Known(ranges=((i, n), (j, n), (k, n)))
EQUAL = [
    (total(x[i], (i, n)), total(x[j], (j, n))),
    (total(x[i] * y[j], (i, n), (j, m)), total(x[i], (i, n)) * total(y[j], (j, m))),
    (total(x[i], (i, n)) ** 2, total(x[i] * x[j], (i, n), (j, n))),
    (total(delta(i, j) * x[i], (i, n)), x[j]),
    (total(sp.S.One, (i, n)), n),
    (sp.exp(x[i] - x[j]) * sp.exp(x[j]), sp.exp(x[i])),
    (delta(i, j) * x[i], delta(i, j) * x[j]),
    (over(x[i], total(x[j], (j, n))) * total(x[k], (k, n)), x[i]),
]
DIFFERENT = [
    (total(x[i], (i, n)), total(x[i], (i, m))),
    (total(x[i] ** 2, (i, n)), total(x[i], (i, n)) ** 2),
    (total(x[i] * y[i], (i, n)), total(x[i], (i, n)) * total(y[i], (i, n))),
    (sp.sqrt(x[i] ** 2), x[i]),
    (total(sp.S.One, (i, n)), sp.S.One),
    (sp.exp(x[i] + x[j]), sp.exp(x[i]) + sp.exp(x[j])),
]


@pytest.mark.parametrize(("left", "right"), EQUAL)
def test_equal_forms_meet(left, right):
    assert is_zero(left - right, KNOWN)


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_different_forms_do_not(left, right):
    assert not is_zero(left - right, KNOWN)


@pytest.mark.parametrize("seed", range(150))
def test_the_normal_form_of_a_random_formula_has_its_value(seed):
    expr = drawn.Maker(seed)(3)
    known = Known(drawn.DEFINITIONS, ranges=drawn.RANGES)
    try:
        simple = normal(expr, known)
    except TooLarge:
        return
    value = Value(numbers(seed, frozenset({"w", "p"})), drawn.DEFINITIONS)
    for where in drawn.places(seed):
        try:
            before, after = value(expr, where), value(simple, where)
        except NoValue:
            continue
        assert close(before, after), (expr, simple, where)


def claim(left, right, **more) -> Derivation:
    """One step, from left to right."""
    step = Step(right, "because", **{k: more.pop(k) for k in ("grade",) if k in more})
    equation = sp.Eq(left, right, evaluate=False)
    return Derivation("eq-test", "a test", claim=equation, steps=(step,), **more)


def test_a_false_step_names_its_reason_and_the_smallest_place():
    wrong = claim(total(x[i], (i, n)) ** 2, total(x[i] ** 2, (i, n)))
    with pytest.raises(FalseStep, match="because") as refused:
        verify(wrong)
    assert "n = 2" in str(refused.value)  # at n = 1 both sides are equal


def test_a_grade_is_never_more_than_was_done():
    square = claim((x[i] + 1) ** 2, x[i] ** 2 + 2 * x[i] + 1, ranges=((i, n),))
    assert str(weakest(verify(square))) == "proved"
    for grade, said in ((proved_to(2), "proved for n = 1…2"), (EVALUATED, "evaluated")):
        less = claim((x[i] + 1) ** 2, x[i] ** 2 + 2 * x[i] + 1, ranges=((i, n),), grade=grade)
        assert str(weakest(verify(less))) == said


def test_what_cannot_be_proved_is_not_called_proved():
    # true, but no identity that the normal form knows
    true = claim(sp.sin(x[i]) ** 2 + sp.cos(x[i]) ** 2, sp.S.One, ranges=((i, n),))
    with pytest.raises(GradeNotReached):
        verify(true)


def test_an_inequality_needs_a_slack_that_is_visibly_not_negative():
    saturation = DERIVATIONS["eq-softmax-saturation"]
    assert str(weakest(verify(saturation))) == "proved"
    wrong = Step(saturation.claim.rhs, "why", relation="<=", slack=times(-1, topic.others))
    bad = Derivation(
        "eq-test", "a test", claim=saturation.claim, steps=(saturation.steps[0], wrong),
        given=saturation.given,
    )  # fmt: skip
    with pytest.raises((FalseStep, GradeNotReached)):
        verify(bad)


def test_a_definition_is_used_with_its_own_indices():
    double = Definition(y[i], 2 * x[i])
    right = claim(total(y[j], (j, n)), 2 * total(x[i], (i, n)), given=(double,))
    assert str(weakest(verify(right))) == "proved"
    with pytest.raises(FalseStep):
        verify(claim(total(y[j], (j, n)), total(x[i], (i, n)), given=(double,)))


def test_a_time_limit_stops_what_does_not_end():
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="stopped"), time_limit(0.2):
        while True:
            pass
    assert time.monotonic() > began
