r"""Named settings for runs: functions that return a full configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

from .models import DecoderOnlyConfig, ModelConfig
from .tasks import G2P, LM
from .train import TrainConfig


@dataclass(frozen=True)
class Preset:
    """One named setting: the model's options, the training's, and what it is for.

    ``context``: tokens that a language model sees at once (of no meaning for g2p).
    """

    about: str
    train: TrainConfig
    model: dict = field(default_factory=dict)
    context: int = 64

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
    "lab": Preset(
        "about half an hour on one thread; what the book calls full strength",
        TrainConfig(
            steps=18_500, batch_size=96, lr=2e-3, warmup=800, judge_every=1850,
            checkpoint_every=925, log_every=100,
        ),
        {
            "d_model": 128, "h": 4, "d_ff": 512, "dropout": 0.1, "encoder_layers": 3,
            "decoder_layers": 3,
        },
    ),
}  # fmt: skip
"""Presets of ``transformer-lab train g2p``, by name."""

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
            steps=3000, batch_size=16, lr=4e-3, warmup=100, smoothing=0.0, judge_every=500
        ),
    ),
    "lab": Preset(
        "about half an hour on one thread; what the book calls full strength",
        TrainConfig(
            steps=9_200, batch_size=16, lr=2e-3, warmup=400, smoothing=0.0, weight_decay=0.1,
            judge_every=920, checkpoint_every=460, log_every=50,
        ),
        {"d_model": 192, "h": 6, "d_ff": 768, "layers": 4, "dropout": 0.1},
        context=128,
    ),
}  # fmt: skip
"""Presets of ``transformer-lab train lm``, by name."""
