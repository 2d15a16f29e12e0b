"""The search for a learning rate: a trial on a copy, its rule, its picture, its command."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from helpers import tiny_data
from train_cases import fresh

from transformer_lab import runs
from transformer_lab.plots import lr_curve
from transformer_lab.tasks import G2P
from transformer_lab.train import TrainConfig, find_lr, finder, suggest_lr

pytest_plugins = ["cli_fixtures"]

CONFIG = TrainConfig(steps=7, batch_size=5, lr=5e-3, warmup=3)


@pytest.fixture(scope="module")
def task():
    return G2P(tiny_data(60))


def test_the_rates_rise_geometrically_and_the_losses_are_smoothed(task):
    records, _ = find_lr(fresh(task), task, CONFIG, lowest=1e-5, highest=0.1, steps=41)
    assert [r["step"] for r in records] == list(range(1, len(records) + 1))
    assert records[0]["lr"] == pytest.approx(1e-5)
    if len(records) == 41:
        assert records[-1]["lr"] == pytest.approx(0.1)
    for a, b in pairwise(records):
        assert b["lr"] / a["lr"] == pytest.approx(10 ** (4 / 40))
    losses = [r["loss"] for r in records]
    for n, record in enumerate(records, 1):  # by hand, from the formula
        weights = [0.9 ** (n - 1 - r) for r in range(n)]
        mean = sum(w * x for w, x in zip(weights, losses, strict=False)) / sum(weights)
        assert record["smoothed_loss"] == pytest.approx(mean)


def test_its_steps_are_those_of_training(task):
    """By torch's own AdamW on the same batches; what is compared is the loss of each step."""
    config = replace(CONFIG, accumulate=2, smoothing=0.0)
    records, _ = find_lr(fresh(task, dropout=0.0), task, config, lowest=1e-4, steps=12)
    model = fresh(task, dropout=0.0)
    batches = [b for e in range(3) for b in task.batches(1, e, 5)]
    decay = [p for p in model.parameters() if p.ndim > 1]
    keep = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": decay}, {"params": keep, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.01)
    for i, record in enumerate(records):
        losses = [task.loss(model, b, 0.0) for b in batches[2 * i : 2 * i + 2]]
        mean = sum(x for x, _ in losses) / sum(n for _, n in losses)
        assert record["loss"] == pytest.approx(float(mean.detach()), rel=1e-4)
        optimiser.zero_grad()
        mean.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimiser.param_groups:
            group["lr"] = record["lr"]
        optimiser.step()


def test_model_and_random_state_stay_as_they_are(task):
    model = fresh(task).eval()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    state = torch.get_rng_state()
    first = find_lr(model, task, CONFIG, steps=25)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    assert not model.training and all(p.grad is None for p in model.parameters())
    torch.manual_seed(99)
    assert find_lr(model, task, CONFIG, steps=25) == first


def test_the_trial_ends_when_the_loss_rises_beyond_the_stated_factor(task):
    records, rate = find_lr(fresh(task), task, CONFIG, highest=1e3, steps=60, rise=1.5)
    assert 20 < len(records) < 60
    smoothed = [r["smoothed_loss"] for r in records]
    assert smoothed[-1] > 1.5 * min(smoothed) and smoothed[-2] <= 1.5 * min(smoothed[:-1])
    assert records[0]["lr"] < rate < records[-1]["lr"]


def test_a_loss_that_leaves_the_numbers_ends_the_trial(task):
    records, _ = find_lr(fresh(task), task, CONFIG, highest=1e30, steps=60, rise=1e300)
    assert 15 < len(records) < 60 and all(math.isfinite(r["smoothed_loss"]) for r in records)


def test_the_rule_finds_the_steepest_fall_of_a_known_curve():
    """A falling S in log rate has its steepest point in the middle."""
    for centre in (-9.0, -6.5):
        records = []
        for s in range(101):
            x = math.log(1e-6) + s * math.log(1e6) / 100
            loss = 5 - 3 / (1 + math.exp(-(x - centre))) + 0.01 * math.sin(37 * s)
            records.append({"step": s + 1, "lr": math.exp(x), "smoothed_loss": loss})
        assert math.log(suggest_lr(records)) == pytest.approx(centre, abs=0.3)


