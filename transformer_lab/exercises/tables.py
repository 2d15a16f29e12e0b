r"""Progress as tables: one reader's, and that of a class from a folder of exported files."""

from __future__ import annotations

import csv
import html
import io
import re
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import progress
from .core import NOT_STARTED, PASSED, REFUSED, Exercise
from .guess import GuessExercise

Row = tuple[str, ...]
LEFT = "text-align:left;overflow-wrap:break-word"


@dataclass(frozen=True)
class Table:
    """Rows of words under headings; text in a terminal, a table with a caption in a notebook."""

    caption: str
    head: Row
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        every = (self.head, *self.rows)
        wide = [max(len(row[k]) for row in every) for k in range(len(self.head))]
        lines = [self.caption, ""]
        for row in every:
            cells = (cell.ljust(width) for cell, width in zip(row, wide, strict=True))
            lines.append("  ".join(cells).rstrip())
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{html.escape(h)}</th>' for h in self.head)
        body = "".join(
            f'<tr><th scope="row" style="{LEFT}">{_breakable(first)}</th>'
            + "".join(f'<td style="{LEFT}">{_breakable(cell)}</td>' for cell in rest)
            + "</tr>"
            for first, *rest in self.rows
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        caption = f"<caption>{html.escape(self.caption)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"

    def as_csv(self) -> str:
        """The rows for a spreadsheet."""
        out = io.StringIO()
        csv.writer(out).writerows([self.head, *self.rows])
        return out.getvalue()


def _breakable(cell: str) -> str:
    """A cell in HTML; a long id may be broken after a dot or an underscore, and nowhere else."""
    return re.sub(r"(?<=\w)([._])(?=\w)", r"\1<wbr>", html.escape(cell))


def my_progress(exercises: Mapping[str, Exercise] | None = None) -> Table:
    """All exercises by chapter, with what this reader has done."""
    known, content = exercises or _registered(), progress.load()
    rows, counted = [], Counter()
    for e in sorted(known.values(), key=lambda e: e.chapter):
        if isinstance(e, GuessExercise):
            continue
        entry = content["exercises"].get(e.id)
        state = entry["state"] if entry else NOT_STARTED
        counted[state] += 1
        tries, hints = (str(entry[n]) if entry else "0" for n in progress.COUNTS)
        rows.append((e.id, f"{e.chapter[:2]} · {e.title}", state, tries, hints))
    total = ", ".join(f"{counted[s]} {s}" for s in (PASSED, REFUSED, NOT_STARTED))
    notes = [f"{len(rows)} exercises: {total}."]
    guesses = [g.get("right") for id, g in content["guesses"].items() if g["answer"] is not None]
    if guesses:
        notes.append(f"{len(guesses)} guesses, {guesses.count(True)} right.")
    others = set(content["exercises"]) - set(known)
    if others:
        notes.append(f"{len(others)} of another edition of the book are kept as well.")
    head = ("exercise", "chapter and title", "state", "tries", "hints")
    return Table("Your progress", head, tuple(rows), tuple(notes))


def class_tables(
    folder: Path, exercises: Mapping[str, Exercise] | None = None
) -> tuple[Table, Table]:
    """One row for each exercise, and one for each learner, from a folder of exported files.

    Two files of one learner: the later export counts. A file that is none is named and passed over.
    Raises ``ValueError`` if the folder holds no exported file.
    """
    known = exercises or _registered()
    learners, notes = _learners(Path(folder))
    by_exercise = []
    ids = [e.id for e in sorted(known.values(), key=lambda e: e.chapter)
           if not isinstance(e, GuessExercise)]  # fmt: skip
    for id in ids:
        entries = [found["exercises"][id] for _, found in learners if id in found["exercises"]]
        tried = [e for e in entries if e["tries"]]
        passed = sum(e["state"] == PASSED for e in entries)
        met = Counter()
        for e in entries:
            met.update(e["misconceptions"].keys())
        frequent = "; ".join(f"{name} ({n})" for name, n in met.most_common(2))
        tries = f"{statistics.median(e['tries'] for e in tried):g}" if tried else ""
        hints = str(sum(e["hints"] for e in entries))
        row = (id, str(passed), str(len(tried) - passed), str(len(learners) - len(tried)))
        by_exercise.append((*row, tries, hints, frequent))
    by_learner = []
    for name, found in learners:
        entries = [found["exercises"][id] for id in ids if id in found["exercises"]]
        passed = sum(e["state"] == PASSED for e in entries)
        tried = sum(e["tries"] > 0 for e in entries)
        row = (name, str(passed), str(tried - passed), str(len(ids) - tried))
        by_learner.append((*row, max((e["last"] or "" for e in entries), default="")[:10]))
    head = ("passed", "not yet", "not started")
    first = Table(
        f"{len(learners)} learners",
        ("exercise", *head, "median tries", "hints", "most frequent misconceptions (learners)"),
        tuple(by_exercise),
        tuple(notes),
    )
    second = Table("By learner", ("learner", *head, "last"), tuple(by_learner))
    return first, second


def _learners(folder: Path) -> tuple[list[tuple[str, dict]], list[str]]:
    """(name, record) of every learner in the folder, and what there is to say of the files."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; name one that holds exported files (*.json).")
    found: dict[str, tuple[str, str, dict]] = {}
    notes = []
    for path in sorted(folder.glob("*.json")):
        try:
            content = progress.read_export(path)
        except ValueError:
            notes.append(f"{path.name} is no progress file and was passed over.")
            continue
        name, at = str(content.get("name") or path.stem), str(content.get("exported", ""))
        if content["reader"] in found:
            notes.append(f"{path.name}: a second file of {name}; the later export counts.")
            if at < found[content["reader"]][1]:
                continue
        found[content["reader"]] = (name, at, content)
    if not found:
        raise ValueError(
            f"{folder} holds no exported file; each learner makes one with "
            "`transformer-lab progress --export FILE --name NAME`."
        )
    return sorted(((name, c) for name, _, c in found.values()), key=lambda pair: pair[0]), notes


def _registered() -> Mapping[str, Exercise]:
    from . import EXERCISES

    return EXERCISES
