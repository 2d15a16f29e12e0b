r"""Lines to put in order: a derivation or a piece of code whose lines got mixed up, with strangers.

Which line may stand where is a matter of what it needs, so every order is right in which each
line comes after all that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .core import Exercise, Misconception, Verdict


@dataclass(frozen=True)
class Line:
    """One line: its letter, what it says (Markdown or code), the letters of the lines it needs."""

    letter: str
    says: str
    needs: str = ""


@dataclass(frozen=True, kw_only=True)
class OrderExercise(Exercise):
    """Lines to put in order, among them some that do not belong there.

    lines      those that belong there, in one right order; letters are mixed up already
    strangers  wrong lines: ``answer`` is a :class:`Line`, with what is wrong about it
    """

    lines: tuple[Line, ...]
    strangers: tuple[Misconception, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        letters = [line.letter for line in (*self.lines, *(s.answer for s in self.strangers))]
        if sorted(letters) != sorted(set(letters)) or any(len(x) != 1 for x in letters):
            raise ValueError(f"The lines of {self.id} need different letters, not {letters}.")
        seen = ""
        for line in self.lines:
            if not set(line.needs) <= set(seen):
                raise ValueError(
                    f"Line {line.letter} of {self.id} needs {line.needs}, but stands after {seen}."
                )
            seen += line.letter

    def shown(self) -> str:
        """All lines by their letters, as Markdown."""
        every = (*self.lines, *(s.answer for s in self.strangers))
        rows = sorted(every, key=lambda line: line.letter)
        return "\n".join(f"- **{line.letter}**  {line.says}" for line in rows)

    def examine(self, answer: object) -> Verdict:
        """Check an order such as "CADB"; report the first line that cannot stand where it is."""
        if answer is ... or answer is None or answer == "":
            return self.not_started()
        if not isinstance(answer, str | Iterable):
            return self.refused("The answer is a string of letters, such as 'CAB'.")
        letters = re.findall(r"\w", "".join(map(str, answer)).upper())
        known = {line.letter: line for line in self.lines}
        strange = {s.answer.letter: s for s in self.strangers}
        before: list[str] = []
        for place, letter in enumerate(letters, 1):
            if letter in before:
                return self.refused(f"Line {letter} stands there twice; each is used once.")
            if letter in strange:
                said = f"Line {letter}, in place {place}, does not belong there."
                return self.refused(said, ("line", strange[letter].answer.says), by=strange[letter])
            if letter not in known:
                return self.refused(f"There is no line {letter}.")
            missing = [x for x in known[letter].needs if x not in before]
            if missing:
                return self.refused(
                    f"Line {letter} cannot stand in place {place}: it uses what a line says that "
                    "has not come yet.",
                    ("line", known[letter].says),
                )
            before.append(letter)
        if len(before) < len(known):
            return self.refused(
                f"Right so far, but {len(known) - len(before)} of {len(known)} lines are missing."
            )
        return self.passed("Each line comes after all that it needs.")
