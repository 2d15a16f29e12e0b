"""Formulas hold on to the signs that touch them."""

from __future__ import annotations

import sys

import pytest
from docutils import nodes
from repository import ROOT

pytestmark = pytest.mark.plain


@pytest.fixture
def hold(monkeypatch):
    """hold(parts): a paragraph of texts and formulas ($x$), as the extension leaves it."""
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    monkeypatch.delitem(sys.modules, "punctuation", raising=False)
    import punctuation

    def make(*parts: str) -> nodes.paragraph:
        paragraph = nodes.paragraph()
        for part in parts:
            math = part.startswith("$")
            paragraph += nodes.math("", part.strip("$")) if math else nodes.Text(part)
        transform = punctuation.Hold.__new__(punctuation.Hold)
        transform.document = paragraph
        transform.run()
        return paragraph

    return make


def held(paragraph: nodes.paragraph) -> list[str]:
    """What stands in the spans that do not break."""
    return [part.astext() for part in paragraph if "td-hold" in getattr(part, "attributes", {}).get(
        "classes", [])]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("by ", ", and", ["d,"]),
        ("", ".", ["d."]),
        ("of (", ") or", ["(d)"]),
        ("a “", "” of", ["“d”"]),
        ("the ", "-th of", ["d-th"]),
        ("the ", "'s square", ["d's"]),
        ("a ", " b", []),
        ("a (b) ", " (c), e", []),
        ("", "", []),
    ],
)
def test_signs_that_touch_a_formula_stand_with_it(hold, before, after, found):
    paragraph = hold(*(part for part in (before, "$d$", after) if part))
    assert held(paragraph) == found
    assert paragraph.astext() == f"{before}d{after}"
    assert len(list(paragraph.findall(nodes.math))) == 1


def test_two_formulas_and_the_sign_between_them(hold):
    paragraph = hold("(", "$a$", ", ", "$b$", ").")
    assert held(paragraph) == ["(a,", "b)."]
    assert paragraph.astext() == "(a, b)."
