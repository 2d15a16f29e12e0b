r"""What an exercise is, and what is said about an answer.

An exercise is data; each kind of it (a function to write, a derivation with gaps, lines to put in
order, an error to find, a guess to commit to) is one file and has one method, ``examine``, which
looks at an answer and returns a :class:`Verdict`. Showing, counting and storing come after, in
`check.py` and `progress.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

NOT_STARTED, PASSED, REFUSED = "not started", "passed", "not yet"
STATES = (NOT_STARTED, PASSED, REFUSED)


@dataclass(frozen=True)
class Misconception:
    """A wrong answer that people give, with its name.

    ``answer`` *is* the wrong answer: whoever gives the same results on all inputs is told
    ``name`` and ``hint``. ``source`` is the public thread where it was seen, if there is one.
    """

    name: str
    hint: str
    answer: object
    source: str = ""


@dataclass(frozen=True)
class Verdict:
    """What is said about an answer, as data: `message.py` makes text and HTML of it.

    state          "not started", "passed" or "not yet"
    says           the first sentence after the state
    facts          (what, value) in the order in which they are shown: input, expected, got
    misconception  the name of the mistake, if it is a known one
    because        what that mistake means, in one sentence
    heading        what stands in place of the state, where the state is no judgement (a guess)
    """

    exercise: Exercise
    state: str
    says: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    misconception: str = ""
    because: str = ""
    heading: str = ""

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise ValueError(
                f"A state is one of {', '.join(STATES)}, but this one is {self.state!r}; use the "
                "constants of core.py."
            )

    @property
    def passed(self) -> bool:
        """Whether the answer was accepted."""
        return self.state == PASSED


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What all kinds of exercise have in common.

    id         as in "attention.scale": the topic, a dot, a name
    chapter    number and slug of its chapter, as in "04-scaled-dot-product-attention"
    title      a few words for tables
    task       what to do, in one paragraph of Markdown
    template   the code that a reader starts from; as it stands it is *not started*
    label      the equation it practises, as in "eq-softmax-jacobian"; "" if none has a number yet
    hints      from a nudge to nearly all: asked for one at a time
    """

    id: str
    chapter: str
    title: str
    task: str
    template: str = ""
    label: str = ""
    hints: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        topic, dot, name = self.id.partition(".")
        if not (topic and dot and name) or self.id != self.id.lower():
            raise ValueError(
                f"An exercise is called topic.name in small letters, but this one is {self.id!r}."
            )
        if self.label and not self.label.startswith("eq-"):
            raise ValueError(f'A label begins with "eq-", but {self.id} has {self.label!r}.')

    def examine(self, answer: object) -> Verdict:
        """Look at an answer. Each kind of exercise has its own way."""
        raise NotImplementedError

    def not_started(self, says: str = "") -> Verdict:
        """The verdict on an untouched template."""
        return Verdict(self, NOT_STARTED, says or "Write your answer, then run the cell again.")

    def passed(self, says: str = "") -> Verdict:
        """The verdict on a right answer."""
        return Verdict(self, PASSED, says)

    def refused(self, says: str, *facts: tuple[str, str], by: Misconception | None = None):
        """The verdict on a wrong answer, with the misconception if it is a known one."""
        if by is None:
            return Verdict(self, REFUSED, says, facts)
        return Verdict(self, REFUSED, says, facts, by.name, by.hint)


def template_of(signature: str) -> str:
    """The empty function with this signature, e.g. ``def softmax(x): ...``."""
    return f"{signature.removesuffix('...').rstrip()}\n    ...\n"


Answer = Callable[..., object]
