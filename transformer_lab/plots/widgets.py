"""What the small interactive figures share: the frame, the JSON, the numbers in words.

A figure is one piece of HTML: a part that can be read without JavaScript and is what paper shows,
a caption, the data as JSON, and the scripts that put live controls in its place. Nothing is
fetched. No element has an id of Python's making, so that any number of figures stand on one page.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@dataclass(frozen=True)
class LiveFigure:
    """A figure for Jupyter and the book: shown by its HTML, printed by its summary."""

    html: str
    summary: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.summary


def frame(kind: str, static: str, data: dict, caption: str) -> str:
    """The whole figure: ``kind`` names KIND.js and KIND.css beside this file.

    static    HTML that stands without JavaScript, and on paper
    data      what the script reads; plain values, every number finite
    caption   plain text
    """
    here = resources.files(__package__)

    def read(name: str) -> str:
        return here.joinpath(name).read_text(encoding="utf-8")

    return "\n".join(
        [
            f'<figure class="td-live td-{kind} mathjax_ignore tex2jax_ignore">',
            f"<style>{read('widgets.css')}{read(f'{kind}.css')}</style>",
            f'<div class="tdw-static">{static}</div>',
            f"<figcaption>{html.escape(caption)}</figcaption>",
            f'<script type="application/json">{json_for_script(data)}</script>',
            f"<script>{read('widgets.js')}</script>",
            f"<script>{read(f'{kind}.js')}</script>",
            "</figure>",
        ]
    )


def json_for_script(data: dict) -> str:
    """JSON that cannot end the <script> it stands in, whatever the texts are."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def table(
    caption: str,
    head: Sequence[str],
    body: Iterable[Sequence[str]],
    foot: Iterable[Sequence[str]] = (),
) -> str:
    """A table in a frame that scrolls; the first cell of each row is its name.

    caption is plain text; head, body and foot hold HTML (trusted: escape what others wrote).
    """

    def line(row: Sequence[str]) -> str:
        cells = "".join(f"<td>{cell}</td>" for cell in row[1:])
        return f'<tr><th scope="row">{row[0]}</th>{cells}</tr>'

    columns = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    rows, last = "".join(map(line, body)), "".join(map(line, foot))
    return (
        f'<div class="tdw-scroll" tabindex="0" role="region" aria-label="{html.escape(caption)}">'
        f'<table class="tdw-table"><caption>{html.escape(caption)}</caption>'
        f"<thead><tr>{columns}</tr></thead><tbody>{rows}</tbody>"
        f"{f'<tfoot>{last}</tfoot>' if last else ''}</table></div>"
    )


# ---- numbers as widgets.js prints them ----


def fixed(x: float, places: int) -> str:
    """x with so many decimals, a true minus sign, and never minus zero."""
    text = f"{x:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def weight_text(a: float) -> str:
    """A weight with three decimals, which does not call a small one 0 or a large one 1."""
    if 0 < a < 0.0005:
        return "<0.001"
    return ">0.999" if 0.9995 <= a < 1 else f"{a:.3f}"


def small(x: float) -> str:
    """x ≥ 0 with three significant digits: 0.250, 0.00123, 1.2 × 10⁻⁴."""
    if x == 0 or x >= 0.001:
        return f"{x:#.3g}" if x else "0"
    digits, power = f"{x:.1e}".split("e")
    return f"{digits} × 10{str(int(power)).translate(SUPERSCRIPT)}"


def tau_text(tau: float) -> str:
    """A temperature with three digits; whole numbers whole: 8, 22.6, 0.354, 1024."""
    return str(round(tau)) if tau >= 1000 or float(tau).is_integer() else f"{tau:.3g}"
