"""The directive {derivation}: what it puts on a page, and what it refuses to put there."""

from __future__ import annotations

import html
import re
import shutil
import sys
from dataclasses import replace

import pytest
from derivation_cases import (
    BOUND,
    CASES,
    CLAIM,
    EXPECTED,
    LONG,
    PRODUCT,
    ROOT,
    build_book,
    write_book,
)

from transformer_lab.derivations import DERIVATIONS, tex
from transformer_lab.derivations.labels import functions_of, labels_in_code

pytestmark = pytest.mark.plain  # nothing here has a shape, and most of it are messages
BOX = "# {title}\n\nSee {{eq}}`{refer}`.\n\n"


def directive(label: str, **options: str) -> str:
    """The directive as a page writes it."""
    given = "".join(f":{name}: {value}\n" for name, value in options.items())
    return f":::{{derivation}} {label}\n{given}:::\n\n"


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, str]:
    """A strict build of two pages that refer to each other; their HTML."""
    folder = tmp_path_factory.mktemp("derivations")
    one = BOX.format(title="One", refer="eq-test-bound") + directive("eq-test-product")
    one += directive("eq-test-expected") + directive("eq-attention-weights")
    two = BOX.format(title="Two", refer="eq-test-product") + directive("eq-test-bound")
    two += directive("eq-test-claim", show="claim") + directive("eq-softmax-jacobian", show="claim")
    two += directive("eq-test-gaps", show="gaps", gaps="3") + directive("eq-test-long")
    two += directive("eq-softmax-sum", fold="")
    write_book(folder, {"one": one, "two": two}, theme=False)
    built = build_book(folder)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return {name: (folder / "html" / f"{name}.html").read_text("utf-8") for name in ("one", "two")}


def boxes(page: str) -> dict[str, str]:
    """The boxes of a page by their title."""
    parts = re.split(r'(?=<div aria-label="Derivation: )', page)[1:]
    return {re.match(r'<div aria-label="Derivation: ([^"]*)"', part)[1]: part for part in parts}


def cells(box: str, name: str) -> list[str]:
    """What stands in the elements of one class."""
    found = re.findall(rf'<(\w+) class="{name}[^"]*"[^>]*>(.*?)</\1>\n', box, flags=re.S)
    return [html.unescape(re.sub(r"<[^>]+>", "", text)).strip() for _, text in found]


# ---- What stands there ------------------------------------------------------------------


def test_the_claim_is_a_numbered_equation_to_which_other_pages_lead(pages):
    for page, label, claim in (("one", "product", PRODUCT), ("two", "bound", BOUND)):
        equation = re.search(
            rf'<div class="math[^"]*" id="equation-eq-test-{label}">(.*?)</div>', pages[page], re.S
        )[1]
        assert tex.claim(claim) in html.unescape(equation)
        assert '<span class="eqno">(1)' in equation
        other = pages["two" if page == "one" else "one"]
        assert f'href="{page}.html#equation-eq-test-{label}">(1)</a>' in other


def test_each_line_has_relation_formula_reason_and_grade_in_order(pages):
    for derivation, grades in (
        (EXPECTED, ["proved", "evaluated"]),
        (LONG, ["proved", "proved", r"proved for \(n\) = 1…4"]),
        (BOUND, ["proved"]),
    ):
        page = pages["one" if derivation is EXPECTED else "two"]
        box = re.sub(r"<footer.*", "", boxes(page)[derivation.title], flags=re.S)
        shown = [part.split(r"\]")[0].split(r"\[")[1] for part in box.split("td-formula")[1:]]
        assert [html.unescape(s) for s in shown] == [tex.line(s) for s in derivation.steps]
        assert cells(box, "td-relation") == [
            rf"\(\displaystyle {tex.RELATIONS[step.relation]}\)" for step in derivation.steps
        ]
        assert cells(box, "td-grade") == grades
        for why, step in zip(cells(box, "td-why"), derivation.steps, strict=True):
            assert why == re.sub(r"\$(.*?)\$", r"\\(\1\\)", step.why)


def test_the_head_has_the_weakest_grade_and_leads_to_its_meaning(pages):
    def verdict(page, title):
        said = boxes(pages[page])[title].split("td-derivation-verdict")[1].split("</p>")[0]
        assert 'href="grades.html#grades"' in said
        return re.sub(r"<[^>]+>", "", said).split(">", 1)[1]

    assert verdict("one", PRODUCT.title) == r"every line proved for all \(d, n\)"
    assert verdict("two", LONG.title) == r"proved for \(n\) = 1…4"
    assert verdict("one", EXPECTED.title) == "evaluated at random points, not proved"


