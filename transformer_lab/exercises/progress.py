r"""The reader's progress, in one file on this computer, and nowhere else.

Every record is read, changed and written under a lock, into another file that then takes the
place of the old one: two notebooks at once lose nothing, and a crash leaves the old file or the
new one, whole. A file that cannot be read is kept under another name, never overwritten.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from ..checkpoint import write_atomically
from ..plots.turn import UNATTENDED
from .core import NOT_STARTED, PASSED, REFUSED, Verdict

VARIABLE = "TRANSFORMER_LAB_PROGRESS"
FORMAT = "transformer-lab progress 1"
COUNTS = ("tries", "hints")
_silent = {"said": False}  # that nothing can be stored is said once


@dataclass(frozen=True)
class Guess:
    """A guess that somebody committed to: its answer (None: no guess), when, and whether right."""

    answer: object
    at: str
    right: bool | None = None


def progress_file() -> Path:
    """Where progress is kept: $TRANSFORMER_LAB_PROGRESS, or the user's data folder.

    Where a notebook runs unattended it is nobody's, and each process has a file of its own.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    if os.environ.get(UNATTENDED):
        return Path(tempfile.gettempdir()) / f"transformer-lab-{os.getpid()}" / "progress.json"
    return Path(platformdirs.user_data_dir("transformer_lab", appauthor=False)) / "progress.json"


def record_check(verdict: Verdict) -> None:
    """Remember a try. An untouched template is none, and what was passed once stays passed."""
    if verdict.state == NOT_STARTED:
        return

    def change(content: dict) -> None:
        entry = content["exercises"].setdefault(verdict.exercise.id, _new_entry())
        entry["tries"] += 1
        entry["last"] = _now()
        if verdict.state == PASSED:
            entry["state"] = PASSED
            entry["passed"] = entry["passed"] or entry["last"]
        if verdict.misconception:
            met = entry["misconceptions"]
            met[verdict.misconception] = met.get(verdict.misconception, 0) + 1

    _update(change)


def record_hint(id: str) -> int:
    """Remember that a hint was asked for; return how many there have been, this one included."""
    counted = [1]

    def change(content: dict) -> None:
        entry = content["exercises"].setdefault(id, _new_entry(state=NOT_STARTED))
        entry["hints"] += 1
        counted[0] = entry["hints"]

    _update(change)
    return counted[0]


def record_guess(id: str, answer: object) -> Guess:
    """Commit to a guess; the first one counts and is returned from then on."""
    kept = [Guess(answer, _now())]

    def change(content: dict) -> None:
        found = content["guesses"].setdefault(id, {"answer": answer, "at": kept[0].at})
        kept[0] = Guess(found["answer"], found["at"], found.get("right"))

    _update(change)
    _here[id] = kept[0]
    return kept[0]


def guessed(id: str) -> Guess | None:
    """The guess that was committed to, or None."""
    found = load()["guesses"].get(id)
    if found is None:
        return _here.get(id)
    return Guess(found["answer"], found["at"], found.get("right"))


def record_revealed(id: str, right: bool) -> None:
    """Remember whether a guess was right; the first comparison counts."""

    def change(content: dict) -> None:
        if id in content["guesses"]:
            content["guesses"][id].setdefault("right", right)

    _update(change)


_here: dict[str, Guess] = {}  # guesses of this session, where nothing can be stored


# ---- The file -----------------------------------------------------------------------------


def load(path: Path | None = None) -> dict:
    """What is stored; an empty record if there is nothing, or nothing that can be read."""
    path = path or progress_file()
    try:
        return checked(json.loads(path.read_text(encoding="utf-8")), path)
    except (OSError, ValueError):
        return _empty()


