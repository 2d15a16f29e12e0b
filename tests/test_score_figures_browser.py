"""The two figures of scores in a real browser: their numbers are numpy's, to 1e-9."""

import math

import browser as look
import numpy as np
import pytest
from score_figure_cases import LABELS, VALUES, make_query, opened, queries
from score_figure_checks import MOVE, assert_bars, assert_hull, bars, close, hull, numbers

from transformer_lab.plots import hull_figure, temperature_bars
from transformer_lab.plots.widgets import tau_text

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


# ---- the bars ----


def test_the_bars_agree_with_numpy_at_random_temperatures(show):
    rng = np.random.default_rng(5)
    with show(bars()) as page:
        for i, query in enumerate(queries()):
            page.get_by_label("Query").select_option(str(i))
            seen = []
            for tick in [0, 400, *rng.integers(1, 400, 6).tolist()]:
                page.get_by_role("slider", name="temperature").evaluate(MOVE, str(tick))
                seen.append(assert_bars(page, query))
                exact = 0.25 * (16 * query.d_k) ** (tick / 400)
                near = [stop for _, stop in query.stops if math.isclose(stop, exact, rel_tol=0.02)]
                assert math.isclose(seen[-1], exact, rel_tol=1e-9) or seen[-1] in near
            assert seen[:2] == [0.25, pytest.approx(4 * query.d_k)]


def test_the_marked_stops_are_exact(show):
    with show(temperature_bars([make_query(d_k=48)])) as page:
        assert page.locator("select").count() == 0  # one query: nothing to choose
        slider = page.get_by_role("slider", name="temperature")
        assert slider.get_attribute("aria-valuetext") == "τ = 6.93 = the square root of d k"
        for index, tau in enumerate((1.0, math.sqrt(48), 48.0)):
            button = page.locator(".tdb-stops button").nth(index)
            button.click()
            assert assert_bars(page, make_query(d_k=48)) == tau
            pressed = page.locator(".tdb-stops button[aria-pressed=true]")
            assert pressed.count() == 1 and pressed.get_attribute("data-tau") == str(tau).replace(
                ".0", ""
            )
            tick = slider.input_value()
            slider.evaluate(MOVE, str(int(tick) + 20))
            assert page.locator(".tdb-stops button[aria-pressed=true]").count() == 0
            slider.evaluate(MOVE, tick)  # back on the tick of the stop: the stop, exactly
            assert assert_bars(page, make_query(d_k=48)) == tau
        at = "nodes => nodes.map(n => Number(n.style.getPropertyValue('--at')))"
        assert page.locator(".tdb-marks span").evaluate_all(at)[1] == 0.5


def test_extreme_products_stay_numbers(show):
    raw = np.array([999_960, -1e6, 0, 0, 1e6, 999_900])
    with show(temperature_bars([make_query(raw=raw), make_query("tie", raw=np.ones(6))])) as page:
        page.locator(".tdb-stops button").first.click()
        close(numbers(page, ".tdb-row[data-weight]", "weight"), [0, 0, 0, 0, 1, 0])
        said = page.locator(".tdb-tile b").all_text_contents()  # e^−40, not 1 − 1
        assert said == ["1.000", "0.000 nats", "4.2 × 10⁻¹⁸", "8.5 × 10⁻¹⁸"]
        page.get_by_label("Query").select_option("1")
        close(numbers(page, ".tdb-row[data-weight]", "weight"), np.full(6, 1 / 6))
        assert "100.0\u00a0% of ln 6" in page.locator(".tdb-tiles").text_content()


def test_another_query_keeps_the_marked_temperature(show):
    with show(bars()) as page:
        for stop, values in ((1, (8, math.sqrt(512), math.sqrt(2))), (2, (64, 512, 2))):
            page.get_by_label("Query").select_option("0")
            page.locator(".tdb-stops button").nth(stop).click()
            for i, tau in enumerate(values):
                page.get_by_label("Query").select_option(str(i))
                assert assert_bars(page, queries()[i]) == tau
        page.get_by_label("Query").select_option("1")
        page.get_by_role("slider", name="temperature").evaluate(MOVE, "400")
        page.get_by_label("Query").select_option("2")  # 2048 is past the end: 4 d_k = 8
        assert assert_bars(page, queries()[2]) == 8
        page.get_by_label("Query").select_option("4")
        assert "one key: nothing to share" in page.locator(".tdb-tiles").text_content()


