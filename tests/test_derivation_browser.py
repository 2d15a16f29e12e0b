"""Derivations in a real browser: columns, phone, keyboard, paper, no JavaScript."""

from __future__ import annotations

from contextlib import contextmanager

import browser as look
import page_checks as check
import pytest
from derivation_cases import build_book, write_book

pytestmark = pytest.mark.plain
PAGE = """# Derivations

See {eq}`eq-test-long`.

:::{derivation} eq-test-product
:::

:::{derivation} eq-test-long
:show: steps
:::

:::{derivation} eq-test-gaps
:show: gaps
:gaps: 2 3
:::

:::{derivation} eq-softmax-jacobian
:::

:::{derivation} eq-test-bound
:::

:::{derivation} eq-softmax-sum
:fold:
:::

:::{derivation} eq-softmax-saturation
:fold:
:::
"""
WHOLE, STEPS, GAPS = (f".td-derivation >> nth={k}" for k in range(3))
FOLDED, OTHER = (f".td-derivation-fold >> nth={k}" for k in range(2))
OPEN = ".td-derivation:not(:has(.td-derivation-fold))"  # boxes that stand open


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A small book in the real book's clothes."""
    folder = write_book(tmp_path_factory.mktemp("site"), {"page": PAGE})
    built = build_book(folder)
    assert built.returncode == 0, built.stderr
    with look.serve(folder / "html") as address:
        yield address


@pytest.fixture(scope="module")
def chromium(chromium_path):
    """One browser for all tests of this file."""
    with look.chromium(chromium_path) as one:
        yield one


@pytest.fixture
def show(chromium, site):
    """show(dark, phone) opens the page; a complaint or a request to elsewhere fails."""
    tabs = []

    @contextmanager
    def open_page(dark=False, phone=False):
        with look.tab(chromium, site, dark=dark, phone=phone) as tab:
            tabs.append(tab)
            yield tab.open(f"{site}page.html")

    yield open_page
    for tab in tabs:
        assert check.outside_requests(tab) + check.console_errors(tab) == []


SEEN = "e => e.checkVisibility({ visibilityProperty: true }) && e.clientHeight > 0"


def seen(page, selector):
    """How many of these can be seen."""
    return sum(node.evaluate(SEEN) for node in page.locator(selector).all())


def boxes(page, selector):
    """Left, top, right and bottom of each."""
    rectangles = (node.bounding_box() for node in page.locator(selector).all())
    return [(r["x"], r["y"], r["x"] + r["width"], r["y"] + r["height"]) for r in rectangles]


@pytest.mark.parametrize("phone", [False, True])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_whole_and_everyone_can_read_it(show, dark, phone):
    with show(dark=dark, phone=phone) as page:
        assert check.failed_math(page) + check.raw_tex(page) + check.sideways(page) == []
        page.locator(f"{STEPS} >> button:text-is('next line')").click()
        page.locator(f"{GAPS} >> text=show line 3").click()
        page.locator(f"{FOLDED} >> summary").click()
        assert check.accessibility(page) + check.sideways(page) == []


def test_every_control_is_reached_by_tab(show):
    with show() as page:
        assert check.keyboard(page) == []


def test_relations_formulas_and_reasons_stand_under_each_other(show):
    with show() as page:
        for box in (WHOLE, ".td-derivation >> nth=3"):
            signs = boxes(page, f"{box} >> .td-relation mjx-container")
            formulas = boxes(page, f"{box} >> .td-formula")
            reasons = boxes(page, f"{box} >> .td-reason")
            for column in (signs, formulas, reasons):
                assert max(b[0] for b in column) - min(b[0] for b in column) < 1
            for sign, formula, reason in zip(signs, formulas, reasons, strict=True):
                assert sign[2] <= formula[0] + 1 and formula[2] <= reason[0]
                middle = (sign[1] + sign[3]) / 2
                assert formula[1] < middle < formula[3]


