"""The check of a GPU, made with a CPU in its place: it runs, agrees with itself, sees an error."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from helpers import tiny_data
from processes import command

from transformer_lab import gpu_check
from transformer_lab.presets import G2P_PRESETS
from transformer_lab.tasks import G2P

STEPS = 20


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A small dictionary and a small model: what is asked is the script."""
    preset = G2P_PRESETS["class"]
    model = preset.model | {"d_model": 16, "h": 2, "d_ff": 32, "dropout": 0.3}
    small = replace(preset, model=model)
    monkeypatch.setattr(gpu_check, "G2P_PRESETS", {"class": small})
    monkeypatch.setattr(gpu_check, "load_g2p", lambda: tiny_data(100))


def test_the_cpu_agrees_with_itself_bit_for_bit():
    heard = []
    figures = gpu_check.check("cpu", STEPS, lambda done, of: heard.append((done, of)))
    assert figures["agrees"] is True and figures["largest_difference"] == 0.0
    assert figures["losses_cpu"] == figures["losses_device"]
    assert len(figures["losses_cpu"]) == 10
    assert figures["losses_cpu"][-1] < figures["losses_cpu"][0]
    assert figures["machine"] == "CPU" and figures["precision"] == "fp32"
    assert figures["steps"] == STEPS and heard == [(i, STEPS) for i in range(1, STEPS + 1)]
    assert figures["target_tokens_per_second"] > 0 and figures["training_seconds"] > 0
    assert 0 <= figures["dev_wer"] <= 1 and figures["parameters"] > 1000
    assert json.loads(json.dumps(figures)) == figures


@pytest.mark.parametrize("wrong", ["step", "size"])
def test_a_device_that_computes_something_else_is_found_out(wrong, monkeypatch):
    """The second list of losses comes from a device whose gradient, or loss, is slightly off."""
    calls = []
    real = G2P.loss

    def loss(self, model, batch, smoothing):
        calls.append(batch)
        total, tokens = real(self, model, batch, smoothing)
        if 10 < len(calls) <= 20:
            if wrong == "size":
                return total * 1.01, tokens
            parameter = next(model.parameters())  # the same value, another gradient
            return total + 50 * (parameter - parameter.detach()).sum(), tokens
        return total, tokens

    monkeypatch.setattr(G2P, "loss", loss)
    figures = gpu_check.check("cpu", STEPS)
    assert figures["agrees"] is False
    assert figures["largest_difference"] > figures["tolerance"]
    if wrong == "step":
        assert figures["losses_cpu"][0] == figures["losses_device"][0]


def test_speed_is_measured_between_records(monkeypatch):
    """Tokens over seconds by a clock of our own: the first records, with the warm-up, are out."""
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    class Time:
        perf_counter = staticmethod(clock)

    monkeypatch.setattr(gpu_check, "time", Time)
    task = G2P(tiny_data(100))
    batches = [b for epoch in range(2) for b in task.batches(1, epoch, 64)]
    while len(batches) < STEPS:
        batches += list(task.batches(1, len(batches), 64))
    figures = gpu_check.check("cpu", STEPS)
    assert figures["training_seconds"] == now[0] - 1
    records = STEPS // (STEPS // 4)
    tokens = _tokens(task, STEPS // 4, STEPS)
    assert figures["target_tokens_per_second"] == pytest.approx(tokens / (records - 1))


def _tokens(task: G2P, first: int, last: int) -> int:
    """Target tokens, EOS included, of the batches after ``first`` up to ``last``."""
    counts: list[int] = []
    epoch = 0
    while len(counts) < last:
        counts += [int((b.target_out_BT != 0).sum()) for b in task.batches(1, epoch, 64)]
        epoch += 1
    return sum(counts[first:last])


@pytest.mark.plain
def test_without_a_gpu_the_check_says_so():
    missing = "mps" if torch.cuda.is_available() else "cuda"
    with pytest.raises(ValueError, match=f"but got '{missing}'"):
        gpu_check.check(missing, STEPS)


def no_gpu() -> None:
    torch.cuda.is_available = lambda: False


def test_the_command_without_a_gpu_is_one_sentence(tmp_path):
    out = tmp_path / "figures.json"
    ended = command("gpu-check", "--out", out, folder=tmp_path / "streams", first=no_gpu)
    assert "torch can use here" in ended.sentence and "'cuda'" in ended.sentence
    assert not out.exists()


def canned() -> None:
    """A check that is over at once."""
    gpu_check.check = lambda device, steps, advance: {"agrees": device == "cpu", "steps": steps}


def test_the_command_writes_what_the_book_prints(tmp_path):
    out = tmp_path / "book" / "figures.json"
    ended = command(
        "gpu-check", "--device", "cpu", "--steps", 20, "--out", out,
        folder=tmp_path / "streams", first=canned,
    )  # fmt: skip
    assert ended.code == 0 and ended.err == "", ended
    assert json.loads(out.read_text(encoding="utf-8")) == {"agrees": True, "steps": 20}
    assert f"Written to {out}" in ended.out
