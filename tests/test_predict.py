"""Predictions: what the extension writes, and what an author can get wrong."""

from __future__ import annotations

import re

import pytest
from predict_cases import CHOICE, FREE, NUMBER, build, notebook
from predict_options import PredictionError, read_options, split_choices, to_number
from repository import ROOT


@pytest.fixture
def make(tmp_path):
    """Build one page and return its HTML; a complaint fails the test."""

    def one(text: str, name: str = "index.md") -> str:
        built = build(tmp_path, {name: text})
        assert built.complaints == ""
        return built.page()

    return one


@pytest.fixture
def complaints(tmp_path):
    """What Sphinx says to one page that has something wrong."""
    return lambda text: build(tmp_path, {"index.md": f"# Page\n\n{text}"}).complaints


# ---- What is written --------------------------------------------------------------------


def squeeze(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\s*(</?(?:p|li|ol|div|summary)\b[^>]*>)\s*", r"\1", html))


def test_a_choice_is_a_list_with_its_answer_folded(make):
    html = squeeze(make(f"# Page\n\n{CHOICE}\nAfter.\n"))
    items = re.search(r'<ol class="td-predict-choices">(.*?)</ol>', html).group(1)
    assert items.count("<li") == 3
    assert "<em>two</em> of them" in items and r"\(3 d_k\)" in items
    assert 'data-right="2"' in html and 'data-kind="choice"' in html
    details = re.search(r'<details class="td-predict-answer">(.*?)</details>', html).group(1)
    assert details.startswith("<summary>The answer</summary><p>It is <strong")
    assert r"\(3 d_k\)" in details and 'href="#equation-eq-sum"' in details


def test_what_stands_between_is_enclosed_and_nothing_else(make):
    html = make(f"# Page\n\nBefore.\n\n{CHOICE}\nAfter.\n")
    behind = html.index('id="predict-width-behind"')
    assert html.index("Before.") < html.index("How wide is it?") < behind
    inside = html[behind : html.index("After.")]
    assert "<strong>text</strong>" in inside and 'id="equation-eq-sum"' in inside
    assert inside.count("</div>") == inside.count("<div") + 1  # it is closed before what follows


def test_a_number_has_its_unit_and_tolerance(make):
    html = squeeze(make(f"# Page\n\n{NUMBER}"))
    assert 'data-number="0.5" data-right' not in html
    for attribute in ('data-number="0.5"', 'data-tolerance="0.1"', 'data-unit="nats"'):
        assert attribute in html
    assert 'It is <strong class="td-predict-right">0.5 nats</strong>.' in html


@pytest.mark.parametrize("choices", ["", ":choices: one | two\n"])
def test_a_free_answer_has_no_right_one(make, choices):
    html = squeeze(make(f"# Page\n\n{FREE.replace(':free:', f'{choices}:free:')}"))
    assert f'data-kind="{"choice" if choices else "text"}"' in html
    assert "data-right" not in html and "data-number" not in html and "It is" not in html
    assert "<summary>Afterwards</summary>" in html and "Compare with the text." in html


def test_an_answer_may_stand_in_a_cell_before_or_after(make):
    first = NUMBER.replace("0.5", "glue:half").replace("0.1", "glue:near")
    second = CHOICE.replace("answer: 3", "answer: glue:which")
    second = second.replace("It is a sum", "It is {glue:text}`which`")
    before, after = {"half": "'1,234.5'"}, {"near": "np.float64(2.5)", "which": "2"}
    html = squeeze(make(notebook("# Page", before, first, second, after), "index.ipynb"))
    assert 'data-number="1234.5"' in html and 'data-tolerance="2.5"' in html
    assert '<strong class="td-predict-right">1,234.5 nats</strong>' in html
    assert 'data-right="1"' in html and '<span class="pasted-text">2</span>' in html


def test_cells_between_are_enclosed_and_work(make):
    start, end = ":::{predict-start} one\n:free:\nQuestion?\n:::", ":::{predict-end}\n:::"
    html = make(notebook("# Page", start, {"x": "1"}, end, "After."), "index.ipynb")
    behind = html.index('id="predict-one-behind"')
    assert behind < html.index('class="cell docutils container"') < html.index("After.")


def test_a_reason_may_have_several_lines(make):
    html = make("# Page\n\n" + FREE.replace("the text.", "the text,\n:  line by line."))
    assert "Compare with the text, line by line." in html


def test_a_reason_in_quotes_may_hold_anything(make):
    reason = '"So: {math}`x` is #1 of the \\"text\\"."'
    html = make("# Page\n\n" + FREE.replace("Compare with the text.", reason))
    assert re.search(r"So: <span class=.math[^>]*>\\\(x\\\)</span> is #1 of the “text”", html), html


def test_an_option_that_is_cut_off_by_a_comment_is_not_passed_over(complaints):
    assert "# comments" in complaints(FREE.replace("Compare with", "Compare #1 with"))


def test_another_question_has_another_version(tmp_path):
    texts = (CHOICE, CHOICE.replace("How wide", "How broad"), CHOICE.replace("*two*", "*2*"))
    pages = {f"{i}.md": f"# Page\n\n{text}" for i, text in enumerate((CHOICE, *texts))}
    built = build(tmp_path, pages | {"index.md": "# Start"})
    versions = [
        re.search(r'data-version="(\w+)"', built.page(str(i))).group(1) for i in range(len(pages))
    ]
    assert versions[0] == versions[1] and len(set(versions)) == 3


def test_only_pages_with_a_prediction_load_its_files(tmp_path):
    built = build(tmp_path, {"index.md": "# Start\n", "one.md": f"# One\n\n{NUMBER}"})
    assert "predict." not in built.page("index")
    assert "predict.js" in built.page("one") and "predict.css" in built.page("one")
    for name in ("predict.js", "predict.css"):
        assert (built.folder / "_static" / name).is_file()


def test_the_config_of_the_book_names_the_extension():
    assert "predict: book/_ext" in (ROOT / "_config.yml").read_text(encoding="utf-8")


# ---- Errors of authors ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (":answer: 3\n", "", "give one of :answer:, :number: and :free:; here is none of them"),
        (":answer: 3", ":answer: 3\n:free:", "here is :answer: and :free:"),
        (":answer: 3", ":answer: 4", "a whole number from 1 to 3, the number of choices, not '4'"),
        (":answer: 3", ":answer: 0", "not '0'"),
        (":answer: 3", ":answer: third", "not 'third'"),
        (":answer: 3", ":answer: glue:gone", "no cell of this page glues 'gone'"),
        (":answer: 3", ":answer: 3\n:unit: nats", ":unit: goes with :number: only"),
        (":answer: 3", ":number: 3", ":choices: go with :answer: or :free:"),
        (":choices: $d_k$ | *two* of them | $3 d_k$\n", "", ":answer: needs choices"),
        ("$d_k$ | *two* of them | ", "", "a choice needs two answers or more"),
        ("*two* of them", "", "one of the choices is empty"),
        ("*two* of them", "$d_k$", "the choice '$d_k$' stands there twice"),
        ("How wide is it?\n", "", "there is no question"),
        ("} width", "} Width 1", "small letters, digits and hyphens"),
    ],
)
def test_a_question_that_cannot_be_asked(complaints, old, new, words):
    assert old in CHOICE
    found = complaints(CHOICE.replace(old, new))
    assert re.search(r"index\.md:3: ERROR: predict-start [Ww]idth", found), found
    assert words in found and found.count("ERROR") == 1, found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CHOICE + NUMBER.replace("entropy", "width"), "has the name already in line 3"),
        (CHOICE.split(":::{predict-end}")[0], "predict-start width: its predict-end is missing"),
        (
            CHOICE.split(":::{predict-end}")[0] + NUMBER,
            "predict-start entropy: predict-end of width must come before",
        ),
        (":::{predict-end}\n:::", "there is no predict-start before it"),
        (
            CHOICE.replace("Hidden **text**.", "## Heading"),
            "predict-end of width: a heading or a box stands between it and its predict-start "
            "in line 3",
        ),
        (
            NUMBER.replace("Half a nat.\n", ""),
            "predict-end of entropy: there is nothing between start and end",
        ),
        (
            "::::::{note}\n" + NUMBER + "::::::\n",
            "predict-start entropy: it stands inside a box, list or cell",
        ),
    ],
)
def test_marks_that_do_not_fit_together(complaints, text, words):
    found = complaints(text)
    assert words in found and found.count("ERROR") == 1, found


def test_one_name_on_two_pages_is_no_error(tmp_path):
    two = f"---\norphan: true\n---\n# Two\n\n{NUMBER}"
    pages = {"index.md": f"# One\n\n{NUMBER}", "two.md": two}
    assert build(tmp_path, pages).complaints == ""


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), (" .5 ", 0.5), ("1e-3", 1e-3), ("-2", -2), ("1,234,567.5", 1234567.5), ("9 %", 9)],
)
def test_numbers_of_authors(text, value):
    assert to_number("number", text, "%") == value


@pytest.mark.parametrize("text", ["", "three", "nan", "inf", "1,23", "3 nats", "1/3"])
def test_what_is_no_number_of_an_author(text):
    with pytest.raises(PredictionError, match=r"^:number: takes a number such as 0\.5"):
        to_number("number", text, "%")


def test_a_tolerance_is_not_negative():
    with pytest.raises(PredictionError, match=r":tolerance: is 0 or more, not '-1'"):
        read_options({"number": "3", "tolerance": "-1"})


def test_bars_without_spaces_belong_to_a_formula():
    assert split_choices(r"$|x|$ | $p(y|x)$ | none") == ("$|x|$", "$p(y|x)$", "none")