def test_on_a_phone_the_reason_stands_under_its_formula_and_long_ones_scroll(show):
    with show(phone=True) as page:
        page.locator(f"{STEPS} >> button:text-is('all')").click()
        formulas, reasons = (boxes(page, f"{OPEN} .td-{what}") for what in ("formula", "reason"))
        for formula, reason in zip(formulas, reasons, strict=True):
            assert reason[1] >= formula[3] - 1 and abs(reason[0] - formula[0]) < 1
            assert formula[2] <= 390
        for line in page.locator(f"{OPEN} .td-derivation-line:has(.td-left)").all():
            left, sign = line.locator(".td-left"), line.locator(".td-relation")
            assert left.bounding_box()["y"] + left.bounding_box()["height"] <= (
                sign.bounding_box()["y"] + 1)  # fmt: skip
        long = page.locator(f"{STEPS} >> .td-formula mjx-container >> nth=1")
        assert long.evaluate("e => e.scrollWidth > e.clientWidth + 20")
        assert "gradient" in long.evaluate("e => getComputedStyle(e).backgroundImage")


def test_a_formula_that_leaves_no_room_has_its_reason_below(show):
    with show() as page:
        page.locator(f"{STEPS} >> button:text-is('all')").click()
        formulas = boxes(page, f"{STEPS} >> .td-formula")
        reasons = boxes(page, f"{STEPS} >> .td-reason")
        below = [r[1] >= f[3] - 1 for f, r in zip(formulas, reasons, strict=True)]
        assert below == [False, True, False]
        long = page.locator(f"{STEPS} >> .td-formula mjx-container >> nth=1")
        assert long.evaluate("e => e.scrollWidth <= e.clientWidth + 1")


def test_steps_by_keyboard(show):
    with show() as page:
        box, place = page.locator(STEPS), page.locator(f"{STEPS} >> .td-place")
        lines = f"{STEPS} >> .td-derivation-line"
        live = "els => els.flatMap(e => e.hasAttribute('aria-live') ? [e.dataset.line] : [])"

        def now():
            page.wait_for_function("() => new Promise(r => requestAnimationFrame(() => r(true)))")
            said = page.locator(lines).evaluate_all(live)
            return place.text_content(), seen(page, lines), said

        assert now() == ("line 1 of 3", 1, [])
        following = page.locator(f"{STEPS} >> button:text-is('next line')")
        back = page.locator(f"{STEPS} >> button:text-is('back')")
        assert back.get_attribute("aria-disabled") == "true"
        following.focus()
        page.keyboard.press("Enter")
        assert now() == ("line 2 of 3", 2, ["2"])
        page.keyboard.press("Space")
        assert now() == ("line 3 of 3", 3, ["3"])
        assert following.get_attribute("aria-disabled") == "true"
        assert following.evaluate("e => e === document.activeElement")
        page.keyboard.press("Enter")
        assert now()[0] == "line 3 of 3"
        page.keyboard.press("ArrowLeft")
        assert now() == ("line 2 of 3", 2, [])
        box.focus()
        page.keyboard.press("ArrowUp")
        assert now() == ("line 1 of 3", 1, [])
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        assert now() == ("line 3 of 3", 3, ["3"])
        page.locator(f"{STEPS} >> .td-formula mjx-container >> nth=0").focus()
        page.keyboard.press("ArrowLeft")  # there the arrows scroll the formula
        assert now()[0] == "line 3 of 3"
        back.click()
        page.locator(f"{STEPS} >> button:text-is('all')").click()
        assert seen(page, lines) == 3 and not place.is_visible()
        assert box.get_attribute("tabindex") is None
        begin = page.locator(f"{STEPS} >> button:text-is('step through')")
        assert begin.evaluate("e => e === document.activeElement")
        page.keyboard.press("Enter")
        assert now()[:2] == ("line 1 of 3", 1)
        assert following.evaluate("e => e === document.activeElement")


def test_mode_lines_turns_to_steps_and_back_and_arriving_moves_nothing(show):
    with show() as page:
        assert page.evaluate("() => [window.scrollY, document.activeElement.tagName]") == [
            0, "BODY"]  # fmt: skip
        lines = f"{WHOLE} >> .td-derivation-line"
        assert seen(page, lines) == 3
        page.locator(f"{WHOLE} >> button:text-is('step through')").click()
        page.locator(f"{WHOLE} >> button:text-is('next line')").click()
        page.wait_for_timeout(60)
        assert seen(page, lines) == 2
        page.locator(f"{WHOLE} >> button:text-is('all')").click()
        page.wait_for_timeout(60)
        assert seen(page, lines) == 3
        assert page.locator(".td-derivation >> nth=4 >> button").count() == 0  # one line


