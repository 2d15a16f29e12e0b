r"""A derivation of the package in a page: verified, numbered, printed from its expressions.

    :::{derivation} eq-softmax-jacobian
    :show: lines            or steps (click through), gaps (with holes), claim (the result only)
    :gaps: 2 4              which lines are holes; in mode gaps, all but the first otherwise
    :fold:                  the box is closed until the reader opens it
    :::

The claim becomes a display equation with that label, so that {eq}`eq-softmax-jacobian` leads to it
from any page. A line that is false, or whose grade is not reached, is an error of the build.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from transformer_lab import derivations
from transformer_lab.derivations import FalseStep, GradeNotReached
from transformer_lab.derivations.labels import PACKAGE, labels_in_code
from transformer_lab.derivations.layout import BY_HAND, COMPARED, Layout, Row, lay_out
from transformer_lab.derivations.show import MODES, no_such_label

GRADES = "grades"  # the label of the section that explains the grades
NARROW = 6  # signs of a left side that may stand in a column of its own


class part(nodes.General, nodes.TextElement):
    """An HTML element: ``tag``, ``html`` (attributes), and the usual ``classes``."""


def visit_part(self, node: part) -> None:
    """Open the element."""
    self.body.append(self.starttag(node, node["tag"], "", **node["html"]))


def depart_part(self, node: part) -> None:
    """Close it."""
    self.body.append(f"</{node['tag']}>\n")


def pass_part(self, node: part) -> None:
    """Other builders show what is inside."""


class Derived:
    """What one build knows: layouts by label, verified once; functions by label, read once."""

    def __init__(self) -> None:
        self.layouts: dict[str, Layout] = {}
        self.functions: dict[str, list[str]] | None = None

    def layout(self, label: str) -> Layout:
        """The verified derivation; raises what ``verify`` raises."""
        if label not in self.layouts:
            self.layouts[label] = lay_out(derivations.DERIVATIONS[label])
        return self.layouts[label]

    def functions_of(self, label: str) -> list[str]:
        """The dotted names whose docstring says that they are this equation."""
        if self.functions is None:
            self.functions = labels_in_code()
        return self.functions.get(label, [])


class DerivationDirective(SphinxDirective):
    """Claim, what is given, lines with reasons and grades, and what the result is in code."""

    required_arguments = 1
    option_spec: ClassVar = {
        "show": lambda text: directives.choice(text, MODES),
        "gaps": directives.positive_int_list,
        "fold": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Verify, then print."""
        label, mode = self.arguments[0], self.options.get("show", "lines")
        for path in sorted((PACKAGE / "derivations").rglob("*.py")):
            self.env.note_dependency(str(path))
        layout = self._verified(label)
        claim = self._equation(layout)
        if mode == "claim":
            links = self._file(label, "derivation")
            return [*claim, _part("p", "td-derivation-source", *links)] if links else claim
        gaps = self._gaps(layout, mode)
        about = {"role": "group", "aria-label": f"Derivation: {layout.title}", "data-show": mode}
        box = _part("div", f"td-derivation td-show-{mode}", **about)
        if all(row.left is None or _signs(row.left) <= NARROW for row in layout.rows):
            box["classes"].append("td-narrow-left")
        title, verdict = self._head(layout)
        box += [] if "fold" in self.options else _part("div", "td-derivation-head", title, verdict)
        inside = [] if "fold" not in self.options else [verdict]
        inside += self._given(layout)
        lines = _part("ol", "td-derivation-lines", role="list")
        for row in layout.rows:
            lines += self._line(row, row.number in gaps)
        inside += [lines, *self._foot(layout)]
        if "fold" in self.options:
            opener = _part("summary", "td-derivation-title", *title.children)
            inside = [_part("details", "td-derivation-fold", opener, *inside)]
        box += inside
        return [*claim, box]

    # ---- What stands there ----------------------------------------------------------

    def _verified(self, label: str) -> Layout:
        if label not in derivations.DERIVATIONS:
            raise self.error(no_such_label(label, derivations.DERIVATIONS))
        try:
            return self.env.app.derived.layout(label)
        except (FalseStep, GradeNotReached) as error:
            raise self.error(f"The derivation {label} does not hold: {error}") from None

    def _gaps(self, layout: Layout, mode: str) -> set[int]:
        count = len(layout.rows)
        if mode != "gaps":
            if "gaps" in self.options:
                raise self.error(
                    f'`gaps` is for `show: gaps`, but {layout.label} has `show: {mode}`; drop one.'
                )
            return set()
        gaps = set(self.options.get("gaps", range(2, count + 1)))
        if max(gaps, default=1) > count:
            raise self.error(
                f"{layout.label} has {count} lines, and `gaps` names line {max(gaps)}; name lines "
                f"from 1 to {count}."
            )
        return gaps

    def _equation(self, layout: Layout) -> list[nodes.Node]:
        label, domain = layout.label, self.env.get_domain("math")
        equation = _display(layout.claim)
        equation["docname"], equation["label"] = self.env.docname, label
        self.set_source_info(equation)
        domain.note_equation(self.env.docname, label, location=equation)
        equation["number"] = domain.get_equation_number_for(label)
        target = nodes.target("", "", ids=[nodes.make_id(f"equation-{label}")])
        self.state.document.note_explicit_target(target)
        return [target, equation]

    def _head(self, layout: Layout) -> tuple[part, part]:
        done, sizes = layout.verdict
        link = addnodes.pending_xref(
            "",
            nodes.inline("", done),
            refdomain="std",
            reftype="ref",
            reftarget=GRADES,
            refexplicit=True,
            refwarn=True,
            refdoc=self.env.docname,
        )
        title = _part("p", "td-derivation-title", nodes.Text(f"Derivation: {layout.title}"))
        words = [nodes.Text(" "), *self._inline(sizes)] if sizes else []
        return title, _part("p", "td-derivation-verdict", link, *words)

    def _given(self, layout: Layout) -> list[part]:
        items = [_part("li", "", _display(formula)) for formula in layout.formulas]
        items += [_part("li", "td-words", *self._inline(words)) for words in layout.words]
        if not items:
            return []
        given = _part("ul", "td-derivation-given", *items, role="list")
        return [_part("p", "td-derivation-word", nodes.Text("Given")), given]

    def _line(self, row: Row, gap: bool) -> part:
        line = _part("li", "td-derivation-line", **{"data-line": str(row.number)})
        if gap:
            line["classes"].append("td-gap")
        if row.left is not None:
            line += _part("div", "td-left", _display(row.left))
        line += _part("div", "td-relation", _math(row.relation))
        why = _part("div", "td-why", *self._inline(row.why))
        grade = _part("span", f"td-grade td-grade-{row.strength}", *self._inline(row.grade))
        marks = _part("div", "td-marks", grade)
        if row.by_hand:
            marks += [nodes.Text(" "), _part("span", "td-by-hand", nodes.Text(BY_HAND))]
        formula = _part("div", "td-formula", _display(row.formula))
        line += _part("div", "td-body", formula, _part("div", "td-reason", why, marks))
        return line

    def _foot(self, layout: Layout) -> list[part]:
        sentences = []
        functions = self.env.app.derived.functions_of(layout.label)
        if functions:
            names = []
            for name in functions:
                names += [_breakable(name, "."), nodes.Text(", ")]
            sentences.append([nodes.Text("In code: "), *names[:-1]])
        if layout.compared:
            sentences.append([nodes.Text(COMPARED[0].upper() + COMPARED[1:])])
        file = self._file(layout.label, "")
        if file:
            sentences.append([nodes.Text("Written in "), *file])
        return [_part("p", "td-derivation-foot", *sentence) for sentence in sentences]

    def _file(self, label: str, text: str) -> list[nodes.Node]:
        """A link to a copy of the file that holds the derivation; nothing if no topic does."""
        for topic in derivations.TOPICS:
            if label in {d.label for d in topic.DERIVATIONS}:
                path = Path(topic.__file__).resolve()
                name = path.relative_to(PACKAGE.parent).as_posix()
                here = Path(self.env.doc2path(self.env.docname)).parent
                target = Path(os.path.relpath(path, here)).as_posix()
                said = _breakable(name, "/") if not text else nodes.inline("", text)
                return [addnodes.download_reference(
                    "", "", said, reftarget=target, refdoc=self.env.docname)]  # fmt: skip
        return []

    def _inline(self, text: str) -> list[nodes.Node]:
        found, messages = self.parse_inline(text)
        return [*found, *messages]


