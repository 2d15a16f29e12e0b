"""What is asked of a page of the built book: the checks, one function each.

A check takes a page that is open in Playwright (or what was recorded while it opened) and
returns a list of findings in words; an empty list is a pass. `test_browser.py` runs them over
every page, and proves on small broken pages that each of them can fail.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

from axe_playwright_python.sync_playwright import Axe
from browser import Recorder
from playwright.sync_api import Page, TimeoutError

GRAVE = {"serious", "critical"}
RAW_TEX = re.compile(
    r"\$\$|\\\(|\\\[|\\(?:begin|end|frac|sqrt|sum|mathbb|mathrm|mathsf|text|operatorname|softmax)\b"
    r"|\$[^$\s][^$\n]{0,80}[\\^_][^$\n]{0,80}\$"
)


# ---- What was recorded ------------------------------------------------------------------


def outside_requests(tab: Recorder) -> list[str]:
    """Everything that was asked of another address than ours (and was not let out)."""
    return [f"asks for {url}" for url in tab.outside]


def console_errors(tab: Recorder) -> list[str]:
    """Errors on the console, uncaught exceptions, files that did not come."""
    return [f"console: {text}" for text in tab.complaints]


# ---- What stands on the page ------------------------------------------------------------


def raw_tex(page: Page) -> list[str]:
    """TeX that nobody has set: dollars, backslash commands, outside code and formulas."""
    text = page.evaluate(
        """() => {
            const root = document.querySelector("main") ?? document.body;
            const skip = "pre, code, kbd, samp, script, style, textarea, mjx-container";
            const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT, node =>
                node.parentElement.closest(skip) ? NodeFilter.FILTER_REJECT
                                                 : NodeFilter.FILTER_ACCEPT);
            const parts = [];
            while (walker.nextNode()) parts.push(walker.currentNode.data);
            return parts.join("\\u0001");
        }"""
    )
    seen = (text[max(0, m.start() - 20) : m.end() + 20] for m in RAW_TEX.finditer(text))
    return [f"raw TeX: {part!r}" for part in dict.fromkeys(seen)]


def failed_math(page: Page) -> list[str]:
    """Formulas that were not set, and formulas set with an error in them."""
    found = page.evaluate(
        """() => [
            ...[...document.querySelectorAll("mjx-merror")]
                .map(e => "TeX error: " + (e.getAttribute("data-mjx-error") ?? e.textContent)),
            ...[...document.querySelectorAll("span.math, div.math")]
                .filter(e => !e.querySelector("mjx-container"))
                .map(e => "not set: " + e.textContent.trim().slice(0, 60)),
        ]"""
    )
    return list(found)


def sideways(page: Page) -> list[str]:
    """A page wider than its window, with the elements that stick out."""
    window = page.viewport_size["width"]
    return page.evaluate(
        """window => {
            const wide = Math.max(document.documentElement.scrollWidth, document.body.scrollWidth);
            if (wide <= window) return [];
            const scrolls = e => { for (let p = e.parentElement; p; p = p.parentElement)
                if (getComputedStyle(p).overflowX !== "visible" && p !== document.body
                    && p !== document.documentElement) return true; return false; };
            const out = [...document.querySelectorAll("body *")]
                .filter(e => e.getBoundingClientRect().right > window + 0.5 && !scrolls(e))
                .map(e => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "")
                          + [...e.classList].map(c => "." + c).join(""));
            return [`${wide} px wide in a window of ${window}: ${out.slice(-4).join(", ")}`];
        }""",
        window,
    )


def pictures(page: Page) -> list[str]:
    """Broken pictures; pictures and figures in the text that say nothing to who cannot see."""
    return page.evaluate(
        """() => {
            const main = document.querySelector("main") ?? document.body;
            const found = [];
            for (const image of document.images) {
                const shown = image.checkVisibility();
                if (shown && !(image.complete && image.naturalWidth > 0))
                    found.push("broken picture: " + image.getAttribute("src"));
                if (main.contains(image) && !(image.getAttribute("alt") ?? "").trim())
                    found.push("picture without alt text: " + image.getAttribute("src"));
            }
            const named = e => e.getAttribute("aria-label")?.trim()
                || (e.getAttribute("aria-labelledby") ?? "").split(/\\s+/).filter(Boolean)
                    .some(id => document.getElementById(id)?.textContent.trim())
                || e.querySelector(":scope > title")?.textContent.trim();
            for (const svg of main.querySelectorAll("figure svg, .cell_output svg, p > svg")) {
                if (svg.parentElement.closest("svg, button, summary, label, a, mjx-container")
                    || svg.closest("[aria-hidden=true]")) continue;
                const role = svg.closest("[role=img], [role=group], [role=application]");
                if (!(role && (named(role) || named(svg))))
                    found.push("drawing without role and title: "
                               + svg.outerHTML.slice(0, 60));
            }
            return found;
        }"""
    )


CONTROLS = """() => {
    const visible = e => e.checkVisibility({ visibilityProperty: true, opacityProperty: false })
        && e.getClientRects().length > 0;
    const wanted = [];
    const groups = new Set();
    const all = "a[href], button, input, select, textarea, summary, [tabindex], [contenteditable]";
    for (const e of document.querySelectorAll(all)) {
        if (e.tabIndex < 0 || e.disabled || e.type === "hidden" || e.closest("[inert]")
            || !visible(e)) continue;
        if (e.type === "radio" && e.name) {  // one stop for each group
            const group = [...document.getElementsByName(e.name)];
            const stop = group.find(r => r.checked) ?? group[0];
            if (e !== stop || groups.has(e.name)) continue;
            groups.add(e.name);
        }
        e.dataset.wanted = wanted.length;
        wanted.push(e.tagName.toLowerCase() + " “"
            + (e.getAttribute("aria-label") || e.textContent.trim() || e.title || e.id
               || e.className).slice(0, 40) + "”");
    }
    window.reached = {};
    window.dark = [];
    document.addEventListener("focusin", event => {
        const e = event.target;
        if (e.dataset.wanted !== undefined) window.reached[e.dataset.wanted] = true;
        if (!visible(e)) window.dark.push("focus on something unseen: "
                                          + e.outerHTML.slice(0, 80));
        const style = getComputedStyle(e);
        const boxes = [style, getComputedStyle(e, "::after"), getComputedStyle(e, "::before"),
                       getComputedStyle(e.closest(".sd-card, .admonition-title") ?? e)];
        if (e !== document.body && !boxes.some(s =>
                (s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0)
                || s.boxShadow !== "none"))
            window.dark.push("focus is not shown: " + e.outerHTML.slice(0, 80));
    });
    return wanted;
}"""


def keyboard(page: Page) -> list[str]:
    """Controls that Tab does not reach, focus that lands on something unseen or is not shown."""
    page.evaluate("() => { document.activeElement?.blur(); window.scrollTo(0, 0); }")
    wanted = page.evaluate(CONTROLS)
    for _ in range(3):  # a control may open others on its way, so not a fixed number of steps
        for _ in range(len(wanted) + 5):
            page.keyboard.press("Tab")
        reached = page.evaluate("() => Object.keys(window.reached).map(Number)")
        if len(reached) == len(wanted):
            break
    missed = [f"not reached by Tab: {name}" for i, name in enumerate(wanted) if i not in reached]
    return missed + sorted(set(page.evaluate("() => window.dark")))


def accessibility(page: Page) -> list[str]:
    """What axe-core calls serious or critical."""
    # no preload: axe would ask for imported style sheets at wrong addresses, and needs none
    options = {"resultTypes": ["violations"], "preload": False}
    violations = Axe().run(page, options=options).response["violations"]
    found = []
    for violation in violations:
        if violation["impact"] in GRAVE:
            for node in violation["nodes"][:3]:
                why = (node["any"] or node["all"] or node["none"])[0]["message"]
                where = f"{violation['impact']} {violation['id']}: {node['html'][:100]}"
                found.append(f"axe {where} ({why})")
    return found


def follows(page: Page, scheme: str) -> list[str]:
    """Ask the page, as the system would, for a light or a dark look; it must follow."""
    page.emulate_media(color_scheme=scheme)
    try:
        page.wait_for_function(
            "scheme => document.documentElement.dataset.theme === scheme", arg=scheme, timeout=3000
        )
    except TimeoutError:
        return [f"does not turn {scheme} when the system does"]
    return []


def reveal(page: Page) -> int:
    """Show what predictions hide, without answering them; how many were hidden."""
    buttons = page.locator(".td-predict-ask:not([hidden]) .td-predict-link")
    count = buttons.count()
    for _ in range(count):
        buttons.first.click()
    return count


# ---- How the pages hang together --------------------------------------------------------


@dataclass(frozen=True)
class Outline:
    """What other pages may need to know of a page."""

    links: tuple[str, ...]  # addresses, complete
    anchors: frozenset[str]
    contents: tuple[str, ...]  # links of the book's contents
    title: str
    words: int


def outline(page: Page) -> Outline:
    """Read the links, anchors, title and length of an open page."""
    found = page.evaluate(
        """() => ({
            links: [...document.querySelectorAll("a[href]")].map(a => a.href),
            anchors: [...document.querySelectorAll("[id], a[name]")].map(e => e.id || e.name),
            contents: [...document.querySelectorAll("nav.bd-links a[href], .toctree-wrapper a")]
                .map(a => a.href),
            title: document.querySelector("h1")?.firstChild?.textContent.trim() ?? "",
            words: (document.querySelector("article")?.innerText ?? "").split(/\\s+/).length,
        })"""
    )
    return Outline(
        links=tuple(found["links"]),
        anchors=frozenset(unquote(a) for a in found["anchors"]),
        contents=tuple(found["contents"]),
        title=found["title"],
        words=found["words"],
    )


def dead_links(outlines: dict[str, Outline], site: Path, base: str) -> list[str]:
    """Links inside the book that lead to no file, or to no such place on their page."""
    found = []
    for name, page in outlines.items():
        for link in sorted(set(page.links)):
            target, anchor = urldefrag(link)
            if not target.startswith(base):
                continue
            path = unquote(target.removeprefix(base)).split("?")[0] or "index.html"
            if not (site / path).is_file():
                found.append(f"{name}: link to {path}, which is not there")
            elif anchor and path in outlines and unquote(anchor) not in outlines[path].anchors:
                found.append(f"{name}: link to {path}#{anchor}, and the page has no such place")
    return found


def contents(outlines: dict[str, Outline], base: str, least: int = 30) -> list[str]:
    """The contents list what is written, all of it and nothing else."""
    listed = {
        target
        for name, page in outlines.items()
        for link in page.contents
        if (target := unquote(urldefrag(link)[0].removeprefix(base))) != name  # listed by others
    }
    found = []
    for path in sorted(listed):
        page = outlines.get(path)
        if page is None:
            found.append(f"the contents list {path}, which is no page of the book")
        elif not page.title or page.words < least:
            found.append(f"the contents list {path}, which has {page.words} words: not written")
    written = {p for p in outlines if p.startswith(("book/", "notebooks/"))}
    found += [f"the contents leave out {path}" for path in sorted(written - listed)]
    return found


def search(tab: Recorder, base: str, word: str, patience_ms: int = 10_000) -> list[str]:
    """Type a word on the search page; there must be results, and they must lead somewhere."""
    page = tab.open(urljoin(base, "search.html"))
    field_ = page.locator("main input[name=q], .bd-search input[name=q]").locator("visible=true")
    field_.first.fill(word)
    field_.first.press("Enter")
    results = page.locator("#search-results li a")
    try:
        results.first.wait_for(timeout=patience_ms)
    except TimeoutError:
        return [f"no result for “{word}”"]
    results.first.click()
    page.wait_for_load_state("load")
    if page.locator("h1").count() == 0:
        return [f"the first result for “{word}” leads to {page.url}, which has no heading"]
    return outside_requests(tab) + console_errors(tab)
