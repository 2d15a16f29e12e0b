"""A browser that opens a built book as a reader would, and keeps what happens meanwhile.

    python tests/browser.py shots SITE OUT [PAGE ...]

takes screenshots of the named pages (`book/index`; all if none is named) at desktop and phone
width, light and dark. Needs Playwright and a Chromium, no network.
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing about each file."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A browser that closes a connection early is no error."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on 127.0.0.1 at a free port; yields the address, with a slash at its end."""
    server = _Server(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def chromium(path: str) -> Iterator[Browser]:
    """One Chromium without a window."""
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=FLAGS + (["--no-sandbox"] if as_root else [])
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Recorder:
    """A tab, and what happened in it since the last `open`: requests and complaints."""

    page: Page
    home: str  # what may be asked for: an address of ours, or "file:"
    outside: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.route("**/*", self._route)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._response)

    def _route(self, route) -> None:
        if route.request.url.startswith((self.home, "data:", "blob:")):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def _failed(self, request) -> None:
        if "ERR_ABORTED" not in (request.failure or ""):  # that is a page left before the end
            self.complaints.append(f"failed: {request.url}")

    def _response(self, response) -> None:
        if response.status >= 400:
            self.complaints.append(f"status {response.status}: {response.url}")

    def _console(self, message) -> None:
        if message.type == "error":
            self.complaints.append(message.text)

    def open(self, address: str) -> Page:
        """Open an address, wait until the mathematics is set, return the page."""
        self.outside.clear()
        self.complaints.clear()
        self.page.goto(address, wait_until="load")
        self.page.evaluate("() => window.MathJax?.startup?.promise")
        # lazy pictures load only when they come into view: ask for all of them
        self.page.evaluate(
            """async () => {
                const all = [...document.images];
                for (const image of all) image.loading = "eager";
                await Promise.all(all.map(image => image.decode().catch(() => null)));
            }"""
        )
        return self.page


@contextmanager
def tab(browser: Browser, home: str, dark: bool = False, phone: bool = False) -> Iterator[Recorder]:
    """A fresh tab of one width and colour scheme."""
    context = browser.new_context(
        viewport=PHONE if phone else DESKTOP,
        color_scheme="dark" if dark else "light",
        device_scale_factor=2 if phone else 1,
        has_touch=phone,
        is_mobile=phone,
        reduced_motion="reduce",  # what is looked at stands still
    )
    try:
        yield Recorder(context.new_page(), home)
    finally:
        context.close()


def pages_of(site: Path) -> list[str]:
    """Every page of a built book, as a path below the site: found by walking, not by a list."""
    return sorted(
        path.relative_to(site).as_posix()
        for path in site.rglob("*.html")
        if not any(part.startswith("_") for part in path.relative_to(site).parts)
        and 'http-equiv="refresh"' not in path.read_text(encoding="utf-8").lower()
    )


# ---- Screenshots ------------------------------------------------------------------------


def shots(site: Path, out: Path, names: list[str], executable: str) -> list[Path]:
    """Write PAGE-desktop-light.png and so on; returns the files."""
    out.mkdir(parents=True, exist_ok=True)
    wanted = [f"{n.removesuffix('.html')}.html" for n in names] or pages_of(site)
    files = []
    with serve(site) as base, chromium(executable) as browser:
        for phone in (False, True):
            for dark in (False, True):
                with tab(browser, base, dark=dark, phone=phone) as one:
                    for name in wanted:
                        page = one.open(base + name)
                        page.wait_for_timeout(300)
                        kind = f"{'phone' if phone else 'desktop'}-{'dark' if dark else 'light'}"
                        stem = name.removesuffix(".html").replace("/", "-")
                        files.append(out / f"{stem}-{kind}.png")
                        page.screenshot(path=str(files[-1]), full_page=True)
    return files


def main() -> None:
    """The command line: `python tests/browser.py shots SITE OUT [PAGE ...]`."""
    from chromium import MISSING, find_chromium

    parser = argparse.ArgumentParser(description="Take screenshots of a built book.")
    parser.add_argument("action", choices=["shots"])
    parser.add_argument("site", type=Path, help="the folder of the built pages")
    parser.add_argument("out", type=Path, help="where the pictures go")
    parser.add_argument("page", nargs="*", help="such as book/index; all pages if none is named")
    given = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        parser.error(MISSING)
    for file in shots(given.site, given.out, given.page, executable):
        print(file)


if __name__ == "__main__":
    main()
