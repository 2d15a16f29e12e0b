"""The attention explorer in a real browser: what it shows, and that everyone can use it."""

from contextlib import contextmanager

import browser as look
import numpy as np
import page_checks as check
import pytest
from explorer_cases import END, H, L, make_case, sample

from transformer_lab.plots.explorer import STEPS, attention_explorer

PAGE = """<!doctype html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Explorer</title><style>
html[data-theme="dark"] {{ --td-ink: #e5e1d8; --td-paper: #16181b; --td-accent: #f0977a;
  --td-accent-2: #86cbd0; --td-muted: #aaa498; --td-rule: #383b40; --td-panel: #1e2125;
  --td-heat: 134, 203, 208; }}
body {{ margin: 0; background: var(--td-paper, #fff); color: var(--td-ink, #111); }}
main {{ max-width: 42rem; margin: 0 auto; padding: 0 16px; }}</style></head>
<body><main><h1>Explorer</h1>{figures}</main></body></html>"""


@pytest.fixture(scope="module")
def chromium(chromium_path):
    """One browser for all tests of this file."""
    with look.chromium(chromium_path) as one:
        yield one


@pytest.fixture
def show(chromium, tmp_path):
    """show(explorer, ...) opens a page from file://; any error or foreign request fails."""
    tabs = []

    @contextmanager
    def open_page(*explorers, theme="light", width=1280, **options):
        context = chromium.new_context(viewport={"width": width, "height": 900}, **options)
        page = context.new_page()
        tabs.append(look.Recorder(page, "file:"))
        file = tmp_path / "page.html"
        figures = "\n".join(explorer.html for explorer in explorers)
        file.write_text(PAGE.format(theme=theme, figures=figures), encoding="utf-8", newline="\n")
        page.goto(file.as_uri())
        try:
            yield page
        finally:
            context.close()

    yield open_page
    assert tabs
    for tab in tabs:
        assert check.outside_requests(tab) + check.console_errors(tab) == []


def choose(page, text, figure=0):
    box = page.get_by_role("combobox").nth(figure)
    box.fill(text)
    box.press("Enter")


def select(page, group, value, figure=0):
    field = page.locator(f'fieldset:has(legend:text-is("{group}"))').nth(figure)
    field.locator(f'input[value="{value}"] + label').click()
    assert field.locator("input:checked").get_attribute("value") == str(value)


def map_of(page, figure=0):
    """The weights as the text alternative prints them, and the row of what letters received."""
    page.locator("details.tdx-text").nth(figure).evaluate("node => { node.open = true; }")
    table = page.locator("details.tdx-text table").nth(figure)
    read = "rows => rows.map(r => [...r.querySelectorAll('td')].map(c => Number(c.textContent)))"
    body = table.locator("tbody tr").evaluate_all(read)
    (received,) = table.locator("tfoot tr").evaluate_all(read)
    return np.array(body), np.array(received)


def assert_printed(printed, exact, terms=1):
    """Two decimals of a sum of stored weights: half a unit, and what storing may have moved."""
    assert np.shape(printed) == np.shape(exact)
    assert np.abs(np.asarray(printed) - exact).max() <= 0.005 + terms / STEPS + 1e-9


