r"""transformer_lab: the Transformer of the book, small enough to read, real enough to train.

The rooms, in the order in which data flow through them: ``notation``, ``plots``, ``tokens``,
``data``, ``baselines``, ``batches``, ``kernels``, ``positions``, ``norms``, ``attention``,
``layers``, ``models``, ``losses``, ``metrics``, ``decode``, ``schedules``, ``optim``, ``devices``,
``checkpoint``, ``tasks``, ``train``, ``backward``, ``presets``, ``pretrained``, ``runs``,
``gpu_check``, ``doctor``, ``derivations``, ``exercises``, ``cli``. A room imports only from rooms
before it.

The names below are loaded when they are first used, so that ``import transformer_lab`` costs
nothing and works where torch is not installed.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_HOME = {
    "Batch": "batches",
    "ByteBPE": "tokens",
    "ContextModel": "baselines",
    "DecoderLayer": "layers",
    "DecoderOnly": "models",
    "DecoderOnlyConfig": "models",
    "EncoderDecoder": "models",
    "EncoderLayer": "layers",
    "FeedForward": "layers",
    "G2P": "tasks",
    "GREEDY": "decode",
    "LM": "tasks",
    "LayerNorm": "norms",
    "Mask": "attention",
    "ModelConfig": "models",
    "MultiHeadAttention": "attention",
    "Pronouncer": "pretrained",
    "Strategy": "decode",
    "TrainConfig": "train",
    "Vocabulary": "tokens",
    "attend": "attention",
    "attention_weights": "attention",
    "beam": "decode",
    "cross_entropy": "losses",
    "edit_distance": "metrics",
    "greedy": "decode",
    "layer_norm": "norms",
    "load": "pretrained",
    "load_g2p": "data",
    "load_shakespeare": "data",
    "padding_mask": "attention",
    "sampling": "decode",
    "score": "metrics",
    "sinusoidal_table": "positions",
}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
