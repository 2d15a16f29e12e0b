r"""A function to write. It is compared with the library's own on inputs of several kinds.

Most wrong answers hide: where all sizes are equal, with one head, with one row, where nothing is
padded. So inputs come in *kinds*, from small to large, always the same ones; and beside the value
itself there are *properties*, which say what a right answer does rather than what it is. The first
that fails is reported, on the smallest input on which it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .core import Exercise, Misconception, Verdict
from .running import Gap, Outcome, call, in_torch, untouched
from .values import EXACT, Tolerance, difference, same, written

DRAWS = 3  # inputs of each kind
Draw = Callable[[np.random.Generator], tuple]


@dataclass(frozen=True)
class Property:
    """What every right answer does: ``sides(f, *arguments)`` returns (expected, got), to be equal.

    ``f`` is the answer, its results already plain numbers. ``kinds`` names the kinds of input on
    which it is asked for; all if empty.
    """

    says: str
    sides: Callable[..., tuple]
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One input: its kind, and the arguments."""

    kind: str
    arguments: tuple

    @property
    def size(self) -> int:
        """How many numbers one would have to read."""
        return sum(np.size(a) for a in self.arguments if not callable(a))


@dataclass(frozen=True, kw_only=True)
class FunctionExercise(Exercise):
    """A function to write.

    reference       the library's own function, in terms of NumPy arrays
    kinds           name of a kind -> what draws its arguments from a random generator
    names           of the arguments, as they are shown
    properties      what a right answer does, beside agreeing with the reference
    misconceptions  wrong answers by name
    through         ``through(f, *arguments)`` replaces ``f(*arguments)`` where an answer is right
                    in many forms (an expression, a choice among equals)
    """

    reference: Callable
    kinds: dict[str, Draw] = field(hash=False)
    names: tuple[str, ...] = ()
    properties: tuple[Property, ...] = ()
    misconceptions: tuple[Misconception, ...] = ()
    through: Callable | None = None
    tolerance: Tolerance = EXACT

    def cases(self) -> tuple[Case, ...]:
        """All inputs, the same in every run, small ones first."""
        made = [
            Case(kind, draw(np.random.default_rng([seed, place, *map(ord, self.id)])))
            for place, (kind, draw) in enumerate(self.kinds.items())
            for seed in range(DRAWS)
        ]
        return tuple(sorted(made, key=lambda case: case.size))

    def examine(self, answer: object) -> Verdict:
        """Compare a function with the reference and ask for its properties."""
        if answer is ... or answer is None:
            return self.not_started()
        if not callable(answer):
            return self.refused(
                f"The answer is a function, but this is {type(answer).__name__}: hand over the "
                "function itself, without calling it."
            )
        if untouched(answer):
            return self.not_started()
        try:
            return self._examined(answer)
        except Gap as gap:
            return self.not_started(str(gap))

    def _examined(self, answer: Callable) -> Verdict:
        cases = self.cases()
        run = _Runner(answer, self.through)
        for case in cases:
            outcome = run(case.arguments)
            failed = self._crashed(case, outcome)
            if failed is None and outcome.changed:
                which = self._name(outcome.changed)
                failed = self.refused(
                    f"It changes its argument {which} in place: a caller would be surprised. Work "
                    "on a copy.",
                    *self._input(case),
                )
            if failed is not None:
                return self._named(failed, run, cases)
        for asked in self._asked():
            for case in cases:
                if asked.kinds and case.kind not in asked.kinds:
                    continue
                failed = self._fails(asked, run, case)
                if failed is not None:
                    return self._named(failed, run, cases)
        return self.passed(f"Checked on {len(cases)} inputs of {len(self.kinds)} kinds.")

    # ---- Properties -----------------------------------------------------------------------

    def _asked(self) -> Iterator[Property]:
        """The shape, then what was declared, then the value itself."""
        yield Property("The result has the right form", self._forms)
        yield from self.properties
        yield Property("The result is what the definition gives", self._values)

    def _truth(self, arguments: tuple) -> object:
        truth = call(self.reference, arguments, self.through)
        assert not truth.trouble, f"{self.id}: the reference fails: {truth.trouble}"
        return truth.value

    def _forms(self, f: Callable, *arguments: object) -> tuple:
        return _form(self._truth(arguments)), _form(f(*arguments))

    def _values(self, f: Callable, *arguments: object) -> tuple:
        return self._truth(arguments), f(*arguments)

    def _fails(self, asked: Property, run: _Runner, case: Case) -> Verdict | None:
        coarse = [0.0]

        def f(*arguments: object) -> object:
            outcome = run(arguments)
            if outcome.trouble:
                raise _Crashed(outcome)
            coarse.append(outcome.coarse)
            return outcome.value

        try:
            expected, got = asked.sides(f, *case.arguments)
        except _Crashed as crash:
            return self._crashed(case, crash.outcome)
        except Exception:  # the answer's form is not one that the property can look at
            return None
        tolerance = self.tolerance.at_least(max(coarse))
        if same(got, expected, tolerance):
            return None
        if asked.sides == self._forms:
            outcome = run(case.arguments)
            says = difference(outcome.value, self._truth(case.arguments), tolerance)
            return self.refused(says, *self._input(case))
        facts = [*self._input(case), ("expected", written(expected)), ("got", written(got))]
        where = difference(got, expected, tolerance)
        if where and not isinstance(got, np.float64):
            facts.append(("where", where))
        if asked.sides == self._values:
            return self.refused("The result is not what the definition gives.", *facts)
        return self.refused(f"This should hold, and does not: {_lower(asked.says)}.", *facts)

    def _crashed(self, case: Case, outcome: Outcome) -> Verdict | None:
        return self.refused(outcome.trouble, *self._input(case)) if outcome.trouble else None

    # ---- Misconceptions -------------------------------------------------------------------

    def _named(self, verdict: Verdict, run: _Runner, cases: tuple[Case, ...]) -> Verdict:
        """Whoever gives a known wrong answer's results on all inputs is told its name."""
        by = self.recognised(run, cases)
        return self.refused(verdict.says, *verdict.facts, by=by)

    def recognised(self, run: _Runner, cases: tuple[Case, ...]) -> Misconception | None:
        """The misconception whose results are those of the answer on every input."""
        theirs = [run(case.arguments) for case in cases]
        for known in self.misconceptions:
            its = _Runner(known.answer, self.through)
            pairs = ((t, its(case.arguments)) for t, case in zip(theirs, cases, strict=True))
            if all(self._twins(a, b) for a, b in pairs):
                return known
        return None

    def _twins(self, a: Outcome, b: Outcome) -> bool:
        if a.trouble or b.trouble:
            return bool(a.trouble and b.trouble) and a.kind == b.kind
        tolerance = self.tolerance.at_least(max(a.coarse, b.coarse))
        if _has_nan(a.value) or _has_nan(b.value):
            return _has_nan(a.value) and _has_nan(b.value)
        return same(a.value, b.value, tolerance)

    # ---- Words ----------------------------------------------------------------------------

    def _name(self, place: int) -> str:
        return f"`{self.names[place - 1]}`" if place <= len(self.names) else f"number {place}"

    def _input(self, case: Case) -> list[tuple[str, str]]:
        parts = [
            f"{self.names[k] if k < len(self.names) else f'argument {k + 1}'} = {written(a)}"
            for k, a in enumerate(map(_shown, case.arguments))
        ]
        return [("input", f"{case.kind}"), *(("", part) for part in parts)]


