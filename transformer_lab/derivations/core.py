r"""A derivation as data: a claim, what is given, and steps that each equal the one before.

    d = Derivation(label, title, claim=Eq(left, right), ranges=..., given=..., steps=...)

Expressions are sympy's. An entry is an ``Indexed`` (``z[i]``, counted from 1), a sum has a
symbolic size (``Sum(exp(z[l]), (l, 1, n))``), a whole matrix is a ``MatrixExpr``. The first
step equals ``claim.lhs``, the last step *is* ``claim.rhs``. Nothing here computes: printing is
in `tex.py`, checking in `verify.py`, turning into torch in `torch_form.py`, pictures in `show.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sympy as sp

if TYPE_CHECKING:
    from .bridge import Bridge


KINDS = ("evaluated", "proved for sizes", "proved")


@dataclass(frozen=True)
class Grade:
    """How far a step was checked: ``kind`` in words, ``upto`` the largest size tried, if any."""

    kind: str
    upto: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS or (self.kind == "proved for sizes") != bool(self.upto):
            raise ValueError(
                f"A grade is one of {', '.join(KINDS)}, and only {KINDS[1]!r} has a largest size, "
                f"at least 1; this one is {self.kind!r} with {self.upto}."
            )

    @property
    def strength(self) -> tuple[int, float]:
        """Grades in order: evaluated < proved up to 3 < proved up to 4 < … < proved."""
        return (KINDS.index(self.kind), self.upto or 0)

    def __str__(self) -> str:
        if self.kind == "proved for sizes":
            return f"proved for n = 1…{self.upto}"
        return self.kind


PROVED = Grade("proved")
EVALUATED = Grade("evaluated")


def proved_to(size: int) -> Grade:
    """Every entry reduced to zero at the explicit sizes 1, …, ``size``."""
    return Grade("proved for sizes", size)


@dataclass(frozen=True)
class Definition:
    """``head`` (an Indexed with plain index symbols, or a Symbol) stands for ``body``."""

    head: sp.Expr
    body: sp.Expr

    def __post_init__(self) -> None:
        distinct = len({i for i in self.indices if isinstance(i, sp.Symbol)})
        if not isinstance(self.head, (sp.Symbol, sp.Indexed)) or distinct != len(self.indices):
            raise ValueError(
                f"A definition is of a symbol or of an entry with different index symbols, such "
                f"as a[i] or A[t, s], but the head of this one is {self.head}."
            )

    @property
    def name(self) -> str:
        """The letter that is defined."""
        return str(self.head.base if isinstance(self.head, sp.Indexed) else self.head)

    @property
    def indices(self) -> tuple[sp.Symbol, ...]:
        """The indices that ``body`` uses for those of ``head``."""
        return self.head.indices if isinstance(self.head, sp.Indexed) else ()


@dataclass(frozen=True)
class Assumption:
    """What is supposed of random entries; see `expectation.py` for the rules there are.

    ``name`` is what a step names in ``uses``, ``text`` what a reader sees (Markdown), ``rule``
    takes the factors of a product and returns what its expectation is, or None if it says nothing.
    """

    name: str
    text: str
    rule: Callable[[tuple[tuple[sp.Indexed, int], ...]], sp.Expr | None]


@dataclass(frozen=True)
class Step:
    """One line: ``expression`` stands in ``relation`` to the line before, for the reason ``why``.

    ``uses``      names of the assumptions this line may use; no other is applied to it
    ``relation``  "=", or "<=" with ``slack``: this line minus the one before, visibly not negative
    ``tex``       the line as TeX set by hand, where sympy cannot hold the form one wants to show;
                  ``reading`` is then the same line read as a Python function of the numbers
                  (name of a symbol or of an array -> value), and is compared with ``expression``
    """

    expression: sp.Basic
    why: str
    grade: Grade = PROVED
    uses: tuple[str, ...] = ()
    relation: str = "="
    slack: sp.Expr | None = None
    tex: str | None = None
    reading: Callable[[dict], float] | None = None

    def __post_init__(self) -> None:
        if self.relation not in ("=", "<="):
            raise ValueError(
                f'A relation is "=" or "<=", but step {self.why!r} has {self.relation!r}.'
            )
        if (self.relation == "<=") != (self.slack is not None):
            raise ValueError(
                f"Step {self.why!r} has the relation {self.relation!r} and slack {self.slack}; "
                "an inequality needs its slack, an equality has none."
            )
        if (self.tex is None) != (self.reading is None):
            raise ValueError(
                f"Step {self.why!r} is {'not ' if self.tex is None else ''}set by hand but has "
                f"{'a' if self.reading else 'no'} reading; give both `tex` and `reading`, "
                "or neither."
            )


@dataclass(frozen=True)
class Derivation:
    """A claim and the lines that prove it.

    label     as in ``eq-softmax-jacobian``; also the numbered equation on exactly one page
    title     what is shown, in a few words
    claim     ``Eq(left, right, evaluate=False)``, or ``Le`` where a step is an inequality
    steps     from ``left`` to ``right``
    ranges    (index, size) for each free index, e.g. ``((i, n), (j, n))``: i runs from 1 to n
    given     definitions and assumptions
    facts     what is given, in words (Markdown), for the reader
    largest   largest explicit size tried when a line is looked at entry by entry
    bridge    how the right side is compared with code, at sizes up to 64; see `bridge.py`
    """

    label: str
    title: str
    claim: sp.Eq | sp.Le
    steps: tuple[Step, ...]
    ranges: tuple[tuple[sp.Symbol, sp.Expr], ...] = ()
    given: tuple[Definition | Assumption, ...] = ()
    facts: tuple[str, ...] = ()
    largest: int = 3
    bridge: Bridge | None = None

    def __post_init__(self) -> None:
        if not self.label.startswith("eq-"):
            raise ValueError(f'A label begins with "eq-", but this one is {self.label!r}.')
        if self.largest < 2:
            raise ValueError(
                f"{self.label} tries sizes up to {self.largest}; try at least 1 and 2, since much "
                "that is false holds at size 1."
            )
        if not self.steps:
            raise ValueError(f"{self.label} has no steps; a derivation needs at least one.")
        if self.steps[-1].expression != self.claim.rhs:
            raise ValueError(
                f"The last step of {self.label} must be the right side of its claim, but it is "
                f"{self.steps[-1].expression} and the claim says {self.claim.rhs}; make them one."
            )
        if isinstance(self.claim, sp.Le) != any(s.relation == "<=" for s in self.steps):
            raise ValueError(
                f"The claim of {self.label} is {type(self.claim).__name__}, but its steps say "
                f"{', '.join(s.relation for s in self.steps)}; use Le if and only if one says <=."
            )
        known = {a.name for a in self.assumptions}
        for step in self.steps:
            if not set(step.uses) <= known:
                raise ValueError(
                    f"{self.label}: step {step.why!r} uses {', '.join(step.uses)}, but what is "
                    f"given is {', '.join(sorted(known)) or 'nothing'}; name it under `given`."
                )

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The definitions among what is given."""
        return tuple(g for g in self.given if isinstance(g, Definition))

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The assumptions among what is given."""
        return tuple(g for g in self.given if isinstance(g, Assumption))

    @property
    def lines(self) -> tuple[sp.Basic, ...]:
        """The left side of the claim, then each step."""
        return (self.claim.lhs, *(step.expression for step in self.steps))

    def with_step(self, number: int, expression: sp.Basic) -> Derivation:
        """The same derivation with step ``number`` (from 1) saying something else."""
        steps = list(self.steps)
        steps[number - 1] = replace(
            steps[number - 1], expression=expression, tex=None, reading=None
        )
        claim = self.claim
        if number == len(steps):
            claim = self.claim.func(self.claim.lhs, expression, evaluate=False)
        return replace(self, steps=tuple(steps), claim=claim)

    def without(self, assumption: str) -> Derivation:
        """The same derivation with one assumption struck out, also where steps use it."""
        if assumption not in {a.name for a in self.assumptions}:
            raise ValueError(
                f"{self.label} does not assume {assumption!r}; it assumes "
                f"{', '.join(a.name for a in self.assumptions) or 'nothing'}."
            )
        given = tuple(
            g for g in self.given if not (isinstance(g, Assumption) and g.name == assumption)
        )
        steps = tuple(
            replace(step, uses=tuple(u for u in step.uses if u != assumption))
            for step in self.steps
        )
        return replace(self, given=given, steps=steps)