def _breakable(name: str, sign: str) -> nodes.literal:
    """A long name in code, which a narrow page may break after each ``sign``."""
    made = nodes.literal(name, "")
    *heads, last = name.split(sign)
    for head in heads:
        made += [nodes.Text(head + sign), nodes.raw("", "<wbr>", format="html")]
    made += nodes.Text(last)
    return made


def _part(tag: str, classes: str, *children: nodes.Node, **html: str) -> part:
    made = part("", "", *children, classes=classes.split())
    made["tag"], made["html"] = tag, html
    return made


def _math(tex: str) -> nodes.math:
    styled = rf"\displaystyle {tex}"
    return nodes.math(styled, styled)


def _display(tex: str) -> nodes.math_block:
    return nodes.math_block(tex, tex, nowrap=False, number=None, label=None)


def _signs(tex: str) -> int:
    """About how many signs wide a short formula is."""
    return len(re.sub(r"[{}_^\s]", "", re.sub(r"\\(operatorname|mathbb)|\\[a-zA-Z]+", "x", tex)))


def _begin(app) -> None:
    app.derived = Derived()


def _page(app, pagename, templatename, context, doctree) -> None:
    if "td-derivation" in (context.get("body") or ""):
        app.add_css_file("derivation.css", priority=900)
        app.add_js_file("derivation.js", loading_method="defer")


def setup(app):
    """Entry point for Sphinx."""
    html, other = (visit_part, depart_part), (pass_part, pass_part)
    app.add_node(part, html=html, latex=other, text=other, man=other, texinfo=other)
    app.add_directive("derivation", DerivationDirective)
    app.connect("builder-inited", _begin)
    app.connect("html-page-context", _page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
