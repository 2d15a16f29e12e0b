"""The two figures of scores in a real browser: everyone can use them, whatever the page is like."""

import browser as look
import numpy as np
import page_checks as check
import pytest
from score_figure_cases import LABELS, MANY, SCORES, VALUES, make_query, opened, queries
from score_figure_checks import MOVE, assert_bars, assert_hull, bars, hull, numbers

from transformer_lab.plots import hull_figure, temperature_bars
from transformer_lab.plots.hull import attend
from transformer_lab.plots.widgets import weight_text

pytestmark = pytest.mark.plain


@pytest.fixture(scope="module")
def chromium(chromium_path):
    """One browser for all tests of this file."""
    with look.chromium(chromium_path) as one:
        yield one


@pytest.fixture
def show(chromium, tmp_path):
    """show(figure, ...) opens a page from file://; any error or foreign request fails."""

    def page(*figures, **options):
        return opened(chromium, tmp_path / "page.html", *figures, **options)

    return page


def test_the_keyboard_reaches_and_moves_everything(show):
    with show(bars(), hull()) as page:
        assert check.keyboard(page) == []
        page.get_by_role("slider", name="temperature τ").focus()
        before = numbers(page, ".td-bars .tdw-app", "tau")[0]
        page.keyboard.press("ArrowRight")
        assert numbers(page, ".td-bars .tdw-app", "tau")[0] > before
        page.keyboard.press("Home")
        assert assert_bars(page, queries()[0]) == 0.25
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        assert assert_bars(page, queries()[0]) == 1
        page.get_by_role("radio", checked=True).focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Tab")
        page.keyboard.press("End")
        assert_hull(page, 3, np.array([0, 0, 0, 6, 0, 0]), 1.0)
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowLeft")
        assert_hull(page, 3, np.array([0, 0, 0, 6, 0, 0]), 8 ** (-1 / 60))
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert_hull(page, 2, np.zeros(6), 1.0)


def test_keys_pressed_in_a_figure_do_not_reach_the_page(show):
    """JupyterLab would take "d d" for a command that deletes the cell."""
    with show(bars()) as page:
        page.evaluate("""() => { window.heard = [];
            document.addEventListener('keydown', event => window.heard.push(event.key)); }""")
        page.get_by_role("slider", name="temperature").focus()
        for key in ("d", "ArrowLeft", "Control+b"):
            page.keyboard.press(key)
        assert page.evaluate("window.heard") == ["Control", "b"]


def test_a_screen_reader_hears_one_sentence_after_a_rest(show):
    with show(bars(), hull()) as page:
        page.evaluate("""() => { window.said = [];
            document.querySelectorAll('[aria-live]').forEach(node => new MutationObserver(() =>
                window.said.push(node.textContent)).observe(node, { childList: true })); }""")
        page.wait_for_timeout(900)
        assert page.evaluate("window.said") == []  # nothing before anything has moved
        page.get_by_role("slider", name="temperature τ").focus()
        for _ in range(8):
            page.keyboard.press("ArrowLeft")
        page.wait_for_timeout(1000)
        (said,) = page.evaluate("window.said")
        assert said.startswith("mat, τ = ") and "largest weight" in said and "entropy" in said
        page.get_by_label("added to the score").focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        page.wait_for_timeout(1000)
        assert page.evaluate("window.said")[1:][0].startswith("Output (")
        assert len(page.evaluate("window.said")) == 2


def test_figures_on_one_page_do_not_meddle(show):
    with show(bars(), hull(), bars(), hull()) as page:
        page.get_by_role("slider", name="temperature τ").nth(1).evaluate(MOVE, "0")
        page.get_by_role("radio", name="on").nth(1).evaluate("node => node.click()")
        page.get_by_label("added to the score").nth(1).evaluate(MOVE, "20")
        assert numbers(page, ".td-bars .tdw-app", "tau").tolist() == [8, 0.25]
        assert page.get_by_role("radio", checked=True).evaluate_all(
            "nodes => nodes.map(n => n.value)"
        ) == ["2", "3"]
        assert numbers(page, ".td-hull .tdw-app", "share")[0] == 1
        ids = page.locator("[id]").evaluate_all("nodes => nodes.map(node => node.id)")
        assert len(ids) == len(set(ids)) > 0
        # the same rules win however often the styles come again
        gaps = page.locator(".td-bars .tdw-field").evaluate_all(
            "nodes => nodes.map(n => getComputedStyle(n).marginBottom)"
        )
        assert len(set(gaps)) == 1 and gaps[0] != "0px"


