"""The models that come with the package keep their word: figures, sizes, settings, answers."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from transformer_lab import pretrained, runs
from transformer_lab.checkpoint import load_tensors
from transformer_lab.data import load_g2p, load_shakespeare
from transformer_lab.data.g2p import G2PData
from transformer_lab.presets import G2P_PRESETS, LM_PRESETS
from transformer_lab.tasks import score_words
from transformer_lab.train import TrainConfig, read_metrics

TOLERATED = 3  # words and edits that another processor may round to the other side
LARGEST = 4_000_000  # bytes
SHIPPED = pretrained.available()
PRONOUNCERS = [name for name in SHIPPED if name.startswith("g2p-")]
WRITERS = [name for name in SHIPPED if name.startswith("lm-")]
RECORDED = ("dev greedy", "dev beam 5", "test greedy", "test beam 5")
MEASURED = [("dev", 1), ("test", 1), ("test", 5)]  # the beam on dev would only take time
WER = {"class": {1: 0.44, 5: 0.44}, "lab": {1: 0.31, 5: 0.30}}
PER = {"class": 0.11, "lab": 0.08}
NATS = {"lab": 1.60}
SEEDS = Path(__file__).resolve().parents[1] / "book" / "data"


def key(part: str, width: int) -> str:
    return f"{part} greedy" if width == 1 else f"{part} beam {width}"


@pytest.fixture(scope="module")
def data() -> G2PData:
    return load_g2p()


def test_what_is_shipped():
    assert SHIPPED == ["g2p-class", "g2p-lab", "lm-lab"]
    assert pretrained.load().about["config"]["preset"] == "class"
    assert all(isinstance(pretrained.load(name), pretrained.Pronouncer) for name in PRONOUNCERS)
    assert all(isinstance(pretrained.load(name), pretrained.Writer) for name in WRITERS)


# ---- every model ----


@pytest.mark.parametrize("name", SHIPPED)
def test_folders_are_small_and_whole(name):
    folder = pretrained.folder_of(name)
    files = {path.name for path in folder.iterdir()}
    assert files == {"config.json", "metrics.jsonl", "weights.safetensors", "figures.json"}
    assert sum(path.stat().st_size for path in folder.iterdir()) <= LARGEST
    tensors, about = load_tensors(folder / "weights.safetensors")
    assert {t.dtype for t in tensors.values()} == {torch.float16}
    assert all(t.isfinite().all() for t in tensors.values())
    records = read_metrics(folder)
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    assert len(records) == text.count("\n")
    config = pretrained.read_config(folder)
    assert records[-1]["step"] == config["train"]["steps"] == about["step"]
    assert records[-1]["loss"] < 0.5 * records[0]["loss"] and "dev_loss" in records[-1]


@pytest.mark.parametrize("name", SHIPPED)
def test_settings_are_those_of_the_preset(name):
    """So the command in the README trains this very model."""
    config = pretrained.read_config(pretrained.folder_of(name))
    task, preset = name.split("-")
    named = {"g2p": G2P_PRESETS, "lm": LM_PRESETS}[task][preset]
    assert config["version"] and config["machine"]["torch"] and config["preset"] == preset
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in config["train"].items()}
    assert TrainConfig(**plain) == named.train
    assert named.model.items() <= config["model"].items()


# ---- models that pronounce ----


@pytest.mark.parametrize("name", PRONOUNCERS)
@pytest.mark.parametrize(("part", "width"), MEASURED)
def test_weights_give_the_recorded_error_rates(name, part, width, data):
    """Measured anew, on the whole part."""
    speaker = pretrained.load(name)
    recorded = speaker.about["figures"][key(part, width)]
    entries = data.entries(part)
    scores = score_words(speaker.model, entries, speaker.source, speaker.target, width)
    assert abs(scores.wrong - recorded["wrong"]) <= TOLERATED
    assert abs(scores.edits - recorded["edits"]) <= 2 * TOLERATED


@pytest.mark.parametrize("name", PRONOUNCERS)
@pytest.mark.parametrize("which", RECORDED)
def test_recorded_error_rates_fit_together(name, which, data):
    recorded = pretrained.load(name).about["figures"][which]
    assert recorded["part"] == which.split()[0] and recorded["version"]
    assert recorded["words"] == len(data.entries(recorded["part"]))
    assert recorded["wer"] == recorded["wrong"] / recorded["words"]
    assert recorded["per"] == recorded["edits"] / recorded["phones"]


@pytest.mark.parametrize("name", PRONOUNCERS)
def test_error_rates_reach_the_target_of_the_preset(name):
    speaker = pretrained.load(name)
    preset = speaker.about["config"]["preset"]
    for width in (1, 5):
        figures = speaker.about["figures"][key("test", width)]
        assert 0.5 * WER[preset][width] < figures["wer"] <= WER[preset][width]
        assert 0.5 * PER[preset] < figures["per"] <= PER[preset]


@pytest.mark.parametrize("name", PRONOUNCERS)
def test_symbols_are_those_of_the_dictionary(name, data):
    task = pretrained.read_config(pretrained.folder_of(name))["task"]
    assert task["pairs"] is None  # no reader has the file of another
    assert task["source_symbols"] == list(data.source_symbols)
    assert task["target_symbols"] == list(data.target_symbols)


@pytest.mark.parametrize("name", PRONOUNCERS)
def test_the_recorded_dev_figures_are_those_of_the_run(name):
    """The log was written with full weights, the figures with rounded ones: nearly the same."""
    folder = pretrained.folder_of(name)
    logged = read_metrics(folder)[-1]
    recorded = pretrained.load(name).about["figures"]["dev greedy"]
    assert abs(logged["dev_wer"] - recorded["wer"]) < 0.005
    assert abs(logged["dev_per"] - recorded["per"]) < 0.002


@pytest.mark.parametrize("name", PRONOUNCERS)
def test_known_words_are_said_as_one_would(name):
    speaker = pretrained.load(name)
    assert speaker.pronounce("cat") == ("K", "AE", "T")
    assert speaker.pronounce(" Cat\n") == ("K", "AE", "T")
    assert speaker.pronounce("night", 5) == ("N", "AY", "T")


@pytest.mark.parametrize("name", PRONOUNCERS)
def test_recorded_alignment_is_better_than_the_diagonal(name):
    figures = pretrained.load(name).about["figures"]["test alignment"]
    heads = [share for layer in figures["heads"] for share in layer]
    assert 0 < min(heads) and max(heads) < 1 and 5000 < figures["words"] < figures["phones"]
    assert figures["diagonal"] < figures["mean"] and figures["mean"] > 0.9


# ---- models that write ----


@pytest.mark.parametrize("name", WRITERS)
def test_weights_give_the_recorded_loss(name):
    """Measured anew, on the whole held-out text; rounding moved it by less than 0.001 nats."""
    recorded = pretrained.load(name).about["figures"]["held-out all"]
    again = runs.evaluate_lm(pretrained.folder_of(name))
    assert again["nats_a_character"] == pytest.approx(recorded["nats_a_character"], abs=2e-4)
    assert again["bits_a_character"] == pytest.approx(recorded["bits_a_character"], abs=3e-4)
    assert again["characters"] == recorded["characters"]
    logged = read_metrics(pretrained.folder_of(name))[-1]
    assert abs(logged["dev_loss"] - recorded["nats_a_character"]) < 1e-3


@pytest.mark.parametrize("name", WRITERS)
def test_loss_reaches_the_target_of_the_preset(name):
    about = pretrained.load(name).about
    target = NATS[about["config"]["preset"]]
    assert 0.8 * target < about["figures"]["held-out all"]["nats_a_character"] <= target


@pytest.mark.parametrize("name", WRITERS)
def test_symbols_are_those_of_the_plays(name):
    task = pretrained.read_config(pretrained.folder_of(name))["task"]
    assert task["text"] is None
    assert task["symbols"] == list(load_shakespeare().symbols)


@pytest.mark.parametrize("name", WRITERS)
def test_it_writes_words_of_the_plays(name):
    """Nine of ten words that it writes greedily stand in the text it has learnt from."""
    writer = pretrained.load(name)
    known = set(load_shakespeare().train.lower().split())
    written = writer.write("ROMEO:\n", 400).lower().split()[1:-1]
    assert len(written) > 40
    assert sum(word in known for word in written) > 0.9 * len(written)


# ---- three seeds of the class presets ----


@pytest.mark.parametrize("task", ["g2p", "lm"])
def test_three_seeds_reach_the_target_of_the_class(task):
    seeds = json.loads((SEEDS / f"{task}-class-seeds.json").read_text(encoding="utf-8"))
    assert [run["seed"] for run in seeds["runs"]] == [1, 2, 3] and seeds["machine"]["torch"]
    presets = {"g2p": G2P_PRESETS, "lm": LM_PRESETS}[task]
    for run in seeds["runs"]:
        assert run["steps"] == asdict(presets["class"].train)["steps"]
        if task == "g2p":
            assert run["test greedy"]["wer"] <= 0.44 and run["test greedy"]["per"] <= 0.11
        else:
            assert run["held-out all"]["nats_a_character"] <= 1.75
