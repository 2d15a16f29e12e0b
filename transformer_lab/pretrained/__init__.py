r"""Trained models: those the book ships, and those of your own runs.

A folder with ``config.json`` and ``weights.safetensors`` is a model. The shipped ones lie
beside this file, in half precision, with the log and the figures of the run that made them.
"""

from __future__ import annotations

from pathlib import Path

import torch

from ..checkpoint import CheckpointError, load_into
from ..models import DecoderOnly, DecoderOnlyConfig, EncoderDecoder, ModelConfig
from ..tokens import ByteBPE, Vocabulary
from .agreement import agreement
from .folder import (
    available,
    export,
    folder_of,
    read_config,
    read_figures,
    read_weights,
    record_figures,
)
from .heads import HeadInputs, HeadStatistics, head_inputs, head_statistics, untrained
from .pronouncer import Explanation, Pronouncer
from .writer import Writer

__all__ = [
    "Explanation",
    "HeadInputs",
    "HeadStatistics",
    "Pronouncer",
    "Writer",
    "agreement",
    "available",
    "build",
    "export",
    "folder_of",
    "head_inputs",
    "head_statistics",
    "load",
    "read_config",
    "record_figures",
    "untrained",
]

Built = tuple[EncoderDecoder, Vocabulary, Vocabulary] | tuple[DecoderOnly, Vocabulary | ByteBPE]


def load(
    name: str | Path = "g2p-class", device: str | torch.device = "cpu"
) -> Pronouncer | Writer:
    """A trained model by its name (see :func:`available`) or by the folder of a run.

    A :class:`Pronouncer` or a :class:`Writer`, as its task is. Raises ``CheckpointError`` if
    there is none, or it is damaged or foreign.
    """
    folder = folder_of(name)
    config = read_config(folder)
    model, *vocabularies = build(config)
    tensors, _ = read_weights(folder, config)
    load_into(model, tensors, str(folder / "weights.safetensors"))
    about = {"config": config}
    figures = read_figures(folder)
    if figures is not None:
        about["figures"] = figures
    kind = Writer if isinstance(model, DecoderOnly) else Pronouncer
    return kind(model.to(device), *vocabularies, about)


def build(config: dict) -> Built:
    """The untrained model that a configuration describes, and its one or two vocabularies."""
    task = config["task"]
    if task.get("task") not in ("g2p", "lm"):
        raise CheckpointError(
            f"The task of a model must be g2p (it pronounces words) or lm (it continues texts), "
            f"but this one's is {task.get('task')!r}; give another folder."
        )
    try:
        if task["task"] == "lm":
            model_config = DecoderOnlyConfig(**config["model"])
            vocabularies = [_tokens(task)]
        else:
            model_config = ModelConfig(**config["model"])
            names = ("source_symbols", "target_symbols")
            vocabularies = [Vocabulary(tuple(task[name])) for name in names]
    except (TypeError, KeyError) as error:
        raise CheckpointError(
            f"The configuration does not fit this version of the package ({error}); use the "
            f"version that wrote it ({config.get('version', 'unknown')})."
        ) from None
    if isinstance(model_config, DecoderOnlyConfig):
        _check_sizes(vocabularies, ["size"], [model_config.size])
        if task.get("context") != model_config.max_length or isinstance(task["context"], float):
            raise CheckpointError(
                f"The context of a language model must be the max_length of its model, "
                f"{model_config.max_length}, but the configuration says "
                f"{task.get('context')!r:.40}; restore it."
            )
        return DecoderOnly(model_config), *vocabularies
    sizes = [model_config.source_size, model_config.target_size]
    _check_sizes(vocabularies, ["source_size", "target_size"], sizes)
    return EncoderDecoder(model_config), *vocabularies


def _tokens(task: dict) -> Vocabulary | ByteBPE:
    """What a language model reads and writes: characters, unless its configuration says bpe."""
    kind = task.get("tokens", "characters")
    if kind not in ("characters", "bpe"):
        raise CheckpointError(
            f"The tokens of a language model must be characters or bpe, but this one's are "
            f"{kind!r}; restore its configuration."
        )
    return ByteBPE(tuple(task["merges"])) if kind == "bpe" else Vocabulary(tuple(task["symbols"]))


def _check_sizes(
    vocabularies: list[Vocabulary | ByteBPE], names: list[str], sizes: list[int]
) -> None:
    """A model has one embedding for each symbol of its vocabularies."""
    found = [len(vocabulary) for vocabulary in vocabularies]
    if sizes != found:
        raise CheckpointError(
            f"{' and '.join(names)} must count the symbols of the task and the special ones, "
            f"{' and '.join(map(str, found))}, but the configuration says "
            f"{' and '.join(map(str, sizes))}; restore it."
        )