def test_the_map_its_table_and_its_sentences_agree_with_the_data(show):
    case = sample()[0]
    with show(attention_explorer(sample(), layer=2, head=3)) as page:
        for layer, head in ((2, "3"), (1, "2"), (1, "mean"), ("mean", "mean"), ("mean", "1")):
            select(page, "Layer", layer)
            select(page, "Head", head)
            part = case.weights_LHTS
            part = part.mean(axis=0) if layer == "mean" else part[layer - 1]
            A_TS = part.mean(axis=0) if head == "mean" else part[int(head) - 1]
            printed, received = map_of(page)
            assert_printed(printed, A_TS)
            assert_printed(received, A_TS[:3].sum(axis=0), terms=3)
            cells = page.locator(".tdx-cell").all_text_contents()
            assert cells == [f"{x:.2f}" for x in printed.ravel()]
            label = page.locator(".tdx-cell").nth(7).get_attribute("aria-label")
            assert label == f"query AY, key n: {printed[1, 1]:.2f}"
            said = page.locator(".tdx-sentences li").nth(1).text_content()
            best = A_TS[1].argmax()
            assert said.startswith(f"AY looks at: {'knight'[best]} {printed[1, best]:.2f}")
            missed = [x for s, x in enumerate("knight") if s not in A_TS[:3].argmax(axis=-1)]
            assert f"no phoneme looks first at {', '.join(missed)}. This is" in (
                page.locator(".tdx-silent").text_content()
            )
            marked = page.locator(".tdx-letter.tdx-missed").all_text_contents()
            assert marked == missed


def test_a_sentence_names_the_rest(show):
    """One letter left is named; several are added up; the weights named are the largest."""
    rows = np.array([
        [0.61, 0.22, 0.10, 0.04, 0.02, 0.01],
        [0.00, 1.00, 0.00, 0.00, 0.00, 0.00],
        [0.20, 0.20, 0.20, 0.20, 0.20, 0.00],
        [0.30, 0.00, 0.30, 0.00, 0.00, 0.40],
    ])  # fmt: skip
    with show(attention_explorer([make_case(weights_LHTS=rows[None, None])])) as page:
        sentences = page.locator(".tdx-sentences li").all_text_contents()
        assert sentences[0] == "N looks at: k 0.61, n 0.22, i 0.10; the other 3 together 0.07."
        assert sentences[1] == "AY looks at: n 1.00; the other 5 together 0.00."
        assert sentences[3] == f"{END} looks at: t 0.40, k 0.30, i 0.30; the other 3 together 0.00."
        text = page.locator(".tdx-row-text").text_content()
        assert "Row 1 of A" in text and "query N, its 6 weights sum to 1.00." in text
        assert page.locator("fieldset").count() == 0  # one layer, one head: nothing to choose


def test_type_ahead_filters_groups_and_words(show):
    with show(attention_explorer(sample())) as page:
        box = page.get_by_role("combobox")
        assert box.input_value() == "knight"
        assert box.get_attribute("aria-expanded") == "false"
        box.press("ArrowDown")
        assert box.get_attribute("aria-expanded") == "true"
        assert page.get_by_role("option").count() == 6
        assert page.get_by_role("group").filter(has_text="names").get_by_role("option").count() == 2
        box.fill("E")  # "either" starts with it; "nguyen" only holds it
        assert page.get_by_role("option").all_text_contents() == [
            "nguyen", "either", "characteristically"]  # fmt: skip
        active = page.locator(f"#{box.get_attribute('aria-activedescendant')}")
        assert active.text_content() == "either"
        assert page.locator(".tdx-kind:visible").all_text_contents() == [
            "names", "two right answers", "long"]  # fmt: skip
        box.press("Escape")
        assert box.input_value() == "knight" and page.get_by_role("option").count() == 0
        box.fill("zz")
        assert page.get_by_text("No word in the list").is_visible()
        box.press("Enter")
        assert "N AY T" in page.locator(".tdx-said").first.text_content()
        box.fill("ps")
        box.press("Enter")
        assert box.input_value() == "psalm"
        assert page.locator(".tdx-said").first.text_content() == "S AA M"
        assert "psalm: the model says S AA M, right." in page.locator("[aria-live]").text_content()


