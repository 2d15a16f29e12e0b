"""Predictions in a real browser: hidden before, shown after, for everyone and from a folder."""

from __future__ import annotations

from contextlib import contextmanager

import browser as look
import page_checks as check
import pytest
from predict_cases import CHOICE, FREE, NUMBER, build

PLOT = """```{raw} html
<div id="plot" class="plotly-graph-div" style="width: 100%; height: 200px"></div>
<script>Plotly.newPlot("plot", [{y: [1, 2, 3]}]);</script>
```"""
LONG = "A line.\n\n" * 60
PAGE = f"""# Predictions

See {{eq}}`eq-sum`, or [the place](#place).

{CHOICE.replace("Hidden **text**.", "Hidden **text**, with $x^2$, and elsewhere `zebra`.")}
{NUMBER.replace("Half a nat.", LONG + "(place)=" + chr(10) + "Half a nat, a zebra.")}
{FREE.replace("An opinion.", PLOT)}
Between.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The page above, built with the look of the book, and a page that leads to it."""
    links = "# Start\n\n{ref}`there <place>`\n\n```{toctree}\nthere\n```\n"
    pages = {"start.md": links, "there.md": PAGE}
    built = build(tmp_path_factory.mktemp("predict"), pages, look=True)
    assert built.complaints == ""
    return built.folder


@pytest.fixture(scope="module")
def chromium(chromium_path):
    """One browser for all tests of this file."""
    with look.chromium(chromium_path) as one:
        yield one


@pytest.fixture
def show(folder, chromium):
    """Open the page from file:// in a context of its own; complaints and requests fail."""

    @contextmanager
    def open_page(address="there.html", script=None, clean=True, **options):
        given = {"viewport": look.DESKTOP, "reduced_motion": "reduce"} | options
        context = chromium.new_context(**given)
        if script:
            context.add_init_script(script)
        one = look.Recorder(context.new_page(), "file:")
        try:
            path, _, rest = address.partition(".html")
            one.page.goto((folder / f"{path}.html").as_uri() + rest, wait_until="load")
            scripts = given.get("java_script_enabled", True)
            if scripts:
                one.page.evaluate("() => window.MathJax?.startup?.promise")
            yield one.page
            if clean and scripts:  # without scripts, the theme's preloaded ones are never used
                assert check.outside_requests(one) + check.console_errors(one) == []
        finally:
            context.close()

    return open_page


OLD = "delete HTMLElement.prototype.onbeforematch;"  # a browser without hidden="until-found"


class Prediction:
    """One prediction of an open page."""

    def __init__(self, page, name):
        self.page, self.name = page, name
        self.box = page.locator(f"#predict-{name}")
        self.behind = page.locator(f"#predict-{name}-behind")
        self.verdict = self.box.locator(".td-predict-verdict")

    def press(self, words):
        self.box.get_by_role("button", name=words).click()

    def choose(self, i):
        self.box.locator("label").nth(i).click()
        self.press("Commit")

    def type(self, text):
        self.box.get_by_role("textbox").fill(text)
        self.press("ommit")

    def said(self):
        """The first sentence of the verdict, in plain words."""
        return " ".join(self.verdict.locator("p").first.inner_text().split())

    def hidden(self):
        """Nothing of what is behind takes room, is read out, or can be seen."""
        box = self.behind.bounding_box()
        return not box or box["height"] == 0

    def problem(self):
        return self.box.get_by_role("alert").inner_text()


# ---- Before and after -------------------------------------------------------------------


def test_hidden_before_and_shown_after(show):
    with show() as page:
        width, entropy, opinion = (Prediction(page, n) for n in ("width", "entropy", "opinion"))
        assert [one.hidden() for one in (width, entropy, opinion)] == [True] * 3
        assert "Hidden text" not in page.locator("article").inner_text()
        assert page.get_by_text("Between.").is_visible()
        width.choose(0)
        assert not width.hidden() and entropy.hidden() and opinion.hidden()
        assert page.get_by_text("Hidden text").is_visible()
        assert "It is a sum" in width.verdict.inner_text()
        assert check.failed_math(page) + check.raw_tex(page) == []


