r"""The one training loop."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from ..batches import Batch
from ..checkpoint import (
    CheckpointError,
    load_tensors,
    restore_training_state,
    save_tensors,
    sweep,
    training_state,
    write_atomically,
)
from ..devices import autocast, choose_precision
from ..optim import adamw
from ..schedules import SCHEDULES
from ..tasks import Task
from .config import TrainConfig
from .folder import FILES, read_metrics
from .stopping import StopFlag, Stopped


@dataclass
class Progress:
    """Where a run stands; part of every checkpoint."""

    step: int = 0
    loss_sum: float = 0.0
    tokens: float = 0
    seen_tokens: int = 0
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0


def _endless(task: Task, config: TrainConfig, start: int) -> Iterator[Batch]:
    """Batches from step ``start`` on, epoch after epoch, in the order of an unbroken run."""
    epoch, passed = 0, 0
    while True:
        count = 0
        for batch in task.batches(config.seed, epoch, config.batch_size):
            count += 1
            passed += 1
            if passed > start:
                yield batch
        if not count:
            raise ValueError("Training needs at least one pair, but the training part is empty.")
        epoch += 1


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

    Step s draws batch s, computes the mean loss per token, clips the gradient to norm
    ``clip``, and lets AdamW move by :math:`\eta_s = \mathrm{lr} \cdot f(s)` with f the schedule.
    ``on_record`` hears every record as it is written, ``on_step`` every finished step.

    ``resume`` goes on from the checkpoint in ``folder``; a run that was killed before it wrote
    its first one begins again.

    Raises :class:`Stopped` after Ctrl-C or SIGTERM (state saved), ``FloatingPointError`` if
    loss or gradient are no longer numbers (the last good state stays on disk).
    """
    folder = Path(folder)
    device = device or torch.device("cpu")
    precision = choose_precision(config.precision, device)
    schedule = SCHEDULES[config.schedule]
    model.to(device).train()
    optimiser = adamw(model, config.lr, config.betas, config.weight_decay)
    progress = Progress()
    checkpoint, log = folder / "checkpoint.safetensors", folder / "metrics.jsonl"
    resume = resume and (checkpoint.exists() or (folder / "weights.safetensors").exists())
    if resume:
        tensors, about = load_tensors(checkpoint)
        try:
            progress = Progress(**about["progress"])
        except (KeyError, TypeError):
            raise CheckpointError(f"{checkpoint} holds no training state; train anew.") from None
        restore_training_state(tensors, model, optimiser, device, str(checkpoint))
        if progress.step >= config.steps and not read_metrics(folder):
            raise CheckpointError(
                f"The run in {folder} has finished, so there is nothing to resume, and its "
                f"metrics.jsonl is gone; the weights beside it are whole."
            )
    records = [r for r in read_metrics(folder) if r["step"] <= progress.step] if resume else []
    write_atomically(log, "".join(json.dumps(r) + "\n" for r in records).encode())
    sweep(folder, FILES)
    cpu0 = time.process_time() - progress.cpu_seconds
    wall0 = time.perf_counter() - progress.wall_seconds

    # Sums since the last record stay on the device, so that no step waits for another.
    sums = torch.tensor([progress.loss_sum, progress.tokens], dtype=_exact(device)).to(device)
    rate, norm = 0.0, torch.zeros(())

    def save() -> None:
        progress.loss_sum, progress.tokens = sums.tolist()
        _check_finite(progress.loss_sum, float(norm), progress.step, rate)
        os.fsync(lines.fileno())  # the log on disk is never behind the checkpoint
        progress.cpu_seconds = time.process_time() - cpu0
        progress.wall_seconds = time.perf_counter() - wall0
        about = {"progress": asdict(progress)}
        save_tensors(checkpoint, training_state(model, optimiser, device), about)

    with StopFlag() as stop, log.open("a", encoding="utf-8", newline="\n") as lines:
        if not resume:
            save()
        for batch in _endless(task, config, progress.step):
            if progress.step >= config.steps:
                break
            rate = config.lr * schedule(progress.step, config.steps, config.warmup)
            for group in optimiser.param_groups:
                group["lr"] = rate
            batch = batch.to(device)
            with autocast(device, precision):
                loss, tokens = task.loss(model, batch, config.smoothing)
            optimiser.zero_grad(set_to_none=True)
            (loss / tokens).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            optimiser.step()
            progress.step += 1
            sums[0] += loss.detach()
            sums[1] += tokens
            if on_step is not None:
                on_step(progress.step)
            last = progress.step == config.steps
            if progress.step % config.log_every == 0 or last:
                progress.loss_sum, progress.tokens = sums.tolist()
                record = _record(progress, rate, float(norm), cpu0, wall0)
                sums.zero_()
                if progress.step % config.judge_every == 0 or last:
                    model.eval()
                    record |= task.judge(model, "dev", None if last else config.dev_words)
                    model.train()
                records.append(record)
                lines.write(json.dumps(record) + "\n")
                lines.flush()
                if on_record is not None:
                    on_record(record)
            if progress.step % config.checkpoint_every == 0 or last:
                save()
            if stop.raised is not None and not last:
                save()
                raise Stopped(
                    f"Stopped after step {progress.step} of {config.steps}; nothing is lost: "
                    f"go on with --resume {folder}."
                )
    model.eval()
    save_tensors(folder / "weights.safetensors", model.state_dict(), {"step": progress.step})
    return records


def _record(
    progress: Progress, rate: float, norm: float, cpu0: float, wall0: float
) -> dict[str, float | int]:
    """One line of metrics: means since the last line."""
    mean = progress.loss_sum / progress.tokens
    _check_finite(mean, norm, progress.step, rate)
    progress.seen_tokens += int(progress.tokens)
    return {
        "step": progress.step,
        "loss": mean,
        "lr": rate,
        "gradient_norm": norm,
        "tokens": progress.seen_tokens,
        "cpu_seconds": round(time.process_time() - cpu0, 2),
        "wall_seconds": round(time.perf_counter() - wall0, 2),
    }


def _check_finite(loss: float, norm: float, step: int, rate: float) -> None:
    """Stop a run that has left the numbers, before its state is saved."""
    if not (math.isfinite(loss) and math.isfinite(norm)):
        raise FloatingPointError(
            f"Loss and gradient must stay finite numbers, but by step {step}, at learning rate "
            f"{rate:.2g}, they were {loss} and {norm}; the last good state is on disk. Train "
            f"with a smaller --lr or a longer --warmup."
        )


def _exact(device: torch.device) -> torch.dtype:
    """The widest float of a device (Apple's GPUs have no float64)."""
    return torch.float32 if device.type == "mps" else torch.float64
