r"""One check of a GPU: does it learn the same, and how fast?"""

from __future__ import annotations

import dataclasses
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from . import __version__
from .data import load_g2p
from .devices import choose_device, choose_precision, describe_device
from .models import EncoderDecoder, ModelConfig
from .presets import G2P_PRESETS
from .tasks import G2P, score_words
from .train import TrainConfig, train

COMPARED = 10
TOLERANCE = 2e-3


def first_losses(
    task: G2P, model: ModelConfig, settings: TrainConfig, device: torch.device
) -> list[float]:
    """Losses of the first steps in float32, without dropout, from the same first weights."""
    torch.manual_seed(settings.seed)
    fresh = EncoderDecoder(dataclasses.replace(model, dropout=0.0))
    few = dataclasses.replace(
        settings, steps=COMPARED, log_every=1, judge_every=COMPARED, dev_words=20,
        checkpoint_every=COMPARED, precision="fp32",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        records = train(fresh, _Unjudged(task), few, Path(folder), device)
    return [record["loss"] for record in records]


class _Unjudged:
    """The task without its judgement on dev: only the losses are wanted here."""

    def __init__(self, task: G2P):
        self.batches, self.loss, self.describe = task.batches, task.loss, task.describe

    def judge(self, model, part, limit) -> dict[str, float]:
        return {}


def check(device_name: str, steps: int, advance: Callable[[int, int], None] | None = None) -> dict:
    """Compare first losses with the CPU's, train the class model, measure its speed.

    Returns the figures as JSON-able values: names and versions, both lists of losses and
    their largest difference (nats a token), tokens a second, dev error rates. ``agrees`` is
    whether the losses differ by at most ``TOLERANCE``. Raises ``ValueError`` if the device is
    not here.
    """
    device = choose_device(device_name)
    preset = G2P_PRESETS["class"]
    task = G2P(load_g2p())
    model_config = preset.model_for(task)
    here = first_losses(task, model_config, preset.train, torch.device("cpu"))
    there = first_losses(task, model_config, preset.train, device)
    apart = max(abs(a - b) for a, b in zip(here, there, strict=True))
    often = min(preset.train.log_every, max(1, steps // 4))  # speed needs two records
    settings = dataclasses.replace(preset.train, steps=steps, log_every=often, judge_every=steps)
    torch.manual_seed(settings.seed)
    model = EncoderDecoder(model_config)
    began = time.perf_counter()
    marks: list[tuple[float, int]] = []
    with tempfile.TemporaryDirectory() as folder:

        def note(record: dict) -> None:
            marks.append((time.perf_counter(), record["tokens"]))

        def step(done: int) -> None:
            if advance is not None:
                advance(done, steps)

        train(model, _Unjudged(task), settings, Path(folder), device, on_record=note, on_step=step)
    seconds = time.perf_counter() - began
    (t0, n0), (t1, n1) = marks[0], marks[-1]
    scores = score_words(model, task.data.dev, task.source, task.target)
    return {
        "machine": describe_device(device),
        "platform": platform.platform(terse=True),
        "torch": torch.__version__,
        "package": __version__,
        "precision": choose_precision(settings.precision, device),
        "steps": steps,
        "losses_cpu": here,
        "losses_device": there,
        "largest_difference": apart,
        "tolerance": TOLERANCE,
        "agrees": apart <= TOLERANCE,
        "target_tokens_per_second": (n1 - n0) / (t1 - t0),
        "training_seconds": seconds,
        "parameters": model.parameters_count(),
        "dev_wer": scores.wer,
        "dev_per": scores.per,
    }