def test_a_start_of_ones_own(show):
    with show(temperature_bars(queries(), start="24 keys", tau=3.5)) as page:
        assert page.get_by_label("Query").input_value() == "1"
        assert assert_bars(page, queries()[1]) == 3.5


def test_a_key_that_comes_twice_is_told_apart(show):
    with show(temperature_bars([make_query(raw=np.array([0, 0, 0, 0, 9.0, 0]))])) as page:
        assert page.locator(".tdb-more").first.text_content() == "the (key 5)"
        assert page.locator(".tdb-best .tdb-key").all_text_contents() == ["the"]


# ---- the hull ----


def test_the_output_agrees_with_numpy_at_random_settings(show):
    rng = np.random.default_rng(11)
    added, tau = np.zeros(6), 1.0
    with show(hull()) as page:
        assert_hull(page, 2, added, tau)
        for _ in range(12):
            j, (c, tick) = int(rng.integers(6)), rng.integers(-60, 61, 2).tolist()
            page.locator(f"input[type=radio][value='{j}']").evaluate("node => node.click()")
            page.get_by_label("added to the score").evaluate(MOVE, str(c))
            page.get_by_role("slider", name="temperature").evaluate(MOVE, str(tick))
            added[j], tau = c / 10, 8 ** (tick / 60)
            assert_hull(page, j, added, tau)
            assert f"τ = {tau_text(tau)}" in page.locator(".tdh-controls").text_content()
        page.get_by_role("button", name="Reset").click()
        assert_hull(page, 2, np.zeros(6), 1.0)
        assert page.get_by_role("radio", checked=True).get_attribute("value") == "2"


def test_an_output_that_already_lies_on_the_value_is_said_so(show):
    values = [[0, 0], [2, 0], [0, 2], [2, 2], [1, 1]]
    with show(hull_figure(values, [0.0] * 5, chosen=4)) as page:
        page.get_by_label("added to the score").evaluate(MOVE, "30")
        text = page.locator(".tdh-distance").text_content()
        assert "already lies on E" in text and "NaN" not in page.locator("main").inner_text()


def test_scores_far_apart_stay_numbers(show):
    with show(hull_figure(VALUES, [1e5, 0, 0, -1e5, 0, 1], LABELS)) as page:
        for tick in ("-60", "60"):
            page.get_by_role("slider", name="temperature").evaluate(MOVE, tick)
            close(numbers(page, "tr[data-weight]", "weight"), [1, 0, 0, 0, 0, 0])
            assert "NaN" not in page.locator("figure").inner_html()


CLOSE = [
    [[0, 0], [4, 0], [4, 3], [2, 3.2], [2.6, 3.25], [0, 3], [1.9, 1.5], [2.2, 1.7]],
    [[0, 0], [1, 0.1], [2, 0], [3, 0.1], [4, 0], [4.6, 0.1], [2.5, 1], [0.3, 0.4]],
    [[0, 0], [0.1, 1], [0, 2], [0.1, 3], [0, 4], [0.4, 3.4], [0.4, 2.4], [0.5, 1.4]],
    [[0, 0], [4, 0], [4, 2], [2.6, 2.15], [1.4, 2.15], [2, 1.8], [0, 2], [3, 0.6]],
]


@pytest.mark.parametrize("values", CLOSE)
def test_long_names_of_close_neighbours_do_not_cover_each_other(show, values):
    labels = ["the", "cat", "knight", "sat", "knack", "on", "a word", "mat"]
    with show(hull_figure(values, np.arange(8) / 8, labels), width=390) as page:
        boxes = page.locator(".tdw-app .tdh-label").evaluate_all(
            "n => n.map(t => { const b = t.getBBox(); return [b.x, b.y, b.width, b.height]; })"
        )
        centres = page.locator(".tdw-app .tdh-value[data-i]").evaluate_all(
            "n => n.map(c => [c.cx.baseVal.value, c.cy.baseVal.value])"
        )
        assert len(centres) == 8
        wide = page.locator(".tdw-app .tdh-svg").evaluate("s => s.viewBox.baseVal.width")
        for i, (x, y, w, h) in enumerate(boxes):
            assert x > 30 and x + w < wide, labels[i]
            for j, (u, v, s, t) in enumerate(boxes[:i]):
                apart = x + w < u or u + s < x or y + h < v + 3 or v + t < y + 3
                assert apart, (labels[i], labels[j])
            for j, (px, py) in enumerate(centres):
                assert not (x < px < x + w and y + 3 < py < y + h - 3), (labels[i], labels[j])