def test_right_and_wrong_are_told_in_words(show):
    with show() as page:
        width = Prediction(page, "width")
        width.press("Commit")
        assert width.problem() == "Choose one of the answers first." and width.hidden()
        width.choose(1)
        assert width.said().startswith("You said two of them; it is ")
        tags = width.box.locator(".td-predict-tag").all_inner_texts()
        assert tags == ["", "your answer", "the answer"]
        assert width.verdict.locator("mjx-container").count() == 1
        assert width.box.get_by_role("radio", disabled=True).count() == 3
        width.press("Answer again")
        assert width.hidden() and width.box.get_by_role("radio", checked=True).count() == 0
        assert width.box.get_by_role("radio", disabled=False).count() == 3
        width.choose(2)  # a click on the formula itself
        assert width.said().startswith("You said") and width.said().endswith(", and so it is.")
        assert width.verdict.locator("p").first.locator("mjx-container").count() == 1
        assert width.box.locator(".td-predict-tag").last.inner_text() == "your answer, the answer"


NUMBERS = {
    "0.5": "You said 0.5 nats, and so it is.",
    ".5": "You said .5 nats, and so it is.",
    "0,5": "You said 0,5 nats, and so it is.",
    "1/2": "You said 1/2 nats, and so it is.",
    "5e-1 nats": "You said 5e-1 nats, and so it is.",
    "0.6": "You said 0.6 nats; it is 0.5 nats: close enough (within 0.1).",
    "1/3": "You said 1/3 nats; it is 0.5 nats: yours is 0.167 too low.",
    "\u22121": "You said \u22121 nats; it is 0.5 nats: yours is 1.5 too low.",
    "1,000,000.5": "You said 1,000,000.5 nats; it is 0.5 nats: yours is 1000000 too high.",
    "0,125": "You said 0,125 nats; it is 0.5 nats: yours is 0.375 too low.",
    "": "Write one number, such as 0.5, 1e-3 or 1/3.",
    "half": "Write one number, such as 0.5, 1e-3 or 1/3.",
    "1/0": "Write one number, such as 0.5, 1e-3 or 1/3.",
    "1/2/3": "Write one number, such as 0.5, 1e-3 or 1/3.",
    "0x10": "Write one number, such as 0.5, 1e-3 or 1/3.",
    "1,234": "Is 1,234 1234 or 1.234? Write it without a comma.",
}


def test_numbers_as_people_write_them(show):
    with show() as page:
        entropy = Prediction(page, "entropy")
        for text, told in NUMBERS.items():
            entropy.type(text)
            if told.startswith("You said"):
                assert entropy.said() == told
                entropy.press("Answer again")
            else:
                assert entropy.problem() == told and entropy.hidden()


def test_a_free_answer_is_kept_as_it_was_written(show):
    with show() as page:
        opinion = Prediction(page, "opinion")
        opinion.type("  <b>Three</b>, or so ")
        assert opinion.said() == "You wrote: <b>Three</b>, or so"
        assert "Compare with the text." in opinion.verdict.inner_text()
        opinion.press("Answer again")
        opinion.type("")
        assert opinion.said() == "You have committed."


@pytest.mark.parametrize("script", [None, OLD])
def test_a_figure_behind_has_its_width(show, script):
    """Also if the window has changed while it was hidden."""
    with show(script=script) as page:
        assert Prediction(page, "opinion").hidden()
        page.set_viewport_size({"width": 700, "height": 800})
        page.wait_for_timeout(100)
        Prediction(page, "opinion").press("Show without answering")
        page.wait_for_timeout(100)
        plot = page.locator("#plot .main-svg").first
        column = page.locator("#plot").bounding_box()["width"]
        assert column > 300 and abs(plot.bounding_box()["width"] - column) < 2


