r"""A guess to commit to, before a cell shows what is true.

    guess("predict.winner", 0.3)       # commits; the first guess counts
    reveal("predict.winner", experiment)

A number is compared with what was measured, within a tolerance that is part of the question; a
choice with the right one. Both say why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .core import NOT_STARTED, PASSED, REFUSED, Exercise, Verdict
from .values import number


@dataclass(frozen=True, kw_only=True)
class GuessExercise(Exercise):
    """A question about what a cell is going to show.

    choices    what can be chosen, numbered from 1; empty for a number
    right      the number of the right choice; None if the cell measures it
    unit       of a number
    tolerance  how far off a number may be and still count as right (absolute)
    ratio      or: up to which factor, e.g. 2 for "half to double"
    why        the reason, shown afterwards
    """

    choices: tuple[str, ...] = ()
    right: int | None = None
    unit: str = ""
    tolerance: float = 0.0
    ratio: float = 0.0
    why: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.choices and bool(self.tolerance) == bool(self.ratio):
            raise ValueError(
                f"{self.id} asks for a number: give either a tolerance or a ratio, not "
                f"{self.tolerance} and {self.ratio}."
            )
        if self.right is not None and not 1 <= self.right <= len(self.choices):
            raise ValueError(
                f"{self.id} has {len(self.choices)} choices, but the right one is {self.right}."
            )

    def shown(self) -> str:
        """The choices by their numbers, as Markdown."""
        return "\n".join(f"{k}. {choice}" for k, choice in enumerate(self.choices, 1))

    def unusable(self, answer: object) -> str:
        """What is wrong with an answer as an answer; "" if it can be committed to."""
        if self.choices:
            whole = isinstance(answer, int) and not isinstance(answer, bool)
            if whole and 1 <= answer <= len(self.choices):
                return ""
            return f"Choose a number from 1 to {len(self.choices)}, not {answer!r}."
        if isinstance(answer, int | float) and not isinstance(answer, bool):
            return "" if math.isfinite(answer) else f"Give a finite number, not {answer!r}."
        return f"Give a number{' of ' + self.unit if self.unit else ''}, not {answer!r}."

    def examine(self, answer: object) -> Verdict:
        """A committed guess before anything was measured: only its form can be looked at."""
        if answer is ... or answer is None:
            return self.not_started("Commit to an answer first; the next cell shows what is true.")
        said = self.unusable(answer)
        return self.refused(said) if said else self.passed("Committed.")

    def compare(self, answer: object, truth: float | int | None = None) -> Verdict:
        """A committed guess beside the truth."""
        truth = self.right if truth is None else truth
        if truth is None:
            raise ValueError(f"{self.id} needs to be told what was measured.")
        if answer is None:
            says = f"It is {self.words(truth)}. {self.why}".strip()
            return Verdict(self, NOT_STARTED, says, heading="no guess was made")
        facts = (("you said", self.words(answer)), ("it is", self.words(truth)))
        if self._close(answer, truth):
            return Verdict(self, PASSED, self.why, facts, heading="well guessed")
        return Verdict(self, REFUSED, self.why, facts, heading="another answer than yours")

    def _close(self, answer: float, truth: float) -> bool:
        if self.choices:
            return answer == truth
        if self.ratio:
            if not (answer > 0 and truth > 0):
                return answer == truth
            return max(answer / truth, truth / answer) <= self.ratio
        return abs(answer - truth) <= self.tolerance

    def words(self, value: float | int) -> str:
        """An answer in words: a number with its unit, or a choice with its number."""
        if self.choices:
            return f"answer {value}, {self.choices[int(value) - 1]}"
        return f"{number(value)}{' ' + self.unit if self.unit else ''}"
