r"""A derivation with gaps: lines to fill in, checked one after the other by the derivation engine.

Any form that equals the line before is right; what is wrong is refused with the smallest
counterexample. The line before is always the book's, so that one mistake costs one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import sympy as sp

from ..derivations import DERIVATIONS, Derivation, FalseStep, show, try_step
from .core import Exercise, Misconception, Verdict

SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class GapsExercise(Exercise):
    """A derivation of the book, by its label, some of whose lines the reader writes.

    lines           numbers of the lines that are missing, from 1; never one that is shown as claim
    misconceptions  wrong lines by name: ``answer`` is (number of the line, expression)
    """

    lines: tuple[int, ...]
    misconceptions: tuple[Misconception, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        count = len(self.derivation.steps)
        if not self.lines or not set(self.lines) <= set(range(1, count + 1)):
            raise ValueError(
                f"{self.label} has lines 1 to {count}, but the gaps of {self.id} are {self.lines}."
            )

    @property
    def derivation(self) -> Derivation:
        """The derivation whose lines are missing."""
        return DERIVATIONS[self.label]

    def shown(self) -> object:
        """The derivation with its gaps, to be displayed."""
        return show(self.derivation, mode="gaps", gaps=self.lines)

    def examine(self, answer: object) -> Verdict:
        """Check the lines in order; report the first that is wrong."""
        if answer is ... or answer is None:
            return self.not_started()
        if not isinstance(answer, Mapping):
            return self.refused(
                "The answer is a dictionary from the number of a line to your line, such as "
                f"{{{self.lines[0]}: …}}, but this is {type(answer).__name__}."
            )
        strange = [n for n in answer if n not in self.lines]
        if strange:
            return self.refused(
                f"The missing lines are {_listed(self.lines)}, but you also fill {strange[0]!r}."
            )
        written = {n: answer[n] for n in self.lines if n in answer and answer[n] is not ...}
        if not written:
            return self.not_started()
        for number, line in written.items():
            failed = self._wrong(number, line)
            if failed is not None:
                return failed
        missing = [n for n in self.lines if n not in written]
        if missing:
            return self.refused(
                f"Right so far: {_listed(written)}. Still to do: {_listed(missing)}."
            )
        return self.passed(f"Checked by algebra, line by line: {_listed(self.lines)}.")

    def _wrong(self, number: int, line: object) -> Verdict | None:
        step = self.derivation.steps[number - 1]
        try:
            try_step(self.derivation, number, line, SECONDS)
        except FalseStep as error:
            found = str(error).split("”: ", 1)[-1].rstrip(".")
            facts = (("your line", f"`{line}`"), ("smallest counterexample", found))
            says = f"Line {number} does not equal the line before. Its reason is: {step.why}."
            return self.refused(says, *facts, by=self._known(number, line))
        except TimeoutError:
            return self.refused(
                f"Line {number} was stopped after {SECONDS:g} s of algebra: write it in a simpler "
                "form, with the letters that the box defines."
            )
        except ValueError as error:
            return self.refused(f"Line {number}: {error}")
        return None

    def _known(self, number: int, line: object) -> Misconception | None:
        """The misconception that equals the reader's line, if there is one."""
        for known in self.misconceptions:
            place, wrong = known.answer
            if place == number and self._equal(number, wrong, line):
                return known
        return None

    def _equal(self, number: int, wrong: sp.Basic, line: object) -> bool:
        """Whether a reader's line equals a wrong one, by the engine's own rules."""
        whole = self.derivation
        step = replace(whole.steps[number - 1], expression=wrong, tex=None, reading=None)
        claim = sp.Eq(whole.claim.lhs, wrong, evaluate=False)
        twice = replace(whole, steps=(*whole.steps[: number - 1], step, step), claim=claim)
        try:
            try_step(twice, number + 1, line, SECONDS)
        except (FalseStep, ValueError, TimeoutError):
            return False
        return True


def _listed(numbers: object) -> str:
    numbers = [str(n) for n in numbers]
    return f"line {numbers[0]}" if len(numbers) == 1 else f"lines {', '.join(numbers)}"
