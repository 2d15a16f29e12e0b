r"""A derivation in a notebook: ``show("eq-softmax-jacobian")``, verified before it is shown.

JupyterLab and the built book get HTML, whose formulas they set; VS Code and Colab set formulas
only in Markdown and get that; a terminal gets aligned lines. Nothing is loaded, no widget is
needed: what unfolds is ``<details>``.
"""

from __future__ import annotations

import html
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from . import tex
from .core import Derivation
from .layout import BY_HAND, COMPARED, Layout, Row, lay_out

MODES = ("lines", "steps", "gaps", "claim")
MATH = re.compile(r"\$([^$]+)\$")
NARROW, COLUMNS = 12, 90  # of a terminal: a left side beside its line, a reason beside it
ROLE = re.compile(r"\{[\w:-]+\}`([^`]+)`")

STYLE = """<style>
.td-shown { border-left: 2px solid; padding-left: 1em; max-width: 52em; line-height: 1.5; }
.td-shown ul { list-style: none; margin: 0.4em 0; padding: 0; }
.td-shown .td-row { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1.2em;
  margin: 0.3em 0; }
.td-shown .td-of { flex: 9999 1 auto; min-width: 0; max-width: 100%; overflow-x: auto;
  overflow-y: hidden; padding: 0.25em 0 0.25em 1em; }
.td-shown .td-because { flex: 1 1 17em; min-width: 0; font-size: 0.93em; }
.td-shown small { opacity: 0.8; }
.td-shown summary { cursor: pointer; width: fit-content; }
.td-shown .td-of summary { display: inline-block; text-decoration: underline; }
</style>"""


@dataclass(frozen=True, repr=False)
class Shown:
    """What ``show`` returns: front ends ask it for HTML or Markdown, ``print`` for text."""

    layout: Layout
    mode: str
    gaps: frozenset[int]

    def _repr_html_(self) -> str | None:
        return self.html() if typesets_html(os.environ, sys.modules) else None

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    # ---- HTML -----------------------------------------------------------------------

    def html(self) -> str:
        r"""One element with its own style; formulas between ``\(`` and ``\)``."""
        layout = self.layout
        claim = f"<div>{_math(layout.claim)} &emsp; <code>{layout.label}</code></div>"
        if self.mode == "claim":
            return claim
        given = [*map(_math, layout.formulas), *map(_inline_html, layout.words)]
        listed = "".join(f"<li>{item}</li>" for item in given)
        head = f"<b>{html.escape(layout.title)}</b> – {_inline_html(' '.join(layout.verdict))}"
        parts = [
            f'{STYLE}<div class="td-shown"><div>{head}</div>{claim}',
            f"<div>Given:<ul>{listed}</ul></div>" if given else "",
            self._steps_html() if self.mode == "steps" else self._lines_html(),
            f"<small>{COMPARED}</small>" if layout.compared else "",
            "</div>",
        ]
        return "".join(parts)

    def _lines_html(self) -> str:
        return "".join(map(self._row_html, self.layout.rows))

    def _steps_html(self) -> str:
        first, *others = map(self._row_html, self.layout.rows)
        count = len(self.layout.rows)
        nested = ""
        for number, row in reversed(list(enumerate(others, start=2))):
            says = f"line {number} of {count}"
            nested = f"<details><summary>{says}</summary>{row}{nested}</details>"
        return first + nested

    def _row_html(self, row: Row) -> str:
        left = f"<div>{_math(row.left)}</div>" if row.left is not None else ""
        formula = _math(rf"{row.relation} {row.formula}")
        if row.number in self.gaps:
            formula = f"<details><summary>show line {row.number}</summary>{formula}</details>"
        marks = _inline_html(_marks(row))
        return (
            f'{left}<div class="td-row"><div class="td-of">{formula}</div>'
            f'<div class="td-because">{_inline_html(row.why)}<br><small>{marks}</small></div></div>'
        )

    # ---- Markdown -------------------------------------------------------------------

    def markdown(self) -> str:
        """A table of the lines; in mode steps, lines that unfold."""
        layout = self.layout
        claim = f"$$\n{layout.claim}\n$$"
        if self.mode == "claim":
            return f"{claim}\n\n`{layout.label}`"
        given = [*(f"- $\\displaystyle {formula}$" for formula in layout.formulas),
                 *(f"- {_without_roles(words)}" for words in layout.words)]  # fmt: skip
        parts = [
            f"**{layout.title}** (`{layout.label}`) – {' '.join(layout.verdict).strip()}",
            claim,
            "\n".join(["Given:", "", *given]) if given else "",
            self._steps_markdown() if self.mode == "steps" else self._table(),
            f"*{COMPARED}*" if layout.compared else "",
        ]
        return "\n\n".join(part for part in parts if part)

    def _table(self) -> str:
        rows = ["| | | line | why | checked |", "| --: | :-: | :-- | :-- | :-- |"]
        for row in self.layout.rows:
            left = "" if row.left is None else f"$\\displaystyle {row.left}$"
            formula = f"$\\displaystyle {row.formula}$"
            if row.number in self.gaps:
                said = f"show line {row.number}"
                formula = f"<details><summary>{said}</summary>{formula}</details>"
            cells = (left, f"${row.relation}$", formula, _without_roles(row.why), _marks(row))
            rows.append(f"| {' | '.join(map(_in_cell, cells))} |")
        return "\n".join(rows)

    def _steps_markdown(self) -> str:
        blocks = []
        for row in self.layout.rows:
            left = "" if row.left is None else f"{row.left} "
            body = f"$$\n{left}{row.relation} {row.formula}\n$$\n\n{_without_roles(row.why)} "
            body += f"({_marks(row)})"
            if row.number > 1:
                says = f"line {row.number} of {len(self.layout.rows)}"
                body = f"<details><summary>{says}</summary>\n\n{body}\n\n</details>"
            blocks.append(body)
        return "\n\n".join(blocks)

    # ---- Text -----------------------------------------------------------------------

    def text(self) -> str:
        """Lines whose relations, reasons and grades stand under each other."""
        layout = self.layout
        head = f"{layout.title} ({layout.label})"
        if self.mode == "claim":
            return f"{head}\n  {layout.plain_claim}"
        lines = [f"{head}: {_bare(' '.join(layout.verdict)).strip()}"]
        given = (*layout.plain_formulas, *map(_bare, layout.words))
        lines += [f"  given  {what}" for what in given]
        beside = all(len(row.plain[0] or "") <= NARROW for row in layout.rows)
        shown = [
            [row.plain[0] or "" if beside else "", row.plain[1],
             f"(line {row.number})" if row.number in self.gaps else row.plain[2],
             f"{_bare(row.why)} [{_bare(_marks(row))}]"]
            for row in layout.rows
        ]  # fmt: skip
        left, sign, wide = (max(len(line[k]) for line in shown) for k in range(3))
        fits = left + wide + max(len(line[3]) for line in shown) <= COLUMNS
        for row, (side, relation, formula, why) in zip(layout.rows, shown, strict=True):
            if row.plain[0] and not beside:
                lines.append(f"  {row.plain[0]}")
            start = f"  {side:{left}}  {relation:>{sign}}  "
            below = "" if fits else "\n" + " " * (len(start) + 2)
            lines.append(f"{start}{formula:{wide if fits else 0}}{below or '   '}{why}")
        return "\n".join(lines)