def test_arrows_walk_the_list_and_wrap(show):
    with show(attention_explorer(sample())) as page:
        box = page.get_by_role("combobox")
        order = ["knight", "psalm", "nguyen", "blorptik", "either", "characteristically"]
        box.press("ArrowDown")
        seen = []
        for _ in range(7):
            seen.append(page.locator(".tdx-active").text_content())
            box.press("ArrowDown")
        assert seen == [*order, "knight"]
        box.press("ArrowUp")
        box.press("ArrowUp")
        box.press("Enter")
        assert box.input_value() == "characteristically"
        page.get_by_role("button", name="next word").click()
        assert box.input_value() == "knight"
        page.get_by_role("button", name="previous word").click()
        assert box.input_value() == "characteristically"
        page.get_by_role("button", name="next word").click()
        page.get_by_role("button", name="next word").click()
        assert box.input_value() == "psalm"
        box.click()
        page.get_by_role("option", name="either").click()
        assert box.input_value() == "either"
        box.fill("ngu")
        box.press("Tab")  # leaving without Enter keeps the word
        assert box.input_value() == "either"


def test_answers_say_right_and_wrong_in_words(show):
    with show(attention_explorer(sample())) as page:
        answers = page.locator(".tdx-answers")
        for word, verdict, references, right_in_beam in (
            ("knight", "right", ["N AY T"], 1),
            ("nguyen", "wrong", ["W IH N"], 0),
            ("either", "right", ["AY DH ER", "IY DH ER"], 1),
            ("blorptik", None, [], 0),
        ):
            choose(page, word)
            assert answers.locator(".tdx-mark").all_text_contents() == ([verdict] * bool(verdict))
            assert page.locator(".tdx-said").all_text_contents()[1:] == references
            assert page.locator(".tdx-beam .tdx-right").count() == right_in_beam
        assert "no entry" in answers.text_content()
        assert not page.locator(".tdx-beam").is_visible()
        choose(page, "knight")
        assert page.locator(".tdx-beam .tdx-number").all_text_contents() == ["0.61", "0.23"]
        whole = float(np.prod(sample()[0].probabilities))
        assert f"probability {whole:.2f}" in answers.text_content()
        printed = page.locator(".tdx-prob .tdx-number").all_text_contents()
        assert printed == [f"{p:.2f}" for p in sample()[0].probabilities]


def test_arrow_keys_walk_the_map(show):
    with show(attention_explorer(sample(), layer=1, head=1)) as page:
        A_TS = sample()[0].weights_LHTS[0, 0]
        best = int(A_TS[0].argmax())
        cell = page.locator('.tdx-cell[tabindex="0"]')
        assert cell.count() == 1 and cell.get_attribute("data-s") == str(best)
        cell.focus()
        page.keyboard.press("Home")
        for key, t, s in (
            ("ArrowRight", 0, 1), ("ArrowDown", 1, 1), ("ArrowLeft", 1, 0), ("ArrowLeft", 1, 0),
            ("End", 1, 5), ("ArrowRight", 1, 5), ("Control+End", 3, 5), ("ArrowDown", 3, 5),
            ("ArrowUp", 2, 5), ("Control+Home", 0, 0), ("ArrowUp", 0, 0),
        ):  # fmt: skip
            page.keyboard.press(key)
            here = page.evaluate(
                "[document.activeElement.dataset.t, document.activeElement.dataset.s]"
            )
            assert here == [str(t), str(s)], key
            query, letter = (*"N AY T".split(), END)[t], "knight"[s]
            text = page.locator(".tdx-cell-text").text_content()
            assert text.startswith(f"query {query}, key {letter}: ")
            assert_printed(float(text.rsplit(" ", 1)[1]), A_TS[t, s])
            assert f"Row {t + 1} of A (layer 1, head 1): query {query}, its 6 weights" in (
                page.locator(".tdx-row-text").text_content()
            )
        page.keyboard.press("ArrowDown")
        assert page.locator("[aria-live]").text_content().startswith("AY looks at: ")


