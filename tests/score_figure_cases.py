"""Queries, values and a page for the tests of the two figures of scores."""

from contextlib import contextmanager
from dataclasses import replace

import browser as look
import numpy as np
import page_checks as check

from transformer_lab.plots import Query

PAGE = """<!doctype html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Figures</title><style>
html[data-theme="dark"] {{ --td-ink: #e5e1d8; --td-paper: #16181b; --td-accent: #f0977a;
  --td-accent-2: #86cbd0; --td-muted: #aaa498; --td-rule: #383b40; --td-panel: #1e2125; }}
body {{ margin: 0; background: var(--td-paper, #fff); color: var(--td-ink, #111); }}
main {{ max-width: 42rem; margin: 0 auto; padding: 0 16px; }}</style></head>
<body><main><h1>Figures</h1>{figures}</main></body></html>"""

SENTENCE = "the cat sat on the mat".split()
MANY = (
    "every one of these twenty four words is a key and none of them may be cut off when the phone "
    "is characteristically narrow"
).split()


def make_query(name="mat", keys=SENTENCE, d_k=64, seed=1, **changes):
    """A query whose products are those of independent standard normal q and k."""
    rng = np.random.default_rng(seed)
    q, k = rng.normal(size=d_k), rng.normal(size=(len(keys), d_k))
    return replace(Query(name, tuple(keys), k @ q, d_k), **changes)


def queries():
    """Six keys, twenty-four, a narrow width that is no square, width 1, and a single key."""
    return [
        make_query(),
        make_query("24 keys", MANY, 512, 2),
        make_query("narrow", "abc", 2, 3),
        make_query("width 1", "xy", 1, 4),
        make_query("alone", "z", 16, 5),
    ]


VALUES = np.array([[0.2, 0.1], [2.1, 0.4], [2.6, 1.9], [1.2, 2.6], [-0.3, 1.7], [1.1, 1.3]])
SCORES = np.array([0.3, 1.1, -0.4, 0.2, 0.9, 0.0])
LABELS = ["the", "cat", "sat", "on", "a", "mat"]


@contextmanager
def opened(chromium, file, *figures, theme="light", width=1280, quiet=True, **options):
    """A page with the figures, from file://; a foreign request or (if quiet) an error fails."""
    options = {"reduced_motion": "reduce"} | options  # what is measured stands still
    context = chromium.new_context(viewport={"width": width, "height": 900}, **options)
    page = context.new_page()
    tab = look.Recorder(page, "file:")
    text = "\n".join(figure if isinstance(figure, str) else figure.html for figure in figures)
    file.write_text(PAGE.format(theme=theme, figures=text), encoding="utf-8", newline="\n")
    page.goto(file.as_uri())
    try:
        yield page
    finally:
        context.close()
    assert check.outside_requests(tab) == []
    assert not quiet or check.console_errors(tab) == []
