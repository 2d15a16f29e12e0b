r"""Trained models: those the book ships, and those of your own runs.

A folder with ``config.json`` and ``weights.safetensors`` is a model. The shipped ones lie
beside this file, in half precision, with the log and the figures of the run that made them.
"""

from __future__ import annotations

import json
import unicodedata
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from ..batches import pad
from ..checkpoint import (
    CheckpointError,
    load_into,
    load_tensors,
    save_tensors,
    write_atomically,
)
from ..decode import Hypothesis, beam, greedy
from ..models import EncoderDecoder, ModelConfig
from ..tokens import BOS, EOS, Vocabulary

HERE = Path(__file__).parent


def available() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(p.parent.name for p in HERE.glob("*/config.json"))


@dataclass(frozen=True)
class Explanation:
    r"""One word and what the model does with it.

    ``letters`` (S of them); ``symbols`` (T of them: the phonemes, then ``<eos>``,
    whether or not the model wrote it);
    ``probability_T``: what the model gave each symbol when its turn came;
    ``cross_LHTS``: cross-attention weights of every decoder layer and head. Row t of a map is
    the distribution over the letters used to predict symbol t.
    """

    letters: tuple[str, ...]
    symbols: tuple[str, ...]
    probability_T: np.ndarray
    cross_LHTS: np.ndarray

    @property
    def phones(self) -> tuple[str, ...]:
        """The phonemes: the symbols without the end symbol."""
        return self.symbols[:-1]


class Pronouncer:
    """A spelling-to-pronunciation model, ready for use: see :func:`load`."""

    def __init__(self, model: EncoderDecoder, source: Vocabulary, target: Vocabulary, about: dict):
        self.model, self.source, self.target, self.about = model.eval(), source, target, about

    def spelling(self, word: str) -> str:
        """``word`` as the model reads it: composed (NFC), small letters unless it knows others."""
        word = unicodedata.normalize("NFC", word.strip())
        if not any(symbol != symbol.lower() for symbol in self.source.symbols):
            word = word.lower()
        if not word:
            raise ValueError("A word needs at least one letter, but got an empty one.")
        return word

    def _ids(self, word: str) -> torch.Tensor:
        device = next(self.model.parameters()).device
        return pad([self.source.encode(self.spelling(word))]).to(device)

    def pronounce(self, word: str, width: int = 1) -> tuple[str, ...]:
        """The phonemes of ``word``: greedy, or the best of a beam of ``width``."""
        return self.nbest(word, width)[0][0]

    def nbest(self, word: str, width: int = 5) -> list[tuple[tuple[str, ...], float]]:
        """Up to ``width`` pronunciations with their log-probabilities (nats), best first."""
        ids_BS = self._ids(word)
        found: list[Hypothesis] = (
            greedy(self.model, ids_BS) if width == 1 else beam(self.model, ids_BS, width)[0]
        )
        return [(self.target.decode(h.ids), h.log_probability) for h in found]

    @torch.inference_mode()
    def explain(self, word: str, phones: tuple[str, ...] | None = None) -> Explanation:
        """What the model looks at while it says ``phones`` (by default: its greedy answer)."""
        ids_BS = self._ids(word)
        phones = self.pronounce(word) if phones is None else tuple(phones)
        ids = self.target.encode(phones)
        trace: dict[str, torch.Tensor] = {}
        inputs_BT = torch.tensor([[BOS, *ids]], device=ids_BS.device)
        logits_TV = self.model(ids_BS, inputs_BT, trace)[0].float()
        said = torch.tensor([*ids, EOS], device=ids_BS.device)
        probability_T = logits_TV.softmax(-1).gather(-1, said[:, None])[:, 0]
        layers = range(len(self.model.decoder))
        cross = torch.stack([trace[f"decoder.{i}.cross.weights_BHTS"][0] for i in layers])
        return Explanation(
            tuple(self.spelling(word)),
            (*phones, "<eos>"),
            probability_T.cpu().numpy(),
            cross.float().cpu().numpy(),
        )


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
    pairs = config["task"].get("pairs")
    if not isinstance(pairs, str | None):
        raise CheckpointError(f"pairs in {path} must be a path or null, but it is {pairs!r:.40}.")
    return config


def _read_json(path: Path) -> dict:
    """The table in a JSON file; one sentence if there is something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
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


def build(config: dict) -> tuple[EncoderDecoder, Vocabulary, Vocabulary]:
    """The untrained model and the two vocabularies that a configuration describes."""
    task = config["task"]
    if task.get("task") != "g2p":
        raise CheckpointError(
            f"A model here must pronounce words (task g2p), but this one's task is "
            f"{task.get('task')!r}; give another folder."
        )
    try:
        model_config = ModelConfig(**config["model"])
        source = Vocabulary(tuple(task["source_symbols"]))
        target = Vocabulary(tuple(task["target_symbols"]))
    except (TypeError, KeyError) as error:
        raise CheckpointError(
            f"The configuration does not fit this version of the package ({error}); use the "
            f"version that wrote it ({config.get('version', 'unknown')})."
        ) from None
    sizes = (model_config.source_size, model_config.target_size)
    if sizes != (len(source), len(target)):
        raise CheckpointError(
            f"source_size and target_size must count the symbols of the task and the special "
            f"ones, {len(source)} and {len(target)}, but the configuration says {sizes[0]} and "
            f"{sizes[1]}; restore it."
        )
    return EncoderDecoder(model_config), source, target


def load(name: str | Path = "g2p-class", device: str | torch.device = "cpu") -> Pronouncer:
    """A trained model by its name (see :func:`available`) or by the folder of a run.

    Raises ``CheckpointError`` if there is none, or it is damaged or foreign.
    """
    folder = folder_of(name)
    config = read_config(folder)
    model, source, target = build(config)
    weights = folder / "weights.safetensors"
    if not weights.exists() and (folder / "checkpoint.safetensors").exists():
        raise CheckpointError(
            f"The run in {folder} has not finished; go on with "
            f"`transformer-lab train g2p --resume {folder}`."
        )
    tensors, _ = load_tensors(weights)
    load_into(model, tensors, str(weights))
    figures = folder / "figures.json"
    about = {"config": config}
    if figures.is_file():
        about["figures"] = _read_json(figures)
    return Pronouncer(model.to(device), source, target, about)


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
    pronouncer = load(run)
    half = {name: t.half() for name, t in pronouncer.model.state_dict().items()}
    _, about = load_tensors(run / "weights.safetensors")
    save_tensors(folder / "weights.safetensors", half, about)
    for name in ("config.json", "metrics.jsonl"):
        write_atomically(folder / name, (run / name).read_bytes())


def record_figures(folder: Path, key: str, scores: object, extra: dict) -> dict:
    """Add measured figures under ``key`` to a folder's ``figures.json``; returns them all."""
    path = Path(folder) / "figures.json"
    figures = _read_json(path) if path.is_file() else {}
    figures[key] = {**asdict(scores), "wer": scores.wer, "per": scores.per, **extra}
    write_atomically(path, (json.dumps(figures, indent=2) + "\n").encode())
    return figures
