"""A run that an accident stops after any step, and that is resumed, equals the run that was not.

Bit for bit, on the CPU: the bytes of the weights and every record but for its times. Dropout is
on, and the epochs are short, so that a lost random state or a forgotten place would show. Whole
commands that are stopped by signals, killed, or out of disk stand in ``test_faults.py``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from helpers import tiny_data

from transformer_lab import train
from transformer_lab.checkpoint import load_tensors
from transformer_lab.models import EncoderDecoder, ModelConfig
from transformer_lab.tasks import G2P
from transformer_lab.train import TrainConfig, read_metrics

CONFIG = TrainConfig(
    steps=23, batch_size=5, lr=5e-3, warmup=3, log_every=4, judge_every=8, checkpoint_every=6,
    dev_words=11,
)  # fmt: skip


class Accident(Exception):
    pass


def go(task: G2P, folder: Path, resume: bool = False, stop_after: int | None = None, **rest):
    """Begin or go on; an accident happens after a step."""

    def note(step: int) -> None:
        if step == stop_after:
            raise Accident

    torch.manual_seed(CONFIG.seed + 99 * resume)  # a resumed run must not depend on it
    model = EncoderDecoder(
        ModelConfig(
            len(task.source), len(task.target), d_model=14, h=2, d_ff=22, encoder_layers=1,
            decoder_layers=1, dropout=0.3,
        )
    )  # fmt: skip
    return train.train(model, task, CONFIG, folder, resume=resume, on_step=note, **rest)


def outcome(folder: Path) -> tuple[list[dict], bytes]:
    """All that must be equal: records without times, and the weights as they lie on the disk."""
    records = [
        {k: v for k, v in r.items() if not k.endswith("_seconds")} for r in read_metrics(folder)
    ]
    return records, (folder / "weights.safetensors").read_bytes()


@pytest.fixture(scope="module")
def task():
    return G2P(tiny_data(50))


@pytest.fixture(scope="module")
def unbroken(task, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    go(task, folder)
    return outcome(folder)


@pytest.mark.parametrize("stop_after", [1, 5, 6, 7, 8, 12, 13, 17, 22, 23])
def test_an_accident_after_a_step_costs_nothing(stop_after, task, unbroken, tmp_path):
    with pytest.raises(Accident):
        go(task, tmp_path, stop_after=stop_after)
    assert not (tmp_path / "weights.safetensors").exists()
    records = go(task, tmp_path, resume=True)
    assert outcome(tmp_path) == unbroken
    assert [r["step"] for r in records] == [r["step"] for r in unbroken[0]]
    assert records == read_metrics(tmp_path)


def test_accident_upon_accident(task, unbroken, tmp_path):
    for stop_after in (3, 9, 10, 20, 19):
        with pytest.raises(Accident):
            go(task, tmp_path, resume=stop_after != 3, stop_after=stop_after)
    go(task, tmp_path, resume=True)
    assert outcome(tmp_path) == unbroken


def test_a_finished_run_resumed_stays_as_it_is(task, unbroken, tmp_path):
    go(task, tmp_path)
    records = go(task, tmp_path, resume=True)
    assert outcome(tmp_path) == unbroken and len(records) == len(unbroken[0])


@pytest.mark.parametrize("tail", ['{"step": 16, "lo', "\x00\x00\x00", '{"step": 16}\n{"st'])
def test_a_half_written_last_line_is_mended(tail, task, unbroken, tmp_path):
    with pytest.raises(Accident):
        go(task, tmp_path, stop_after=14)
    with (tmp_path / "metrics.jsonl").open("a", encoding="utf-8") as log:
        log.write(tail)
    go(task, tmp_path, resume=True)
    assert outcome(tmp_path) == unbroken
    for line in (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        json.loads(line)


def test_the_clock_goes_on_where_it_stopped(task, tmp_path):
    with pytest.raises(Accident):
        go(task, tmp_path, stop_after=13)
    _, about = load_tensors(tmp_path / "checkpoint.safetensors")
    go(task, tmp_path, resume=True)
    first = next(r for r in read_metrics(tmp_path) if r["step"] > about["progress"]["step"])
    assert first["wall_seconds"] >= round(about["progress"]["wall_seconds"], 2)


def test_a_power_cut_finds_the_log_no_older_than_the_checkpoint(task, tmp_path, monkeypatch):
    """Before a checkpoint gets its name, the log that belongs to it is flushed to the disk."""
    flushed = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(number):
        real_fsync(number)
        flushed.append((os.fstat(number).st_ino, os.fstat(number).st_size))

    def replace(old, new):
        if Path(new).name == "checkpoint.safetensors":
            log = (tmp_path / "metrics.jsonl").stat()
            assert (log.st_ino, log.st_size) in flushed
            flushed.append("checkpoint")
        real_replace(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    go(task, tmp_path)
    assert flushed.count("checkpoint") == 5  # at the start, after steps 6, 12, 18 and at the end


@pytest.mark.plain
def test_weights_without_a_checkpoint_are_not_trained_over(task, tmp_path):
    go(task, tmp_path)
    (tmp_path / "checkpoint.safetensors").unlink()
    with pytest.raises(ValueError, match="There is no checkpoint at"):
        go(task, tmp_path, resume=True)


@pytest.mark.plain
def test_the_weights_of_another_file_are_no_checkpoint(task, tmp_path):
    go(task, tmp_path)
    weights = (tmp_path / "weights.safetensors").read_bytes()
    (tmp_path / "checkpoint.safetensors").write_bytes(weights)
    with pytest.raises(ValueError, match="holds no training state"):
        go(task, tmp_path, resume=True)
