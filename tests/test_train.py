"""The training loop: it learns, repeats itself exactly, and says what it did."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import tiny_data
from train_cases import fresh, timeless

from transformer_lab import runs, train
from transformer_lab.checkpoint import load_tensors
from transformer_lab.presets import G2P_PRESETS
from transformer_lab.schedules import SCHEDULES
from transformer_lab.tasks import G2P, score_words
from transformer_lab.train import TrainConfig, check_new, read_metrics

SHORT = TrainConfig(
    steps=23, batch_size=7, lr=5e-3, warmup=3, seed=1, log_every=5, judge_every=10,
    checkpoint_every=4, dev_words=11,
)  # fmt: skip


@pytest.fixture(scope="module")
def task():
    return G2P(tiny_data(60))


def learn(task, folder: Path, config: TrainConfig = SHORT, dropout: float = 0.2, **rest):
    """Train afresh; the records without their times, and the bytes of the weights."""
    records = train.train(fresh(task, config.seed, dropout), task, config, folder, **rest)
    return timeless(records), (folder / "weights.safetensors").read_bytes()


@pytest.fixture(scope="module")
def usual(task, tmp_path_factory):
    """One short run that several tests look at."""
    folder = tmp_path_factory.mktemp("usual")
    heard, steps = [], []
    records, weights = learn(task, folder, on_record=heard.append, on_step=steps.append)
    return folder, records, weights, heard, steps


def test_it_learns(tmp_path):
    """The little language of the tests is learnt: most words never seen are right."""
    task = G2P(tiny_data(500))
    config = replace(
        SHORT, steps=300, batch_size=16, lr=1e-2, warmup=20, judge_every=100, log_every=50,
        smoothing=0.0, checkpoint_every=300, dev_words=50,
    )  # fmt: skip
    records, _ = learn(task, tmp_path, config, dropout=0.0)
    assert records[-1]["loss"] < 0.3 * records[0]["loss"]
    assert records[-1]["dev_wer"] < 0.6 and records[-1]["dev_loss"] < records[1]["dev_loss"]


def test_the_same_seed_gives_the_same_bits(task, usual, tmp_path):
    assert learn(task, tmp_path) == (usual[1], usual[2])


def test_another_seed_gives_another_run(task, usual, tmp_path):
    records, weights = learn(task, tmp_path, replace(SHORT, seed=2))
    assert weights != usual[2] and records[0]["loss"] != usual[1][0]["loss"]


@pytest.mark.parametrize(
    "change", [{"judge_every": 23}, {"checkpoint_every": 23}, {"log_every": 1}, {"dev_words": 3}]
)
def test_looking_on_does_not_change_the_run(change, task, usual, tmp_path):
    """How often it is judged, saved or logged makes no difference to what is learnt."""
    _, weights = learn(task, tmp_path, replace(SHORT, **change))
    assert weights == usual[2]


def test_dropout_and_order_matter_here(task, usual, tmp_path):
    """Else the tests of resuming would not see a lost random state or place in an epoch."""
    assert learn(task, tmp_path, dropout=0.0)[1] != usual[2]
    batches = [b.source_BS.tolist() for e in (0, 1) for b in task.batches(1, e, 7)]
    assert len(batches) < SHORT.steps < 5 * len(batches)
    assert sorted(map(str, batches[: len(batches) // 2])) != sorted(map(str, batches))


def test_what_is_recorded(task, usual):
    folder, records, _, heard, steps = usual
    assert steps == list(range(1, 24))
    assert [r["step"] for r in records] == [5, 10, 15, 20, 23]
    assert timeless(heard) == records == timeless(read_metrics(folder))
    assert [r["step"] for r in records if "dev_wer" in r] == [10, 20, 23]
    for r in records:
        rate = SHORT.lr * SCHEDULES["cosine"](r["step"] - 1, SHORT.steps, SHORT.warmup)
        assert r["lr"] == rate and r["gradient_norm"] > 0
    times = [(r["cpu_seconds"], r["wall_seconds"]) for r in heard]
    assert times == sorted(times) and times[0][1] >= 0


def test_the_recorded_loss_is_the_mean_over_tokens(task, tmp_path):
    """By hand, with a rate too small to change anything in float32."""
    still = replace(SHORT, steps=9, lr=1e-30, log_every=4, weight_decay=0.0, checkpoint_every=3)
    records, _ = learn(task, tmp_path, still, dropout=0.0)
    model = fresh(task, dropout=0.0)
    batches = [b for e in range(3) for b in task.batches(1, e, 7)][:9]
    losses = [task.loss(model, batch, 0.1) for batch in batches]
    tokens = 0
    for record, (a, b) in zip(records, [(0, 4), (4, 8), (8, 9)], strict=True):
        count = sum(int(n) for _, n in losses[a:b])
        tokens += count
        mean = sum(float(loss.detach()) for loss, _ in losses[a:b]) / count
        assert record["loss"] == pytest.approx(mean, rel=1e-6)
        assert record["tokens"] == tokens


def test_the_last_figures_are_those_of_all_of_dev(task, usual):
    folder, records, *_ = usual
    model = fresh(task)
    tensors, about = load_tensors(folder / "weights.safetensors")
    assert about == {"step": 23}
    model.load_state_dict(tensors)
    model.eval()
    scores = score_words(model, task.data.dev, task.source, task.target)
    assert scores.words == 12
    assert (records[-1]["dev_wer"], records[-1]["dev_per"]) == (scores.wer, scores.per)
    assert records[-1]["dev_loss"] == task.judge(model, "dev", None)["dev_loss"]


def test_judgements_and_records_keep_their_own_time(task, tmp_path):
    config = replace(SHORT, steps=17, log_every=5, judge_every=7)
    records, _ = learn(task, tmp_path, config)
    assert [r["step"] for r in records] == [5, 7, 10, 14, 15, 17]
    assert [r["step"] for r in records if "dev_loss" in r] == [7, 14, 17]


def test_a_long_gradient_is_cut(task, tmp_path):
    """Adam hides the length of a gradient, so the gradient itself is asked."""
    seen = []
    model = fresh(task)

    def note(_):
        seen.append(math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters())))

    config = replace(SHORT, steps=6, clip=0.01, log_every=1)
    records = train.train(model, task, config, tmp_path, on_step=note)
    assert all(r["gradient_norm"] > 0.1 for r in records)
    assert seen == pytest.approx([0.01] * 6, rel=1e-3)


def test_the_model_is_left_ready_to_be_asked(task, tmp_path):
    model = fresh(task)
    modes = []
    train.train(model, task, SHORT, tmp_path, on_step=lambda _: modes.append(model.training))
    assert not model.training and all(modes)


def test_every_preset_fits_its_task(task):
    for preset in G2P_PRESETS.values():
        config = preset.model_for(task)
        assert (config.source_size, config.target_size) == (len(task.source), len(task.target))
        assert config.max_length >= task.longest + 2
        assert preset.about and preset.train.steps >= 1


def test_a_long_word_makes_the_model_longer():
    data = tiny_data(30)
    data = replace(data, train=(*data.train, ("a" * 90, (("AE",) * 90,))))
    assert G2P_PRESETS["test"].model_for(G2P(data)).max_length >= 92


# ---- what it refuses, and how it stops ----


@pytest.mark.plain
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, but got 0"),
        ({"batch_size": -4}, "batch_size must be at least 1, but got -4"),
        ({"log_every": 0}, "log_every must be at least 1"),
        ({"judge_every": 0}, "judge_every must be at least 1"),
        ({"checkpoint_every": 0}, "checkpoint_every must be at least 1"),
        ({"dev_words": 0}, "dev_words must be at least 1"),
        ({"warmup": -1}, "warmup must be at least 0, but got -1"),
        ({"seed": -1}, "seed must be at least 0, but got -1"),
        ({"seed": 2**40}, "seed must be below 2³², but got 1099511627776"),
        ({"lr": -0.1}, r"lr and clip must be above 0 .* lr = -0\.1"),
        ({"lr": math.nan}, "lr = nan"),
        ({"lr": math.inf}, "lr = inf"),
        ({"clip": 0.0}, r"clip = 0\.0"),
        ({"smoothing": 1.0}, "0 ≤ smoothing < 1, but got 1"),
        ({"schedule": "step"}, "one of constant, cosine, linear, inverse_sqrt, but got 'step'"),
    ],
)
def test_settings_that_cannot_work_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(SHORT, **change)


@pytest.mark.plain
def test_an_unknown_precision_is_refused_before_anything_is_written(task, tmp_path):
    with pytest.raises(ValueError, match="auto, fp32, bf16 or fp16, but got 'fp8'"):
        learn(task, tmp_path / "run", replace(SHORT, precision="fp8"))
    assert not (tmp_path / "run").exists()


class Poisoned:
    """A task whose loss is no longer a number from a step on."""

    def __init__(self, task: G2P, after: int, into: str):
        self.task, self.after, self.into, self.calls = task, after, into, 0
        self.describe, self.batches, self.judge = task.describe, task.batches, task.judge

    def loss(self, model, batch, smoothing):
        self.calls += 1
        total, tokens = self.task.loss(model, batch, smoothing)
        if self.calls <= self.after:
            return total, tokens
        if self.into == "loss":
            return total * math.nan, tokens
        weight = next(model.parameters())  # a finite loss whose gradient is none
        return total + (weight - weight.detach()).abs().sum().sqrt(), tokens


@pytest.mark.plain
@pytest.mark.parametrize("into", ["loss", "gradient"])
@pytest.mark.parametrize(("after", "good"), [(0, 0), (5, 4), (7, 4), (8, 8)])
def test_a_run_that_leaves_the_numbers_stops_and_keeps_its_last_good_state(
    after, good, into, task, tmp_path
):
    config = replace(SHORT, log_every=20)
    poisoned = Poisoned(task, after, into)
    with pytest.raises(FloatingPointError, match="must stay finite"):
        train.train(fresh(task), poisoned, config, tmp_path)
    tensors, about = load_tensors(tmp_path / "checkpoint.safetensors")
    assert about["progress"]["step"] == good
    assert all(t.isfinite().all() for n, t in tensors.items() if n.startswith("model."))
    assert not (tmp_path / "weights.safetensors").exists()


@pytest.mark.plain
def test_an_existing_run_is_never_overwritten(tmp_path):
    check_new(tmp_path / "new")
    check_new(tmp_path)
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="already holds a run; choose another --out"):
        check_new(tmp_path)
    with pytest.raises(ValueError, match="already holds a run"):
        train.start_run(tmp_path, {"a": 1})
    assert (tmp_path / "config.json").read_text(encoding="utf-8") == "{}"
    with pytest.raises(ValueError, match="is a file"):
        check_new(tmp_path / "config.json")


@pytest.mark.plain
@pytest.mark.parametrize(
    "last", ['{"step": 3, "lo', "", "null", "3", "[]", "{}", "\x00\x00", "\ufffd{", '{"step": 3']
)
def test_a_broken_last_line_of_the_log_is_left_out(last, tmp_path):
    lines = [json.dumps({"step": step, "loss": 1.5}) for step in (1, 2)]
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, last]), encoding="utf-8")
    assert [r["step"] for r in read_metrics(tmp_path)] == [1, 2]


def test_a_log_that_is_not_there_is_empty(tmp_path):
    assert read_metrics(tmp_path) == []


# ---- runs ----


def test_a_run_writes_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "load_g2p", lambda: tiny_data(60))
    run = runs.new_g2p(tmp_path / "run", "test", {"steps": 12, "seed": 5, "lr": None})
    runs.perform(run, "cpu")
    folder = tmp_path / "run"
    assert sorted(p.name for p in folder.iterdir()) == sorted(train.FILES)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["train"]["steps"] == 12 and config["train"]["seed"] == 5
    assert config["train"]["lr"] == G2P_PRESETS["test"].train.lr
    assert config["machine"]["device"] == "CPU" and config["machine"]["precision"] == "fp32"
    assert config["task"]["source_symbols"] == sorted("abcdet")
    assert (folder / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert "12 steps" in runs.summary(run)
    again = runs.reopen_g2p(folder)
    assert (again.model, again.train) == (run.model, run.train)


@pytest.mark.plain
def test_a_run_goes_on_with_its_own_data_only(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "load_g2p", lambda: tiny_data(60))
    run = runs.new_g2p(tmp_path / "run", "test", {"steps": 2})
    train.start_run(run.folder, run.config)
    data = tiny_data(60)
    other = replace(data, train=(*data.train, ("x", (("EH", "K", "S"),))))
    monkeypatch.setattr(runs, "load_g2p", lambda: other)
    with pytest.raises(ValueError, match="the dictionary has changed"):
        runs.reopen_g2p(run.folder)


@pytest.mark.plain
def test_a_preset_must_exist(tmp_path):
    with pytest.raises(ValueError, match="one of test, class, lab, but got 'huge'"):
        runs.new_g2p(tmp_path / "run", "huge")
