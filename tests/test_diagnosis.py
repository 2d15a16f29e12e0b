"""Models broken on purpose: the run stops, names the layer and the cause, and keeps its state."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from helpers import tiny_data
from torch import nn
from train_cases import fresh

from transformer_lab import train
from transformer_lab.checkpoint import load_tensors
from transformer_lab.tasks import G2P
from transformer_lab.train import NotFinite, TrainConfig, diagnosis, loop

pytestmark = pytest.mark.plain
CONFIG = TrainConfig(
    steps=23, batch_size=7, lr=5e-3, warmup=3, log_every=2, judge_every=23, checkpoint_every=4,
    dev_words=11,
)  # fmt: skip
INNER = "encoder.0.feed_forward.inner"


@pytest.fixture(scope="module")
def task():
    return G2P(tiny_data(60))


def broken(model, task, folder, config=CONFIG, after=None, breaking=None):
    """Train; ``breaking`` is done to the model after a step. The diagnosis."""

    def note(step):
        if step == after:
            with torch.no_grad():
                breaking(model)

    with pytest.raises(NotFinite) as caught:
        train.train(model, task, config, folder, on_step=note)
    found = caught.value.diagnosis
    assert str(caught.value) == found.sentence and "\n" not in found.sentence
    assert f"in step {found.step}, at learning rate" in found.sentence
    tensors, about = load_tensors(folder / "checkpoint.safetensors")
    good = about["progress"]["step"]
    assert f"The state after step {good} is on disk." in found.sentence and good < found.step
    assert not (folder / "weights.safetensors").exists()
    return found, tensors


def spoil(name: str, place: tuple, value: float):
    """Write one number into a parameter."""

    def breaking(model):
        model.get_parameter(name)[place] = value

    return breaking


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        (f"{INNER}.weight", INNER),
        ("encoder.0.attention.out.bias", "encoder.0.attention.out"),
        ("encoder.0.around_attention.norm.gamma_D", "encoder.0.around_attention.norm"),
        ("decoder.0.cross_attention.qkv.bias", "decoder.0.cross_attention.qkv"),
        ("decoder.0.feed_forward.outer.bias", "decoder.0.feed_forward.outer"),
    ],
)
@pytest.mark.parametrize(("after", "good"), [(5, 4), (7, 4), (9, 8)])
def test_a_nan_in_one_weight(name, layer, after, good, task, tmp_path):
    place = (0,) * fresh(task).get_parameter(name).ndim
    found, tensors = broken(
        fresh(task), task, tmp_path, after=after, breaking=spoil(name, place, math.nan)
    )
    assert (found.step, found.layer, found.what) == (after + 1, layer, "output")
    assert found.cause == "weights" and f"in {name} (1 of them)" in found.sentence
    assert f"after step {good} is on disk" in found.sentence
    assert all(t.isfinite().all() for n, t in tensors.items() if n.startswith("model."))


def test_it_can_go_on_from_the_last_good_state(task, tmp_path):
    train.train(fresh(task), task, CONFIG, tmp_path / "whole")
    infinite = spoil(f"{INNER}.bias", 3, math.inf)
    broken(fresh(task), task, tmp_path / "part", after=9, breaking=infinite)
    train.train(fresh(task, seed=5), task, CONFIG, tmp_path / "part", resume=True)
    weights = [(tmp_path / n / "weights.safetensors").read_bytes() for n in ("whole", "part")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("into", ["source_embedding", "target_embedding"])
def test_infinity_in_an_embedding(into, task, tmp_path):
    """The row of a symbol that stands in every batch, or (EOS) is only ever scored."""
    row = 4 if into == "source_embedding" else 2
    found, _ = broken(
        fresh(task), task, tmp_path, after=4, breaking=spoil(f"{into}.weight", (row, 1), math.inf)
    )
    assert (found.step, found.layer, found.cause) == (5, into, "weights")
    assert f"in {into}.weight (1 of them)" in found.sentence


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_a_learning_rate_of_a_million(schedule, task, tmp_path):
    config = replace(CONFIG, lr=1e6, warmup=0, log_every=1, schedule=schedule)
    found, _ = broken(fresh(task), task, tmp_path, config)
    assert found.cause == "learning rate" and found.what in ("output", "gradient", "norm")
    records = train.read_metrics(tmp_path)
    norms = ", ".join(f"{r['gradient_norm']:.3g}" for r in records[-3:])
    assert records and f"(norms in the last records: {norms})" in found.sentence
    assert "smaller --lr or a longer --warmup" in found.sentence
    assert found.layer in dict(fresh(task).named_modules())


class Loss:
    """The task with something more in its loss, from a step on."""

    def __init__(self, task: G2P, more, after: int = 5):
        self.task, self.more, self.after, self.calls = task, more, after, 0
        self.describe, self.batches, self.judge = task.describe, task.batches, task.judge

    def loss(self, model, batch, smoothing):
        self.calls += 1
        logits = model(batch.source_BS, batch.target_in_BT)
        total, tokens = self.task.loss(lambda *_: logits, batch, smoothing)
        return (total + self.more(logits) if self.calls > self.after else total), tokens


def test_the_logarithm_of_zero_in_a_loss(task, tmp_path):
    wrong = Loss(task, lambda logits: -(logits.softmax(-1) * 0).log().sum())
    found, _ = broken(fresh(task), wrong, tmp_path)
    assert (found.step, found.layer, found.what, found.cause) == (6, "", "loss", "loss")
    assert "logarithm" in found.sentence and "inf and nan" in found.sentence


def test_a_finite_loss_whose_slope_is_not(task, tmp_path):
    wrong = Loss(task, lambda logits: (logits - logits.detach()).abs().sum().sqrt())
    found, _ = broken(fresh(task), wrong, tmp_path)
    assert (found.step, found.layer, found.what, found.cause) == (6, "", "slope", "loss")


class Layer(nn.Module):
    """A layer that computes something of its own after what it wraps."""

    def __init__(self, inner: nn.Module, after):
        super().__init__()
        self.inner, self.after = inner, after

    def forward(self, x):
        return self.after(self.inner(x))


def test_a_layer_that_divides_by_zero(task, tmp_path):
    model = fresh(task)
    inner = model.encoder[0].feed_forward.inner
    model.encoder[0].feed_forward.inner = Layer(inner, lambda x: x / 0)
    found, _ = broken(model, task, tmp_path)
    assert (found.step, found.layer, found.what, found.cause) == (1, INNER, "output", "layer")
    assert "(norms in the last records: none yet)" in found.sentence


def test_a_layer_whose_root_has_no_slope(task, tmp_path):
    """The backward pass comes from the end: what stands before the layer is spoilt, not it."""
    model = fresh(task)
    inner = model.encoder[0].feed_forward.inner
    model.encoder[0].feed_forward.inner = Layer(inner, lambda x: (x - x.detach()).square().sqrt())
    found, _ = broken(model, task, tmp_path)
    assert (found.step, found.layer, found.what, found.cause) == (1, INNER, "gradient", "layer")


@pytest.mark.parametrize("size", [1e22, 7e19])
def test_finite_gradients_whose_norm_is_not(size, task, tmp_path):
    """Squares beyond 3e38: in one parameter alone, or only in their sum over all of them."""
    wrong = Loss(task, lambda logits: sum(size * (p - p.detach()).sum() for p in every))
    model = fresh(task)
    every = [p for name, p in model.named_parameters() if name.endswith("gamma_D")]
    assert len(every) > 4
    found, _ = broken(model, wrong, tmp_path)
    assert (found.what, found.cause) == ("norm", "learning rate")
    assert found.layer.endswith("norm")


def test_the_inside_of_an_attention_is_named_by_the_attention(task, tmp_path, monkeypatch):
    from transformer_lab.attention import heads

    monkeypatch.setattr(heads, "attend", lambda q, k, v, *rest: q / 0)
    model = fresh(task)
    found, _ = broken(model, task, tmp_path)
    assert (found.layer, found.what, found.cause) == ("encoder.0.attention", "output", "layer")


def test_a_batch_of_real_numbers_that_holds_nan(task, tmp_path):
    class Waves:
        def __init__(self, values):
            self.values = values

        def to(self, device):
            return self

    class Heights:
        judge, describe = task.judge, task.describe

        def batches(self, seed, epoch, batch_size):
            for step in range(5):
                yield Waves(torch.full((3, 2), math.nan if step == 2 else 1.0))

        def loss(self, model, batch, smoothing):
            return model(batch.values).square().sum(), torch.tensor(3)

    found, _ = broken(nn.Linear(2, 4), Heights(), tmp_path)
    assert (found.step, found.layer, found.what, found.cause) == (3, "", "batch", "batch")


@pytest.mark.parametrize("rows", [1, 3])
def test_overflow_in_half_precision(rows, task, tmp_path, monkeypatch):
    """Two matrices of some thousands: 1e7 is nothing in float32 and too much in fp16."""
    monkeypatch.setattr(loop, "choose_precision", lambda name, device: name)
    config = replace(CONFIG, precision="fp16", accumulate=rows, steps=60)

    def breaking(model):
        model.encoder[0].feed_forward.inner.weight.fill_(3000.0)
        model.encoder[0].feed_forward.outer.weight.fill_(2000.0)
        model.encoder[0].feed_forward.inner.bias.fill_(3000.0)

    found, _ = broken(fresh(task), task, tmp_path, config, after=5, breaking=breaking)
    layer = "encoder.0.feed_forward.outer"
    assert (found.layer, found.what, found.cause) == (layer, "output", "half precision")
    assert found.step == 5 + loop.MOST_SKIPPED + 1
    assert "fp16 ends at 6.55e+04" in found.sentence and "--precision" in found.sentence


# ---- where a failure is seen late, as on a GPU ----


def test_a_failure_seen_late_is_replayed_from_the_checkpoint(task, tmp_path, monkeypatch):
    """Weights that explode by themselves: the replay meets the very same step."""
    config = replace(CONFIG, lr=1e6, warmup=0, schedule="constant")
    at_once, _ = broken(fresh(task), task, tmp_path / "at once", config)
    monkeypatch.setattr(loop, "sees_at_once", lambda device, scaler: False)
    config = replace(config, log_every=20, checkpoint_every=20)
    late, _ = broken(fresh(task), task, tmp_path / "late", config)
    assert (late.step, late.layer, late.what, late.cause) == (
        at_once.step, at_once.layer, at_once.what, at_once.cause,
    )  # fmt: skip
    assert late.step < 20 and "none yet" in late.sentence


def test_a_failure_that_does_not_come_again_is_called_that(task, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "sees_at_once", lambda device, scaler: False)

    def note(step):
        if step == 6:
            with torch.no_grad():
                model.get_parameter(f"{INNER}.bias")[3] = math.nan

    model = fresh(task)
    with pytest.raises(NotFinite) as caught:
        train.train(model, task, CONFIG, tmp_path, on_step=note)
    found = caught.value.diagnosis
    assert (found.step, found.layer, found.cause) == (8, "", "unknown")
    assert "state of step 4, which is on disk, every number was finite" in found.sentence


# ---- what it costs ----


def test_a_healthy_run_never_looks(task, tmp_path, monkeypatch):
    def never(*_):
        raise AssertionError("a hook on a healthy step")

    monkeypatch.setattr(diagnosis, "_look", never)
    monkeypatch.setattr(loop, "replay", never)
    monkeypatch.setattr(nn.Module, "register_forward_hook", never)
    assert len(train.train(fresh(task), task, CONFIG, tmp_path)) == 12


def test_the_hooks_are_gone_afterwards(task, tmp_path):
    model = fresh(task)
    broken(model, task, tmp_path, after=5, breaking=spoil(f"{INNER}.bias", 3, math.inf))
    for module in model.modules():
        assert not module._forward_hooks and not module._backward_hooks
