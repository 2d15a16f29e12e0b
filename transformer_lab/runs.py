r"""Runs: from a command to a folder with a trained model, and back."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from . import __version__, baselines
from .checkpoint import CheckpointError, write_atomically
from .data import (
    G2PData,
    TextData,
    load_g2p,
    load_shakespeare,
    read_gruut,
    read_own,
    read_pairs,
    read_text,
)
from .devices import available_devices, choose_device, choose_precision, describe_device
from .kernels import choose_linear, linear_kernel
from .metrics import Scores
from .models import DecoderOnly, DecoderOnlyConfig, EncoderDecoder, ModelConfig
from .plots import blank_figure, loss_curve, lr_curve, png
from .presets import G2P_PRESETS, LM_PRESETS, Preset
from .pretrained import Pronouncer, agreement, build, load, read_config
from .tasks import G2P, LM, sample, score_words
from .tokens import ByteBPE, Vocabulary
from .train import TrainConfig, alone, check_new, find_lr, read_metrics, start_run, train


@dataclass(frozen=True)
class Run:
    """One run of training: where, what, with which settings."""

    folder: Path
    task: G2P | LM
    model: ModelConfig | DecoderOnlyConfig
    train: TrainConfig
    config: dict


def _g2p_data(pairs: Path | str | None) -> G2PData:
    return load_g2p() if pairs is None else read_pairs(pairs)


def _text_data(task: dict) -> TextData:
    """The text of a language model: a reader's own, or a cut of the plays."""
    text = task.get("text")
    return load_shakespeare(task.get("cut") or "tiny") if text is None else read_text(text)


def _own(kind: str, file: Path | str | None) -> dict[str, str | None]:
    """Where a reader's own data lie, and a hash by which they are known again."""
    if file is None:
        return {kind: None}
    path = Path(file).resolve()
    return {kind: str(path), f"{kind}_sha256": hashlib.sha256(read_own(path)).hexdigest()}


def _unchanged(config: dict, kind: str) -> str | None:
    """Where the own data of a run lie, if they are those it began with: before they are read,
    so that no configuration from elsewhere makes a message quote another file.
    """
    file, known = config["task"].get(kind), config["task"].get(f"{kind}_sha256")
    if file is not None and _own(kind, file)[f"{kind}_sha256"] != known:
        raise CheckpointError(
            f"The data must be those the run began with, but {file} has changed; restore it or "
            f"begin a new run."
        )
    return file


def new_g2p(
    folder: Path | str, preset: str = "class", changes: dict | None = None,
    pairs: Path | str | None = None,
) -> Run:  # fmt: skip
    """Settings of a new run: a preset, with single values of :class:`TrainConfig` changed.

    A change to ``None`` changes nothing.
    """
    chosen = _preset(G2P_PRESETS, preset)
    check_new(Path(folder))
    return _new(folder, preset, chosen, G2P(_g2p_data(pairs)), _own("pairs", pairs), changes)


def new_lm(
    folder: Path | str, preset: str = "class", changes: dict | None = None,
    text: Path | str | None = None, cut: str | None = None, tokens: str = "characters",
    vocabulary_size: int | None = None,
) -> Run:  # fmt: skip
    """Settings of a new run of the language model: on Shakespeare, or on a reader's ``text``.

    ``cut`` is "tiny" (nine plays, if nothing is said) or "full"; ``tokens`` is "characters" or
    "bpe", whose ``vocabulary_size`` tokens (1,024, if nothing is said) are learned from the part
    to train on, and from no other.
    """
    chosen = _preset(LM_PRESETS, preset)
    check_new(Path(folder))
    if text is not None and cut is not None:
        raise ValueError(
            f"A cut is one of Shakespeare's plays, but got the cut {cut!r} and the text {text}; "
            f"leave one of them out."
        )
    own = {**_own("text", text), "cut": (cut or "tiny") if text is None else None}
    task = LM.learn(_text_data(own), chosen.context, tokens, vocabulary_size)
    return _new(folder, preset, chosen, task, own, changes)


def _preset(presets: dict[str, Preset], name: str) -> Preset:
    if name not in presets:
        raise ValueError(
            f"The preset must be one of {', '.join(presets)}, but got {name!r}; choose one of "
            f"these."
        )
    return presets[name]


def _new(
    folder: Path | str, name: str, preset: Preset, task: G2P | LM, own: dict, changes: dict | None
) -> Run:
    wanted = {name: value for name, value in (changes or {}).items() if value is not None}
    settings = dataclasses.replace(preset.train, **wanted)
    model = preset.model_for(task)
    config = {
        "version": __version__,
        "preset": name,
        "task": {**task.describe(), **own},
        "model": asdict(model),
        "train": asdict(settings),
    }
    return Run(Path(folder), task, model, settings, config)


