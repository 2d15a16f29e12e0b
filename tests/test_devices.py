"""Where a model runs, and in which precision: found, set, refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers import tiny_data

from transformer_lab import devices, runs, train
from transformer_lab.devices import (
    autocast,
    available_devices,
    choose_device,
    choose_precision,
    describe_device,
)
from transformer_lab.models import EncoderDecoder, ModelConfig
from transformer_lab.tasks import G2P
from transformer_lab.train import TrainConfig

CPU, CUDA, MPS = torch.device("cpu"), torch.device("cuda"), torch.device("mps")


@pytest.fixture
def machine(monkeypatch):
    """A computer with these devices, as far as torch can tell."""

    def build(cuda: int = 0, mps: bool = False, bf16: bool = True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: bf16)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"Card of {device}")
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return build


@pytest.mark.parametrize(
    ("cuda", "mps", "found", "chosen"),
    [
        (0, False, ["cpu"], "cpu"),
        (2, False, ["cuda", "cpu"], "cuda"),
        (0, True, ["mps", "cpu"], "mps"),
        (1, True, ["cuda", "mps", "cpu"], "cuda"),
    ],
)
def test_the_fastest_kind_is_taken_unless_another_is_named(cuda, mps, found, chosen, machine):
    machine(cuda, mps)
    assert available_devices() == found
    assert choose_device() == choose_device("auto") == torch.device(chosen)
    for name in found:
        assert choose_device(name) == torch.device(name)


def test_one_of_several_cards_can_be_named(machine):
    machine(cuda=2)
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    assert choose_device("cpu:0") == torch.device("cpu", 0)


@pytest.mark.plain
@pytest.mark.parametrize(
    "name",
    ["cuda:2", "cuda:-1", "cuda:x", "cuda:", "mps", "tpu", "", "CPU", "gpu", "meta", "xpu:0"],
)
def test_a_device_that_is_not_here_is_refused(name, machine):
    machine(cuda=2)
    with pytest.raises(ValueError) as error:
        choose_device(name)
    assert repr(name) in str(error.value) and "(cuda, cpu)" in str(error.value)


def test_devices_have_names(machine):
    machine(cuda=1)
    assert describe_device(CUDA) == "Card of cuda"
    assert describe_device(CPU) == "CPU"
    assert "Apple" in describe_device(MPS)


def test_bf16_where_a_graphics_card_has_it(machine):
    machine(cuda=1)
    assert [choose_precision("auto", d) for d in (CUDA, CPU, MPS)] == ["bf16", "fp32", "fp32"]
    machine(cuda=1, bf16=False)
    assert choose_precision("auto", CUDA) == "fp32"
    for name in ("fp32", "bf16"):
        assert choose_precision(name, CPU) == choose_precision(name, CUDA) == name


@pytest.mark.plain
def test_a_precision_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="auto, fp32, bf16 or fp16, but got 'fp8'"):
        choose_precision("fp8", CPU)


@pytest.mark.plain
def test_fp16_is_for_cuda_only():
    assert choose_precision("fp16", CUDA) == "fp16"
    for kind in ("cpu", "mps"):
        with pytest.raises(ValueError, match=f"fp16 needs a CUDA device, .* computes on {kind};"):
            choose_precision("fp16", torch.device(kind))


def test_autocast_rounds_products_and_nothing_when_off():
    a = torch.linspace(0, 1, 35).reshape(5, 7)
    with autocast(CPU, "bf16"):
        rounded = a @ a.T
    with autocast(CPU, "fp32"):
        exact = a @ a.T
    assert rounded.dtype == torch.bfloat16 and exact.dtype == torch.float32
    assert torch.equal(exact, a @ a.T)
    assert 0 < (rounded.float() - exact).abs().max() < 2**-7 * exact.abs().max()


def test_a_run_in_bf16_stays_near_fp32_and_keeps_full_weights(tmp_path):
    task = G2P(tiny_data(60))
    config = TrainConfig(
        steps=8, batch_size=7, lr=1e-3, warmup=0, log_every=1, judge_every=8, dev_words=5
    )
    found = {}
    for precision in ("fp32", "bf16"):
        torch.manual_seed(0)
        model = EncoderDecoder(
            ModelConfig(
                len(task.source), len(task.target), d_model=22, h=2, d_ff=34, dropout=0.0,
                encoder_layers=1, decoder_layers=1,
            )
        )  # fmt: skip
        settings = replace(config, precision=precision)
        found[precision] = train.train(model, task, settings, tmp_path / precision)
        assert {p.dtype for p in model.parameters()} == {torch.float32}
    losses = [[r["loss"] for r in found[p]] for p in ("fp32", "bf16")]
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    assert losses[1][-1] < losses[1][0]


def test_a_resumed_run_stays_on_its_kind_of_device(tmp_path, monkeypatch):
    """It began on the CPU; that a faster device is there now does not move it."""
    monkeypatch.setattr(runs, "load_g2p", lambda: tiny_data(60))
    run = runs.new_g2p(tmp_path / "run", "test", {"steps": 2})
    runs.perform(run, "cpu")
    used = []
    monkeypatch.setattr(runs, "available_devices", lambda: ["cuda", "cpu"])
    monkeypatch.setattr(runs, "choose_device", lambda name: used.append(name) or CPU)
    again = runs.reopen_g2p(tmp_path / "run")
    runs.perform(again, resume=True)
    runs.perform(again, "cuda", resume=True)
    assert used == ["cpu", "cuda"]


def test_the_machine_of_these_tests_is_described():
    assert devices.describe_device(choose_device("cpu")) == "CPU"
    assert available_devices()[-1] == "cpu"