def checked(content: object, path: Path) -> dict:
    """The content of a progress file, if it is one. Raises ``ValueError`` in a sentence."""
    wrong = ValueError(
        f"{path} is no progress file of this book ({FORMAT!r}); export one with "
        "`transformer-lab progress --export FILE`."
    )
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise wrong
    if not isinstance(content.get("reader"), str):
        raise wrong
    exercises, guesses = content.get("exercises"), content.get("guesses")
    if not isinstance(exercises, dict) or not isinstance(guesses, dict):
        raise wrong
    for entry in exercises.values():
        fits = isinstance(entry, dict) and entry.get("state") in (NOT_STARTED, PASSED, REFUSED)
        fits = fits and all(_is_count(entry.get(name)) for name in COUNTS)
        met = entry.get("misconceptions") if fits else None
        if not (isinstance(met, dict) and all(map(_is_count, met.values()))):
            raise wrong
        if any(not isinstance(entry.get(when), str | None) for when in ("passed", "last")):
            raise wrong
    if any(not isinstance(g, dict) or "answer" not in g or "at" not in g for g in guesses.values()):
        raise wrong
    return content


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _update(change: Callable[[dict], None]) -> None:
    """Read, change, write; if that is impossible, say so once and go on."""
    path = progress_file()
    try:
        with _locked(path):
            content = _readable(path)
            change(content)
            write_atomically(path, _as_bytes(content))
    except (OSError, Timeout) as error:
        if not _silent["said"]:
            _silent["said"] = True
            print(
                f"Progress cannot be stored in {path} ({error}); name another file with the "
                f"variable {VARIABLE}. Everything else works.",
                file=sys.stderr,
            )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(str(path) + ".lock", timeout=10):
        yield


def _readable(path: Path) -> dict:
    """The stored record; a damaged file is set aside first, and that is said."""
    if not path.exists():
        return _empty()
    try:
        return checked(json.loads(path.read_text(encoding="utf-8")), path)
    except ValueError:
        number = 1
        while (aside := path.with_name(f"{path.stem}-damaged-{number}.json")).exists():
            number += 1
        os.replace(path, aside)
        print(
            f"{path} could not be read and was kept as {aside.name}; a new one was begun.",
            file=sys.stderr,
        )
        return _empty()


def _empty() -> dict:
    return {"format": FORMAT, "reader": uuid.uuid4().hex, "exercises": {}, "guesses": {}}


def _new_entry(state: str = REFUSED) -> dict:
    return {
        "state": state,
        "tries": 0,
        "hints": 0,
        "passed": None,
        "last": None,
        "misconceptions": {},
    }


def _as_bytes(content: dict) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# ---- From one computer to another ---------------------------------------------------------


def export(path: Path, name: str = "") -> None:
    """Write the record to a file, with the reader's name in it if one is given."""
    content = load()
    if not content["exercises"] and not content["guesses"]:
        raise ValueError(
            f"There is nothing to export: {progress_file()} holds no exercise yet; do one first."
        )
    write_atomically(Path(path), _as_bytes(content | {"name": name, "exported": _now()}))


def read_export(path: Path) -> dict:
    """An exported file, checked. Raises ``ValueError`` in a sentence if it is none."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError(
            f"{path} is not JSON; export one with `transformer-lab progress --export FILE`."
        ) from None
    return checked(content, Path(path))


def import_(path: Path) -> int:
    """Merge an exported file into the record; return how many exercises it brought forward.

    The further state wins, each count is the larger of the two, and of two guesses the earlier
    one: so that importing a file twice, or one's own, changes nothing.
    """
    theirs = read_export(path)
    forward = [0]

    def change(content: dict) -> None:
        for id, entry in theirs["exercises"].items():
            mine = content["exercises"].get(id)
            merged = _merged(mine, entry)
            forward[0] += mine is None or merged["state"] != mine["state"]
            content["exercises"][id] = merged
        for id, guess in theirs["guesses"].items():
            mine = content["guesses"].get(id)
            if mine is None or guess["at"] < mine["at"]:
                content["guesses"][id] = guess

    _update(change)
    return forward[0]


def _merged(mine: dict | None, theirs: dict) -> dict:
    if mine is None:
        return theirs
    order = (NOT_STARTED, REFUSED, PASSED)
    passed = [e["passed"] for e in (mine, theirs) if e["passed"]]
    met = {
        name: max(mine["misconceptions"].get(name, 0), theirs["misconceptions"].get(name, 0))
        for name in {**mine["misconceptions"], **theirs["misconceptions"]}
    }
    return {
        "state": max(mine["state"], theirs["state"], key=order.index),
        "tries": max(mine["tries"], theirs["tries"]),
        "hints": max(mine["hints"], theirs["hints"]),
        "passed": min(passed, default=None),
        "last": max(filter(None, (mine["last"], theirs["last"])), default=None),
        "misconceptions": met,
    }
