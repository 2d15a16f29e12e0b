"""Derivations in a notebook: HTML, Markdown, text; verified when shown."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import page_checks as check
import pytest
from derivation_cases import BOUND, EXPECTED, FALSE, LONG, PRODUCT, WEAK, eq, x

from transformer_lab.derivations import (
    DERIVATIONS,
    FalseStep,
    GradeNotReached,
    Step,
    show,
    tex,
)
from transformer_lab.derivations.show import _inline_html, _math, typesets_html

pytestmark = pytest.mark.plain


def test_a_label_and_its_derivation_show_the_same():
    label = "eq-softmax-shift"
    assert show(label).html() == show(DERIVATIONS[label]).html()


@pytest.mark.parametrize("derivation", [LONG, EXPECTED, PRODUCT, BOUND])
def test_html_and_markdown_have_every_line_reason_and_grade(derivation):
    shown = show(derivation)
    page = re.sub(r"</?span.*?>", "", shown.html())
    rows = shown.markdown().split("| --: | :-: | :-- | :-- | :-- |\n")[1].splitlines()
    for row, step, line in zip(rows, derivation.steps, shown.layout.rows, strict=False):
        formula = tex.line(step)
        cell = formula.replace("|", r"\vert ")
        relation = tex.RELATIONS[step.relation]
        assert rf"\(\displaystyle {relation} {formula}\)" in html.unescape(page)
        assert f"| ${relation}$ | $\\displaystyle {cell}$ |" in row
        assert f"| {step.why} | {line.grade}" in row
        for words in (step.why, line.grade):
            assert re.sub(r"\$(.*?)\$", r"\\(\1\\)", words) in page
    assert len(rows) == len(derivation.steps)


def test_what_was_set_by_hand_and_how_far_it_was_proved_is_said():
    for text in (show(BOUND).html(), show(BOUND).markdown(), str(show(BOUND))):
        assert "set by hand, compared with numbers" in text
    assert "set by hand" not in show(LONG).html()
    assert "proved for $n$ = 1…4" in show(LONG).markdown()


def test_strokes_in_formulas_do_not_end_a_cell_of_the_table():
    row = show(BOUND).markdown().splitlines()[-1]
    assert len(re.findall(r"(?<!\\)\|", row)) == 6


def test_gaps_hide_formulas_and_keep_reasons():
    shown = show(LONG, "gaps", gaps=[2])
    for text in (shown.html(), shown.markdown()):
        assert text.count("<details>") == 1 and "<summary>show line 2</summary>" in text
    text = str(shown)
    assert "(line 2)" in text and "(line 3)" not in text
    assert "a sum of sums" in text and "3*" not in text
    assert show(LONG, "gaps").html().count("<details>") == 2  # all but the first


def test_steps_unfold_one_in_the_other():
    shown = show(PRODUCT, "steps").html()
    assert "".join(re.findall(r"</?details>", shown)) == "<details><details></details></details>"
    assert "<summary>line 2 of 3</summary>" in shown
    assert show(PRODUCT, "steps").markdown().count("<details>") == 2


def test_mode_claim_is_the_equation_alone():
    shown = show(PRODUCT, "claim")
    assert "O = A V" in shown.html() and "what $O$" not in shown.markdown()
    assert str(shown).splitlines() == [f"{PRODUCT.title} (eq-test-product)", "  O = A*V"]


def test_text_has_relations_under_each_other():
    lines = str(show(PRODUCT)).splitlines()
    assert lines[0] == f"{PRODUCT.title} (eq-test-product): every line proved for all d, n"
    rows = lines[-3:]
    assert {row.index("=") for row in rows} == {rows[0].index("=")}
    assert len({row.index("[proved]") - len(why) for row, why in zip(
        rows, ("what O stands for", "one entry", "all entries at once"), strict=True)}) == 1
    assert [row.split("=")[0].strip() for row in rows] == ["O", "O[i, j]", "O"]
    long = str(show(LONG)).splitlines()  # its left side is wide: it stands above
    assert long[3] == "  Sum((x[l] - x_bar)**2, (l, 1, n))"
    assert all("\\" not in line and "$" not in line for line in long)
    assert repr(show(PRODUCT)) == str(show(PRODUCT))


def test_front_ends_that_set_no_formulas_in_html_get_markdown(monkeypatch):
    assert typesets_html({}, {}) and not typesets_html({"VSCODE_PID": "1"}, {})
    assert not typesets_html({}, {"google.colab": None})
    shown = show(PRODUCT)
    monkeypatch.delenv("VSCODE_PID", raising=False)
    assert shown._repr_html_() == shown.html()
    monkeypatch.setenv("VSCODE_PID", "7")
    assert shown._repr_html_() is None and shown._repr_markdown_() == shown.markdown()


def test_inline_markdown_of_reasons():
    assert _inline_html("*a* **b** `c` & $x < y_1$, {eq}`eq-d`") == (
        "<em>a</em> <strong>b</strong> <code>c</code> &amp; "
        r'<span class="math notranslate">\(x &lt; y_1\)</span>, <code>eq-d</code>'
    )


def test_what_html_would_read_as_a_tag_is_escaped():
    assert _math("a<b>c") == r'<span class="math notranslate">\(\displaystyle a&lt;b&gt;c\)</span>'


def test_what_is_false_or_weaker_than_declared_is_not_shown():
    with pytest.raises(FalseStep, match=r"badly remembered.*x_1 = -1: -2 against -1"):
        show(FALSE)
    with pytest.raises(GradeNotReached, match="Pythagoras"):
        show(WEAK)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("eq-softmax-jacobain",), "'eq-softmax-jacobain'; near it are eq-softmax-jacobian"),
        (("zzz",), "there are eq-"),
        ((PRODUCT, "film"), "lines, steps, gaps, claim, but this one is 'film'"),
        ((PRODUCT, "lines", [2]), "Gaps need mode \"gaps\", but the mode is 'lines'"),
        ((PRODUCT, "gaps", [1, 4]), r"has 3 lines, but gaps are \[1, 4\]; name lines from 1 to 3"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments, said):
    with pytest.raises(ValueError, match=said):
        show(*arguments)


PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Notebook</title>
<meta name="viewport" content="width=device-width"><script src="{script}"></script></head>
<body style="margin: 16px; background: {paper}; color: {ink}"><main>{body}</main></body></html>"""


