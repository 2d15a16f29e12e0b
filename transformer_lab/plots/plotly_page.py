r"""Plotly figures inside a page: no kernel, no network, readable without JavaScript.

A figure is one layout and one or more views: sets of curves of which one is shown at a time.
What the book shows is HTML: buttons, the graph (drawn by the plotly.js that the book serves from
its own folder), a sentence, and the same numbers as tables. JupyterLab and other notebooks show
Plotly's own format, with a menu in place of the buttons. Traces and layout are plain dictionaries
as Plotly takes them, so Plotly is not imported to make a figure.

Colours belong to the page: write ``INK``, ``RULE``, ``FIRST`` and ``SECOND`` in a figure, and the
style sheet turns each into the page's own colour, light or dark.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from .inline import hash_text

INK, RULE, FIRST, SECOND = "#6b6459", "#b9b2a5", "#b8492b", "#2b7f89"
"""Text and lines, grid, first and second colour: of a middle brightness, for where no page
changes them. plotly_page.css knows these four by their numbers."""

FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
CONFIG = {"displayModeBar": False, "responsive": True, "doubleClick": False}


@dataclass(frozen=True)
class View:
    """One state of a figure.

    label    the words on its button
    traces   Plotly traces, as dictionaries
    alt      what one sees, for who does not see it
    says     a sentence of what to take from it, shown below the graph
    table    rows of text, the head first: the same numbers
    """

    label: str
    traces: Sequence[dict]
    alt: str
    says: str
    table: Sequence[Sequence[str]]


@dataclass(frozen=True)
class PlotlyPage:
    """A figure for the book and for notebooks; printed by its summary."""

    html: str
    notebook: dict
    summary: str

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {
            "application/vnd.plotly.v1+json": self.notebook,
            "text/html": self.html,
            "text/plain": self.summary,
        }

    def __repr__(self) -> str:
        return self.summary


def plotly_page(
    layout: dict, views: Sequence[View], caption: str, choice: str = "", height: int = 420
) -> PlotlyPage:
    """The interactive figure of these views, the first one shown.

    ``choice`` names what the buttons choose between; ``height`` is that of the graph in pixels.
    Raises ``ValueError`` if there is no view, a text is missing, two views have one label, or a
    table is no rectangle.
    """
    _check(views, caption, choice)
    shared = {
        "template": None,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "dragmode": False,
        "height": height,
        "font": {"family": FONT, "size": 13, "color": INK},
        **layout,
    }
    data = {
        "layout": shared,
        "config": CONFIG,
        "views": [{"traces": list(v.traces), "alt": v.alt, "says": v.says} for v in views],
    }
    summary = f"PlotlyPage({', '.join(view.label for view in views)})"
    return PlotlyPage(
        _figure(data, views, caption, choice, height), _notebook(shared, views), summary
    )


def _check(views: Sequence[View], caption: str, choice: str) -> None:
    if not views:
        raise ValueError("A figure needs at least 1 view and got 0; pass what it is to show.")
    labels = [view.label for view in views]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"Each view needs its own label; {label!r} comes twice.")
    if not caption.strip() or (len(views) > 1 and not choice.strip()):
        raise ValueError(
            f"A figure needs a caption, and a name for what its buttons choose, but they are "
            f"{caption!r} and {choice!r}; write both."
        )
    for view in views:
        if not (view.label.strip() and view.alt.strip() and view.says.strip()):
            raise ValueError(
                f"A view needs a label, a text that says what one sees and one that says what it "
                f"means, but the view {view.label!r} lacks one; write it."
            )
        widths = {len(row) for row in view.table}
        if len(widths) != 1 or len(view.table) < 2:
            raise ValueError(
                f"The table of a view has a head and rows of the same length, but that of "
                f"{view.label!r} has {len(view.table)} rows of lengths {sorted(widths)}."
            )


def _notebook(layout: dict, views: Sequence[View]) -> dict:
    """The figure in Plotly's own format: all traces, and a menu that shows one view of them."""
    owner = [i for i, view in enumerate(views) for _ in view.traces]
    traces = [
        {**trace, "visible": i == 0} for i, view in enumerate(views) for trace in view.traces
    ]
    buttons = [
        {"label": view.label, "method": "restyle", "args": ["visible", [o == i for o in owner]]}
        for i, view in enumerate(views)
    ]
    if len(views) > 1:
        layout = {**layout, "updatemenus": [{"buttons": buttons, "x": 0, "xanchor": "left",
                                             "y": 1.12, "yanchor": "bottom"}]}  # fmt: skip
        layout["margin"] = {**layout.get("margin", {}), "t": 130}
    return {"data": traces, "layout": layout, "config": CONFIG}


def _json_for_script(data: dict) -> str:
    """JSON that cannot end the <script> it stands in, whatever the words are."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _table(view: View) -> str:
    head, *rows = view.table
    lines = [f"<caption>{html.escape(view.label)}</caption><thead><tr>"]
    lines += [f'<th scope="col">{html.escape(cell)}</th>' for cell in head]
    lines.append("</tr></thead><tbody>")
    for first, *cells in rows:
        rest = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{html.escape(first)}</th>{rest}</tr>')
    return (
        f'<div class="tdp-scroll" tabindex="0" role="region" '
        f'aria-label="Table: {html.escape(view.label)}"><table>'
        + "".join(lines)
        + "</tbody></table></div>"
    )


def _buttons(views: Sequence[View], choice: str, name: str) -> str:
    if len(views) == 1:
        return ""
    options = "".join(
        f'<span><input type="radio" name="{name}" id="{name}-{i}" value="{i}"'
        f'{" checked" if i == 0 else ""}><label for="{name}-{i}">{html.escape(view.label)}</label>'
        f"</span>"
        for i, view in enumerate(views)
    )
    legend = f"<legend>{html.escape(choice)}</legend>"
    return f'<fieldset class="tdp-choice" hidden>{legend}<div>{options}</div></fieldset>'


def _figure(data: dict, views: Sequence[View], caption: str, choice: str, height: int) -> str:
    here = resources.files(__package__)
    style = here.joinpath("plotly_page.css").read_text(encoding="utf-8")
    script = here.joinpath("plotly_page.js").read_text(encoding="utf-8")
    text = _json_for_script(data)
    name = f"tdp-{hash_text(text):x}"
    tables = "".join(_table(view) for view in views)
    return "\n".join(
        [
            '<figure class="td-plotly mathjax_ignore tex2jax_ignore">',
            f"<style>{style}</style>",
            _buttons(views, choice, name),
            f'<div class="tdp-graph plotly-graph-div" role="img" hidden '
            f'aria-label="{html.escape(views[0].alt)}" style="height:{height}px"></div>',
            f'<p class="tdp-says" aria-live="polite">{html.escape(views[0].says)}</p>',
            f'<details class="tdp-numbers" open><summary>The numbers as a table</summary>'
            f"{tables}</details>",
            f"<figcaption>{html.escape(caption)}</figcaption>",
            f'<script type="application/json">{text}</script>',
            f"<script>{script}</script>",
            "</figure>",
        ]
    )
