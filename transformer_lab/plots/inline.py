r"""Matplotlib figures as SVG inside the page: sharp, and readable on light and dark."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class InlineSVG:
    """A piece of SVG that notebooks and the book show as it is."""

    svg: str

    def _repr_html_(self) -> str:
        return f'<div class="td-svg">{self.svg}</div>'


def inline_svg(figure, alt: str) -> InlineSVG:
    """``figure`` as inline SVG whose black ink takes the colour of the page's text.

    ``alt`` says what one sees, for readers who do not see it. Text stays text, so it can be
    found and enlarged; the background is transparent. The figure is closed.
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    if not alt.strip():
        raise ValueError("A figure needs a text that says what one sees, but alt is empty.")
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": alt}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    plt.close(figure)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    key = f"td-{hash_text(alt + svg):x}"
    # Ids are made unique to this figure: several figures share one page.
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{key}-", svg)
    svg = re.sub(r"(?<=[ :])#000000", "currentColor", svg)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font: \1px sans-serif", svg)
    # Text without a colour of its own is black in SVG: let it follow the page.
    opening = f'<svg role="img" aria-labelledby="{key}-alt" fill="currentColor" '
    svg = svg.replace("<svg ", opening, 1)
    end = svg.index(">") + 1
    svg = f'{svg[:end]}<title id="{key}-alt">{escape(alt)}</title>{svg[end:]}'
    return InlineSVG(svg)


def hash_text(text: str) -> int:
    """A hash that is the same in every process (Python's own is not)."""
    import zlib

    return zlib.crc32(text.encode())
