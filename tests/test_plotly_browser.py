"""A Plotly figure in a real browser: drawn, chosen, read, in the page's colours."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import browser as look
import page_checks as check
import pytest

from transformer_lab.attention.growth import score_growth_data
from transformer_lab.plots import score_growth

PAGE = """<!doctype html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Growth</title><style>
html {{ --td-ink: #23201c; --td-paper: #fdfcf9; --td-accent: #a33a1e; --td-accent-2: #175e66;
  --td-muted: #625b51; --td-rule: #ded8cc; --td-panel: #f6f3ec; }}
html[data-theme="dark"] {{ --td-ink: #e5e1d8; --td-paper: #16181b; --td-accent: #f0977a;
  --td-accent-2: #86cbd0; --td-muted: #aaa498; --td-rule: #383b40; --td-panel: #1e2125; }}
body {{ margin: 0; background: var(--td-paper); color: var(--td-ink); }}
main {{ max-width: 42rem; margin: 0 auto; padding: 0 16px; }}</style>{script}</head>
<body><main><h1>Growth</h1>{figures}</main></body></html>"""
SCRIPT = '<script defer src="plotly.min.js"></script>'
COLOURS = """() => [...document.querySelectorAll('.scatterlayer .trace')].map(trace => {
    const point = trace.querySelector('.point'), line = trace.querySelector('.js-line');
    return [point ? getComputedStyle(point).fill : null,
            line ? getComputedStyle(line).stroke : null];
})"""


@pytest.fixture(scope="module")
def chromium(chromium_path):
    """One browser for all tests of this file."""
    with look.chromium(chromium_path) as one:
        yield one


@pytest.fixture(scope="module")
def figure():
    return score_growth(score_growth_data((4, 32, 256, 1024), 11, 3))


@pytest.fixture
def show(chromium, tmp_path):
    """show(figure, ...) opens a page from file://; any error or foreign request fails."""
    import plotly

    source = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    shutil.copy(source, tmp_path / "plotly.min.js")
    tabs = []

    @contextmanager
    def open_page(*figures, theme="light", width=1280, script=SCRIPT, **options):
        context = chromium.new_context(viewport={"width": width, "height": 900}, **options)
        page = context.new_page()
        tabs.append(look.Recorder(page, "file:"))
        file = tmp_path / "page.html"
        shown = "\n".join(one.html for one in figures)
        text = PAGE.format(theme=theme, script=script, figures=shown)
        file.write_text(text, encoding="utf-8", newline="\n")
        page.goto(file.as_uri())
        if script and options.get("java_script_enabled", True):
            page.locator(".main-svg").first.wait_for()
        try:
            yield page
        finally:
            context.close()

    yield open_page
    assert tabs
    for tab in tabs:
        assert check.outside_requests(tab) + check.console_errors(tab) == []


def points(page):
    """How far below the top of the graph the marks of the first curve stand, in pixels."""
    return page.locator(".scatterlayer .trace").first.locator(".point").evaluate_all(
        """marks => marks.map(mark => mark.getBoundingClientRect().top
            - mark.closest('.tdp-graph').getBoundingClientRect().top)"""
    )


def test_a_choice_changes_curves_table_and_words(show, figure):
    with show(figure) as page:
        assert page.locator(".scatterlayer .trace").count() == 8
        assert page.locator(".point").count() == 6 * 4
        before, says = points(page), page.locator(".tdp-says").text_content()
        visible = page.locator(".tdp-scroll").locator("visible=true")
        page.get_by_text("The numbers as a table").click()
        assert visible.count() == 1
        page.locator("label", has_text="correlated").click()
        page.wait_for_timeout(100)
        after = points(page)
        assert after[-1] < before[-1] - 20  # higher in the picture
        assert page.locator(".tdp-says").text_content() != says
        assert visible.get_attribute("aria-label") == "Table: correlated"
        assert "correlated" in page.locator(".tdp-graph").get_attribute("aria-label")
        page.locator("label", has_text="normal").click()
        page.wait_for_timeout(100)
        assert points(page) == pytest.approx(before, abs=0.1)


def test_the_keyboard_chooses_too(show, figure):
    with show(figure) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.value") == "0"
        ring = page.locator(".tdp-choice label").first.evaluate(
            "label => getComputedStyle(label).outlineStyle"
        )
        assert ring == "solid"  # the radio itself is not seen
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(100)
        assert "Student t" in page.locator(".tdp-says").text_content()
        assert check.keyboard(page) == []


@pytest.mark.parametrize(
    ("theme", "first", "second", "ink"),
    [
        ("light", "rgb(163, 58, 30)", "rgb(23, 94, 102)", "rgb(35, 32, 28)"),
        ("dark", "rgb(240, 151, 122)", "rgb(134, 203, 208)", "rgb(229, 225, 216)"),
    ],
)
def test_colours_are_those_of_the_page(show, figure, theme, first, second, ink):
    with show(figure, theme=theme) as page:
        found = page.evaluate(COLOURS)
        used = {colour for pair in found for colour in pair if colour}
        assert used == {first, second}
        text = page.locator(".main-svg text").evaluate_all(
            "all => [...new Set(all.map(one => getComputedStyle(one).fill))]"
        )
        assert text == [ink]
        assert check.accessibility(page) == [] and check.pictures(page) == []


def test_the_page_may_turn_dark_while_it_is_open(show, figure):
    with show(figure) as page:
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
        assert "rgb(240, 151, 122)" in page.evaluate(COLOURS)[0]


@pytest.mark.parametrize("width", [390, 320])
def test_it_fits_a_phone(show, figure, width):
    with show(figure, width=width, is_mobile=True, has_touch=True) as page:
        page.get_by_text("The numbers as a table").click()  # wide: it scrolls in its own box
        assert check.sideways(page) == []
        box = page.locator(".tdp-graph").bounding_box()
        for text in page.locator(".tdp-graph text").locator("visible=true").all():
            inside = text.bounding_box()
            assert inside["x"] >= box["x"] - 1, text.text_content()
            assert inside["x"] + inside["width"] <= box["x"] + box["width"] + 1
        ticks = page.locator(".xtick text").locator("visible=true").all_text_contents()
        assert ticks == ["4", "32", "256", "1024"]


def test_two_figures_on_one_page(show, figure):
    other = score_growth(score_growth_data((4, 32), 5, 2))
    with show(figure, other) as page:
        assert page.locator(".tdp-graph .main-svg").count() >= 2
        page.locator("label", has_text="q = k").nth(1).click()
        says = page.locator(".tdp-says").all_text_contents()
        assert says[0].startswith("Normal, mean 0") and "own key" in says[1]


@pytest.mark.parametrize("javascript", [True, False])
def test_without_plotly_the_tables_stay(show, figure, javascript):
    with show(figure, script="", java_script_enabled=javascript) as page:
        assert page.locator(".tdp-scroll").locator("visible=true").count() == 5
        for hidden in (".tdp-graph", ".tdp-choice"):
            assert not page.locator(hidden).is_visible()
        assert page.locator(".tdp-says").is_visible()
