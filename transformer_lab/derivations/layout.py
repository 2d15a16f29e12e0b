r"""What is shown of a derivation, verified and printed, for whoever shows it.

The pages of the book (`book/_ext/derivation.py`) and notebooks (`show.py`) take their lines from
here: TeX without dollars where a field says TeX, Markdown with ``$TeX$`` where it says Markdown.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import tex
from .core import EVALUATED, PROVED, Derivation, Grade
from .explicit import sizes_of
from .verify import Checked, verify, weakest

BY_HAND = "set by hand, compared with numbers"
COMPARED = "compared with code at random sizes up to 64"


@dataclass(frozen=True)
class Row:
    """One line of a derivation.

    number       from 1
    left         left side (TeX) to print before the relation; None where the line goes on
    relation     TeX
    formula      TeX
    plain        (left, relation, formula) for a terminal
    why          the reason (Markdown)
    grade        how far it was checked (Markdown)
    strength     the same in one word: "proved", "sizes", "evaluated"
    by_hand      whether the formula was set by hand
    """

    number: int
    left: str | None
    relation: str
    formula: str
    plain: tuple[str | None, str, str]
    why: str
    grade: str
    strength: str
    by_hand: bool


@dataclass(frozen=True)
class Layout:
    """A verified derivation.

    label, title  of the derivation
    claim         TeX
    formulas      what is given, formulas: definitions, where indices run (TeX)
    words         what is given, in words: assumptions and facts (Markdown)
    plain_claim, plain_formulas    the same for a terminal
    rows          its lines
    verdict       its grade in two parts: what was done, and for which sizes (Markdown)
    compared      whether the result was compared with code
    """

    label: str
    title: str
    claim: str
    formulas: tuple[str, ...]
    words: tuple[str, ...]
    plain_claim: str
    plain_formulas: tuple[str, ...]
    rows: tuple[Row, ...]
    verdict: tuple[str, str]
    compared: bool


def lay_out(derivation: Derivation, checked: tuple[Checked, ...] | None = None) -> Layout:
    """Verify a derivation (unless ``checked`` says what that gave) and print its parts.

    Raises what ``verify`` raises: ``FalseStep``, ``GradeNotReached``.
    """
    checked = verify(derivation) if checked is None else checked
    sizes = _sizes(derivation)
    sides = zip(tex.sides(derivation), tex.plain_sides(derivation), checked, strict=True)
    rows = tuple(
        Row(
            number=number,
            left=left,
            relation=tex.RELATIONS[done.step.relation],
            formula=tex.line(done.step),
            plain=(plain, done.step.relation, tex.plain(done.step.expression)),
            why=done.step.why,
            grade=in_words(done.grade, sizes),
            strength={PROVED: "proved", EVALUATED: "evaluated"}.get(done.grade, "sizes"),
            by_hand=done.step.tex is not None,
        )
        for number, (left, plain, done) in enumerate(sides, start=1)
    )
    relation = "<=" if any(row.plain[1] == "<=" for row in rows) else "="
    return Layout(
        label=derivation.label,
        title=derivation.title,
        claim=tex.claim(derivation),
        formulas=(
            *map(tex.definition, derivation.definitions),
            *([tex.ranges(derivation)] if derivation.ranges else []),
        ),
        words=(*(a.text for a in derivation.assumptions), *derivation.facts),
        plain_claim=f"{tex.plain(derivation.claim.lhs)} {relation} {rows[-1].plain[2]}",
        plain_formulas=(
            *(f"{tex.plain(d.head)} = {tex.plain(d.body)}" for d in derivation.definitions),
            *(f"{i} = 1, ..., {upto}" for i, upto in derivation.ranges),
        ),
        rows=rows,
        verdict=verdict(weakest(checked), sizes),
        compared=derivation.bridge is not None,
    )


def in_words(grade: Grade, sizes: str) -> str:
    """One line's grade, Markdown: ``proved for $n$ = 1…4``."""
    if grade in (PROVED, EVALUATED) or not sizes:
        return str(grade)
    return f"proved for ${sizes}$ = 1…{grade.upto}"


def verdict(grade: Grade, sizes: str) -> tuple[str, str]:
    """The grade of a whole derivation: what was done, and (Markdown) for which sizes."""
    if grade == PROVED:
        return "every line proved", f"for all ${sizes}$" if sizes else ""
    if grade == EVALUATED:
        return "evaluated", "at random points, not proved"
    return "proved", in_words(grade, sizes).removeprefix("proved ")


def _sizes(derivation: Derivation) -> str:
    """The sizes that are left open, TeX: ``d, n``."""
    return ", ".join(tex.tex(size) for size in sizes_of(derivation))
