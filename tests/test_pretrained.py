"""Models that are ready: any run can be loaded, explained and exported."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import tiny_data

from transformer_lab import pretrained, runs
from transformer_lab.checkpoint import CheckpointError, load_tensors
from transformer_lab.data import load_g2p
from transformer_lab.data.g2p import G2PData
from transformer_lab.tasks import sample, score_words, transcribe
from transformer_lab.train import read_metrics


@pytest.fixture(scope="module")
def data() -> G2PData:
    return load_g2p()


# ---- any run ----


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run of the small preset on the words of these tests."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "load_g2p", lambda: tiny_data(400))
        made = runs.new_g2p(folder, "test", {"steps": 120, "batch_size": 16, "lr": 1e-2})
        runs.perform(made, "cpu")
    return folder


@pytest.fixture(scope="module")
def speaker(run):
    return pretrained.load(run)


def test_an_explanation_is_what_the_model_does(speaker):
    """Shapes, rows that sum to one, and each map against a forward pass of our own."""
    for word in ("bade", "ace", "dt", "A", " cAb "):
        seen = speaker.explain(word)
        letters = word.strip().lower()
        phones = speaker.pronounce(word)
        assert seen.letters == tuple(letters) and seen.symbols == (*phones, "<eos>")
        T, S = len(phones) + 1, len(letters)
        assert seen.cross_LHTS.shape == (1, 2, T, S) and seen.probability_T.shape == (T,)
        assert np.abs(seen.cross_LHTS.sum(-1) - 1).max() < 1e-5 and seen.cross_LHTS.min() >= 0
        trace: dict[str, torch.Tensor] = {}
        ids = speaker.target.encode(phones)
        with torch.inference_mode():
            logits = speaker.model(
                torch.tensor([speaker.source.encode(letters)]), torch.tensor([[1, *ids]]), trace
            )[0]
        weights = trace["decoder.0.cross.weights_BHTS"][0].numpy()
        assert np.array_equal(seen.cross_LHTS[0], weights)
        expected = [float(row.softmax(-1)[i]) for row, i in zip(logits, [*ids, 2], strict=True)]
        assert np.allclose(seen.probability_T, expected, atol=1e-6)


def test_probabilities_multiply_to_those_of_the_beam(speaker):
    for word in ("bade", "tac", "ce"):
        for phones, log_p in speaker.nbest(word, 4):
            seen = speaker.explain(word, phones)
            assert math.log(np.prod(seen.probability_T.astype(float))) == pytest.approx(
                log_p, abs=1e-4
            )


def test_the_beam_is_sorted_and_its_first_is_said(speaker):
    found = speaker.nbest("bade", 5)
    assert len({phones for phones, _ in found}) == 5
    assert [p for _, p in found] == sorted((p for _, p in found), reverse=True)
    assert all(p < 0 for _, p in found)
    assert speaker.pronounce("bade", 5) == found[0][0]
    greedy = speaker.nbest("bade", 1)
    assert len(greedy) == 1 and greedy[0][0] == speaker.pronounce("bade")
    assert found[0][1] >= greedy[0][1] - 1e-5


def test_given_phones_are_explained_instead_of_the_answer(speaker):
    forced = ("T", "T", "AE")
    seen = speaker.explain("bade", forced)
    assert seen.symbols == (*forced, "<eos>") and seen.cross_LHTS.shape == (1, 2, 4, 4)
    own = speaker.explain("bade")
    assert np.prod(seen.probability_T) < np.prod(own.probability_T)
    nothing = speaker.explain("bade", ())
    assert nothing.symbols == ("<eos>",)


def test_capital_letters_count_where_a_model_has_learnt_them(tmp_path, monkeypatch):
    data = tiny_data(60)
    capital = replace(data, train=(*data.train, ("Bad", (("B", "D"),))))
    monkeypatch.setattr(runs, "load_g2p", lambda: capital)
    made = runs.new_g2p(tmp_path / "run", "test", {"steps": 1})
    runs.perform(made, "cpu")
    speaker = pretrained.load(tmp_path / "run")
    assert speaker.explain("Bad").letters == ("B", "a", "d")
    assert speaker.explain("bad").letters == ("b", "a", "d")


@pytest.mark.plain
@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("", "at least one letter"),
        ("  \n", "at least one letter"),
        ("naïve", "'ï', 'n', 'v' are not among them|'ï'"),
        ("b" * 65, "at most 64 tokens"),
    ],
)
def test_words_it_cannot_say(word, message, speaker):
    for ask in (speaker.pronounce, speaker.nbest, speaker.explain):
        with pytest.raises(ValueError, match=message):
            ask(word)


@pytest.mark.plain
def test_phones_it_does_not_know(speaker):
    with pytest.raises(ValueError, match="'QQ' is not among them"):
        speaker.explain("bade", ("B", "QQ"))


# ---- export: half precision ----


def test_rounded_weights_are_a_model_of_half_the_size(run, tmp_path):
    pretrained.export(run, tmp_path / "small")
    names = sorted(path.name for path in (tmp_path / "small").iterdir())
    assert names == ["config.json", "metrics.jsonl", "weights.safetensors"]
    full, about = load_tensors(run / "weights.safetensors")
    half, same = load_tensors(tmp_path / "small" / "weights.safetensors")
    assert about == same and full.keys() == half.keys()
    for name, tensor in half.items():
        assert torch.equal(tensor, full[name].half())
    for name in ("config.json", "metrics.jsonl"):
        assert (tmp_path / "small" / name).read_bytes() == (run / name).read_bytes()
    assert len(pretrained.load(tmp_path / "small").explain("bade").letters) == 4


def test_rounding_changes_few_answers(data):
    """The shipped weights moved by as much again as rounding to half moved them."""
    words = [word for word, _ in sample(data.dev, 200)]
    speaker = pretrained.load("g2p-class")
    before = transcribe(speaker.model, words, speaker.source, speaker.target)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in speaker.model.parameters():  # half a unit in the last of eleven bits
            p *= 1 + 2**-11 * (2 * torch.rand(p.shape, generator=generator) - 1)
    after = transcribe(speaker.model, words, speaker.source, speaker.target)
    assert len(words) == 200
    assert sum(a != b for a, b in zip(before, after, strict=True)) < 0.02 * len(words)


def test_a_run_answers_the_same_rounded(run, speaker, tmp_path):
    pretrained.export(run, tmp_path / "small")
    small = pretrained.load(tmp_path / "small")
    words = [word for word, _ in tiny_data(400).train[:200]]
    answers = [transcribe(s.model, words, s.source, s.target) for s in (speaker, small)]
    assert sum(a != b for a, b in zip(*answers, strict=True)) < 0.02 * len(words)


@pytest.mark.plain
def test_a_model_is_not_shipped_over_a_run(run):
    before = (run / "weights.safetensors").read_bytes()
    with pytest.raises(ValueError, match="holds a run, whose exact weights would be lost"):
        pretrained.export(run, run)
    assert (run / "weights.safetensors").read_bytes() == before


def test_figures_are_added_to_those_there(run, speaker, tmp_path):
    entries = tiny_data(400).dev
    scores = score_words(speaker.model, entries, speaker.source, speaker.target)
    pretrained.record_figures(tmp_path, "dev greedy", scores.figures())
    figures = pretrained.record_figures(tmp_path, "dev beam 5", {"part": "dev"})
    assert json.loads((tmp_path / "figures.json").read_text(encoding="utf-8")) == figures
    assert list(figures) == ["dev greedy", "dev beam 5"]
    assert figures["dev greedy"]["wer"] == scores.wer
    assert figures["dev greedy"]["words"] == len(entries) == 80


# ---- what it refuses ----


@pytest.fixture
def copy(run, tmp_path) -> Path:
    """A finished run that may be damaged."""
    shutil.copytree(run, tmp_path / "copy")
    return tmp_path / "copy"


def refused(folder: Path) -> str:
    with pytest.raises((CheckpointError, ValueError)) as error:
        pretrained.load(folder)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError):
        runs.reopen_g2p(folder)
    return str(error.value)


@pytest.mark.plain
def test_a_folder_that_is_no_run(tmp_path):
    for path in (tmp_path, tmp_path / "nothing", tmp_path / "file"):
        (tmp_path / "file").touch()
        message = refused(path)
        assert str(path) in message and "g2p-class" in message


@pytest.mark.plain
def test_an_unfinished_run_says_how_to_go_on(copy):
    (copy / "weights.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"has not finished; go on with .*--resume"):
        pretrained.load(copy)


@pytest.mark.plain
def test_every_key_of_a_configuration_that_is_missing_or_wrong_is_a_sentence(copy):
    """Each entry taken out, and replaced by things of another kind, one after another."""
    path = copy / "config.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    needed = {"task", "model", "train"}
    refusals = 0
    for room in sorted(needed):
        for name in [None, *whole[room]]:
            for value in ("missing", None, "text", -3, [], {}, ["a", "a"], 1.5):
                config = json.loads(json.dumps(whole))
                where, at = (config, room) if name is None else (config[room], name)
                if value == "missing":
                    del where[at]
                else:
                    where[at] = value
                path.write_text(json.dumps(config), encoding="utf-8")
                for use in (pretrained.load, runs.reopen_g2p):
                    with pytest.MonkeyPatch.context() as patch:
                        patch.setattr(runs, "load_g2p", lambda: tiny_data(400))
                        try:
                            use(copy)
                        except ValueError as error:
                            assert "\n" not in str(error)
                            refusals += 1
    assert refusals > 300


@pytest.mark.plain
@pytest.mark.parametrize("text", ["", "{", "null", "[]", "3", '{"task": 3}', "\ufffd", '"task"'])
def test_a_damaged_configuration(text, copy):
    (copy / "config.json").write_text(text, encoding="utf-8")
    assert "config.json" in refused(copy)


@pytest.mark.plain
def test_another_task_and_other_vocabularies(copy):
    path = copy / "config.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"task": "g2p"', '"task": "text"'), encoding="utf-8")
    assert "this one's is 'text'" in refused(copy)
    path.write_text(text.replace('"source_size": 9', '"source_size": 10'), encoding="utf-8")
    assert "9 and 10, but the configuration says 10 and 10" in refused(copy)


@pytest.mark.plain
def test_damaged_figures(copy):
    (copy / "figures.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"figures\.json is damaged"):
        pretrained.load(copy)


# ---- what stands wrong in a configuration beside the model ----


def changed(folder: Path, room: str, **values: object) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config[room] = {**config[room], **values}
    path.write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.plain
@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("batch_size", 8.0, "a whole number"),
        ("seed", 1.5, "a whole number"),
        ("steps", True, "a whole number"),
        ("accumulate", 2.5, "a whole number"),
        ("patience", "3", "a whole number"),
        ("weight_decay", "x", "a number"),
        ("lr", None, "a number"),
        ("schedule", 3, "a name"),
        ("betas", ["a", "b"], "two numbers"),
        ("betas", [0.9], "two numbers"),
        ("betas", [0.9, 1.0], "both betas in 0 ≤ beta < 1"),
        ("weight_decay", -1.0, "weight_decay must be at least 0"),
    ],
)
def test_settings_of_another_kind_do_not_reopen(name, value, rule, copy):
    changed(copy, "train", **{name: value})
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ValueError, match=rule) as error:
        patch.setattr(runs, "load_g2p", lambda: tiny_data(400))
        runs.reopen_g2p(copy)
    assert name in str(error.value)


@pytest.mark.plain
@pytest.mark.parametrize("threads", [0, -2, 1.5, "x", None, True])
def test_threads_of_the_machine_are_a_whole_number(threads, copy):
    changed(copy, "machine", threads=threads)
    assert "a whole number of threads" in refused(copy)


@pytest.mark.plain
def test_a_checkpoint_beyond_the_last_step_is_refused(copy):
    changed(copy, "train", steps=100)  # it stands at 120
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "load_g2p", lambda: tiny_data(400))
        run = runs.reopen_g2p(copy)
    with pytest.raises(CheckpointError, match="100 steps cannot go on from step 120"):
        runs.perform(run, "cpu", resume=True)


@pytest.mark.plain
@pytest.mark.parametrize("text", ["[" * 100_000, '{"task": ' + "9" * 5000 + "}"])
def test_json_that_python_cannot_read(text, copy):
    (copy / "config.json").write_text(text, encoding="utf-8")
    assert "is damaged or no JSON" in refused(copy)


def test_a_line_of_the_log_with_another_step_ends_it(copy):
    path = copy / "metrics.jsonl"
    whole = read_metrics(copy)
    with path.open("a", encoding="utf-8") as lines:
        lines.write('{"step": "x", "loss": 1}\n{"step": 130, "loss": 1}\n')
    assert read_metrics(copy) == whole