@pytest.mark.parametrize("script", [None, OLD])
def test_formulas_set_while_hidden_have_the_size_of_those_set_in_view(show, script):
    with show(script=script) as page:
        Prediction(page, "width").press("Show without answering")
        page.evaluate(
            r"""async () => {
                const p = document.createElement("p");
                p.id = "new";
                p.innerHTML = '<span class="math">\\(x^2\\)</span>';
                document.querySelector("#predict-width-behind").append(p);
                await MathJax.typesetPromise([p]);
            }"""
        )
        size = "node => parseFloat(getComputedStyle(node).fontSize)"
        seen = page.locator("#new mjx-container").evaluate(size)
        before = page.locator("#predict-width-behind p mjx-container").first.evaluate(size)
        assert abs(seen - before) < 0.1


# ---- What stays -------------------------------------------------------------------------


def test_an_answer_is_kept_and_another_one_replaces_it(show):
    with show() as page:
        width, entropy = Prediction(page, "width"), Prediction(page, "entropy")
        width.choose(1)
        entropy.press("Show without answering")
        page.reload()
        page.evaluate("() => window.MathJax?.startup?.promise")
        assert width.said().startswith("You said two of them; it is ") and not width.hidden()
        assert entropy.said() == "Shown without an answer: it is 0.5 nats."
        entropy.press("Hide it and answer")
        width.press("Answer again")
        page.reload()
        assert width.hidden() and entropy.hidden()


def test_an_answer_to_another_question_is_forgotten(show):
    with show() as page:
        Prediction(page, "entropy").type("0.5")
        page.evaluate(
            """() => {
                const key = Object.keys(localStorage).find(k => k.includes("predict-entropy"));
                const kept = JSON.parse(localStorage[key]);
                localStorage[key] = JSON.stringify({ ...kept, version: "other" });
                localStorage["td-predict there#predict-width"] = "{not json";
            }"""
        )
        page.reload()
        assert Prediction(page, "entropy").hidden() and Prediction(page, "width").hidden()


def test_without_storage_it_works_as_long_as_the_page_is_open(show):
    blocked = """Object.defineProperty(window, "localStorage", {
        get() { throw new DOMException("denied", "SecurityError"); } });"""
    with show(script=blocked, clean=False) as page:  # the theme itself complains of it
        width = Prediction(page, "width")
        assert width.hidden()
        width.choose(1)
        assert width.said().startswith("You said two of them") and not width.hidden()
        width.press("Answer again")
        assert width.hidden()


# ---- Everyone ---------------------------------------------------------------------------


def test_by_keyboard_alone(show):
    with show() as page:
        width = Prediction(page, "width")
        width.box.get_by_role("radio").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert width.said().startswith("You said two of them")
        focus = "() => document.activeElement.className || document.activeElement.type"
        assert page.evaluate(focus) == "td-predict-verdict"
        status = "What comes next is now shown."
        assert width.box.get_by_role("status").inner_text() == status
        while page.evaluate(focus) != "td-predict-link":
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.evaluate(focus) == "radio" and width.hidden()


def test_the_form_says_what_it_asks(show):
    with show() as page:
        group = page.get_by_role("group", name="Predict").first
        fields = group.get_by_role("group", name="Your answer")
        described = fields.get_attribute("aria-describedby").split()[0]
        assert page.locator(f"#{described}").inner_text().strip() == "How wide is it?"
        names = [r.get_attribute("aria-label") for r in fields.get_by_role("radio").all()]
        assert names == ["d_k", None, "3 d_k"]  # a formula alone would be no name
        assert page.get_by_role("textbox", name="Your answer nats").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_accessible_and_never_sideways(show, scheme, width):
    size = {"width": width, "height": 844}
    with show(viewport=size, color_scheme=scheme) as page:
        Prediction(page, "entropy").type("half")  # the forms, one with a complaint
        assert check.follows(page, scheme) + check.keyboard(page) == []
        assert check.accessibility(page) + check.sideways(page) == []
        Prediction(page, "entropy").type("1/3")
        Prediction(page, "width").choose(0)
        assert check.reveal(page) == 1
        assert check.keyboard(page) + check.accessibility(page) + check.sideways(page) == []