def reopen_g2p(folder: Path | str) -> Run:
    """The run in ``folder``, as it was asked for; its data must still be the same."""
    folder = Path(folder)
    config = read_config(folder)
    if config["task"].get("task") == "lm":
        raise CheckpointError(
            f"The run in {folder} must be of the pronouncing model (g2p), but it is of a "
            f"language model; go on with it by `train lm --resume {folder}`."
        )
    model, _, _ = build(config)
    pairs = _unchanged(config, "pairs")
    task = G2P(_g2p_data(pairs))
    own = _own("pairs", pairs)
    return _reopened(folder, task, model.config, own, config, pairs or "the dictionary")


def reopen_lm(folder: Path | str) -> Run:
    """The run of a language model in ``folder``; its text must still be the same."""
    folder = Path(folder)
    config = read_config(folder)
    if config["task"].get("task") != "lm":
        raise CheckpointError(
            f"The run in {folder} must be of a language model (lm), but it is of "
            f"{config['task'].get('task')!r}; go on with it by `train g2p --resume {folder}`."
        )
    model, vocabulary = build(config)
    text = config["task"].get("text")
    task = _lm_task(config, vocabulary)
    # a run of an earlier version does not say what there was no choice of
    unsaid = {"tokens": "characters", "cut": "tiny" if text is None else None}
    config = {**config, "task": unsaid | config["task"]}
    own = {**_own("text", text), "cut": config["task"]["cut"]}
    return _reopened(folder, task, model.config, own, config, text or "the plays")


def _unfit(folder: Path, config: dict, error: TypeError) -> str:
    return (
        f"The settings in {folder / 'config.json'} do not fit this version of the package "
        f"({error}); use the version that wrote it ({config.get('version', 'unknown')})."
    )


def _reopened(
    folder: Path, task: G2P | LM, model: ModelConfig | DecoderOnlyConfig, own: dict,
    config: dict, data: str,
) -> Run:  # fmt: skip
    """A run with the settings it began with, if the data are those it began with."""
    try:
        plain = config["train"].items()  # JSON knows no tuples
        settings = TrainConfig(**{k: tuple(v) if isinstance(v, list) else v for k, v in plain})
    except TypeError as error:
        raise CheckpointError(_unfit(folder, config, error)) from None
    if {**task.describe(), **own} != config["task"]:
        raise CheckpointError(
            f"The data must be those the run in {folder} began with, but {data} has changed; "
            f"restore it or begin a new run."
        )
    return Run(folder, task, model, settings, config)


def perform(
    run: Run,
    device: str = "auto",
    resume: bool = False,
    on_step: Callable[[int], None] | None = None,
    on_record: Callable[[dict], None] | None = None,
) -> list[dict]:
    """Train, write the folder (configuration, metrics, weights, loss curve); the records.

    A resumed run stays on the kind of device where it began, unless another is named, and
    with the kernel of its linear maps.
    """
    began_on = run.config.get("machine", {}).get("kind")
    if resume and device == "auto" and began_on in available_devices():
        device = began_on
    where = choose_device(device)
    config = None
    if resume:
        choose_linear(run.config.get("machine", {}).get("linear", "auto"))
    else:
        machine = {
            "kind": where.type,
            "device": describe_device(where),
            "precision": choose_precision(run.train.precision, where),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "threads": torch.get_num_threads(),
            "linear": linear_kernel(),
        }
        config = {**run.config, "machine": machine}
    with alone(run.folder):
        if config is not None:
            start_run(run.folder, config)
        model = _fresh_model(run)
        records = train(model, run.task, run.train, run.folder, where, resume, on_record, on_step)
        if isinstance(run.task, LM):
            text_baselines(run.folder, run.task.data, baselines.TEXT_BASELINES)
        draw_curve(run.folder)
    return records


def _fresh_model(run: Run) -> EncoderDecoder | DecoderOnly:
    """The model as it is before the first step, by the seed of the run."""
    torch.manual_seed(run.train.seed)
    lm = isinstance(run.model, DecoderOnlyConfig)
    return DecoderOnly(run.model) if lm else EncoderDecoder(run.model)


def find_rate(
    run: Run, device: str = "auto", on_step: Callable[[int], None] | None = None
) -> tuple[float, float]:
    """Try rising learning rates for a new run and draw its ``lr.png``; trains nothing else.

    Returns the suggested rate and that at which the smoothed loss was least: see
    :func:`transformer_lab.train.find_lr`.
    """
    model = _fresh_model(run)
    records, rate = find_lr(model, run.task, run.train, choose_device(device), on_step=on_step)
    figure = blank_figure()
    lr_curve(records, rate, figure.subplots(), _unit(run.task.describe()))
    write_atomically(run.folder / "lr.png", png(figure))
    return rate, min(records, key=lambda r: r["smoothed_loss"])["lr"]