class _Crashed(Exception):
    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class _Runner:
    """Calls an answer, in NumPy or, if it wants that, in torch; each input once."""

    def __init__(self, answer: Callable, through: Callable | None) -> None:
        self.answer, self.through = answer, through
        self.torch = False
        self.known: dict[bytes, Outcome] = {}

    def __call__(self, arguments: tuple) -> Outcome:
        key = repr([_key(a) for a in arguments]).encode()
        if key not in self.known:
            self.known[key] = self._called(arguments)
        return self.known[key]

    def _called(self, arguments: tuple) -> Outcome:
        if self.torch:
            return call(self.answer, in_torch(arguments), self.through)
        outcome = call(self.answer, arguments, self.through)
        if outcome.kind in ("TypeError", "AttributeError") and not self.known:
            again = call(self.answer, in_torch(arguments), self.through)
            if not again.trouble:
                self.torch = True
                return again
        return outcome


def _key(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, list | tuple):
        return [_key(v) for v in value]
    return id(value) if callable(value) else repr(value)


def _shown(value: object) -> object:
    """An argument as it is printed: numbers plain, the rest as it is."""
    return np.asarray(value, float) if isinstance(value, np.ndarray) else value


def _form(value: object) -> object:
    """The structure of a value without its numbers."""
    if isinstance(value, tuple):
        return tuple(map(_form, value))
    return np.asarray(np.shape(value), float) if np.ndim(value) or _numeric(value) else str(value)


def _numeric(value: object) -> bool:
    return isinstance(value, np.float64 | np.ndarray)


def _has_nan(value: object) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_nan, value))
    return _numeric(value) and bool(np.isnan(value).any())


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
