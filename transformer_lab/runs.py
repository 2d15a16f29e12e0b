r"""Runs: from a command to a folder with a trained model, and back."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from . import __version__
from .checkpoint import CheckpointError, write_atomically
from .data import G2PData, load_g2p, read_pairs
from .devices import available_devices, choose_device, choose_precision, describe_device
from .metrics import Scores
from .models import EncoderDecoder, ModelConfig
from .presets import G2P_PRESETS
from .pretrained import build, load, read_config
from .tasks import G2P, sample, score_words
from .train import TrainConfig, check_new, read_metrics, start_run, train


@dataclass(frozen=True)
class Run:
    """One run of training: where, what, with which settings."""

    folder: Path
    task: G2P
    model: ModelConfig
    train: TrainConfig
    config: dict


def _g2p_data(pairs: Path | str | None) -> G2PData:
    return load_g2p() if pairs is None else read_pairs(pairs)


def _own_pairs(pairs: Path | str | None) -> dict[str, str | None]:
    """Where a reader's pairs lie, and a hash by which they are known again."""
    if pairs is None:
        return {"pairs": None}
    path = Path(pairs).resolve()
    return {"pairs": str(path), "pairs_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def new_g2p(
    folder: Path | str, preset: str = "class", changes: dict | None = None,
    pairs: Path | str | None = None,
) -> Run:  # fmt: skip
    """Settings of a new run: a preset, with single values of :class:`TrainConfig` changed.

    A change to ``None`` changes nothing.
    """
    if preset not in G2P_PRESETS:
        raise ValueError(
            f"The preset must be one of {', '.join(G2P_PRESETS)}, but got {preset!r}; choose "
            f"one of these."
        )
    check_new(Path(folder))
    chosen = G2P_PRESETS[preset]
    wanted = {name: value for name, value in (changes or {}).items() if value is not None}
    settings = dataclasses.replace(chosen.train, **wanted)
    task = G2P(_g2p_data(pairs))
    model = chosen.model_for(task)
    config = {
        "version": __version__,
        "preset": preset,
        "task": {**task.describe(), **_own_pairs(pairs)},
        "model": asdict(model),
        "train": asdict(settings),
    }
    return Run(Path(folder), task, model, settings, config)


def reopen_g2p(folder: Path | str) -> Run:
    """The run in ``folder``, as it was asked for; its data must still be the same."""
    folder = Path(folder)
    config = read_config(folder)
    model, _, _ = build(config)
    try:
        plain = config["train"].items()  # JSON knows no tuples
        settings = TrainConfig(**{k: tuple(v) if isinstance(v, list) else v for k, v in plain})
    except TypeError as error:
        raise CheckpointError(
            f"The settings in {folder / 'config.json'} do not fit this version of the package "
            f"({error}); use the version that wrote it ({config.get('version', 'unknown')})."
        ) from None
    pairs = config["task"].get("pairs")
    task = G2P(_g2p_data(pairs))
    if {**task.describe(), **_own_pairs(pairs)} != config["task"]:
        raise CheckpointError(
            f"The data must be those the run in {folder} began with, but "
            f"{pairs or 'the dictionary'} has changed; restore it or begin a new run."
        )
    return Run(folder, task, model.config, settings, config)


def perform(
    run: Run,
    device: str = "auto",
    resume: bool = False,
    on_step: Callable[[int], None] | None = None,
    on_record: Callable[[dict], None] | None = None,
) -> list[dict]:
    """Train, write the folder (configuration, metrics, weights, loss curve); the records.

    A resumed run stays on the kind of device where it began, unless another is named.
    """
    began_on = run.config.get("machine", {}).get("kind")
    if resume and device == "auto" and began_on in available_devices():
        device = began_on
    where = choose_device(device)
    if not resume:
        machine = {
            "kind": where.type,
            "device": describe_device(where),
            "precision": choose_precision(run.train.precision, where),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "threads": torch.get_num_threads(),
        }
        start_run(run.folder, {**run.config, "machine": machine})
    torch.manual_seed(run.train.seed)
    model = EncoderDecoder(run.model)
    records = train(model, run.task, run.train, run.folder, where, resume, on_record, on_step)
    draw_curve(run.folder)
    return records


def draw_curve(folder: Path) -> Path:
    """Draw the loss curve of a run into its ``loss.png``."""
    from matplotlib.figure import Figure

    from .plots import loss_curve

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    records = [{name: float(x) for name, x in r.items()} for r in read_metrics(folder)]
    loss_curve(records, figure.subplots())
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=150)
    path = Path(folder) / "loss.png"
    write_atomically(path, picture.getvalue())
    return path


def summary(run: Run) -> str:
    """What a finished run reached, in one line."""
    last = read_metrics(run.folder)[-1]
    return (
        f"Done: {last['step']:,} steps, {last['cpu_seconds']:.0f} s of CPU time; dev WER "
        f"{last['dev_wer']:.1%}, PER {last['dev_per']:.1%} (greedy). "
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
    own = pairs if pairs is not None else speaker.about["config"]["task"].get("pairs")
    entries = sample(getattr(_g2p_data(own), part), limit)
    return score_words(
        speaker.model, entries, speaker.source, speaker.target, width, advance=advance
    )
