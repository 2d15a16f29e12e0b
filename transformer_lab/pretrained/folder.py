r"""The folder of a model: its configuration, its weights, its figures."""

from __future__ import annotations

import json
from pathlib import Path

from torch import Tensor

from ..checkpoint import CheckpointError, load_tensors, save_tensors, write_atomically

HERE = Path(__file__).parent


def available() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(p.parent.name for p in HERE.glob("*/config.json"))


def read_config(folder: Path) -> dict:
    """The configuration of a run or a shipped model; one sentence if there is none."""
    path = Path(folder) / "config.json"
    try:
        config = _read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(
            f"A run is a folder with a config.json, but {folder} has none; give the folder "
            f"that `transformer-lab train` wrote, or one of: {', '.join(available())}."
        ) from None
    for part in ("task", "model", "train"):
        if not isinstance(config.get(part), dict):
            raise CheckpointError(
                f"{path} must describe task, model and train of a run, but {part} is missing "
                f"or no table; restore it or train again."
            )
    machine = config.get("machine", {})
    threads = machine.get("threads", 1) if isinstance(machine, dict) else 0
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise CheckpointError(
            f"machine in {path} must be a table with a whole number of threads, at least 1, but "
            f"it is {machine!r:.60}; restore it or leave it out."
        )
    for own in ("pairs", "text"):
        file = config["task"].get(own)
        if not isinstance(file, str | None) or "\0" in (file or ""):
            raise CheckpointError(
                f"{own} in {path} must be a path or null, but it is {file!r:.40}."
            )
    return config


def _read_json(path: Path) -> dict:
    """The table in a JSON file; one sentence if there is something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # also numbers of too many digits
        raise CheckpointError(
            f"{path} is damaged or no JSON ({error}); restore it, or remove it and make it again."
        ) from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{path} must hold a JSON table, but it holds {found!r:.40}.")
    return found


def folder_of(name: str | Path) -> Path:
    """The folder of a shipped model (by name) or of a run (by path)."""
    shipped = HERE / str(name)
    return shipped if str(name) in available() else Path(name)


def export(run: Path, folder: Path) -> None:
    """Copy a finished run as a model to ship: weights in half precision, configuration, log.

    Figures are not copied: the rounded weights are judged anew (``transformer-lab evaluate
    FOLDER --record``).
    """
    run, folder = Path(run), Path(folder)
    if (folder / "checkpoint.safetensors").exists():
        raise ValueError(
            f"A model to ship needs a folder of its own, but {folder} holds a run, whose exact "
            f"weights would be lost; choose another folder."
        )
    tensors, about = read_weights(run, read_config(run))
    half = {name: t.half() for name, t in tensors.items()}
    save_tensors(folder / "weights.safetensors", half, about)
    for name in ("config.json", "metrics.jsonl"):
        write_atomically(folder / name, (run / name).read_bytes())


def read_weights(folder: Path, config: dict) -> tuple[dict[str, Tensor], dict]:
    """The weights in a folder and what is said of them; a sentence for a run that goes on."""
    weights = folder / "weights.safetensors"
    if not weights.exists() and (folder / "checkpoint.safetensors").exists():
        raise CheckpointError(
            f"The run in {folder} has not finished; go on with "
            f"`transformer-lab train {config['task'].get('task', 'g2p')} --resume {folder}`."
        )
    return load_tensors(weights)


def read_figures(folder: Path) -> dict | None:
    """The measured figures of a model, if there are any."""
    path = folder / "figures.json"
    return _read_json(path) if path.is_file() else None


def record_figures(folder: Path, key: str, measured: dict) -> dict:
    """Add measured figures under ``key`` to a folder's ``figures.json``; returns them all."""
    figures = read_figures(Path(folder)) or {}
    figures[key] = measured
    path = Path(folder) / "figures.json"
    write_atomically(path, (json.dumps(figures, indent=2) + "\n").encode())
    return figures