def test_the_left_side_is_said_again_where_entries_become_a_matrix(pages):
    box = boxes(pages["one"])[PRODUCT.title]
    lefts = re.findall(r'class="td-left">.*?\\\[(.*?)\\\]', box, flags=re.S)
    assert lefts == ["O", "O_{ij}", "O"] == list(tex.sides(PRODUCT))
    expected = tex.sides(EXPECTED)
    assert expected[0] is not None and expected[1:] == (None,)


def test_what_is_given_stands_before_the_lines(pages):
    given = boxes(pages["one"])[EXPECTED.title].split("td-derivation-lines")[0]
    assert r"all <span" in given and "each has mean 0 and variance 1" in given
    long = boxes(pages["two"])[LONG.title].split("td-derivation-lines")[0]
    assert tex.definition(LONG.definitions[0]) in long
    assert "<em>any</em> real numbers" in long
    product = boxes(pages["one"])[PRODUCT.title]
    assert r"\[i = 1, \dots, n,\quad j = 1, \dots, d\]" in product


def test_a_line_set_by_hand_says_so(pages):
    assert "|x_i|^2 + |y_i|^2" in boxes(pages["two"])[BOUND.title]
    marked = {title: "td-by-hand" in box for title, box in boxes(pages["two"]).items()}
    assert [title for title, yes in marked.items() if yes] == [BOUND.title]


def test_the_foot_names_the_function_that_is_this_equation(pages):
    box = boxes(pages["one"])["A label that code bears"]
    name = "transformer_lab.attention.dot_product.attention_weights"
    assert name in re.sub(r"<[^>]+>", "", box)
    assert box.count(".</span><wbr>") == name.count(".")  # there a narrow page may break it
    assert "td-derivation-foot" not in boxes(pages["one"])[PRODUCT.title]


def test_mode_claim_shows_the_equation_and_leads_to_the_file(pages):
    assert tex.claim(CLAIM) in html.unescape(pages["two"])
    assert 'id="equation-eq-test-claim"' in pages["two"]
    assert "Derivation: The Jacobian of softmax" not in pages["two"]
    link = pages["two"].split('class="td-derivation-source"')[1].split("</p>")[0]
    assert "softmax.py" in link and ">derivation<" in link


def test_gaps_are_the_lines_that_were_named(pages):
    box = boxes(pages["two"])["The same with holes"]
    assert 'data-show="gaps"' in box
    assert re.findall(r'td-derivation-line td-gap" data-line="(\d)"', box) == ["3"]


def test_a_folded_box_keeps_its_claim_outside_and_all_else_under_its_title(pages):
    derivation = DERIVATIONS["eq-softmax-sum"]
    before, box = pages["two"].split(f'<div aria-label="Derivation: {derivation.title}"')
    assert 'id="equation-eq-softmax-sum"' in before
    opening = r'[^>]*>\s*<details class="td-derivation-fold">'
    opening += r'\s*<summary class="td-derivation-title">'
    assert re.match(rf"{opening}\s*Derivation: {derivation.title}\s*</summary>", box)
    box, after = box.split("</details>")
    assert after.startswith("\n</div>")
    assert len(cells(box, "td-formula")) == box.count("td-reason") == len(derivation.steps)
    for inside in ("td-derivation-verdict", "td-derivation-given", "td-derivation-foot"):
        assert box.count(inside) >= 1
    assert "td-derivation-head" not in box and "<details open" not in box
    others = pages["one"] + before
    assert "td-derivation-fold" not in others and "td-derivation-head" in others


# ---- What fails the build ---------------------------------------------------------------


