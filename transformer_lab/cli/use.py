"""Commands that use a trained model: evaluate, generate, attention, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from .shared import Bar, Beam, Device, Model, Threads, argument, option, set_up

app = typer.Typer()


@app.command()
def evaluate(
    model: Annotated[
        str, argument("A shipped model or the folder of a run.", "MODEL")
    ] = "g2p-class",
    part: Annotated[str, option("dev or test: tune on dev, touch test once.", "PART")] = "dev",
    width: Beam = 1,
    pairs: Annotated[
        Path | None, option("Your own pairs instead of the dictionary.", "FILE")
    ] = None,
    limit: Annotated[int | None, option("Judge only about this many words.", least=1)] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Add the figures to the model's figures.json.")
    ] = False,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Error rates on held-out words: whole words and phonemes."""
    from .. import pretrained, runs

    if record and (limit is not None or pairs is not None):
        raise ValueError(
            "Recorded figures are those of a whole part of the model's own data; leave out "
            "--limit and --pairs, or --record."
        )
    set_up(threads)
    folder = pretrained.folder_of(model)
    with Bar("judging") as bar:
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
    words: Annotated[list[str], argument("One or more words to pronounce.", "WORD")],
    model: Model = "g2p-class",
    width: Beam = 5,
    all_found: Annotated[
        bool, typer.Option("--all", help="Show the whole beam, not only the best.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Say words: the likeliest phonemes and their probability."""
    import math

    from .. import pretrained
    from ..devices import choose_device

    set_up()
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
    word: Annotated[str, argument("One word.", "WORD")],
    model: Model = "g2p-class",
    layer: Annotated[int, option("Decoder layer, from 1; 0 is the mean.", least=0)] = 0,
    head: Annotated[int, option("Head, from 1; 0 is the mean.", least=0)] = 0,
    out: Annotated[
        Path | None, option("Also draw the map into this PNG, PDF or SVG file.", "FILE")
    ] = None,
) -> None:
    """Which letters the model looks at as it says a word.

    For each phoneme, the letters with the largest weights of the decoder's cross-attention.
    """
    from .. import plots, pretrained

    if out is not None:
        plots.check_picture(out)
    set_up()
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
        whole = plots.save_map(out, weights_TS, seen.symbols, seen.letters, title=word)
        print(f"Drawn into {out}" + ("" if whole else "; its font lacks some symbols (boxes)."))


@app.command()
def export(
    run: Annotated[Path, argument("Folder of a finished run.", "RUN")],
    folder: Annotated[Path, argument("Folder of the model to ship.", "FOLDER")],
) -> None:
    """Copy a run as a model to ship, in half precision."""
    from .. import pretrained

    pretrained.export(run, folder)
    print(f"Shipped into {folder}; judge the rounded weights with `evaluate {folder} --record`.")
