"""Commands that train: train g2p, train lm."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .shared import Bar, Device, Threads, option, set_up, stop

if TYPE_CHECKING:
    from ..runs import Run

app = typer.Typer(
    help="Train a model; the run goes into a folder of its own.", no_args_is_help=True
)

Preset = Annotated[
    str, option("Named setting: test (seconds), class (minutes), lab (half an hour).", "NAME")
]
Resume = Annotated[Path | None, option("Go on with the run in this folder.", "FOLDER")]
Text = Annotated[Path | None, option("Your own text, UTF-8, not Shakespeare's plays.", "FILE")]
Cut = Annotated[str | None, option("tiny (nine plays, the usual one) or full (37 plays).", "NAME")]
Tokens = Annotated[str, option("characters, or bpe: pieces of words, learned first.", "NAME")]
VocabularySize = Annotated[int | None, option("Tokens in the vocabulary of bpe; 1024 is usual.")]
Steps = Annotated[int | None, option("Training steps, not the preset's.")]
Rate = Annotated[float | None, option("Peak learning rate, e.g. 0.004.", "RATE")]
Warmup = Annotated[int | None, option("Steps in which the rate rises to its peak.")]
Seed = Annotated[int | None, option("Seed of weights, order and dropout.")]
Accumulate = Annotated[int | None, option("Batches from which each step learns; 1 is usual.")]
Patience = Annotated[
    int | None, option("Stop after this many judgements in a row without a new best on dev.")
]
Precision = Annotated[
    str | None, option("auto, fp32, bf16, or fp16 (on CUDA): in which type to compute.", "NAME")
]
FindRate = Annotated[
    bool,
    typer.Option(
        "--find-lr", help="Only try rising rates: suggest one, draw lr.png into the folder."
    ),
]


@app.command("g2p")
def train_g2p(
    context: typer.Context,
    preset: Preset = "class",
    out: Annotated[Path, option("Folder of the new run.", "FOLDER")] = Path("runs/g2p"),
    resume: Resume = None,
    pairs: Annotated[
        Path | None,
        option("Your own pairs, UTF-8: a word, a tab, its symbols separated by spaces.", "FILE"),
    ] = None,
    steps: Steps = None,
    batch_size: Annotated[int | None, option("Pairs in a batch.")] = None,
    lr: Rate = None,
    warmup: Warmup = None,
    seed: Seed = None,
    accumulate: Accumulate = None,
    patience: Patience = None,
    precision: Precision = None,
    find_lr: FindRate = False,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Train the pronouncing model: letters in, phonemes out.

    The class preset takes about two minutes of one CPU thread. Ctrl-C stops cleanly, and
    --resume FOLDER goes on where it stopped, with the settings it began with.
    """
    from .. import runs

    if resume is not None:
        _refuse_settings(context)
        run = runs.reopen_g2p(resume)
    else:
        changes = {
            "steps": steps, "batch_size": batch_size, "lr": lr, "warmup": warmup, "seed": seed,
            "accumulate": accumulate, "patience": patience, "precision": precision,
        }  # fmt: skip
        run = runs.new_g2p(out, preset, changes, pairs)
    if find_lr:
        return _find_rate(run, device, threads)
    _perform(run, device, resume is not None, threads)


@app.command("lm")
def train_lm(
    context: typer.Context,
    preset: Preset = "class",
    out: Annotated[Path, option("Folder of the new run.", "FOLDER")] = Path("runs/lm"),
    resume: Resume = None,
    text: Text = None,
    cut: Cut = None,
    tokens: Tokens = "characters",
    vocabulary_size: VocabularySize = None,
    steps: Steps = None,
    batch_size: Annotated[int | None, option("Windows in a batch.")] = None,
    lr: Rate = None,
    warmup: Warmup = None,
    seed: Seed = None,
    accumulate: Accumulate = None,
    patience: Patience = None,
    precision: Precision = None,
    find_lr: FindRate = False,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Train a language model: the next character of a text.

    Or the next piece of a word, with --tokens bpe; losses are nats a character all the same. On
    nine of Shakespeare's plays or on --text FILE, the last tenth held out, or on all his plays
    but three. Ctrl-C stops cleanly, and --resume FOLDER goes on where it stopped, with the
    settings it began with.
    """
    from .. import runs

    if resume is not None:
        _refuse_settings(context)
        run = runs.reopen_lm(resume)
    else:
        changes = {
            "steps": steps, "batch_size": batch_size, "lr": lr, "warmup": warmup, "seed": seed,
            "accumulate": accumulate, "patience": patience, "precision": precision,
        }  # fmt: skip
        run = runs.new_lm(out, preset, changes, text, cut, tokens, vocabulary_size)
    if find_lr:
        return _find_rate(run, device, threads)
    _perform(run, device, resume is not None, threads)


def _refuse_settings(context: typer.Context) -> None:
    """A resumed run keeps the settings it began with."""
    free = {"resume", "device", "threads"}
    given = [
        f"--{name.replace('_', '-')}"
        for name in context.params
        if name not in free
        and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        raise ValueError(
            f"A resumed run keeps the settings it began with, but got {', '.join(given)}; "
            f"leave that out, or begin a new run without --resume."
        )


def _find_rate(run: Run, device: str, threads: int | None) -> None:
    """Say at which rate the loss falls most steeply, and where it is drawn."""
    from .. import runs

    set_up(threads)
    try:
        with Bar("trying rates") as bar:
            rate, least = runs.find_rate(run, device, bar.advance)
    except KeyboardInterrupt:
        stop("Stopped; nothing was written.")
    print(
        f"The loss falls most steeply at --lr {rate:.2g}; a peak rate of one to ten times that is "
        f"worth trying. It was least at {least:.2g}, and rates near there are too high. The curve "
        f"is in {run.folder / 'lr.png'}."
    )


def _perform(run: Run, device: str, resume: bool, threads: int | None) -> None:
    """Train with a progress bar; a stop says how to go on."""
    from .. import runs
    from ..train import Stopped

    if resume and threads is None:  # as many as it began with, if this computer has them
        threads = min(run.config.get("machine", {}).get("threads", 1), os.cpu_count() or 1)
    set_up(threads)
    try:
        with Bar("training", run.train.steps) as bar:
            runs.perform(run, device, resume, bar.advance, bar.tell)
    except Stopped as stopped:
        stop(str(stopped))
    except KeyboardInterrupt:  # the second one, or one before or after the steps
        if not (run.folder / "config.json").exists():
            raise
        saved = (run.folder / "checkpoint.safetensors").exists()
        stop(
            f"Stopped at once; go on from the last checkpoint with --resume {run.folder}."
            if saved
            else f"Stopped before anything was learned; --resume {run.folder} begins again."
        )
    print(runs.summary(run))
