r"""One check of a GPU: does it learn the same, and how fast? For both models."""

from __future__ import annotations

import dataclasses
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from . import __version__
from .data import load_g2p, load_shakespeare
from .devices import choose_device, choose_precision, describe_device
from .models import DecoderOnly, DecoderOnlyConfig, EncoderDecoder
from .presets import G2P_PRESETS, LM_PRESETS, Preset
from .tasks import G2P, LM
from .train import train

COMPARED = 10
TOLERANCE = 2e-3


def subjects() -> dict[str, tuple[Preset, G2P | LM]]:
    """What is trained: the class presets of both models, by task."""
    lm = LM_PRESETS["class"]
    return {
        "g2p": (G2P_PRESETS["class"], G2P(load_g2p())),
        "lm": (lm, LM(load_shakespeare(), lm.context)),
    }


def check(device_name: str, steps: int, advance: Callable[[int, int], None] | None = None) -> dict:
    """Compare first losses with the CPU's, train both class models, measure their speed.

    Returns the figures as JSON-able values: names and versions, and under ``models``, for g2p
    and lm: both lists of losses and their largest difference (nats a token), tokens a second,
    what the trained model reaches on dev (the held-out text). ``agrees`` is whether all losses
    differ by at most ``TOLERANCE``. Raises ``ValueError`` if the device is not here.
    """
    device = choose_device(device_name)
    chosen = subjects()
    models = {}
    for number, (name, (preset, task)) in enumerate(chosen.items()):

        def step(done: int, before: int = number * steps) -> None:
            if advance is not None:
                advance(before + done, len(chosen) * steps)

        models[name] = _check_one(preset, task, device, steps, step)
    return {
        "machine": describe_device(device),
        "platform": platform.platform(terse=True),
        "torch": torch.__version__,
        "package": __version__,
        "steps": steps,
        "tolerance": TOLERANCE,
        "agrees": all(figures["agrees"] for figures in models.values()),
        "models": models,
    }


def _check_one(
    preset: Preset, task: G2P | LM, device: torch.device, steps: int, on_step: Callable[[int], None]
) -> dict:
    """The figures of one model."""
    here = first_losses(preset, task, torch.device("cpu"))
    there = first_losses(preset, task, device)
    apart = max(abs(a - b) for a, b in zip(here, there, strict=True))
    often = min(preset.train.log_every, max(1, steps // 4))  # speed needs two records
    settings = dataclasses.replace(preset.train, steps=steps, log_every=often, judge_every=steps)
    model = _fresh(preset, task, settings.seed)
    began = time.perf_counter()
    marks: list[tuple[float, int]] = []

    def note(record: dict) -> None:
        marks.append((time.perf_counter(), record["tokens"]))

    with tempfile.TemporaryDirectory() as folder:
        train(
            model, _Unjudged(task), settings, Path(folder), device, on_record=note, on_step=on_step
        )
    seconds = time.perf_counter() - began
    (t0, n0), (t1, n1) = marks[0], marks[-1]
    return {
        "parameters": model.parameters_count(),
        "precision": choose_precision(settings.precision, device),
        "losses_cpu": here,
        "losses_device": there,
        "largest_difference": apart,
        "agrees": apart <= TOLERANCE,
        "tokens_per_second": (n1 - n0) / (t1 - t0),
        "training_seconds": seconds,
        **task.judge(model, "dev", None),
    }


def _fresh(preset: Preset, task: G2P | LM, seed: int, **changes: float) -> nn.Module:
    """The preset's model before its first step."""
    torch.manual_seed(seed)
    config = dataclasses.replace(preset.model_for(task), **changes)
    return DecoderOnly(config) if isinstance(config, DecoderOnlyConfig) else EncoderDecoder(config)


def first_losses(preset: Preset, task: G2P | LM, device: torch.device) -> list[float]:
    """Losses of the first steps in float32, without dropout, from the same first weights."""
    few = dataclasses.replace(
        preset.train, steps=COMPARED, log_every=1, judge_every=COMPARED, dev_words=20,
        checkpoint_every=COMPARED, precision="fp32",
    )  # fmt: skip
    fresh = _fresh(preset, task, few.seed, dropout=0.0)
    with tempfile.TemporaryDirectory() as folder:
        records = train(fresh, _Unjudged(task), few, Path(folder), device)
    return [record["loss"] for record in records]


class _Unjudged:
    """A task without its judgement on dev: only the losses are wanted here."""

    def __init__(self, task: G2P | LM):
        self.task = task

    def describe(self) -> dict:
        return self.task.describe()

    def batches(self, seed: int, epoch: int, batch_size: int) -> Iterator:
        return self.task.batches(seed, epoch, batch_size)

    def loss(self, model: nn.Module, batch: object, smoothing: float) -> tuple[Tensor, Tensor]:
        return self.task.loss(model, batch, smoothing)

    def judge(self, model: nn.Module, part: str, limit: int | None) -> dict[str, float]:
        return {}
