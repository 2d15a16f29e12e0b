"""Every page of the built book in a real browser, and proof that each check can fail.

Pages are found by walking the built folder: a new page is swept by being there.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import browser as look
import page_checks as check
import pytest

SHELL = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">{head}</head><body><main>{body}</main></body></html>"""


@pytest.fixture(scope="module")
def chromium(chromium_path):
    """One browser for all tests of this file."""
    with look.chromium(chromium_path) as one:
        yield one


# ---- The sweep --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sweep(site, chromium):
    """Open every page three ways, once; findings by the name of the check."""
    found: dict[str, list[str]] = defaultdict(list)
    outlines: dict[str, check.Outline] = {}
    formulas: dict[str, int] = {}

    def note(kind: str, name: str, findings: list[str]) -> None:
        found[kind] += [f"{name}: {finding}" for finding in findings]

    with look.serve(site) as base:
        names = look.pages_of(site)
        with look.tab(chromium, base) as one:
            for name in names:
                page = one.open(base + name)
                outlines[name] = check.outline(page)
                formulas[name] = page.locator("mjx-container").count()
                if page.locator(".td-predict").count():  # as asked, then with all that is hidden
                    note("axe, light", name, check.accessibility(page))
                    note("keyboard", name, check.keyboard(page))
                    check.reveal(page)
                note("raw TeX", name, check.raw_tex(page))
                note("mathematics", name, check.failed_math(page))
                note("pictures", name, check.pictures(page))
                note("sideways, desktop", name, check.sideways(page))
                note("axe, light", name, check.accessibility(page))
                note("axe, dark", name, check.follows(page, "dark"))
                note("axe, dark", name, check.accessibility(page))
                note("axe, light", name, check.follows(page, "light"))
                note("keyboard", name, check.keyboard(page))
                note("requests", name, check.outside_requests(one))
                note("console", name, check.console_errors(one))
        with look.tab(chromium, base, phone=True) as one:
            for name in names:
                page = one.open(base + name)
                note("sideways, phone", name, check.sideways(page))
                if check.reveal(page):
                    note("sideways, phone", name, check.sideways(page))
                note("requests", name, check.outside_requests(one))
                note("console", name, check.console_errors(one))
        found["links"] = check.dead_links(outlines, site, base)
        found["contents"] = check.contents(outlines, base)
    return found, outlines, formulas


def test_the_sweep_saw_the_book(sweep):
    """Else the tests below could pass on an empty folder."""
    _, outlines, formulas = sweep
    assert "book/index.html" in outlines
    assert sum(name.startswith("notebooks/") for name in outlines) >= 1
    assert sum(formulas.values()) > 0, "no page has a formula: is MathJax there?"


@pytest.mark.parametrize(
    "kind",
    [
        "requests",
        "console",
        "raw TeX",
        "mathematics",
        "pictures",
        "sideways, desktop",
        "sideways, phone",
        "keyboard",
        "axe, light",
        "axe, dark",
        "links",
        "contents",
    ],
)
def test_every_page(sweep, kind):
    """No page has a finding."""
    found, _, _ = sweep
    assert not found[kind], "\n".join(found[kind])


def test_the_search_works_without_a_network(site, chromium, sweep):
    _, outlines, _ = sweep
    title = next(o.title for n, o in outlines.items() if n.startswith("book/00-"))
    word = max(title.split(), key=len)
    with look.serve(site) as base, look.tab(chromium, base) as one:
        assert check.search(one, base, word) == []


def test_the_book_opens_from_a_folder_without_a_server(site, chromium, sweep):
    """`file://`: the first page with its picture, and the first page that has formulas."""
    _, _, formulas = sweep
    with look.tab(chromium, "file:") as one:
        one.page.goto((site / "index.html").as_uri())
        one.page.wait_for_url("**/book/index.html")  # the start leads to the cover
        page = one.open(one.page.url)
        assert page.locator("article h1").count() == 1
        assert page.locator("main svg[role=img], main figure img").count() >= 1
        assert check.console_errors(one) + check.outside_requests(one) == []
        name = next(n for n, count in formulas.items() if count)
        page = one.open((site / name).as_uri())
        assert page.locator("mjx-container").count() == formulas[name]
        assert check.failed_math(page) + check.pictures(page) == []
        assert check.console_errors(one) + check.outside_requests(one) == []


