r"""The command ``transformer-lab``: fetch data, train, judge, try out, look, check.

Every error that a reader can cause ends in one sentence on stderr and exit status 1; nothing
is imported before it is needed, so that help is instant and ``data`` works without torch.
"""

from __future__ import annotations

import contextlib
import errno
import sys
from typing import Annotated

import typer
from typer.core import TyperGroup

from .. import __version__
from . import check, progress, train, use


class _AsTaught(TyperGroup):
    """Commands in the order in which a reader meets them."""

    def list_commands(self, ctx: object) -> list[str]:
        return "data train evaluate generate attention export progress gpu-check doctor".split()


app = typer.Typer(
    cls=_AsTaught,
    help="Train, try out and look into the Transformers of the book.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
)
for part in (check, use, progress):
    app.registered_commands += part.app.registered_commands
app.add_typer(train.app, name="train")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"transformer-lab {__version__}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; turn the errors of readers into one sentence."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError):
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        app()
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise  # a mistake of ours: the traceback is what we need
        print(sentence, file=sys.stderr)
        raise SystemExit(1) from None


def _out_of_memory(error: Exception) -> bool:
    """Whether the memory was full: torch says so in several ways."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    said = ("can't allocate memory", "not enough memory")
    return isinstance(error, RuntimeError) and any(words in str(error) for words in said)


def _sentence(error: Exception) -> str | None:
    """What to tell a reader: our own errors say it themselves, the system's are completed."""
    if isinstance(error, ImportError):
        if (error.name or "").split(".")[0] != "torch":
            return None
        return (
            f"This needs PyTorch, but Python cannot load it ({error}); install it with "
            f"`python -m pip install torch`, or as https://pytorch.org/get-started/locally/ says "
            f"for your computer."
        )
    if _out_of_memory(error):
        return (
            "The memory of the device is full; take a smaller --batch-size or --beam, a shorter "
            "input, or --device cpu."
        )
    if isinstance(error, OSError):
        if error.errno == errno.ENOSPC:
            return f"The disk is full ({error.filename or 'no room left'}); free some and retry."
        name = f" {error.filename}" if error.filename else ""
        return f"Cannot use{name}: {error.strerror or error}; check the path and its rights."
    return str(error) if isinstance(error, (ValueError, ArithmeticError)) else None
