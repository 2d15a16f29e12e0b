"""The command line in processes of its own, quickly: torch is imported once, then forked.

A child gets what a shell would give it: arguments, environment, streams, signals. On Windows,
which cannot fork, every child starts anew; that is slower and otherwise the same.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from helpers import tiny_data

PATIENCE = 300  # seconds after which a child counts as stuck
METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
CONTEXT = multiprocessing.get_context(METHOD)
if METHOD == "forkserver":
    CONTEXT.set_forkserver_preload(
        ["pytest", "helpers", "transformer_lab.cli", "transformer_lab.gpu_check", "torch._dynamo",
         "transformer_lab.doctor", "matplotlib.figure", "matplotlib.backends.backend_agg", "tqdm"]
    )  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """What a command left: its exit status (negative: the signal) and its two streams."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one line on stderr of a command that failed as it should."""
        assert self.code == 1, self
        assert self.out == "", self
        assert "Traceback" not in self.err and self.err.count("\n") == 1, self
        return self.err.strip()


class Child:
    """A running ``transformer-lab`` with these arguments; ``first`` is called in it before."""

    def __init__(
        self,
        *arguments: object,
        folder: Path,
        env: dict[str, str] | None = None,
        first: Callable[[], object] | None = None,
    ):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        argv = ["transformer-lab", *map(str, arguments)]
        self.process = CONTEXT.Process(target=_child, args=(argv, self.folder, env or {}, first))
        self.process.start()

    def wait(self) -> Ended:
        """Wait for the end."""
        self.process.join(PATIENCE)
        if self.process.exitcode is None:
            self.kill()
            raise AssertionError(f"the command did not end: {self.read()}")
        code = self.process.exitcode
        self.process.close()
        return Ended(code, *self.read())

    def read(self) -> tuple[str, str]:
        """Both streams, as far as they are written."""
        paths = (self.folder / "stdout", self.folder / "stderr")
        return tuple(p.read_bytes().decode("utf-8") if p.exists() else "" for p in paths)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition`` holds; fail if the process ends before."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.is_alive() and time.monotonic() < end, self.read()
            time.sleep(0.002)

    def signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.process.pid, number)

    def kill(self) -> int | None:
        """End the process at once, with no chance to tidy up; the exit status, if it had one."""
        self.process.kill()
        self.process.join()
        return self.process.exitcode


def command(
    *arguments: object,
    folder: Path,
    env: dict[str, str] | None = None,
    first: Callable[[], object] | None = None,
) -> Ended:
    """Run ``transformer-lab`` to its end; ``folder`` takes its streams."""
    return Child(*arguments, folder=folder, env=env, first=first).wait()


def _child(argv: Sequence[str], folder: Path, env: dict[str, str], first) -> None:
    os.environ.update(env)
    for name, number in (("stdout", 1), ("stderr", 2)):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
        setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))
    sys.argv[:] = argv
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if first is not None:
        first()
    from transformer_lab.cli import main

    try:
        main()
    finally:
        with suppress(OSError):
            sys.stdout.flush()


def write_pairs(path: Path, words: int = 400, seed: int = 0) -> Path:
    """A reader's own file of pairs, large enough to be split into three parts."""
    data = tiny_data(words, seed)
    lines = [
        f"{word}\t{' '.join(phones)}"
        for word, several in (*data.train, *data.dev, *data.test)
        for phones in several
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    return path
