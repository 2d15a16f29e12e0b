r"""The one training loop."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

import torch
from torch import nn

from ..checkpoint import (
    CheckpointError,
    load_into,
    load_tensors,
    restore_training_state,
    save_tensors,
    sweep,
    training_state,
    write_atomically,
)
from ..devices import choose_precision, random_state
from ..tasks import Task
from .best import Best
from .config import TrainConfig
from .diagnosis import Failure, NotFinite, diagnose, replay
from .folder import EXTRAS, FILES, read_metrics
from .step import Stepper, endless
from .stopping import StopFlag, Stopped

MOST_SKIPPED = 20
"""So many steps of fp16 may overflow in a row: by then the scale has fallen a millionfold."""


@dataclass
class Progress:
    """Where a run stands; part of every checkpoint. ``skipped`` counts the last steps of fp16
    that overflowed, in a row.
    """

    step: int = 0
    loss_sum: float = 0.0
    tokens: float = 0
    seen_tokens: int = 0
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    skipped: int = 0


def train(
    model: nn.Module,
    task: Task,
    config: TrainConfig,
    folder: Path,
    device: torch.device | None = None,
    resume: bool = False,
    on_record: Callable[[dict], None] | None = None,
    on_step: Callable[[int], None] | None = None,
) -> list[dict]:
    r"""Train ``model`` on ``task`` for ``config.steps`` steps; returns the records of the run.

    Step s draws ``accumulate`` batches, computes the mean loss per token, clips the gradient to
    norm ``clip``, and lets AdamW move by :math:`\eta_s = \mathrm{lr} \cdot f(s)` with f the
    schedule. ``on_record`` hears every record as it is written, ``on_step`` every finished step.

    With ``patience`` the run ends early after so many judgements without a new least dev loss,
    and the weights it leaves, in the file and in ``model``, are those of the best judgement.

    ``resume`` goes on from the checkpoint in ``folder``; a run that was killed before it wrote
    its first one begins again.

    Raises :class:`Stopped` after Ctrl-C or SIGTERM (state saved), :class:`NotFinite` if loss or
    gradient are no longer numbers (the last good state stays on disk).
    """
    folder = Path(folder)
    device = device or torch.device("cpu")
    precision = choose_precision(config.precision, device)
    model.to(device).train()
    stepper = Stepper(model, task, config, device, precision)
    progress, best = Progress(), Best()
    checkpoint, log = folder / "checkpoint.safetensors", folder / "metrics.jsonl"

    def finished() -> bool:
        early = config.patience is not None and best.stale >= config.patience
        return early or progress.step >= config.steps

    resume = resume and (checkpoint.exists() or (folder / "weights.safetensors").exists())
    if resume:
        tensors, about = load_tensors(checkpoint)
        try:
            progress = Progress(**about["progress"])
            best = Best.from_state(tensors, about["best"]) if config.patience else best
            if stepper.scaler.is_enabled():
                stepper.scaler.load_state_dict(about["scaler"])
        except (KeyError, TypeError):
            raise CheckpointError(f"{checkpoint} holds no training state; train anew.") from None
        if progress.step > config.steps:
            raise CheckpointError(
                f"A run of {config.steps} steps cannot go on from step {progress.step}, where its "
                f"checkpoint stands; restore its config.json."
            )
        restore_training_state(tensors, model, stepper.optimiser, device, str(checkpoint))
        if finished() and not read_metrics(folder):
            raise CheckpointError(
                f"The run in {folder} has finished, so there is nothing to resume, and its "
                f"metrics.jsonl is gone; the weights beside it are whole."
            )
    records = [r for r in read_metrics(folder) if r["step"] <= progress.step] if resume else []
    write_atomically(log, "".join(json.dumps(r) + "\n" for r in records).encode())
    sweep(folder, FILES + EXTRAS)
    cpu0 = time.process_time() - progress.cpu_seconds
    wall0 = time.perf_counter() - progress.wall_seconds

    # Sums since the last record stay on the device, so that no step waits for another.
    sums = torch.tensor([progress.loss_sum, progress.tokens], dtype=_exact(device)).to(device)
    rate, norm, failure = 0.0, torch.zeros(()), None
    at_once = sees_at_once(device, precision)

    def fail(failure: Failure | None) -> NoReturn:
        good = load_tensors(checkpoint)[1]["progress"]["step"]
        raise NotFinite(diagnose(stepper, failure, progress.step, good, records))

    def check() -> None:
        """Read the sums; stop a run that has left the numbers, before its state is saved."""
        progress.loss_sum, progress.tokens = sums.tolist()
        if not math.isfinite(progress.loss_sum + float(norm)):
            fail(replay(stepper, checkpoint, progress.step))

    def save() -> None:
        check()
        os.fsync(lines.fileno())  # the log on disk is never behind the checkpoint
        progress.cpu_seconds = time.process_time() - cpu0
        progress.wall_seconds = time.perf_counter() - wall0
        tensors = training_state(model, stepper.optimiser, device)
        about = {"progress": asdict(progress)}
        if config.patience:
            kept, about["best"] = best.state()
            tensors |= kept
        if stepper.scaler.is_enabled():
            about["scaler"] = stepper.scaler.state_dict()
        save_tensors(checkpoint, tensors, about)

    def judge() -> dict[str, float]:
        """Figures on dev: of a part of it on the way, of all of it at the end."""
        model.eval()
        if config.patience is None:
            figures = task.judge(model, "dev", None if finished() else config.dev_words)
        else:  # the same words every time, so that the losses can be compared
            figures = task.judge(model, "dev", config.dev_words)
            if "dev_loss" not in figures:
                raise ValueError(
                    f"patience needs a task whose judgement has a dev_loss, but this one has "
                    f"{', '.join(figures) or 'nothing'}; leave patience out."
                )
            best.hear(figures["dev_loss"], progress.step, model)
            if finished() and best.weights:
                now = {name: t.clone() for name, t in model.state_dict().items()}
                load_into(model, best.weights, str(checkpoint))
                figures = task.judge(model, "dev", None)
                load_into(model, now, str(checkpoint))
                figures["stopped_early"] = progress.step < config.steps
            figures["best_step"] = best.step
        model.train()
        return figures

    with StopFlag() as stop, log.open("a", encoding="utf-8", newline="\n") as lines:
        if not resume:
            save()
        batches = endless(task, config, progress.step)
        while not finished():
            drawn = next(batches)
            random = random_state(device) if at_once else {}
            loss, tokens, this_norm = stepper.gradient(drawn)
            progress.step += 1
            if not at_once or math.isfinite(float(loss) + float(this_norm)):
                rate, norm = stepper.rate(progress.step - 1), this_norm
                stepper.move(rate)
                sums[0] += loss
                sums[1] += tokens
                progress.skipped = 0
            else:
                failure = Failure(progress.step, drawn, random, float(loss), float(this_norm))
                progress.skipped += 1
                if not stepper.scaler.is_enabled() or progress.skipped > MOST_SKIPPED:
                    fail(failure)
                stepper.skip()
            if on_step is not None:
                on_step(progress.step)
            judged = progress.step % config.judge_every == 0 or finished()
            if judged or progress.step % config.log_every == 0:
                check()
                if not progress.tokens and finished():
                    fail(failure)
                if progress.tokens:  # else every step since the last record was skipped
                    record = _record(progress, rate, float(norm), cpu0, wall0)
                    sums.zero_()
                    if judged:
                        record |= judge()
                    records.append(record)
                    lines.write(json.dumps(record) + "\n")
                    lines.flush()
                    if on_record is not None:
                        on_record(record)
            if progress.step % config.checkpoint_every == 0 or finished():
                save()
            if stop.raised is not None and not finished():
                save()
                raise Stopped(
                    f"Stopped after step {progress.step} of {config.steps}; nothing is lost: "
                    f"go on with --resume {folder}."
                )
    model.eval()
    if best.weights:
        load_into(model, best.weights, str(checkpoint))
    kept = best.step if best.weights else progress.step
    save_tensors(folder / "weights.safetensors", model.state_dict(), {"step": kept})
    return records


def sees_at_once(device: torch.device, precision: str) -> bool:
    """Whether each step is checked: it costs a CPU nothing, and fp16 has to look anyhow.

    Elsewhere a step would wait for the device; a failure is seen when the next record is due.
    """
    return device.type == "cpu" or precision == "fp16"


def _record(
    progress: Progress, rate: float, norm: float, cpu0: float, wall0: float
) -> dict[str, float | int]:
    """One line of metrics: means since the last line."""
    progress.seen_tokens += int(progress.tokens)
    return {
        "step": progress.step,
        "loss": progress.loss_sum / progress.tokens,
        "lr": rate,
        "gradient_norm": norm,
        "tokens": progress.seen_tokens,
        "cpu_seconds": round(time.process_time() - cpu0, 2),
        "wall_seconds": round(time.perf_counter() - wall0, 2),
    }


def _exact(device: torch.device) -> torch.dtype:
    """The widest float of a device (Apple's GPUs have no float64)."""
    return torch.float32 if device.type == "mps" else torch.float64