# ---- Each check can fail ----------------------------------------------------------------


@pytest.fixture
def show(tmp_path: Path, chromium):
    """Open a small page made of a head and a body."""
    opened = []

    def open_page(body: str, head: str = "", phone: bool = False) -> look.Recorder:
        (tmp_path / "page.html").write_text(SHELL.format(head=head, body=body), encoding="utf-8")
        served = look.serve(tmp_path)
        base = served.__enter__()
        one = look.tab(chromium, base, phone=phone)
        recorder = one.__enter__()
        opened.extend([served, one])
        recorder.open(base + "page.html")
        return recorder

    yield open_page
    for manager in reversed(opened):
        manager.__exit__(None, None, None)


def one_finding(findings: list[str], words: str) -> None:
    """Exactly one finding, and it says what is wrong."""
    assert len(findings) == 1, findings
    assert words in findings[0]


def test_a_request_to_elsewhere_is_seen_and_not_let_out(show):
    one = show('<script src="https://cdn.invalid/x.js"></script><p>Text.</p>')
    one_finding(check.outside_requests(one), "https://cdn.invalid/x.js")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<script>console.error('it broke')</script>", "it broke"),
        ("<script>throw new Error('uncaught')</script>", "uncaught"),
        ('<img src="missing.png" alt="x">', "missing.png"),
    ],
)
def test_complaints_of_the_page_are_seen(show, body, words):
    found = check.console_errors(show(body))
    assert any(words in finding for finding in found), found


@pytest.mark.parametrize("text", [r"$$x$$", r"so \frac{1}{2}", r"\begin{aligned}", "is $d_k$ wide"])
def test_raw_tex_is_seen(show, text):
    one_finding(check.raw_tex(show(f"<p>{text}</p>").page), "raw TeX")


def test_raw_tex_in_code_and_money_in_text_are_no_findings(show):
    one = show(r"<pre>$$x$$</pre><code>\frac</code><p>It costs $5, not $6.</p>")
    assert check.raw_tex(one.page) == []


def test_a_formula_that_was_not_set_is_seen(show):
    one_finding(check.failed_math(show(r'<span class="math">\(x\)</span>').page), "not set")


def test_a_formula_with_an_error_is_seen(show):
    body = (
        '<span class="math"><mjx-container><mjx-merror data-mjx-error="Undefined control sequence">'
        "x</mjx-merror></mjx-container></span>"
    )
    one_finding(check.failed_math(show(body).page), "Undefined control sequence")


@pytest.mark.parametrize("phone", [False, True])
def test_a_page_that_scrolls_sideways_is_seen(show, phone):
    one = show('<div id="wide" style="width: 2000px">Wide.</div>', phone=phone)
    one_finding(check.sideways(one.page), "div#wide")


def test_a_box_that_scrolls_by_itself_is_no_finding(show):
    one = show('<div style="overflow-x: auto"><div style="width: 2000px">x</div></div>', phone=True)
    assert check.sideways(one.page) == []


PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f'<img src="{PIXEL}">', "without alt"),
        (f'<img src="{PIXEL}" alt=" ">', "without alt"),
        ('<img src="data:image/png;base64,AAAA" alt="A curve">', "broken"),
        ("<figure><svg><path d='M0 0h9'/></svg></figure>", "without role and title"),
        ('<figure><svg role="img"><path d="M0 0h9"/></svg></figure>', "without role and title"),
        ("<figure><svg><title>A line</title></svg></figure>", "without role and title"),
    ],
)
def test_a_picture_that_says_nothing_is_seen(show, body, words):
    one_finding(check.pictures(show(body).page), words)


def test_pictures_with_words_are_no_findings(show):
    body = (
        f'<img src="{PIXEL}" alt="One pixel"><button>Go <svg></svg></button>'
        '<figure><svg role="img"><title>A line</title></svg></figure>'
        '<figure><svg role="img" aria-labelledby="t"><title id="t">A line</title></svg></figure>'
        '<figure role="group" aria-label="Two curves"><svg></svg></figure>'
        '<figure><svg aria-hidden="true"></svg></figure>'
    )
    assert check.pictures(show(body).page) == []


def test_a_control_that_tab_does_not_reach_is_seen(show):
    trap = """<button>One</button><button>Two</button><a href="#x" id="x">Three</a><script>
        document.addEventListener("keydown", event => {
            if (document.activeElement.textContent !== "One") return;
            event.preventDefault();
            x.focus();
        });</script>"""
    one_finding(check.keyboard(show(trap).page), "not reached by Tab: button “Two”")