def text_baselines(
    folder: Path, data: TextData, methods: Mapping[str, Callable[[str, str], float]]
) -> dict[str, float]:
    """What methods without a network reach on the held-out text, in nats a character, by name.

    Each method gets the text to learn from and the held-out text. They are computed once: the
    figures stay in the folder's ``baselines.json``.
    """
    path = Path(folder) / "baselines.json"
    found = _kept_baselines(path)
    if found.keys() != methods.keys():
        found = {name: method(data.train, data.held_out) for name, method in methods.items()}
        write_atomically(path, (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode())
    return found


def _kept_baselines(path: Path) -> dict[str, float]:
    """Figures computed before; none where the file is missing or damaged, so they are made anew."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return {}
    whole = isinstance(found, dict) and all(isinstance(x, float) for x in found.values())
    return found if whole else {}


def draw_curve(folder: Path) -> Path:
    """Draw the loss curve of a run into its ``loss.png``, with the baselines that it has."""
    folder = Path(folder)
    figure = blank_figure()
    records = [{name: float(x) for name, x in r.items()} for r in read_metrics(folder)]
    to_beat = _kept_baselines(folder / "baselines.json")
    unit = _unit(read_config(folder)["task"])
    loss_curve(records, figure.subplots(), baselines=to_beat, unit=unit)
    write_atomically(folder / "loss.png", png(figure))
    return folder / "loss.png"


def _unit(task: dict) -> str:
    """What a token of a task stands for."""
    return "character" if task.get("task") == "lm" else "phoneme"


def summary(run: Run) -> str:
    """What a finished run reached, in one line."""
    last = read_metrics(run.folder)[-1]
    if isinstance(run.task, LM):
        reached = (
            f"held-out loss {last['dev_loss']:.3f} nats ({last['dev_bits']:.2f} bits) a character"
        )
    else:
        reached = f"dev WER {last['dev_wer']:.1%}, PER {last['dev_per']:.1%} (greedy)"
    if "best_step" in last:
        reached += f"; the weights are those of step {last['best_step']:,}, the best on dev"
    return (
        f"Done: {last['step']:,} steps, {last['cpu_seconds']:.0f} s of CPU time; {reached}. "
        f"The run is in {run.folder}."
    )


def evaluate(
    folder: Path,
    part: str = "dev",
    width: int = 1,
    pairs: Path | None = None,
    limit: int | None = None,
    device: str = "auto",
    advance: Callable[[int, int], None] | None = None,
) -> Scores:
    """Error rates of a run or a shipped model on held-out words."""
    if part not in ("dev", "test"):
        raise ValueError(f"The part must be dev or test (held-out words), but got {part!r}.")
    speaker = load(folder, choose_device(device))
    if not isinstance(speaker, Pronouncer):
        raise ValueError(
            f"Words are judged with a pronouncing model, but {folder} holds a language model."
        )
    own = pairs if pairs is not None else _unchanged(speaker.about["config"], "pairs")
    entries = sample(getattr(_g2p_data(own), part), limit)
    return score_words(
        speaker.model, entries, speaker.source, speaker.target, width, advance=advance
    )


def evaluate_alignment(
    folder: Path,
    part: str,
    lexicon: Path,
    limit: int | None = None,
    advance: Callable[[int, int], None] | None = None,
) -> dict[str, object]:
    """How well cross-attention agrees with gold alignments (see :func:`pretrained.agreement`)."""
    speaker = load(folder)
    if not isinstance(speaker, Pronouncer):
        raise ValueError(f"Only a pronouncing model has alignments, but {folder} holds another.")
    gold = read_gruut(lexicon, load_g2p().entries(part))
    return agreement(speaker, sample(gold, limit), advance)


def evaluate_lm(folder: Path, device: str = "auto") -> dict[str, int | float]:
    """Loss of a language model on the held-out part of its text, by name."""
    folder = Path(folder)
    writer = load(folder, choose_device(device))
    task = _lm_task(read_config(folder), writer.vocabulary)
    judged = task.judge(writer.model, "dev", None)
    return {
        "characters": task.predicted,
        "nats_a_character": judged["dev_loss"],
        "bits_a_character": judged["dev_bits"],
    }


def _lm_task(config: dict, vocabulary: Vocabulary | ByteBPE) -> LM:
    """The task of a language model, with the text it was trained on."""
    _unchanged(config, "text")
    pieces = vocabulary if isinstance(vocabulary, ByteBPE) else None
    task = LM(_text_data(config["task"]), config["task"]["context"], pieces)
    if pieces is None and task.describe()["symbols"] != config["task"]["symbols"]:
        raise CheckpointError(
            f"The characters of the text must be those the run began with, but this text has "
            f"{len(task.data.symbols)} and the run {len(config['task']['symbols'])}, or others; "
            f"restore the text it names."
        )
    return task
