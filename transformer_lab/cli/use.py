"""Commands that use a trained model: evaluate, generate, attention, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__
from .shared import Bar, Beam, Device, Model, Threads, argument, option, set_up

if TYPE_CHECKING:
    from ..decode import Greedy, Strategy
    from ..pretrained import Pronouncer

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
    alignments: Annotated[
        Path | None,
        option("Judge where cross-attention looks, by gruut's lexicon.db.", "FILE"),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Add the figures to the model's figures.json.")
    ] = False,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """How good is a model on what it has never seen?

    Error rates on held-out words (whole words and phonemes) of a pronouncing model; nats and
    bits a character on the held-out text of a language model.
    """
    from .. import pretrained, runs

    if record and (limit is not None or pairs is not None):
        raise ValueError(
            "Recorded figures are those of a whole part of the model's own data; leave out "
            "--limit and --pairs, or --record."
        )
    set_up(threads)
    folder = pretrained.folder_of(model)
    if pretrained.read_config(folder)["task"].get("task") == "lm":
        _refuse(
            "a language model",
            {"--part": part != "dev", "--beam": width != 1, "--pairs": pairs, "--limit": limit,
             "--alignments": alignments},
        )  # fmt: skip
        part, how = "held-out", "all"
        figures = runs.evaluate_lm(folder, device)
        print(
            f"held-out text, {figures['characters']:,} characters: "
            f"{figures['nats_a_character']:.4f} nats ({figures['bits_a_character']:.3f} bits) "
            f"a character"
        )
    elif alignments is not None:
        how = "alignment"
        _refuse("--alignments", {"--beam": width != 1, "--pairs": pairs})
        with Bar("judging") as bar:
            figures = runs.evaluate_alignment(folder, part, alignments, limit, bar.advance)
        print(_agreement_in_words(part, figures))
    else:
        how = "greedy" if width == 1 else f"beam {width}"
        with Bar("judging") as bar:
            scores = runs.evaluate(folder, part, width, pairs, limit, device, bar.advance)
        figures = scores.figures()
        print(
            f"{part}, {how}, {scores.words:,} words: WER {scores.wer:.2%} ({scores.wrong:,} "
            f"wrong), PER {scores.per:.2%} ({scores.edits:,} edits in {scores.phones:,} phonemes)"
        )
    if record:
        figures |= {"version": __version__, "part": part}
        pretrained.record_figures(folder, f"{part} {how}", figures)


def _agreement_in_words(part: str, figures: dict) -> str:
    """Shares of phones whose most-watched letter is one that says them, a line a layer."""
    lines = [
        f"{part}, {figures['words']:,} words, {figures['phones']:,} phones; the most-watched "
        f"letter is one that says the phone:",
        f"  straight diagonal  {figures['diagonal']:.1%}",
        f"  mean of all heads  {figures['mean']:.1%}",
    ]
    for layer, shares in enumerate(figures["heads"], start=1):
        lines.append(f"  layer {layer}, by head   " + "  ".join(f"{x:.1%}" for x in shares))
    return "\n".join(lines)


def _refuse(whose: str, given: dict[str, object]) -> None:
    """Options that belong to the other kind of model."""
    wrong = [name for name, value in given.items() if value is not None and value is not False]
    if wrong:
        other = "" if whose.startswith("--") else ", or name another --model"
        raise ValueError(f"{', '.join(wrong)} cannot be used with {whose}; leave that out{other}.")


@app.command()
def generate(
    words: Annotated[
        list[str], argument("Words to pronounce, or texts to continue.", "WORD_OR_TEXT")
    ],
    model: Model = "g2p-class",
    width: Annotated[
        int | None,
        option("Width of the beam (words): 1 is greedy, 5 usual.", least=1, flag="--beam"),
    ] = None,
    all_found: Annotated[
        bool, typer.Option("--all", help="Show the whole beam (words), not only the best.")
    ] = False,
    length: Annotated[int | None, option("Symbols to write (texts).", least=1)] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Always the likeliest symbol (texts).")
    ] = False,
    temperature: Annotated[
        float | None, option("Divide the logits by this: below 1 is safer (texts).", "T")
    ] = None,
    top_k: Annotated[int | None, option("Draw among the K likeliest only (texts).", "K")] = None,
    top_p: Annotated[
        float | None, option("Draw among the likeliest with this mass together (texts).", "P")
    ] = None,
    seed: Annotated[int | None, option("Seed of the draws (texts).", least=0)] = None,
    device: Device = "auto",
) -> None:
    """Say words, or continue texts.

    A pronouncing model says the likeliest phonemes of each word and their probability; a
    language model writes on where a text ends.
    """
    from .. import pretrained
    from ..devices import choose_device

    set_up()
    loaded = pretrained.load(model, choose_device(device))
    if isinstance(loaded, pretrained.Writer):
        _refuse("a language model", {"--beam": width, "--all": all_found})
        strategy = _strategy(greedy, temperature, top_k, top_p)
        for number, text in enumerate(words):
            print("" if number == 0 else "\n", end="")
            pieces = loaded.stream(text, length or 300, strategy, 1 if seed is None else seed)
            print(text + next(pieces), end="", flush=True)
            for piece in pieces:  # as they are written, so that Ctrl-C loses nothing
                print(piece, end="", flush=True)
            print()
        return
    _refuse(
        "a pronouncing model",
        {"--length": length, "--greedy": greedy, "--temperature": temperature, "--top-k": top_k,
         "--top-p": top_p, "--seed": seed},
    )  # fmt: skip
    _say(loaded, words, width or 5, all_found)


def _strategy(
    greedy: bool, temperature: float | None, top_k: int | None, top_p: float | None
) -> Strategy | Greedy:
    """How to write: drawn from the model's distribution, changed as asked."""
    from ..decode import GREEDY, sampling

    if not greedy:
        return sampling(1.0 if temperature is None else temperature, top_k, top_p)
    _refuse("--greedy", {"--temperature": temperature, "--top-k": top_k, "--top-p": top_p})
    return GREEDY


def _say(speaker: Pronouncer, words: list[str], width: int, all_found: bool) -> None:
    """A table: word, phonemes, probability."""
    import math

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
    speaker = pretrained.load(model)
    if isinstance(speaker, pretrained.Writer):
        raise ValueError(
            f"This shows which letters a pronouncing model looks at, but {model} is a language "
            f"model; name another --model."
        )
    seen = speaker.explain(word)
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
