r"""The folder of a run: what it holds, and who may write into it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from ..checkpoint import write_atomically


def read_metrics(folder: Path) -> list[dict]:
    """The lines of a run's ``metrics.jsonl``; a last line cut off by a crash is left out."""
    path = Path(folder) / "metrics.jsonl"
    if not path.is_file():
        return []
    records = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(record, dict) or not isinstance(record.get("step"), int):
            break
        records.append(record)
    return records


def check_new(folder: Path) -> None:
    """Refuse a folder that cannot take a new run: an existing run is never overwritten."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"A run needs a folder, but {folder} is a file; choose another name.")
    if (folder / "config.json").exists():
        raise ValueError(
            f"A new run needs a folder of its own, but {folder} already holds a run; choose "
            f"another --out, or go on with that run by --resume {folder}."
        )


def start_run(folder: Path, config: dict) -> None:
    """Make the folder of a new run and write its configuration into it."""
    check_new(folder)
    folder = Path(folder)
    write_atomically(folder / "config.json", _json_bytes(config))


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Inside, no other process trains in this folder; one that tries gets a ``ValueError``.

    The system gives the lock up when the process ends, however it ends.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(
            f"Only one training may run in a folder at a time, but another is running in "
            f"{folder}; wait until it has ended, stop it, or choose another --out."
        ) from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows removes no open file
            (folder / ".lock").unlink()
        lock.release()


def _json_bytes(value: dict) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


FILES = (
    "config.json", "metrics.jsonl", "checkpoint.safetensors", "weights.safetensors", "loss.png",
)  # fmt: skip
"""What a finished run's folder holds."""

EXTRAS = ("baselines.json", "lr.png")
"""What it may hold besides: losses to beat (a language model's), the curve of ``--find-lr``."""
