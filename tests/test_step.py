"""One step: several batches count as the one large batch; fp16 with its scaler."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from helpers import default_dtype, tiny_data
from torch.nn import functional as F
from train_cases import fresh, timeless

from transformer_lab import train
from transformer_lab.batches import Batch
from transformer_lab.checkpoint import load_tensors
from transformer_lab.devices import grad_scaler
from transformer_lab.tasks import G2P
from transformer_lab.train import NotFinite, TrainConfig, loop
from transformer_lab.train.step import Stepper, endless

CPU = torch.device("cpu")
SHORT = TrainConfig(
    steps=13, batch_size=5, lr=5e-3, warmup=3, log_every=2, judge_every=6, checkpoint_every=4,
    dev_words=7, accumulate=3,
)  # fmt: skip


@pytest.fixture(scope="module")
def task():
    return G2P(tiny_data(60))


# ---- several batches in a step ----


def joined(batches: list[Batch]) -> Batch:
    """The batches one below another, padded to one length."""

    def join(name: str) -> torch.Tensor:
        parts = [getattr(batch, name) for batch in batches]
        longest = max(part.shape[1] for part in parts)
        return torch.cat([F.pad(part, (0, longest - part.shape[1])) for part in parts])

    return Batch(join("source_BS"), join("target_in_BT"), join("target_out_BT"))


def gradient_of(task, batches, config=SHORT):
    """Gradient, summed loss, tokens and norm, in float64 and without dropout."""
    with default_dtype(torch.float64):
        model = fresh(task, dropout=0.0)
    stepper = Stepper(model, task, config, CPU, "fp32")
    loss, tokens, norm = stepper.gradient(batches)
    return [p.grad for p in model.parameters()], loss, tokens, norm


@pytest.mark.parametrize("clip", [1e9, 0.01])
def test_several_batches_count_as_the_one_large_batch(clip, task):
    config = replace(SHORT, clip=clip)
    batches = next(endless(task, config, 0))
    counts = [int((b.target_out_BT != 0).sum()) for b in batches]
    assert len(batches) == 3 and len(set(counts)) == 3
    many = gradient_of(task, batches, config)
    one = gradient_of(task, [joined(batches)], config)
    assert int(many[2]) == int(one[2]) == sum(counts)
    torch.testing.assert_close(many[0], one[0], rtol=0, atol=1e-12)
    assert float(many[1]) == pytest.approx(float(one[1]), abs=1e-12 * sum(counts))
    assert float(many[3]) == pytest.approx(float(one[3]), rel=1e-12)
    means = [gradient_of(task, [batch], config)[0] for batch in batches]
    naive = [sum(parts) / 3 for parts in zip(*means, strict=True)]
    worst = max(float((a - b).abs().max()) for a, b in zip(naive, one[0], strict=True))
    assert worst > 1e-6, "the mean of means should differ"


def test_every_step_takes_the_next_batches_across_epochs(task):
    one = replace(SHORT, accumulate=1)
    flat = [step[0].source_BS for step, _ in zip(endless(task, one, 0), range(40), strict=False)]
    assert len(list(task.batches(1, 0, 5))) % 3
    for start in (0, 1, 4, 7):
        drawn = next(endless(task, SHORT, start))
        expected = flat[3 * start : 3 * start + 3]
        assert [b.source_BS.tolist() for b in drawn] == [x.tolist() for x in expected]


def learn(task, folder, config=SHORT, **rest):
    train.train(fresh(task), task, config, folder, **rest)
    return timeless(train.read_metrics(folder)), (folder / "weights.safetensors").read_bytes()


def test_a_run_that_accumulates_goes_on_bit_for_bit(task, tmp_path):
    whole = learn(task, tmp_path / "whole")
    assert whole[0][-1]["step"] == 13 and "dev_loss" in whole[0][2]

    def stumble(step):
        if step == 7:
            raise KeyError

    with pytest.raises(KeyError):
        learn(task, tmp_path / "part", on_step=stumble)
    _, about = load_tensors(tmp_path / "part" / "checkpoint.safetensors")
    assert about["progress"]["step"] == 4
    assert learn(task, tmp_path / "part", resume=True) == whole
    assert learn(task, tmp_path / "single", replace(SHORT, accumulate=1))[1] != whole[1]


# ---- fp16, with the real scaler of torch, on the CPU ----

HALF = replace(SHORT, accumulate=2, precision="fp16")


@pytest.fixture
def fp16(monkeypatch):
    """Let a CPU run in fp16, which is refused otherwise, and tell what the scaler is asked."""
    asked = []

    class Heard(torch.amp.GradScaler):
        def scale(self, outputs):
            asked.append("scale")
            return super().scale(outputs)

        def unscale_(self, optimizer):
            asked.append("unscale")
            return super().unscale_(optimizer)

        def step(self, optimizer):
            asked.append("step")
            return super().step(optimizer)

        def update(self):
            asked.append("update")
            return super().update()

    def scaler(device, precision):
        return Heard(device.type, init_scale=2.0**11, growth_interval=3, enabled=True)

    monkeypatch.setattr(loop, "choose_precision", lambda name, device: name)
    monkeypatch.setattr("transformer_lab.train.step.grad_scaler", scaler)
    clip = torch.nn.utils.clip_grad_norm_
    monkeypatch.setattr(
        torch.nn.utils, "clip_grad_norm_", lambda *rest: asked.append("clip") or clip(*rest)
    )
    return asked


def test_the_scaler_is_for_fp16_only():
    assert grad_scaler(CPU, "fp16").is_enabled()
    assert not grad_scaler(CPU, "fp32").is_enabled() and not grad_scaler(CPU, "bf16").is_enabled()


def test_the_gradient_is_scaled_back_before_it_is_cut(fp16, task, tmp_path):
    half, _ = learn(task, tmp_path / "half", HALF)
    assert fp16 == ["scale", "scale", "unscale", "clip", "step", "update"] * 13
    monkey = replace(HALF, precision="fp32")
    full = train.train(fresh(task), task, monkey, tmp_path / "full")
    for a, b in zip(half, full, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=0.01) and a["loss"] != b["loss"]
        assert a["gradient_norm"] == pytest.approx(b["gradient_norm"], rel=0.1)


def test_the_scale_is_part_of_the_checkpoint(fp16, task, tmp_path):
    whole = learn(task, tmp_path / "whole", HALF)
    _, about = load_tensors(tmp_path / "whole" / "checkpoint.safetensors")
    assert about["scaler"]["scale"] == 2.0**15 and about["scaler"]["_growth_tracker"] == 1

    def stumble(step):
        if step == 11:
            raise KeyError

    with pytest.raises(KeyError):
        learn(task, tmp_path / "part", HALF, on_step=stumble)
    _, about = load_tensors(tmp_path / "part" / "checkpoint.safetensors")
    assert about["scaler"]["scale"] == 2.0**13 and about["scaler"]["_growth_tracker"] == 2
    assert learn(task, tmp_path / "part", HALF, resume=True) == whole


class Overflowing:
    """A task whose gradient overflows in the steps ``bad``, counted from 1."""

    def __init__(self, task: G2P, bad: range | set[int], accumulate: int):
        self.task, self.bad, self.accumulate, self.calls = task, bad, accumulate, 0
        self.describe, self.batches, self.judge = task.describe, task.batches, task.judge

    def loss(self, model, batch, smoothing):
        total, tokens = self.task.loss(model, batch, smoothing)
        if model.training:
            self.calls += 1
            if (self.calls - 1) // self.accumulate + 1 in self.bad:
                total = total * 1e38
        return total, tokens


def test_a_step_that_overflows_is_left_out(fp16, task, tmp_path):
    """Steps 3 and 4 fill a whole interval between two records: that record waits."""
    moved, states = [], []
    model = fresh(task)

    def note(step):
        flat = torch.cat([p.detach().flatten() for p in model.parameters()])
        moved.append(not states or not torch.equal(flat, states[-1]))
        states.append(flat)

    poisoned = Overflowing(task, {3, 4, 8}, 2)
    records = train.train(model, poisoned, HALF, tmp_path, on_step=note)
    assert [step for step, yes in enumerate(moved, 1) if not yes] == [3, 4, 8]
    assert [r["step"] for r in records] == [2, 6, 8, 10, 12, 13]
    text = (tmp_path / "metrics.jsonl").read_text(encoding="utf-8")
    assert "NaN" not in text and "Infinity" not in text
    assert fp16.count("step") == 10 and fp16.count("update") == 13
    _, about = load_tensors(tmp_path / "checkpoint.safetensors")
    assert about["progress"]["skipped"] == 0
    assert json.loads(text.splitlines()[-1])["tokens"] < sum(
        int((b.target_out_BT != 0).sum())
        for step, _ in zip(endless(task, HALF, 0), range(13), strict=False)
        for b in step
    )


@pytest.mark.plain
@pytest.mark.parametrize(("bad", "steps"), [(range(4, 99), 24), (range(12, 99), 13)])
def test_many_in_a_row_stop_the_run_and_so_does_a_last_record_of_nothing(
    bad, steps, fp16, task, tmp_path
):
    config = replace(HALF, steps=max(steps, 13) if steps == 13 else 60)
    with pytest.raises(NotFinite) as caught:
        train.train(fresh(task), Overflowing(task, bad, 2), config, tmp_path)
    assert caught.value.diagnosis.step == steps
    tensors, about = load_tensors(tmp_path / "checkpoint.safetensors")
    assert about["progress"]["step"] >= 4
    assert all(t.isfinite().all() for n, t in tensors.items() if n.startswith("model."))
    assert not (tmp_path / "weights.safetensors").exists()
