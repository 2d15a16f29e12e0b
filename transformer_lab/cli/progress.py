"""The command that shows a reader's progress, moves it, and sums up that of a class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .shared import option

app = typer.Typer()


@app.command()
def progress(
    export: Annotated[Path | None, option("Write your progress to a file.", "FILE")] = None,
    name: Annotated[str, option("Your name, for the exported file.", "NAME")] = "",
    import_: Annotated[
        Path | None, option("Take over an exported file.", "FILE", flag="--import")
    ] = None,
    folder: Annotated[
        Path | None, option("For teachers: sum up a folder of exported files.", "FOLDER")
    ] = None,
    csv: Annotated[
        Path | None, option("With --folder: write the table of exercises here as well.", "FILE")
    ] = None,
) -> None:
    """Show how far you are with the exercises.

    Progress is kept in one file on this computer; nothing is sent anywhere.
    """
    given = [n for n, v in (("--export", export), ("--import", import_), ("--folder", folder)) if v]
    if len(given) > 1:
        raise ValueError(f"One thing at a time, but got {' and '.join(given)}; choose one of them.")
    if name and not export:
        raise ValueError(f"A name belongs to an exported file: add --export FILE to --name {name}.")
    if csv and not folder:
        raise ValueError(f"--csv needs a class to sum up: add --folder FOLDER to --csv {csv}.")
    from ..exercises import progress as record
    from ..exercises import tables

    if export:
        record.export(export, name)
        print(f"Written to {export}")
    elif import_:
        forward = record.import_(import_)
        print(f"{import_}: {forward} exercises brought forward.")
    elif folder:
        first, second = tables.class_tables(folder)
        print(f"{first!r}\n\n{second!r}")
        if csv:
            from ..checkpoint import write_atomically

            write_atomically(csv, first.as_csv().encode())
            print(f"\nWritten to {csv}")
    else:
        print(repr(tables.my_progress()))
        print(f"\nKept in {record.progress_file()}")
