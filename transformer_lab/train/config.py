r"""What can be asked of a training."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from ..schedules import SCHEDULES

MOST_BATCHES = 1000
"""Batches a step may learn from: they are drawn before its first gradient."""


@dataclass(frozen=True)
class TrainConfig:
    """How to train. ``lr`` is the peak rate; ``warmup`` counts steps; ``clip`` bounds the norm
    of the whole gradient; ``smoothing`` is the label smoothing α; ``dev_words`` is how many
    words of dev (windows of a held-out text) are judged on the way, all of them at the end.
    ``accumulate`` is the number of batches a step learns from; ``patience``, if given, the
    number of judgements in a row without a new least dev loss after which the run stops early;
    ``precision`` is auto, fp32, bf16 or fp16.
    Raises ``ValueError`` for values that cannot work.
    """

    steps: int
    batch_size: int = 64
    lr: float = 3e-3
    warmup: int = 100
    schedule: str = "cosine"
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    clip: float = 1.0
    smoothing: float = 0.1
    seed: int = 1
    log_every: int = 50
    judge_every: int = 500
    checkpoint_every: int = 500
    dev_words: int = 500
    precision: str = "auto"
    accumulate: int = 1
    patience: int | None = None

    def __post_init__(self) -> None:
        _check_types(self)
        object.__setattr__(self, "betas", tuple(self.betas))
        lowest = dict.fromkeys(
            (
                "steps", "batch_size", "log_every", "judge_every", "checkpoint_every",
                "dev_words", "accumulate", "patience",
            ), 1,
        ) | {"warmup": 0, "seed": 0}  # fmt: skip
        for field, least in lowest.items():
            if getattr(self, field) is not None and getattr(self, field) < least:
                raise ValueError(
                    f"{field} must be at least {least}, but got {getattr(self, field)}; raise it."
                )
        for field, most in {"steps": 10**9, "warmup": 10**9, "batch_size": 10**6}.items():
            if getattr(self, field) > most:
                raise ValueError(
                    f"{field} must be at most {most}, but got {getattr(self, field)}; lower it."
                )
        if not self.weight_decay >= 0 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(
                f"weight_decay must be at least 0 and both betas in 0 ≤ beta < 1, but got "
                f"{self.weight_decay} and {self.betas}; 0.01 and (0.9, 0.98) are usual."
            )
        if self.seed >= 2**32:
            raise ValueError(f"seed must be below 2³², but got {self.seed}; choose a smaller one.")
        if self.accumulate > MOST_BATCHES:
            raise ValueError(
                f"accumulate must be at most {MOST_BATCHES}, since all batches of a step are in "
                f"memory at once, but got {self.accumulate}; make batch_size larger."
            )
        if not 0 <= self.smoothing < 1:
            raise ValueError(
                f"smoothing is a share and must lie in 0 ≤ smoothing < 1, but got "
                f"{self.smoothing}; 0.1 is usual."
            )
        if not (0 < self.lr < math.inf and self.clip > 0):
            raise ValueError(
                f"lr and clip must be above 0 and lr finite, but got lr = {self.lr} and clip = "
                f"{self.clip}; lr = 0.003 and clip = 1 are usual."
            )
        if self.schedule not in SCHEDULES:
            raise ValueError(
                f"schedule must be one of {', '.join(SCHEDULES)}, but got {self.schedule!r}."
            )


def _check_types(config: TrainConfig) -> None:
    """Settings that were read from a file may be of any type."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.type in ("int", "int | None"):
            fits, rule = _is_whole(value), "a whole number"
            fits = fits or (value is None and field.type == "int | None")
        elif field.type == "float":
            fits, rule = _is_number(value), "a number"
        elif field.type == "str":
            fits, rule = isinstance(value, str), "a name"
        else:
            pair = isinstance(value, tuple | list) and len(value) == 2
            fits, rule = pair and all(map(_is_number, value)), "two numbers"
        if not fits:
            raise ValueError(f"{field.name} must be {rule}, but got {value!r:.40}; mend it.")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_whole(value) or isinstance(value, float)
