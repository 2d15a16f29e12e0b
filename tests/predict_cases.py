"""Small books with predictions, for the tests of the extension and of its page."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from repository import ROOT
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

sys.path.insert(0, str(ROOT / "book" / "_ext"))

CHOICE = """:::{predict-start} width
:choices: $d_k$ | *two* of them | $3 d_k$
:answer: 3
:why: It is a sum, see {eq}`eq-sum`.
How wide is it?
:::

Hidden **text**.

$$
a = b
$$ (eq-sum)

:::{predict-end}
:::
"""
NUMBER = """:::{predict-start} entropy
:number: 0.5
:tolerance: 0.1
:unit: nats
How much?
:::

Half a nat.

:::{predict-end}
:::
"""
FREE = """:::{predict-start} opinion
:free:
:why: Compare with the text.
What do you expect?
:::

An opinion.

:::{predict-end}
:::
"""


@dataclass(frozen=True)
class Built:
    """A built book: its folder, and what Sphinx complained of."""

    folder: Path
    complaints: str

    def page(self, name: str = "index") -> str:
        """The HTML of a page."""
        return (self.folder / f"{name}.html").read_text(encoding="utf-8")


def build(root: Path, pages: dict[str, str], look: bool = False) -> Built:
    """Build pages (names with suffix, to text) with the extension; no cell is run.

    The first page is the root. With ``look``, the book's theme, style sheets and formulas are
    there as well.
    """
    source = root / "source"
    source.mkdir(parents=True)
    for name, text in pages.items():
        (source / name).write_text(text, encoding="utf-8")
    options = {
        "extensions": ["myst_nb", "predict", *(["offline_assets"] if look else [])],
        "root_doc": next(iter(pages)).split(".")[0],
        "html_theme": "sphinx_book_theme" if look else "basic",
        "html_static_path": [str(ROOT / "book" / "_static")],
        "html_css_files": ["book.css"],
        "html_title": "A small book",
        "html_favicon": str(ROOT / "book" / "_static" / "favicon.svg"),
        "html_context": {"default_mode": "auto"},
        "language": "en",
        "nb_execution_mode": "off",
        "myst_enable_extensions": ["amsmath", "colon_fence", "dollarmath"],
    }
    complaints = io.StringIO()
    with patch_docutils(str(source)), docutils_namespace():
        app = Sphinx(
            str(source),
            None,
            str(root / "html"),
            str(root / "doctrees"),
            "html",
            options,
            status=None,
            warning=complaints,
        )
        app.build()
    return Built(root / "html", complaints.getvalue())


def notebook(*cells: str | dict) -> str:
    """A stored notebook: Markdown as text, glued values as {name: what Python would print}."""
    told = []
    for cell in cells:
        kind = {"cell_type": "markdown"} if isinstance(cell, str) else {"cell_type": "code"}
        source = cell if isinstance(cell, str) else "glue"
        told.append(kind | {"metadata": {}, "source": source})
        if isinstance(cell, dict):
            prefix = "application/papermill.record/"
            outputs = [
                {
                    "output_type": "display_data",
                    "data": {f"{prefix}text/plain": text},
                    "metadata": {"scrapbook": {"name": name, "mime_prefix": prefix}},
                }
                for name, text in cell.items()
            ]
            told[-1] |= {"execution_count": 1, "outputs": outputs}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    whole = {"nbformat": 4, "nbformat_minor": 4, "cells": told}
    return json.dumps(whole | {"metadata": {"kernelspec": kernel}})