def test_a_broken_figure_stays_as_it_is_printed_and_spares_the_others(show):
    broken = bars().html.replace('<script type="application/json">{', "<script>({", 1)
    broken = broken.replace("]}]}</script>", "]}]})</script>", 1)
    crooked = hull().html.replace('"plane":[', '"plan":[', 1)
    broken = broken[: broken.rindex("<script>")] + "</figure>"  # left to the next one's script
    with show(broken, crooked, bars(), hull(), quiet=False) as page:
        figures = page.locator("figure")
        ready = figures.evaluate_all("nodes => nodes.map(n => n.dataset.ready === 'true')")
        assert ready == [False, False, True, True]
        assert figures.nth(0).locator(".tdw-static > .tdw-scroll table").is_visible()
        assert figures.nth(1).locator(".tdw-static .tdh-svg").is_visible()
        assert figures.nth(1).locator("input").count() == 0
        assert not figures.nth(2).locator(".tdw-static").is_visible()


def test_odd_texts_are_shown_as_they_are(show):
    odd = "</script x><img src=x onerror=alert(1)>"
    figures = (
        temperature_bars([make_query(odd, keys=[odd] * 6), make_query()]),
        hull_figure(VALUES, SCORES, [odd, *LABELS[1:]]),
    )
    with show(*figures, width=390) as page:
        assert page.locator("figure img").count() == 0
        assert page.locator(".tdw-app .tdb-row[data-weight] .tdb-key").first.text_content() == odd
        assert page.locator(".tdw-app tbody th").first.text_content() == odd
        assert check.sideways(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious_and_nothing_scrolls_sideways(show, theme, width):
    with show(bars(), hull(), theme=theme, width=width) as page:
        assert check.accessibility(page) + check.pictures(page) + check.sideways(page) == []
        page.get_by_label("Query").select_option("1")
        page.locator(".tdb-stops button").first.click()
        page.get_by_label("added to the score").evaluate(MOVE, "60")
        assert check.accessibility(page) + check.sideways(page) == []
        page.evaluate("document.querySelector('.tdw-app label').remove()")  # axe does see something
        assert check.accessibility(page) != []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_without_javascript_all_can_be_read(show, theme):
    options = {"java_script_enabled": False, "width": 390, "theme": theme}
    with show(bars(), hull(), **options) as page:
        assert page.locator(".tdw-static").count() == 2
        first = page.locator(".td-bars .tdw-static > .tdw-scroll")
        assert first.is_visible() and first.locator("tbody tr").count() == 6
        assert first.evaluate("node => node.scrollWidth <= node.clientWidth")
        page.set_viewport_size({"width": 300, "height": 900})  # names stay whole; the table scrolls
        assert 60 <= first.locator("tbody th").first.bounding_box()["width"] <= 150
        assert check.sideways(page) == []
        a = make_query().weights(8.0)
        rows = first.locator("tbody tr")
        assert [rows.nth(i).locator("td").nth(2).text_content() for i in range(6)] == [
            weight_text(x) for x in a
        ]
        page.get_by_text("24 keys", exact=True).click()
        assert page.locator("details[open] tbody tr").count() == len(MANY)
        assert page.locator(".tdh-svg").is_visible()
        assert page.locator(".td-hull table").count() == 2
        assert page.get_by_text("first coordinate of the value").is_visible()
        assert page.locator("figure :is(input, button, select)").count() == 0


def test_twenty_four_keys_can_be_read_on_a_phone(show):
    with show(bars(), width=390) as page:
        page.get_by_label("Query").select_option("1")
        rows = page.locator(".tdb-row[data-weight]")
        assert rows.count() == 24
        boxes = rows.evaluate_all("""rows => rows.map(row => [...row.children].map(cell => {
            const box = cell.getBoundingClientRect();
            return [box.left, box.right, parseFloat(getComputedStyle(cell).fontSize),
                    cell.scrollWidth <= cell.clientWidth + 1]; }))""")
        for row in boxes:
            assert all(right <= 390 and size >= 13 and fits for _, right, size, fits in row)
            assert row[2][1] - row[2][0] >= 90  # the bar has room
        assert sum(row.bounding_box()["height"] for row in rows.all()) < 700


def test_paper_shows_the_start(show):
    with show(bars(), hull(), theme="dark") as page:
        page.get_by_label("added to the score").evaluate(MOVE, "60")
        page.emulate_media(media="print")
        assert page.locator(".tdw-app:visible").count() == 0
        assert page.locator(".tdw-static:visible").count() == 2
        assert page.locator(".tdw-static details:visible").count() == 0
        weights = page.locator(".tdw-static tspan[data-i]").all_text_contents()
        assert weights == [weight_text(x) for x in attend(VALUES, SCORES)[0]]


def test_reduced_motion_is_respected(show):
    duration = "getComputedStyle(document.querySelector('.tdb-bar')).transitionDuration"
    with show(bars(), reduced_motion="no-preference") as page:
        assert page.evaluate(duration) == "0.15s"
    with show(bars(), reduced_motion="reduce") as page:
        assert page.evaluate(duration) == "0s"