@pytest.mark.parametrize(("paper", "ink"), [("#fff", "#111"), ("#111", "#eee")])
def test_html_in_a_browser(chromium_path, tmp_path, paper, ink):
    from importlib.util import find_spec
    from pathlib import Path

    import browser as look

    package = Path(next(iter(find_spec("sphinx-mathjax-offline").submodule_search_locations)))
    script = package / "static" / "mathjax" / "tex-mml-chtml.js"
    long = replace(
        PRODUCT, label="eq-test-empty", given=(), ranges=(), claim=eq(x[1], x[1]),
        steps=(Step(x[1], "nothing"),),
    )  # fmt: skip
    body = "".join(
        show(d, mode).html()
        for d, mode in ((LONG, "gaps"), (PRODUCT, "steps"), (BOUND, "lines"), (long, "lines"))
    )
    file = tmp_path / "page.html"
    text = PAGE.format(script=script.as_uri(), paper=paper, ink=ink, body=body)
    file.write_text(text, encoding="utf-8")
    with look.chromium(chromium_path) as chromium, look.tab(chromium, "file:", phone=True) as tab:
        page = tab.open(file.as_uri())
        assert check.failed_math(page) + check.raw_tex(page) + check.sideways(page) == []
        assert check.console_errors(tab) + check.accessibility(page) == []
        hidden = page.locator("details .td-row, .td-of details .math").first
        assert not hidden.is_visible()
        page.get_by_text("show line 2").press("Enter")
        assert page.locator(".td-of details .math").first.is_visible()
