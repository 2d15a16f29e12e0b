"""The check of a GPU, made with a CPU in its place: it runs, agrees with itself, sees an error."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from helpers import tiny_data
from processes import command

from transformer_lab import gpu_check
from transformer_lab.data.text import TextData
from transformer_lab.presets import G2P_PRESETS, LM_PRESETS
from transformer_lab.tasks import G2P, LM

STEPS = 20
MODELS = ("g2p", "lm")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small data and small models: what is asked is the script."""
    size = {"d_model": 16, "h": 2, "d_ff": 32, "dropout": 0.3}
    preset, lm = G2P_PRESETS["class"], LM_PRESETS["class"]
    monkeypatch.setattr(
        gpu_check, "G2P_PRESETS", {"class": replace(preset, model=preset.model | size)}
    )
    monkeypatch.setattr(
        gpu_check, "LM_PRESETS", {"class": replace(lm, model=lm.model | size, context=24)}
    )
    monkeypatch.setattr(gpu_check, "load_g2p", lambda: tiny_data(100))
    text = "".join(f"{n} and {n + 1} are {2 * n + 1}.\n" for n in range(400))
    monkeypatch.setattr(gpu_check, "load_shakespeare", lambda: TextData(text[:6000], text[6000:]))


def test_the_cpu_agrees_with_itself_bit_for_bit():
    heard = []
    figures = gpu_check.check("cpu", STEPS, lambda done, of: heard.append((done, of)))
    assert tuple(figures["models"]) == MODELS and figures["agrees"] is True
    for one in figures["models"].values():
        assert one["agrees"] is True and one["largest_difference"] == 0.0
        assert one["losses_cpu"] == one["losses_device"]
        assert len(one["losses_cpu"]) == 10 and one["losses_cpu"][-1] < one["losses_cpu"][0]
        assert one["precision"] == "fp32" and one["parameters"] > 1000
        assert one["tokens_per_second"] > 0 and one["training_seconds"] > 0
    assert 0 <= figures["models"]["g2p"]["dev_wer"] <= 1
    assert figures["models"]["lm"]["dev_loss"] < figures["models"]["lm"]["losses_cpu"][0]
    assert figures["machine"] == "CPU" and figures["steps"] == STEPS
    assert heard == [(i, 2 * STEPS) for i in range(1, 2 * STEPS + 1)]
    assert json.loads(json.dumps(figures)) == figures


@pytest.mark.parametrize("task", [G2P, LM])
@pytest.mark.parametrize("wrong", ["step", "size"])
def test_a_device_that_computes_something_else_is_found_out(wrong, task, monkeypatch):
    """The second list of losses comes from a device whose gradient, or loss, is slightly off."""
    calls = []
    real = task.loss

    def loss(self, model, batch, smoothing):
        calls.append(batch)
        total, tokens = real(self, model, batch, smoothing)
        if 10 < len(calls) <= 20:
            if wrong == "size":
                return total * 1.01, tokens
            parameter = next(model.parameters())  # the same value, another gradient
            return total + 50 * (parameter - parameter.detach()).sum(), tokens
        return total, tokens

    monkeypatch.setattr(task, "loss", loss)
    figures = gpu_check.check("cpu", STEPS)
    assert figures["agrees"] is False
    for name, one in figures["models"].items():
        changed = name == ("g2p" if task is G2P else "lm")
        assert one["agrees"] is not changed
        assert (one["largest_difference"] > figures["tolerance"]) is changed
        if changed and wrong == "step":
            assert one["losses_cpu"][0] == one["losses_device"][0]


def test_speed_is_measured_between_records(monkeypatch):
    """Tokens over seconds by a clock of our own: the first records, with the warm-up, are out."""
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    class Time:
        perf_counter = staticmethod(clock)

    monkeypatch.setattr(gpu_check, "time", Time)
    figures = gpu_check.check("cpu", STEPS)["models"]
    records = STEPS // (STEPS // 4)
    for one in figures.values():
        assert one["training_seconds"] == records + 1
    tokens = _tokens(G2P(tiny_data(100)), STEPS // 4, STEPS)
    assert figures["g2p"]["tokens_per_second"] == pytest.approx(tokens / (records - 1))
    tokens = (STEPS - STEPS // 4) * LM_PRESETS["class"].train.batch_size * 24
    assert figures["lm"]["tokens_per_second"] == pytest.approx(tokens / (records - 1))


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