def test_keys_pressed_in_the_figure_do_not_reach_the_page(show):
    """JupyterLab would take the letters for commands; with Control they remain the page's."""
    with show(attention_explorer(sample())) as page:
        page.evaluate("""() => { window.heard = [];
            document.addEventListener('keydown', event => window.heard.push(event.key)); }""")
        page.locator('.tdx-cell[tabindex="0"]').focus()
        for key in ("d", "ArrowDown", "Enter", "Control+b"):
            page.keyboard.press(key)
        assert page.evaluate("window.heard") == ["Control", "b"]


def test_hovering_reads_a_cell_and_leaves_the_choice_alone(show):
    with show(attention_explorer(sample())) as page:
        before = page.locator(".tdx-cell-text").text_content()
        page.locator('.tdx-cell[data-t="2"][data-s="4"]').hover()
        assert page.locator(".tdx-cell-text").text_content().startswith("query T, key h: ")
        page.locator("h1").hover()
        assert page.locator(".tdx-cell-text").text_content() == before
        page.locator('.tdx-phone[data-t="1"]').click()
        best = int(sample()[0].weights_LHTS.mean(axis=(0, 1))[1].argmax())
        text = page.locator(".tdx-cell-text").text_content()
        assert text.startswith(f"query AY, key {'knight'[best]}: ")


def test_two_explorers_on_a_page_do_not_meddle(show):
    one, two = attention_explorer(sample()), attention_explorer(sample(), start="psalm")
    with show(one, two) as page:
        choose(page, "either", figure=1)
        select(page, "Layer", 2, figure=1)
        words = [page.get_by_role("combobox").nth(k).input_value() for k in (0, 1)]
        assert words == ["knight", "either"]
        assert_printed(map_of(page, 0)[0], sample()[0].weights_LHTS.mean(axis=(0, 1)))
        assert_printed(map_of(page, 1)[0], sample()[3].weights_LHTS[1].mean(axis=0))
        ids = page.locator("[id]").evaluate_all("nodes => nodes.map(node => node.id)")
        assert len(ids) == len(set(ids)) > 0


def test_an_odd_word_is_shown_as_it_is(show):
    word = "</script x><img src=x onerror=alert(1)>"
    with show(attention_explorer([make_case(word, "<b> AH", kind="<u>odd</u>")])) as page:
        assert page.get_by_role("combobox").input_value() == word
        assert page.locator(".tdx-said").first.text_content() == "<b> AH"
        assert page.locator("figure :is(img, u)").count() == 0
        assert "onerror" not in page.locator("figcaption").text_content()