def test_gaps_open_and_close_and_keep_their_reason(show):
    with show() as page:
        formulas = f"{GAPS} >> .td-formula > div.math"
        assert [seen(page, f"{formulas} >> nth={k}") for k in range(3)] == [1, 0, 0]
        assert seen(page, f"{GAPS} >> .td-reason") == 3
        press = page.locator(f"{GAPS} >> button >> nth=1")
        assert press.text_content() == "show line 3"
        assert press.get_attribute("aria-expanded") == "false"
        press.focus()
        page.keyboard.press("Enter")
        assert [seen(page, f"{formulas} >> nth={k}") for k in range(3)] == [1, 0, 1]
        assert press.text_content() == "hide line 3"
        assert press.get_attribute("aria-expanded") == "true"
        opened = page.locator(f"[id='{press.get_attribute('aria-controls')}']")
        assert opened.evaluate(SEEN)
        page.keyboard.press("Space")
        assert [seen(page, f"{formulas} >> nth={k}") for k in range(3)] == [1, 0, 0]


def test_a_folded_box_opens_and_closes_by_keyboard(show):
    with show() as page:
        box, title = page.locator(FOLDED), page.locator(f"{FOLDED} >> summary")
        lines, press = f"{FOLDED} >> .td-derivation-line", f"{FOLDED} >> .td-press"
        assert title.text_content().startswith("Derivation: The weights of a row")
        assert title.is_visible() and seen(page, lines) == seen(page, press) == 0
        title.focus()
        page.keyboard.press("Tab")  # nothing in a closed box takes the focus
        assert page.evaluate("() => document.activeElement.tagName") != "BODY"
        assert box.evaluate("e => !e.contains(document.activeElement)")
        page.keyboard.press("Shift+Tab")
        assert title.evaluate("e => e === document.activeElement")
        page.keyboard.press("Enter")
        assert box.evaluate("e => e.open") and seen(page, lines) == 3
        assert check.failed_math(page) + check.sideways(page) == []
        page.locator(f"{FOLDED} >> button:text-is('step through')").click()
        page.wait_for_timeout(60)
        assert seen(page, lines) == 1
        title.focus()
        page.keyboard.press("Space")
        assert not box.evaluate("e => e.open") and seen(page, lines) == 0


def test_printing_opens_folded_boxes_and_closes_those_it_opened(show):
    with show() as page:
        page.locator(f"{OTHER} >> summary").click()
        is_open = "() => [...document.querySelectorAll('.td-derivation-fold')].map(e => e.open)"
        assert page.evaluate(is_open) == [False, True]
        page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate(is_open) == [True, True]
        page.evaluate("() => window.dispatchEvent(new Event('afterprint'))")
        assert page.evaluate(is_open) == [False, True]
        page.emulate_media(media="print")  # the stylesheet alone does it as well
        assert page.evaluate(is_open) == [False, True]
        for line in page.locator(f"{FOLDED} >> .td-derivation-line").all():
            assert line.evaluate(SEEN) and line.bounding_box()["height"] > 10
        assert page.locator(FOLDED).bounding_box()["height"] > 100


def test_on_paper_every_line_stands_and_nothing_is_there_to_press(show):
    with show() as page:
        page.emulate_media(media="print")
        count = page.locator(".td-derivation-line").count()
        assert seen(page, ".td-derivation-line") == count == 19
        assert seen(page, ".td-formula > div.math") == count
        assert seen(page, ".td-derivation button") == 0


def test_without_javascript_every_line_stands_there(chromium, site):
    context = chromium.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(f"{site}page.html")
        assert page.locator(".td-derivation button").count() == 0
        assert page.locator(f"{FOLDED} >> .td-derivation-line").first.is_visible() is False
        for title in page.locator(".td-derivation-fold > summary").all():
            title.click()
        lines = page.locator(".td-derivation-line")
        assert lines.count() == 19
        for line in lines.all():
            assert line.is_visible() and line.locator(".td-formula").is_visible()
    finally:
        context.close()
