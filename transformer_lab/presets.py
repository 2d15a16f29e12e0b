r"""Named settings for runs: functions that return a full configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

from .models import DecoderOnlyConfig, ModelConfig
from .tasks import G2P, LM
from .train import TrainConfig


@dataclass(frozen=True)
class Preset:
    """One named setting: the model's options, the training's, and what it is for."""

    about: str
    train: TrainConfig
    model: dict = field(default_factory=dict)

    def model_for(self, task: G2P | LM) -> ModelConfig | DecoderOnlyConfig:
        """The model's configuration for the vocabularies (and lengths) of ``task``."""
        if isinstance(task, LM):
            return DecoderOnlyConfig(len(task.vocabulary), max_length=task.context, **self.model)
        length = max(64, task.longest + 2)
        return ModelConfig(len(task.source), len(task.target), max_length=length, **self.model)


G2P_PRESETS: dict[str, Preset] = {
    "test": Preset(
        "seconds on any machine; shows that everything runs, learns little",
        TrainConfig(
            steps=60, batch_size=32, lr=4e-3, warmup=10, log_every=10, judge_every=30,
            checkpoint_every=20, dev_words=50,
        ),
        {"d_model": 32, "h": 2, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1},
    ),
    "class": Preset(
        "about two minutes on one thread of a laptop",
        TrainConfig(
            steps=4200, batch_size=64, lr=4e-3, warmup=150, judge_every=600, checkpoint_every=600
        ),
        {"d_model": 64, "h": 4, "d_ff": 256, "dropout": 0.0},
    ),
}  # fmt: skip
"""Presets of ``transformer-lab train g2p``, by name."""

LM_CONTEXT = 64
"""Characters that a language model of the presets sees at once."""

LM_PRESETS: dict[str, Preset] = {
    "test": Preset(
        "seconds on any machine; shows that everything runs, learns little",
        TrainConfig(
            steps=60, batch_size=8, lr=4e-3, warmup=10, smoothing=0.0, log_every=10,
            judge_every=30, checkpoint_every=20, dev_words=40,
        ),
        {"d_model": 32, "h": 2, "d_ff": 64, "layers": 1},
    ),
    "class": Preset(
        "about a minute or two on one thread of a laptop",
        TrainConfig(
            steps=2000, batch_size=16, lr=4e-3, warmup=100, smoothing=0.0, judge_every=500
        ),
    ),
}  # fmt: skip
"""Presets of ``transformer-lab train lm``, by name."""