def test_focus_on_something_unseen_is_seen(show):
    found = check.keyboard(show('<button style="visibility: visible">A</button>'
                               '<details open><summary>S</summary></details>'
                               '<button id="b">B</button><script>b.onfocus = () => {'
                               'b.style.visibility = "hidden"; }</script>').page)  # fmt: skip
    assert any("unseen" in finding for finding in found), found


def test_focus_that_is_not_shown_is_seen(show):
    one = show("<button>Plain</button>", head="<style>:focus { outline: none }</style>")
    one_finding(check.keyboard(one.page), "focus is not shown")


def test_ordinary_controls_are_no_findings(show):
    body = """<a href="#a">Link</a><button>B</button><button disabled>Off</button>
        <input type="text"><select><option>1</option></select><textarea></textarea>
        <button hidden>H</button>
        <details><summary>More</summary><button>Inside</button></details><p tabindex="0">P</p>
        <input type="radio" name="r" value="1"><input type="radio" name="r" value="2" checked>
        <div style="display: none"><a href="#b">Unseen</a></div><i tabindex="-1">no stop</i>"""
    assert check.keyboard(show(body).page) == []


def test_a_grave_finding_of_axe_is_seen(show):
    one = show('<h1>T</h1><p style="color: #bbb; background: #fff">Hard to read</p>')
    one_finding(check.accessibility(one.page), "color-contrast")


def test_a_page_that_stays_light_is_seen(show):
    one_finding(check.follows(show("<p>Always light.</p>").page, "dark"), "does not turn dark")


def outline(**changes) -> check.Outline:
    given = {"links": (), "anchors": frozenset(), "contents": (), "title": "T", "words": 99}
    return check.Outline(**(given | changes))


BASE = "http://127.0.0.1:1/"


@pytest.mark.parametrize(
    ("link", "words"),
    [("book/gone.html", "not there"), ("book/b.html#gone", "no such place")],
)
def test_a_dead_link_is_seen(tmp_path, link, words):
    (tmp_path / "book").mkdir()
    for name in ("a", "b"):
        (tmp_path / "book" / f"{name}.html").write_text("", encoding="utf-8")
    good = ("book/b.html#here", "book/b.html", "https://example.invalid/x#y")
    outlines = {
        "book/a.html": outline(links=(*(BASE + g for g in good[:2]), good[2], BASE + link)),
        "book/b.html": outline(anchors=frozenset({"here"})),
    }
    one_finding(check.dead_links(outlines, tmp_path, BASE), words)


@pytest.mark.parametrize(
    ("listed", "second", "words"),
    [
        (["a", "b", "c"], outline(), "book/c.html, which is no page"),
        (["a", "b"], outline(words=5), "not written"),
        (["a", "b"], outline(title=""), "not written"),
        (["a"], outline(), "leave out book/b.html"),
    ],
)
def test_contents_that_do_not_fit_the_pages_are_seen(listed, second, words):
    links = tuple(f"{BASE}book/{name}.html" for name in listed)
    own = f"{BASE}book/b.html#"  # that a page leads to itself does not count
    second = replace(second, contents=(f"{BASE}book/a.html", own))
    outlines = {"book/a.html": outline(contents=links), "book/b.html": second}
    one_finding(check.contents(outlines, BASE), words)


def test_a_search_without_results_is_seen(tmp_path, chromium):
    body = '<form class="bd-search"><input name="q"></form><ul id="search-results"></ul>'
    page = SHELL.format(head="", body=body)
    (tmp_path / "search.html").write_text(page, encoding="utf-8")
    with look.serve(tmp_path) as base, look.tab(chromium, base) as one:
        one_finding(
            check.search(one, base, "attention", patience_ms=500), "no result for “attention”"
        )


def test_pages_are_found_by_walking(tmp_path):
    for name in ("book/a.html", "b.html", "_static/c.html", "_sources/book/d.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("<p>Text.</p>", encoding="utf-8")
    (tmp_path / "index.html").write_text(
        '<meta http-equiv="Refresh" content="0; url=book/a.html">', encoding="utf-8"
    )
    assert look.pages_of(tmp_path) == ["b.html", "book/a.html"]