def test_the_rate_it_suggests_trains(task):
    """Better than a hundredth of it, and than a hundred times it, in the same few steps."""
    from transformer_lab.train.step import Stepper, endless

    _, rate = find_lr(fresh(task), task, CONFIG)
    reached = []
    for factor in (0.01, 1, 100):
        stepper = Stepper(fresh(task, dropout=0.0), task, CONFIG, torch.device("cpu"), "fp32")
        losses = []
        for _, drawn in zip(range(40), endless(task, CONFIG, 0), strict=False):
            loss, tokens, _ = stepper.gradient(drawn)
            losses.append(float(loss) / int(tokens))
            stepper.move(factor * rate)
        reached.append(sum(losses[-8:]) / 8)
    assert reached[1] < reached[0] - 0.3 and reached[1] < reached[2] - 0.1, reached


@pytest.mark.plain
@pytest.mark.parametrize(
    "wrong", [{"lowest": 0.0}, {"lowest": 2.0}, {"highest": math.inf}, {"steps": 9}, {"rise": 1.0}]
)
def test_a_trial_that_cannot_be_is_refused(wrong, task):
    with pytest.raises(ValueError, match="0 < lowest < highest, 10 steps or more"):
        find_lr(fresh(task), task, CONFIG, **wrong)


@pytest.mark.plain
def test_no_suggestion_without_a_fall():
    rising = [{"lr": 10.0**s, "smoothed_loss": 1.0 + s} for s in range(15)]
    with pytest.raises(ValueError, match="a loss that falls somewhere, but it never does"):
        suggest_lr(rising)
    with pytest.raises(ValueError, match=r"more than 10 steps, but .* after 10; begin at a"):
        suggest_lr(rising[:10])


def test_the_curve_shows_both_losses_and_the_suggestion():
    records = [{"lr": 10.0**-s, "loss": 4.0 - s, "smoothed_loss": 3.5 - s} for s in (3, 2, 1)]
    axes = lr_curve(records, 0.02, unit="phoneme")
    each, smoothed, line = axes.get_lines()
    assert each.get_xydata().tolist() == [[0.001, 1.0], [0.01, 2.0], [0.1, 3.0]]
    assert smoothed.get_ydata().tolist() == [0.5, 1.5, 2.5]
    assert list(line.get_xdata()) == [0.02, 0.02] and "0.02" in line.get_label()
    assert axes.get_xscale() == "log" and axes.get_ylabel() == "loss (nats a phoneme)"
    assert len(lr_curve(records).get_lines()) == 2


def test_no_records_no_curve():
    with pytest.raises(ValueError, match="at least one record"):
        lr_curve([])


def test_the_command_suggests_draws_and_changes_nothing(lab, pairs, tmp_path):
    out = tmp_path / "run"
    options = ("train", "g2p", "--preset", "test", "--pairs", pairs, "--out", out, "--steps", 3)
    ended = lab(*options, "--find-lr", "--accumulate", 2)
    assert ended.code == 0 and ended.err == "", ended
    said = re.fullmatch(
        r"The loss falls most steeply at --lr ([\d.e-]+); .* least at ([\d.e-]+), .*\n", ended.out
    )
    assert said and 1e-6 < float(said[1]) < float(said[2]) <= 1
    assert str(out / "lr.png") in ended.out
    assert [p.name for p in out.iterdir()] == ["lr.png"]
    assert (out / "lr.png").read_bytes().startswith(b"\x89PNG")
    assert lab(*options, "--lr", said[1]).code == 0  # the folder can take the run itself
    refused = lab("train", "g2p", "--resume", out, "--find-lr")
    assert "keeps the settings it began with, but got --find-lr" in refused.sentence


def test_a_run_and_its_search_begin_with_the_same_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "load_g2p", lambda: tiny_data(60))
    run = runs.new_g2p(tmp_path / "run", "test", {"steps": 2, "seed": 7})
    seen = []
    monkeypatch.setattr(
        runs, "find_lr",
        lambda model, *rest, **named: seen.append(model) or finder.find_lr(model, *rest, **named),
    )  # fmt: skip
    monkeypatch.setattr(runs, "train", lambda model, *rest: seen.append(model) or [])
    monkeypatch.setattr(runs, "draw_curve", lambda folder: None)
    rate, least = runs.find_rate(run, "cpu")
    runs.perform(run, "cpu")
    a, b = (model.state_dict() for model in seen)
    assert 0 < rate < least and all(torch.equal(t, b[name]) for name, t in a.items())
