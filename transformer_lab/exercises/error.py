r"""Find the error: a formula as a document prints it, wrong in one place.

The reader says which part is wrong, and writes what should be there as a function. The function is
what is checked; the part only has to be the right one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .core import Exercise, Verdict
from .function import FunctionExercise


@dataclass(frozen=True, kw_only=True)
class ErrorExercise(Exercise):
    """A printed formula in parts, one of them wrong.

    parts     letter -> what it says, in TeX or words, in the order of the page
    wrong     the letter of the part that is wrong
    because   letter of a right part -> why it is right
    mended    the whole formula, right, as a function to write
    """

    parts: dict[str, str]
    wrong: str
    because: dict[str, str]
    mended: FunctionExercise

    def __post_init__(self) -> None:
        super().__post_init__()
        if set(self.because) != set(self.parts) - {self.wrong}:
            raise ValueError(
                f"{self.id} must say of each right part why it is right: its parts are "
                f"{', '.join(self.parts)}, wrong is {self.wrong}, and it explains "
                f"{', '.join(self.because)}."
            )

    def __hash__(self) -> int:
        return hash(self.id)

    def shown(self) -> str:
        """The parts by their letters, as Markdown."""
        return "\n".join(f"- **{letter}**  {says}" for letter, says in self.parts.items())

    def examine(self, answer: object) -> Verdict:
        """Check (letter, function): the wrong part, and the whole formula as it should be."""
        if answer is ... or answer is None:
            return self.not_started()
        if not (isinstance(answer, tuple | list) and len(answer) == 2):
            return self.refused(
                "The answer is a pair: the letter of the wrong part, and a function that computes "
                f"the whole as it should be, such as ('{next(iter(self.parts))}', my_function)."
            )
        letter, function = answer
        if letter is ... or letter is None:
            return self.not_started()
        letter = str(letter).strip().lower()
        if letter not in self.parts:
            return self.refused(f"The parts are {', '.join(self.parts)}, but you name {letter!r}.")
        if letter != self.wrong:
            return self.refused(f"Part {letter} is right. {self.because[letter]}")
        if not isinstance(function, Callable):
            return self.refused("The part is found. Now write the whole as a function, mended.")
        found = self.mended.examine(function)
        if found.passed:
            return self.passed("Found and mended.")
        if found.state != self.refused("").state:
            return self.refused("The part is found. Now write the whole as a function, mended.")
        return Verdict(
            self,
            found.state,
            f"The part is found, but the mended formula is not right yet. {found.says}",
            found.facts,
            found.misconception,
            found.because,
        )