def test_everything_is_reached_by_tab(show):
    with show(attention_explorer(sample())) as page:
        page.locator("h1").click()
        seen = []
        for _ in range(7):
            page.keyboard.press("Tab")
            seen.append(page.evaluate(
                "(a => a.getAttribute('aria-label') || a.getAttribute('role') || a.name "
                "|| a.tagName)(document.activeElement)"
            ))  # fmt: skip
        assert seen[:3] == ["previous word", "combobox", "next word"]
        assert seen[3].endswith("-layer") and seen[4].endswith("-head")
        assert seen[5].startswith("query N, key ") and seen[6] == "SUMMARY"
        page.keyboard.press("Enter")
        assert page.locator("details.tdx-text table").is_visible()
        assert check.keyboard(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious(show, theme, width):
    explorer = attention_explorer(sample(), formula_html="<p>A = softmax(QKᵀ)</p>")
    with show(explorer, theme=theme, width=width, reduced_motion="reduce") as page:
        map_of(page)
        assert check.accessibility(page) == []
        page.get_by_role("combobox").press("ArrowDown")
        page.get_by_role("combobox").fill("zz")
        assert check.accessibility(page) == []
        page.keyboard.press("Escape")
        choose(page, "nguyen")
        assert check.accessibility(page) == []
        page.evaluate("document.querySelector('.tdx-combo').remove()")  # axe does see something
        page.evaluate("document.querySelector('.tdx-grid').setAttribute('role', 'listbox')")
        assert check.accessibility(page) != []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_numbers_on_cells_can_be_read(show, theme):
    """The text on each shade of the scale has the contrast that WCAG asks for."""
    letters = tuple("abcdefghijklmnop")
    weights = np.zeros((1, 1, 51, 16))
    weights[0, 0, :, 0] = np.arange(51) / 50
    weights[0, 0, :, 1] = 1 - weights[0, 0, :, 0]
    greedy = ("AH",) * 51
    case = make_case("".join(letters), " ".join(greedy), phones=greedy, letters=letters,
                     probabilities=np.ones(51), weights_LHTS=weights)  # fmt: skip
    with show(attention_explorer([case]), theme=theme) as page:
        shades = page.locator('.tdx-cell[data-s="0"]').evaluate_all("""cells => cells.map(cell => {
            const [on, heat] = [getComputedStyle(cell), getComputedStyle(cell, '::before')];
            const rgb = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
            return [rgb(on.color), rgb(on.backgroundColor), rgb(heat.backgroundColor)];
        })""")

        def luminance(rgb):
            c = np.asarray(rgb) / 255
            c = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
            return float(c @ [0.2126, 0.7152, 0.0722])

        worst = 21.0
        for weight, (text, zero, one) in zip(np.arange(51) / 50, shades, strict=True):
            if weight < 0.005:
                continue
            a = luminance(text)
            b = luminance(np.asarray(zero) + weight * (np.asarray(one) - zero))
            worst = min(worst, (max(a, b) + 0.05) / (min(a, b) + 0.05))
        assert worst >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_never_scrolls_sideways_on_a_phone(show, theme):
    with show(attention_explorer(sample()), theme=theme, width=390) as page:
        for word, scrolls in (("characteristically", True), ("knight", False)):
            choose(page, word)
            map_of(page)
            page.wait_for_selector("figure.tdx-scrolls" if scrolls else "figure:not(.tdx-scrolls)")
            assert check.sideways(page) == []
        page.get_by_role("combobox").press("ArrowDown")
        assert check.sideways(page) == []


def test_numbers_are_printed_only_where_there_is_room(show):
    with show(attention_explorer(sample()), width=390) as page:
        page.wait_for_selector("figure.tdx-roomy")
        choose(page, "characteristically")
        page.wait_for_selector("figure:not(.tdx-roomy)")
        size = "cells => cells.map(cell => getComputedStyle(cell).fontSize)"
        assert set(page.locator(".tdx-cell").evaluate_all(size)) == {"0px"}


def test_colours_follow_the_theme_while_the_page_is_open(show):
    sharp = np.tile(np.eye(6)[:4], (L, H, 1, 1))
    with show(attention_explorer([make_case(weights_LHTS=sharp)])) as page:
        look = "[getComputedStyle(document.querySelector('.tdx-cell')).color, " \
               "document.querySelector('.tdx-cell').matches('.tdx-dark')]"  # fmt: skip
        light = page.evaluate(look)
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
        page.wait_for_timeout(50)
        dark = page.evaluate(look)
        assert light == ["rgb(255, 255, 255)", True] and dark == ["rgb(0, 0, 0)", False]


def test_reduced_motion_is_respected(show):
    look = "getComputedStyle(document.querySelector('.tdx-cell'), '::before').transitionDuration"
    with show(attention_explorer(sample())) as page:
        assert page.evaluate(look) == "0.18s"
    with show(attention_explorer(sample()), reduced_motion="reduce") as page:
        assert page.evaluate(look) == "0s"


def test_without_javascript_the_first_word_can_be_read(show):
    explorer = attention_explorer(sample(), start="nguyen")
    with show(explorer, java_script_enabled=False, width=390) as page:
        assert page.get_by_text("nguyen: the model says N UW EH N (wrong)").is_visible()
        assert page.locator(".tdx-static td").count() == 5 * 6
        assert page.locator(".tdx-static table").is_visible()
        assert page.get_by_text("words in its list: 6").is_visible()
