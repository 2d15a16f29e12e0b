"""Where the browser for the tests of the built book is."""

from __future__ import annotations

import os
import shutil

NAMES = ["chromium", "chromium-browser", "google-chrome"]
MISSING = (
    "No Chromium was found, and the tests look at every page of the book in one: install it (on "
    "Debian or Ubuntu `apt-get install chromium` as root), or set the variable CHROMIUM to its "
    "path."
)


def find_chromium() -> str | None:
    """The path of a Chromium: `$CHROMIUM`, else the first of its usual names on the PATH."""
    named = os.environ.get("CHROMIUM")
    if named:
        return shutil.which(named)
    return next((path for path in map(shutil.which, NAMES) if path), None)
