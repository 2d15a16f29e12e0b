"""Early stopping: the best weights stay, the run says so, and it resumes exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers import tiny_data
from train_cases import fresh, timeless

from transformer_lab import runs, train
from transformer_lab.checkpoint import load_tensors
from transformer_lab.tasks import G2P
from transformer_lab.train import TrainConfig, read_metrics
from transformer_lab.train.best import Best

CONFIG = TrainConfig(
    steps=31, batch_size=5, lr=5e-3, warmup=3, log_every=2, judge_every=4, checkpoint_every=3,
    dev_words=7, patience=2,
)  # fmt: skip


class Told:
    """A task whose dev loss is told beforehand: by step, for the words looked at on the way."""

    def __init__(self, losses: dict[int, float]):
        self.task, self.losses, self.step, self.judged = G2P(tiny_data(60)), losses, 0, []
        self.describe, self.batches, self.loss = (
            self.task.describe, self.task.batches, self.task.loss,
        )  # fmt: skip

    def judge(self, model, part, limit):
        weights = {name: t.clone() for name, t in model.state_dict().items()}
        self.judged.append((limit, weights))
        if limit is None:
            return self.task.judge(model, part, limit)
        return {"dev_loss": self.losses[self.step]}


FALLING = {4: 3.0, 8: 2.0, 12: 2.5, 16: 1.5, 20: 1.5, 24: 1.75, 28: 1.0, 31: 0.5}


def learn(folder, losses=FALLING, config=CONFIG, stop_after=None, **rest):
    told = Told(losses)
    model = fresh(told.task)

    def note(step):
        told.step = step
        if step == stop_after:
            raise KeyError

    records = train.train(model, told, config, folder, on_step=note, **rest)
    return records, told, model


def outcome(folder):
    return timeless(read_metrics(folder)), (folder / "weights.safetensors").read_bytes()


def test_it_stops_after_so_many_judgements_without_a_new_best(tmp_path):
    records, told, model = learn(tmp_path)
    assert records[-1]["step"] == 24 and records[-1]["stopped_early"] is True
    judged = [r for r in records if "best_step" in r]
    assert [r["best_step"] for r in judged] == [4, 8, 8, 16, 16, 16]
    assert [r["step"] for r in judged] == [4, 8, 12, 16, 20, 24]
    assert [limit for limit, _ in told.judged] == [7] * 6 + [None]
    weights, about = load_tensors(tmp_path / "weights.safetensors")
    assert about == {"step": 16} and not model.training
    for kept in (weights, model.state_dict(), told.judged[-1][1]):
        for name, t in told.judged[3][1].items():  # those judged at step 16
            assert torch.equal(kept[name], t)
    assert "dev_wer" in records[-1] and records[-1]["dev_loss"] == pytest.approx(
        told.task.judge(model, "dev", None)["dev_loss"]
    )


def test_the_state_on_disk_is_that_of_the_last_step_and_of_the_best(tmp_path):
    _, told, _ = learn(tmp_path)
    tensors, about = load_tensors(tmp_path / "checkpoint.safetensors")
    assert about["progress"]["step"] == 24
    assert about["best"] == {"loss": 1.5, "step": 16, "stale": 2}
    for name, t in told.judged[5][1].items():
        assert torch.equal(tensors[f"model.{name}"], t)
        assert torch.equal(tensors[f"best.{name}"], told.judged[3][1][name])


def test_without_patience_nothing_of_it_is_there(tmp_path):
    records, told, _ = learn(tmp_path, config=replace(CONFIG, patience=None))
    assert records[-1]["step"] == 31 and told.judged[-1][0] is None
    assert not any("best_step" in r or "stopped_early" in r for r in records)
    tensors, about = load_tensors(tmp_path / "checkpoint.safetensors")
    assert "best" not in about and not [n for n in tensors if n.startswith("best.")]


@pytest.mark.parametrize("last", [0.5, 0.7])
def test_a_run_that_keeps_its_patience_ends_with_the_best_of_all(last, tmp_path):
    losses = {step: 3 - step / 10 for step in FALLING} | {28: 0.6, 31: last}
    records, told, _ = learn(tmp_path, losses)
    best, place = (31, 7) if last == 0.5 else (28, 6)
    assert records[-1]["step"] == 31 and records[-1]["stopped_early"] is False
    assert records[-1]["best_step"] == best
    weights, about = load_tensors(tmp_path / "weights.safetensors")
    assert about == {"step": best}
    assert all(torch.equal(weights[n], t) for n, t in told.judged[place][1].items())


def test_nan_is_never_the_best():
    best, model = Best(), torch.nn.Linear(2, 3)
    for step, loss in enumerate((float("nan"), 2.0, float("nan"), 2.0), 1):
        best.hear(loss, step, model)
    assert (best.loss, best.step, best.stale) == (2.0, 2, 2)


def test_looking_on_by_patience_does_not_change_what_is_learnt(tmp_path):
    losses = {step: -float(step) for step in FALLING}
    learn(tmp_path / "with", losses)
    learn(tmp_path / "without", config=replace(CONFIG, patience=None))
    weights = [load_tensors(tmp_path / n / "weights.safetensors")[0] for n in ("with", "without")]
    assert all(torch.equal(t, weights[1][name]) for name, t in weights[0].items())


@pytest.mark.parametrize("stop_after", [2, 5, 13, 16, 17, 20, 23, 24])
def test_a_stopped_run_goes_on_exactly(stop_after, tmp_path):
    learn(tmp_path / "whole")
    with pytest.raises(KeyError):
        learn(tmp_path / "part", stop_after=stop_after)
    learn(tmp_path / "part", resume=True)
    assert outcome(tmp_path / "part") == outcome(tmp_path / "whole")
    again, *_ = learn(tmp_path / "part", resume=True)  # it has finished: nothing happens
    assert outcome(tmp_path / "part") == outcome(tmp_path / "whole") and again[-1]["step"] == 24


def test_killed_between_the_last_checkpoint_and_the_weights(tmp_path):
    learn(tmp_path / "whole")
    learn(tmp_path / "part")
    (tmp_path / "part" / "weights.safetensors").unlink()
    learn(tmp_path / "part", resume=True)
    assert outcome(tmp_path / "part") == outcome(tmp_path / "whole")


def test_the_summary_says_which_weights_were_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "load_g2p", lambda: tiny_data(60))
    monkeypatch.setattr(G2P, "judge", lambda *_: {"dev_loss": 1.0, "dev_wer": 0.5, "dev_per": 0.2})
    run = runs.new_g2p(tmp_path / "run", "test", {"steps": 60, "patience": 1})
    records = runs.perform(run, "cpu")
    assert [r["step"] for r in records if "best_step" in r] == [30, 60]
    assert "the weights are those of step 30" in runs.summary(run)


@pytest.mark.plain
def test_a_task_without_a_dev_loss_cannot_stop_early(tmp_path):
    told = Told({})
    told.judge = lambda model, part, limit: {}
    with pytest.raises(ValueError, match="patience needs a task whose judgement has a dev_loss"):
        train.train(fresh(told.task), told, CONFIG, tmp_path)