@pytest.fixture(scope="module")
def refused(tmp_path_factory) -> str:
    """What a strict build of wrong pages says, one page for each fault."""
    folder = tmp_path_factory.mktemp("refused")
    wrong = {
        "false": directive("eq-test-false"),
        "weak": directive("eq-test-weak"),
        "unknown": directive("eq-softmax-jacobain"),
        "far": directive("eq-test-long", show="gaps", gaps="4"),
        "idle": directive("eq-test-product", gaps="2"),
        "mode": directive("eq-test-bound", show="film"),
        "once": directive("eq-test-expected"),
        "twice": directive("eq-test-expected"),
    }
    write_book(folder, {k: f"# {k}\n\n{text}" for k, text in wrong.items()}, theme=False)
    built = build_book(folder)
    assert built.returncode != 0
    return built.stderr


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("false", "The derivation eq-test-false does not hold: eq-test-false, step “the power "
                  "rule, badly remembered”: at n = 1, i = 1; x_1 = -1: -2 against -1."),
        ("weak", "step “Pythagoras”: no difference was found"),
        ("unknown", "No derivation has the label 'eq-softmax-jacobain'; near it are "
                    "eq-softmax-jacobian"),
        ("far", "eq-test-long has 3 lines, and `gaps` names line 4; name lines from 1 to 3."),
        ("idle", "`gaps` is for `show: gaps`, but eq-test-product has `show: lines`"),
        ("mode", "film"),
        ("twice", "duplicate label of equation eq-test-expected"),
    ],
)  # fmt: skip
def test_a_wrong_page_fails_the_build_with_a_sentence(refused, page, said):
    lines = [line for line in refused.splitlines() if f"{page}.md" in line]
    assert any(said in line for line in lines), refused


def test_a_page_is_read_again_when_a_derivation_changes(tmp_path):
    copied = tmp_path / "copy"
    ignore = shutil.ignore_patterns("pretrained", "__pycache__")
    shutil.copytree(ROOT / "transformer_lab", copied / "transformer_lab", ignore=ignore)
    page = "# One\n\n" + directive("eq-softmax-shift") + "\n"
    folder = write_book(tmp_path / "book", {"one": page}, cases=False, theme=False, package=copied)
    shown = folder / "html" / "one.html"
    assert build_book(folder, package=copied).returncode == 0
    assert ">every line proved<" in shown.read_text("utf-8")

    assert "0 added, 0 changed" in build_book(folder, package=copied).stdout
    source = copied / "transformer_lab" / "derivations" / "layout.py"  # the page names it nowhere
    text = source.read_text("utf-8")
    assert '"every line proved"' in text
    changed = text.replace('"every line proved"', '"not one line is unproved"')
    source.write_text(changed, encoding="utf-8")
    again = build_book(folder, package=copied)
    assert again.returncode == 0 and "1 changed" in again.stdout
    assert ">not one line is unproved<" in shown.read_text("utf-8")


def test_a_label_is_verified_once_in_a_build(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    monkeypatch.delitem(sys.modules, "derivation", raising=False)
    import derivation

    monkeypatch.setitem(DERIVATIONS, BOUND.label, BOUND)
    seen = []
    monkeypatch.setattr(derivation, "lay_out", lambda d: seen.append(d.label))
    build = derivation.Derived()
    build.layout(BOUND.label), build.layout(BOUND.label)
    assert seen == [BOUND.label]


# ---- Left sides, labels -----------------------------------------------------------------


def test_left_sides_that_have_no_letter_of_their_own():
    product, entries = PRODUCT.claim.rhs, PRODUCT.steps[1]
    turned = replace(PRODUCT, claim=PRODUCT.claim.func(product, product, evaluate=False))
    assert tex.sides(turned)[1] == r"\left(A V\right)_{ij}"
    assert tex.plain_sides(turned)[1] == "(A*V)[i, j]"
    square = CASES["eq-test-false"].claim.lhs
    scalar = replace(
        PRODUCT, claim=PRODUCT.claim.func(square, product, evaluate=False),
        steps=(entries, PRODUCT.steps[2]),
    )  # fmt: skip
    assert tex.sides(scalar)[1] == rf"\left[{tex.tex(square)}\right]_{{ij}}"


def test_labels_are_read_from_docstrings_without_importing(tmp_path):
    package = tmp_path / "lab"
    (package / "room").mkdir(parents=True)
    (package / "__init__.py").write_text('"""Equation: eq-of-a-module is not a function."""\n')
    (package / "room" / "__init__.py").write_text(
        'raise RuntimeError("imported")\n\n\n'
        'def f():\n    """One.\n\n    Equation: eq-one\n    """\n'
    )
    (package / "room" / "b.py").write_text(
        'class D:\n    """A class.\n\n    Equations: eq-one, eq-two.\n    """\n\n'
        '    def m(self):\n        """Says Equation: eq-three inside a sentence only."""\n\n'
        '    async def k(self):\n        """K.\n\n        Equation: eq-two\n        """\n'
    )
    assert labels_in_code(package) == {
        "eq-one": ["lab.room.b.D", "lab.room.f"],
        "eq-two": ["lab.room.b.D", "lab.room.b.D.k"],
    }
    assert functions_of("eq-three", package) == []
    ours = "transformer_lab.attention.dot_product.attention_weights"
    assert ours in functions_of("eq-attention-weights")
