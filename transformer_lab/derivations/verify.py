r"""Is each line of a derivation what it claims to be? Checked as far as declared, and not believed.

For a pair of lines the difference is first *refuted* (`refute.py`): put numbers in at small sizes
and look whether the two sides differ. What survives is proved, if the step declares so, by the
normal form (symbolic size) or by reducing every entry at explicit sizes to zero; or it is evaluated
to fifty digits, which proves nothing and is called so. Two lines are equal if they are wherever
both are defined.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import sympy as sp

from .core import EVALUATED, PROVED, Derivation, Grade, Step
from .explicit import as_entry, at, is_zero_at, places, sizes_of
from .reading import misread
from .refute import Counterexample, NowhereDefined, counterexample
from .symbolic import Known, NoNormalForm, is_zero
from .written import DoesNotFit, check_given, check_line

__all__ = [
    "Checked",
    "Counterexample",
    "FalseStep",
    "GradeNotReached",
    "check_step",
    "counterexample",
    "never_negative",
    "verify",
    "weakest",
]


class FalseStep(AssertionError):
    """Two lines differ, and here is where."""


class GradeNotReached(AssertionError):
    """No difference was found, but the declared grade was not reached either."""


@dataclass(frozen=True)
class Checked:
    """A step with the grade it reached and the seconds it took."""

    step: Step
    grade: Grade
    seconds: float


def verify(derivation: Derivation) -> tuple[Checked, ...]:
    """Check every step; return what each one reached.

    Raises ``FalseStep`` (with the step's reason and the smallest counterexample found),
    ``GradeNotReached``, or ``ValueError`` where it is not written so that it means one thing.
    """
    lines = derivation.lines
    return tuple(
        _timed(derivation, before, step)
        for before, step in zip(lines, derivation.steps, strict=False)
    )


def weakest(checked: tuple[Checked, ...]) -> Grade:
    """The grade of a whole derivation: that of its weakest step."""
    return min((c.grade for c in checked), key=lambda grade: grade.strength)


def _timed(derivation: Derivation, before: sp.Basic, step: Step) -> Checked:
    start = time.perf_counter()
    grade = check_step(derivation, before, step)
    return Checked(step, grade, time.perf_counter() - start)


def check_step(derivation: Derivation, before: sp.Basic, step: Step) -> Grade:
    """Compare a line with the one before; return the grade reached or raise."""
    check_given(derivation)
    sizes = sizes_of(derivation)
    named = f"{derivation.label}, step “{step.why}”"
    try:
        check_line(before, derivation, sizes)
        check_line(step.expression, derivation, sizes)
    except DoesNotFit as error:
        raise FalseStep(f"{named}: {error}.") from None
    known = known_to(derivation, step)
    left, right = as_entry(before, derivation), as_entry(step.expression, derivation)
    if step.relation == "<=":
        check_line(step.slack, derivation, sizes)
        right = sp.Add(right, sp.Mul(-1, step.slack, evaluate=False), evaluate=False)
        if not never_negative(step.slack, derivation):
            raise GradeNotReached(
                f"{named}: the slack {step.slack} is not visibly non-negative; write it as sums "
                "and products of what is."
            )
    try:
        found = counterexample(derivation, left, right, known)
        if found is not None:
            raise FalseStep(f"{named}: {found}.")
        wrong = misread(derivation, step, known) if step.reading is not None else None
        if wrong is not None:
            raise FalseStep(f"{named}: {wrong}.")
        return _prove(derivation, left, right, known, step)
    except NowhereDefined as error:
        raise GradeNotReached(f"{named}: {error}.") from None


def known_to(derivation: Derivation, step: Step) -> Known:
    """What a step may use: all definitions and ranges, and the assumptions that it names."""
    return Known(
        derivation.definitions,
        tuple(a for a in derivation.assumptions if a.name in step.uses),
        derivation.ranges,
    )


def _prove(
    derivation: Derivation, left: sp.Expr, right: sp.Expr, known: Known, step: Step
) -> Grade:
    named = f"{derivation.label}, step “{step.why}”"
    difference = sp.Add(left, sp.Mul(-1, right, evaluate=False), evaluate=False)
    if step.grade == EVALUATED:
        return EVALUATED
    if step.grade == PROVED:
        try:
            if is_zero(difference, known):
                return PROVED
        except NoNormalForm as error:
            raise GradeNotReached(
                f"{named}: there is no normal form ({error}); declare proved_to(N)."
            ) from None
        raise GradeNotReached(
            f"{named}: no difference was found, but the two lines do not meet in one normal form; "
            "declare proved_to(N), or take smaller steps."
        )
    for where in places(derivation, step.grade.upto):
        if not is_zero_at(at(difference, where, known)):
            raise GradeNotReached(f"{named}: not reduced to zero at {where}.")
    return step.grade


def never_negative(expr: sp.Expr, derivation: Derivation) -> bool:
    """True if the form of ``expr`` shows that it is not negative: sums and products of such."""
    bodies = {d.name: d.body for d in derivation.definitions}

    def sure(e: sp.Expr) -> bool:
        name = str(e.base) if isinstance(e, sp.Indexed) else str(e)
        if isinstance(e, (sp.Indexed, sp.Symbol)) and name in bodies:
            return sure(bodies[name])
        if e.is_nonnegative or isinstance(e, sp.KroneckerDelta):
            return True
        if isinstance(e, sp.exp):
            return bool(e.args[0].is_extended_real)
        if isinstance(e, sp.Sum):
            return sure(e.function)
        if isinstance(e, sp.Pow):
            real = e.base.is_extended_real and e.exp.is_extended_real
            return bool(real and (sure(e.base) or e.exp.is_even))
        if isinstance(e, (sp.Add, sp.Mul)):
            return all(sure(a) for a in e.args)
        return False

    return sure(expr)
