r"""What a reader types: ``check``, ``hint``, ``task``, ``guess``, ``reveal``.

Each shows what it has to say and returns nothing, so that it can stand anywhere in a cell. In a
notebook a verdict is HTML with its text beside it; elsewhere the text is printed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from difflib import get_close_matches

from ..plots.turn import UNATTENDED
from . import progress
from .core import Exercise, Verdict
from .guess import GuessExercise
from .message import Message, bare


def examine(id: str, answer: object) -> Verdict:
    """Look at an answer and return the verdict; nothing is shown or stored."""
    return find(id).examine(answer)


def check(id: str, answer: object = ...) -> None:
    """Look at an answer, say what is right or wrong with it, and remember the result.

    ``id`` as in ``check("softmax.stable", my_softmax)``; ``answer`` is what the exercise asks for:
    a function, a dictionary of lines, a string of letters. Says *not started*, *passed*, or what
    does not hold, on the smallest input on which it does not, and never the answer. Raises
    ``ValueError`` for an exercise that does not exist.
    """
    verdict = examine(id, answer)
    progress.record_check(verdict)
    show(Message(verdict))


def hint(id: str) -> None:
    """Show the next hint to an exercise; from a nudge to nearly all."""
    exercise = find(id)
    if not exercise.hints:
        _print(f"{id} has no hints; its task says all there is.")
        return
    asked = min(progress.record_hint(id), len(exercise.hints))
    _print(f"Hint {asked} of {len(exercise.hints)}: {bare(exercise.hints[asked - 1])}")


def task(id: str) -> None:
    """Show what an exercise asks for, and what to start from."""
    show(_Task(find(id)))


def guess(id: str, answer: object = ...) -> None:
    """Commit to a guess before the next cell shows what is true. The first one counts.

    A number, or the number of a choice; ``None`` goes on without a guess.
    """
    exercise = _find_guess(id)
    if answer is ...:
        show(Message(exercise.examine(...)))
        return
    said = "" if answer is None else exercise.unusable(answer)
    if said:
        _print(said)
        return
    kept = progress.record_guess(id, answer)
    if kept.answer is None:
        _print("No guess: the next cell shows what is true.")
    elif kept.answer == answer:
        _print(f"Committed: {exercise.words(answer)}. Now run the next cell.")
    else:
        _print(f"Your first guess counts: {exercise.words(kept.answer)}.")


def reveal(id: str, show_it: Callable[[], float | int | None] | None = None) -> None:
    """Run what answers a question, then compare it with the guess that was committed to.

    ``show_it`` draws, prints, and returns what was measured (nothing if the right choice is known).
    It is called only after :func:`guess`; where nobody is there to guess (the book, a test, a whole
    notebook run with the variable TRANSFORMER_LAB_UNATTENDED set) it always is.
    """
    exercise = _find_guess(id)
    kept = progress.guessed(id)
    if kept is None and not os.environ.get(UNATTENDED):
        _print(f'First commit to a guess, in the cell above: guess("{id}", …), or None for none.')
        return
    truth = show_it() if show_it is not None else None
    verdict = exercise.compare(None if kept is None else kept.answer, truth)
    if kept is not None and kept.answer is not None:
        progress.record_revealed(id, verdict.passed)
    show(Message(verdict))


def find(id: str) -> Exercise:
    """The exercise of this name. Raises ``ValueError`` that lists the nearest ones."""
    from . import EXERCISES

    if id not in EXERCISES:
        near = get_close_matches(str(id), EXERCISES, n=3, cutoff=0.4)
        hint = f"near it are {', '.join(near)}" if near else f"there are {', '.join(EXERCISES)}"
        raise ValueError(f"No exercise is called {id!r}; {hint}.")
    return EXERCISES[id]


def _find_guess(id: str) -> GuessExercise:
    found = find(id)
    if not isinstance(found, GuessExercise):
        raise ValueError(f'{id} is not a guess but an exercise; use check("{id}", your_answer).')
    return found


class _Task:
    """What an exercise asks for, as text and as Markdown."""

    def __init__(self, exercise: Exercise) -> None:
        self.exercise = exercise

    def __repr__(self) -> str:
        return "\n\n".join([*map(bare, self._words()), self.exercise.template]).rstrip()

    def _repr_markdown_(self) -> str:
        template = self.exercise.template
        code = [f"```python\n{template.rstrip()}\n```"] if template else []
        return "\n\n".join([*self._words(), *code])

    def _words(self) -> list[str]:
        words = [f"**{self.exercise.id}** – {self.exercise.task}"]
        shown = getattr(self.exercise, "shown", None)
        lines = shown() if shown else None
        return [*words, lines] if isinstance(lines, str) and lines else words


def show(thing: object) -> None:
    """Display in a notebook, print elsewhere."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        ipython.display.display(thing)
    else:
        print(repr(thing))


def _print(words: str) -> None:
    print(words)
