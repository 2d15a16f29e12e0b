"""What the commands share: options, the progress bar, how a command ends."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer


def option(help: str, metavar: str = "N", least: int | None = None, flag: str = "") -> object:
    """An option with its help and what stands for its value."""
    return typer.Option(*([flag] if flag else []), help=help, metavar=metavar, min=least)


def argument(help: str, what: str) -> object:
    """An argument with its help and its name."""
    return typer.Argument(help=help, metavar=what)


Device = Annotated[str, option("Where to compute: auto, cuda, mps or cpu.", "NAME")]
Threads = Annotated[int | None, option("CPU threads; 1 is often the fastest here.", least=1)]
Beam = Annotated[int, option("Width of the beam; 1 is greedy.", least=1, flag="--beam")]
Model = Annotated[str, option("A shipped model by name, or the folder of a run.", "NAME")]


def set_up(threads: int | None = None) -> None:
    """Set the CPU threads: one, unless told otherwise."""
    import torch

    cores = os.cpu_count() or 1
    if threads is not None and threads > cores:
        raise ValueError(
            f"There may be as many threads as the computer has cores, {cores}, but got "
            f"--threads {threads}; choose fewer, more only slow it down."
        )
    torch.set_num_threads(threads or 1)


class Bar:
    """A progress bar on stderr, if that is a terminal; silent until half a second has passed."""

    def __init__(self, what: str, total: int | None = None):
        from tqdm import tqdm

        self.bar = tqdm(
            total=total, desc=what, dynamic_ncols=True, mininterval=0.5, leave=False,
            delay=0.5, disable=None,
        )  # fmt: skip

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exc: object) -> None:
        self.bar.close()

    def advance(self, done: int, out_of: int | None = None) -> None:
        """Show that ``done`` (of ``out_of``, if that was unknown before) are finished."""
        self.bar.total = out_of or self.bar.total
        self.bar.update(done - self.bar.n)

    def tell(self, record: dict) -> None:
        """Show a record of training: the loss in the bar, figures on dev above it."""
        self.bar.set_postfix_str(f"loss {record['loss']:.3f}", refresh=False)
        if "dev_loss" not in record or self.bar.disable:
            return
        if "dev_wer" in record:
            judged = f"dev WER {record['dev_wer']:.1%}, PER {record['dev_per']:.1%}"
        else:
            judged = f"held-out loss {record['dev_loss']:.3f} nats a character"
        line = f"step {record['step']:,}: loss {record['loss']:.3f}, {judged}"
        self.bar.write(line, file=sys.stderr)


def stop(sentence: str) -> NoReturn:
    """Say why a command was stopped and end with the status of Ctrl-C."""
    print(sentence, file=sys.stderr)
    raise typer.Exit(130)