def show(derivation: Derivation | str, mode: str = "lines", gaps: Iterable[int] = ()) -> Shown:
    """Verify a derivation, or the one that has this label, and return it to be displayed.

    mode    "lines" (all), "steps" (one after the other), "gaps" (some formulas hidden), "claim"
    gaps    numbers of the lines that are hidden in mode "gaps"; all but the first if none given

    Raises ``ValueError`` for a label, a mode or a line that does not exist, and what ``verify``
    raises where a line is false or a grade not reached.
    """
    if mode not in MODES:
        raise ValueError(f"A mode is one of {', '.join(MODES)}, but this one is {mode!r}.")
    if isinstance(derivation, str):
        derivation = _find(derivation)
    count, wanted = len(derivation.steps), frozenset(gaps)
    if wanted and mode != "gaps":
        raise ValueError(f'Gaps need mode "gaps", but the mode is {mode!r}; drop one of the two.')
    if not wanted <= set(range(1, count + 1)):
        raise ValueError(
            f"{derivation.label} has {count} lines, but gaps are {sorted(wanted)}; name lines from "
            f"1 to {count}."
        )
    if mode == "gaps" and not wanted:
        wanted = frozenset(range(2, count + 1))
    return Shown(lay_out(derivation), mode, wanted)


def typesets_html(environment, modules) -> bool:
    """Whether this front end sets formulas in HTML: not VS Code, not Colab."""
    return "VSCODE_PID" not in environment and "google.colab" not in modules


def no_such_label(label: str, known: Iterable[str]) -> str:
    """What is said of a label that no derivation has."""
    known = tuple(known)
    near = get_close_matches(label, known, n=3, cutoff=0.5)
    hint = f"near it are {', '.join(near)}" if near else f"there are {', '.join(known)}"
    return f"No derivation has the label {label!r}; {hint}."


def _find(label: str) -> Derivation:
    from . import DERIVATIONS

    if label not in DERIVATIONS:
        raise ValueError(no_such_label(label, DERIVATIONS))
    return DERIVATIONS[label]


def _marks(row: Row) -> str:
    return f"{row.grade}, {BY_HAND}" if row.by_hand else row.grade


def _math(formula: str) -> str:
    """A formula that MathJax finds in HTML, in a notebook and in the book."""
    return rf'<span class="math notranslate">\(\displaystyle {html.escape(formula)}\)</span>'


def _inline_html(markdown: str) -> str:
    """Inline Markdown as reasons use it: $TeX$, `code`, **strong**, *emphasis*, roles."""

    def words(text: str) -> str:
        text = html.escape(_without_roles(text))
        text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
        text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
        return re.sub(r"\*(.+?)\*", r"<em>\1</em>", text)

    def formula(text: str) -> str:
        return rf'<span class="math notranslate">\({html.escape(text)}\)</span>'

    return _apart(markdown, words, formula)


def _in_cell(markdown: str) -> str:
    """For a cell of a table: no stroke that would end it, no end of line."""
    markdown = markdown.replace("\n", " ")

    def formula(text: str) -> str:
        return "$" + text.replace(r"\|", r"\Vert ").replace("|", r"\vert ") + "$"

    return _apart(markdown, lambda text: text.replace("|", r"\|"), formula)


def _apart(markdown: str, words: Callable[[str], str], formula: Callable[[str], str]) -> str:
    """Text and formulas are changed each in their own way."""
    parts = MATH.split(markdown)
    return "".join(formula(p) if k % 2 else words(p) for k, p in enumerate(parts))


def _without_roles(markdown: str) -> str:
    """A reference of the book, {eq}`eq-x`, is its label in a notebook."""
    return ROLE.sub(r"`\1`", markdown)


def _bare(markdown: str) -> str:
    """Markdown for a terminal."""
    return tex.bare(re.sub(r"[$*`]", "", _without_roles(markdown)))
