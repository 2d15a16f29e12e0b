r"""A verdict as text and as HTML: the same words, so that nobody needs colours to read it."""

from __future__ import annotations

import html
import re
import textwrap
from dataclasses import dataclass

from .core import NOT_STARTED, PASSED, Verdict

WIDTH = 88
SIGN = {PASSED: "✓", NOT_STARTED: "○"}


@dataclass(frozen=True)
class Message:
    """What a notebook displays: text, and HTML with the same text."""

    verdict: Verdict

    def __repr__(self) -> str:
        return text(self.verdict)

    def _repr_html_(self) -> str:
        return as_html(self.verdict)


def text(verdict: Verdict) -> str:
    """Plain text, one fact a line."""
    lines = [_head(verdict)]
    if verdict.says:
        lines += _wrapped(bare(verdict.says))
    for what, value in verdict.facts:
        lines += _wrapped(f"{what + ': ' if what else ''}{bare(value)}", "    ")
    if verdict.misconception:
        lines += _wrapped(f"This is what one gets by: {bare(verdict.misconception)}.")
        lines += _wrapped(bare(verdict.because))
    lines += _wrapped(where_to_look(verdict))
    return "\n".join(line for line in lines if line.strip())


def as_html(verdict: Verdict) -> str:
    """The same for a notebook; without style sheets it still reads as text."""
    head = f"<strong>{html.escape(_head(verdict))}</strong>"
    parts = [f"<p>{head} {_inline(verdict.says)}</p>"]
    if verdict.facts:
        rows = "".join(
            f"<tr><th scope='row' style='text-align:left;vertical-align:top'>{_inline(what)}</th>"
            f"<td style='text-align:left'><code>{html.escape(bare(value))}</code></td></tr>"
            for what, value in verdict.facts
        )
        parts.append(f"<table>{rows}</table>")
    if verdict.misconception:
        parts.append(
            f"<p>This is what one gets by: <em>{_inline(verdict.misconception)}</em>. "
            f"{_inline(verdict.because)}</p>"
        )
    look = where_to_look(verdict)
    parts.append(f"<p><small>{_inline(look)}</small></p>" if look else "")
    return f"<div class='td-verdict' role='status'>{''.join(parts)}</div>"


def _head(verdict: Verdict) -> str:
    state = verdict.heading or verdict.state
    return f"{SIGN.get(verdict.state, '✗')} {verdict.exercise.id}: {state}"


def where_to_look(verdict: Verdict) -> str:
    """The equation, and how to ask for a hint; nothing more when it is passed."""
    exercise = verdict.exercise
    parts = []
    if exercise.label:
        number = exercise.chapter.partition("-")[0]
        parts.append(f"See {exercise.label} in chapter {number}.")
    if exercise.hints and verdict.state != PASSED:
        parts.append(f'A hint: hint("{exercise.id}").')
    return " ".join(parts)


def bare(markdown: str) -> str:
    """Markdown for a terminal: code as it is, the rest without its marks; TeX as it was typed."""
    parts = re.split(r"`([^`]*)`", markdown)
    return "".join(p if k % 2 else re.sub(r"\*+|\$", "", p) for k, p in enumerate(parts))


def _inline(markdown: str) -> str:
    escaped = html.escape(markdown)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escaped)


def _wrapped(words: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        words, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