def test_without_javascript_everything_is_there(show):
    with show(java_script_enabled=False) as page:
        for name in ("width", "entropy", "opinion"):
            assert not Prediction(page, name).hidden()
        width = Prediction(page, "width").box
        assert width.get_by_role("listitem").count() == 3
        assert page.get_by_role("button", name="Commit").count() == 0
        assert not width.get_by_text("It is a sum").is_visible()
        width.get_by_text("The answer").click()
        assert width.get_by_text("It is a sum").is_visible()


@pytest.mark.parametrize("script", [True, False])
def test_paper_has_everything(show, script):
    with show(java_script_enabled=script) as page:
        page.emulate_media(media="print")
        if script:
            page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
        for name in ("width", "entropy", "opinion"):
            assert not Prediction(page, name).hidden()
        assert page.get_by_text("Hidden text").is_visible()
        assert page.get_by_text("It is a sum").is_visible()
        assert page.get_by_role("button", name="Commit").count() == 0


# ---- Links and searches -----------------------------------------------------------------


def in_view(page, selector):
    return page.locator(selector).evaluate(
        "e => { const r = e.getBoundingClientRect(); return r.top >= 0 && r.top < innerHeight; }"
    )


@pytest.mark.parametrize("script", [None, OLD])
def test_a_link_on_the_page_opens_what_it_leads_to(show, script):
    with show(script=script) as page:
        page.locator('article a[href="#equation-eq-sum"]').first.click()
        assert not Prediction(page, "width").hidden() and Prediction(page, "entropy").hidden()
        assert Prediction(page, "width").said().startswith("Shown without an answer: it is ")
        page.reload()  # looked up, not skipped: the question is asked again
        page.evaluate("() => { location.hash = ''; }")
        page.goto(page.url.split("#")[0])
        page.reload()
        assert Prediction(page, "width").hidden()
        page.evaluate("() => { location.hash = 'place'; }")
        page.locator("#predict-entropy[data-state=shown]").wait_for()
        assert in_view(page, "#place")


@pytest.mark.parametrize("script", [None, OLD])
def test_an_address_with_an_anchor_opens_it(show, script):
    with show("there.html#place", script=script) as page:
        assert not Prediction(page, "entropy").hidden() and Prediction(page, "width").hidden()
        page.wait_for_timeout(200)
        assert in_view(page, "#place")


def test_a_link_from_another_page_opens_it(show):
    with show("start.html") as page:
        page.get_by_role("link", name="there").first.click()
        page.wait_for_url("**/there.html#place")
        page.evaluate("() => window.MathJax?.startup?.promise")
        assert not Prediction(page, "entropy").hidden() and Prediction(page, "width").hidden()


def test_a_search_in_the_page_opens_it(show):
    with show() as page:
        width = Prediction(page, "width")
        style = "node => [getComputedStyle(node).display, getComputedStyle(node).contentVisibility]"
        assert width.behind.get_attribute("hidden") == "until-found"
        assert width.behind.evaluate(style) == ["block", "hidden"]
        width.behind.evaluate("node => node.dispatchEvent(new Event('beforematch'))")
        assert not width.hidden() and width.box.get_attribute("data-state") == "shown"
    with show("there.html#:~:text=Half%20a%20nat") as page:  # a link to words, not a place
        Prediction(page, "entropy").behind.get_by_text("Half a nat").wait_for()
        assert Prediction(page, "entropy").box.get_attribute("data-state") == "shown"
        assert Prediction(page, "width").hidden()


@pytest.mark.parametrize(("word", "opened"), [("zebra", True), ("Between", False)])
def test_a_search_of_the_book_opens_what_it_found_and_nothing_else(show, word, opened):
    with show(f"there.html?highlight={word}") as page:
        page.wait_for_selector(".highlighted", state="attached")
        page.wait_for_timeout(250)
        assert Prediction(page, "width").hidden() is not opened
        assert Prediction(page, "entropy").hidden() is not opened
        assert Prediction(page, "opinion").hidden()
