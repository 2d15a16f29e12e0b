"""A language model that is ready: what it writes, how likely it finds what others wrote."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from lm_cases import naive

from transformer_lab import pretrained, runs
from transformer_lab.baselines import TEXT_BASELINES
from transformer_lab.checkpoint import CheckpointError, load_tensors
from transformer_lab.data import read_text
from transformer_lab.decode import GREEDY, sampling
from transformer_lab.models import DecoderOnly
from transformer_lab.tasks import LM

TEXT = "the quick brown fox jumps over the lazy dog.\nand then it sleeps!\n" * 23
WINDOW = 64
LONG = TEXT[7:150]
PROMPTS = ["the ", "q", LONG[:70], "and then it\nand"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run of the smallest preset on a reader's own text."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "mine.txt").write_text(TEXT, encoding="utf-8")
    made = runs.new_lm(folder / "run", "test", {"steps": 50, "seed": 3}, folder / "mine.txt")
    runs.perform(made, "cpu")
    return folder / "run"


@pytest.fixture(scope="module")
def writer(run):
    return pretrained.load(run)


def ids_of(text: str) -> list[int]:
    """Without the vocabulary: characters in sorted order, from 3."""
    return [3 + sorted(set(TEXT)).index(character) for character in text]


def text_of(ids: list[int]) -> str:
    return "".join(sorted(set(TEXT))[i - 3] for i in ids)


def logits_after(writer, text: str) -> torch.Tensor:
    """One plain forward pass over the end of a text."""
    with torch.no_grad():
        return writer.model(torch.tensor([ids_of(text)[-WINDOW:]]))[0, -1].double()


# ---- what is loaded ----


def test_a_folder_becomes_a_writer(run, writer):
    assert isinstance(writer, pretrained.Writer) and not writer.model.training
    assert writer.about["config"]["preset"] == "test" and "figures" not in writer.about
    assert writer.vocabulary.symbols == tuple(sorted(set(TEXT)))
    tensors, about = load_tensors(run / "weights.safetensors")
    state = writer.model.state_dict()
    assert tensors.keys() == state.keys() and about["step"] == 50
    assert all(torch.equal(tensor, state[name]) for name, tensor in tensors.items())


def test_a_configuration_alone_builds_an_untrained_model(run, writer):
    torch.manual_seed(3)
    model, vocabulary = pretrained.build(pretrained.read_config(run))
    assert isinstance(model, DecoderOnly) and vocabulary == writer.vocabulary
    assert model.config == writer.model.config and model.config.max_length == WINDOW
    assert not torch.equal(model.embedding.weight, writer.model.embedding.weight)


def test_a_model_to_ship_is_rounded_and_nearly_the_same(run, writer, tmp_path):
    pretrained.export(run, tmp_path / "small")
    half, _ = load_tensors(tmp_path / "small" / "weights.safetensors")
    assert {t.dtype for t in half.values()} == {torch.float16}
    small = pretrained.load(tmp_path / "small")
    assert small.model.embedding.weight.dtype == torch.float32
    difference = small.surprise(LONG) - writer.surprise(LONG)
    assert 0 < np.abs(difference).max() < 0.02
    assert json.loads((tmp_path / "small" / "config.json").read_text(encoding="utf-8")) == (
        writer.about["config"]
    )


# ---- one distribution ----


@pytest.mark.parametrize("text", [*PROMPTS, LONG])
def test_a_distribution_is_the_softmax_of_a_forward_pass(writer, text):
    found = writer.distribution(text)
    logits_V = logits_after(writer, text)
    expected = logits_V[3:].softmax(-1).tolist()  # no padding, beginning or end comes next
    labels = sorted(set(TEXT))
    assert found == pytest.approx(dict(zip(labels, expected, strict=True)), rel=1e-5)
    assert math.fsum(found.values()) == pytest.approx(1, abs=1e-12)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_a_distribution_changed_by_a_strategy(writer):
    plain = writer.distribution("the ")
    cut = writer.distribution("the ", sampling(0.5, top_k=3))
    best = list(plain)[:3]
    squares = {label: plain[label] ** 2 for label in best}  # 1/T is the power
    total = sum(squares.values())
    assert {k: v for k, v in cut.items() if v} == pytest.approx(
        {k: v / total for k, v in squares.items()}
    )
    assert next(iter(writer.distribution("the ", GREEDY).items())) == (best[0], 1.0)


# ---- surprise ----


def costs(model, ids: list[int], T: int) -> list[float]:
    """Each character but the first by a forward pass of its own over what it may look at."""
    stride = T // 2
    found = []
    for place in range(1, len(ids)):
        start = 0 if place <= T else stride * ((place - (T - stride) - 1) // stride)
        assert place <= T or place - start > T - stride
        with torch.no_grad():
            logits_V = model(torch.tensor([ids[start:place]]))[0, -1]
        found.append(-float(logits_V.log_softmax(-1)[ids[place]]))
    return found


@pytest.mark.parametrize("length", [2, 17, 64, 65, 66, 67, 96, 97, 98, 99, 143])
def test_surprise_is_what_each_character_costs(writer, length):
    """Below, at and beyond the window: one forward pass for each character."""
    text = LONG[:length]
    found = writer.surprise(text)
    assert found.shape == (length - 1,) and found.dtype == np.float32
    assert found == pytest.approx(costs(writer.model, ids_of(text), WINDOW), abs=2e-5)


def test_surprise_within_a_window_is_that_of_the_distribution(writer):
    """Up to the symbols that can never come, which a distribution leaves out."""
    text = "the lazy fox"
    for place, nats in enumerate(writer.surprise(text), start=1):
        with torch.no_grad():
            p_V = logits_after(writer, text[:place]).softmax(-1)
        possible = float(1 - p_V[:3].sum())
        p = writer.distribution(text[:place])[text[place]] * possible
        assert nats == pytest.approx(-math.log(p), abs=1e-4)


def test_the_first_character_alone_surprises_nobody(writer):
    assert writer.surprise("q").shape == (0,)


def test_a_known_sentence_surprises_less_than_a_shuffled_one(writer):
    assert writer.surprise(TEXT[:45]).mean() < writer.surprise(TEXT[:45][::-1]).mean() - 0.5


# ---- writing ----


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_writing_is_the_plain_loop_also_beyond_the_window(writer, prompt):
    written = writer.write(prompt, 150)
    expected = naive(writer.model, ids_of(prompt), 150, lambda z_V, _: 3 + int(z_V[3:].argmax()))
    assert written == text_of(expected) and len(written) == 150
    assert written == writer.write(prompt, 150, GREEDY, seed=9)  # no chance in it


def test_several_texts_are_written_as_each_alone(writer):
    together = writer.write_many(PROMPTS, WINDOW // 2)
    assert together == [writer.write(prompt, WINDOW // 2) for prompt in PROMPTS]
    assert len(set(together)) > 1


def test_a_seed_is_a_text(writer):
    strategy = sampling(1.2)
    one, again, other = (writer.write("the ", 90, strategy, seed) for seed in (5, 5, 6))
    assert one == again != other
    assert writer.write("the ", 90, strategy) == writer.write("the ", 90, strategy, seed=1)
    both = writer.write_many(["the ", "the "], 90, strategy, 5)
    assert both == writer.write_many(["the ", "the "], 90, strategy, 5)
    assert both[0] != both[1]  # each row has draws of its own


def test_writing_leaves_torchs_own_chance_alone(writer):
    torch.manual_seed(17)
    expected = torch.rand(3)
    torch.manual_seed(17)
    writer.write("the ", 9, sampling())
    assert torch.equal(torch.rand(3), expected)


def test_what_is_written_follows_the_distribution(writer):
    """Three thousand first characters: frequencies within four standard errors."""
    n, strategy = 3000, sampling(1.5, top_k=6)
    p = writer.distribution("over the", strategy)
    written = writer.write_many(["over the"] * n, 1, strategy, seed=2)
    for label, expected in p.items():
        error = math.sqrt(n * expected * (1 - expected))
        assert abs(written.count(label) - n * expected) <= 4 * error + 1e-9, label


def test_one_of_one_is_greedy(writer):
    assert writer.write("dog", 70, sampling(top_k=1), 4) == writer.write("dog", 70)


def test_as_many_symbols_as_asked_for_however_wild(writer):
    """No special symbol is written, so none cuts a text short."""
    for text in writer.write_many(["the "] * 40, 60, sampling(8.0), seed=7):
        assert len(text) == 60 and set(text) <= set(TEXT)


@pytest.mark.parametrize("stop", [None, "\n", "e"])
def test_a_stream_is_the_text_in_pieces(writer, stop):
    rule = sampling(1.2)
    pieces = writer.stream("the fox", 40, rule, 3, stop)
    assert next(pieces) != ""
    whole = writer.write("the fox", 40, rule, 3, stop)
    assert "".join(writer.stream("the fox", 40, rule, 3, stop)) == whole
    assert whole == writer.write_many(["the fox"], 40, rule, 3, stop)[0]
    assert max(map(len, writer.stream("the fox", 40, rule, 3, stop))) == 1


def test_writing_stops_after_the_symbol_that_ends_it(writer):
    whole = writer.write_many(PROMPTS, 100, sampling(0.9), 3)
    short = writer.write_many(PROMPTS, 100, sampling(0.9), 3, stop="e")
    assert any(len(text) < 100 for text in short)
    for text, all_of_it in zip(short, whole, strict=True):
        assert text == all_of_it[: all_of_it.index("e") + 1 if "e" in all_of_it else None]
    assert writer.write("the ", 100, sampling(0.9), 3, "e") == writer.write_many(
        ["the "], 100, sampling(0.9), 3, "e"
    )[0]


@pytest.mark.plain
def test_what_it_cannot_read_or_write(writer):
    for use in (writer.write, writer.distribution, writer.surprise):
        with pytest.raises(ValueError, match="at least one symbol, but got an empty one; a line"):
            use("")
        with pytest.raises(ValueError, match="'Z', '~' are not among them; use these"):
            use("the Z~")
    with pytest.raises(ValueError, match="max_new must be at least 1, but got 0"):
        writer.write("the ", 0)
    with pytest.raises(ValueError, match="'Z' is not among them"):
        writer.write("the ", 5, stop="Z")
    with pytest.raises(ValueError, match="at least one prompt"):
        writer.write_many([], 5)


# ---- its figures ----


def test_a_judged_loss_is_the_mean_of_a_plain_loop(run, writer):
    held_out = TEXT[len(TEXT) * 9 // 10 :]
    found = runs.evaluate_lm(run, "cpu")
    nats = costs(writer.model, ids_of(held_out), WINDOW)
    assert found["characters"] == len(nats) == len(held_out) - 1
    assert found["nats_a_character"] == pytest.approx(sum(nats) / len(nats), abs=1e-5)
    assert found["bits_a_character"] == pytest.approx(found["nats_a_character"] / math.log(2))
    assert found["nats_a_character"] == pytest.approx(writer.surprise(held_out).mean(), abs=1e-5)
    assert found == runs.evaluate_lm(run)
    last = json.loads((run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert last["dev_loss"] == pytest.approx(found["nats_a_character"], abs=1e-6)


def test_recorded_figures_are_loaded_with_the_model(run, tmp_path):
    pretrained.export(run, tmp_path / "small")
    first = pretrained.record_figures(tmp_path / "small", "held-out all", {"nats": 2.5})
    second = pretrained.record_figures(tmp_path / "small", "again", {"nats": 1.5})
    third = pretrained.record_figures(tmp_path / "small", "held-out all", {"nats": 2.25})
    assert first == {"held-out all": {"nats": 2.5}} and second == first | {"again": {"nats": 1.5}}
    assert third == {"held-out all": {"nats": 2.25}, "again": {"nats": 1.5}}
    assert pretrained.load(tmp_path / "small").about["figures"] == third
    assert (tmp_path / "small" / "figures.json").read_text(encoding="utf-8").endswith("}\n")


def test_a_runs_baselines_are_those_of_its_text(run):
    data = read_text(run.parent / "mine.txt")
    kept = json.loads((run / "baselines.json").read_text(encoding="utf-8"))
    expected = {name: f(data.train, data.held_out) for name, f in TEXT_BASELINES.items()}
    assert kept == expected == runs.text_baselines(run, data, TEXT_BASELINES)


def test_baselines_are_computed_where_the_kept_ones_are_others(tmp_path, run):
    data = read_text(run.parent / "mine.txt")
    methods = {"lengths": lambda train, held_out: len(train) / len(held_out)}
    assert runs.text_baselines(tmp_path, data, methods) == {"lengths": 1345 / 150}
    methods = {"lengths": lambda train, held_out: pytest.fail("asked again")}
    assert runs.text_baselines(tmp_path, data, methods) == {"lengths": 1345 / 150}
    methods = {"one": lambda train, held_out: 1.0}
    assert runs.text_baselines(tmp_path, data, methods) == {"one": 1.0}
    assert json.loads((tmp_path / "baselines.json").read_text(encoding="utf-8")) == {"one": 1.0}


def test_a_curve_is_drawn_with_and_without_baselines(tmp_path, run, monkeypatch):
    """Below the losses, in a folder of its own; a picture that is there is replaced."""
    seen = []
    real = runs.loss_curve

    def loss_curve(records, *rest, **named):
        seen.append((records, named))
        return real(records, *rest, **named)

    monkeypatch.setattr(runs, "loss_curve", loss_curve)
    for name in ("config.json", "metrics.jsonl"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    assert runs.draw_curve(tmp_path) == tmp_path / "loss.png"
    bare = (tmp_path / "loss.png").read_bytes()
    (tmp_path / "baselines.json").write_text('{"by hand": 1.5}', encoding="utf-8")
    runs.draw_curve(tmp_path)
    assert bare.startswith(b"\x89PNG") and (tmp_path / "loss.png").read_bytes() != bare
    assert [named["baselines"] for _, named in seen] == [{}, {"by hand": 1.5}]
    assert [named["unit"] for _, named in seen] == ["character"] * 2
    assert seen[0][0][-1]["step"] == 50 and "dev_loss" in seen[0][0][-1]


# ---- what it refuses ----


@pytest.mark.plain
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"size": 31}}, r"size must count the symbols .*, 33, but .* says 31; restore"),
        ({"task": {"symbols": ["a", "a"]}}, r"must differ, but 'a' stands at 0 and at 1"),
        ({"task": {"task": "lmm"}}, r"must be g2p .* or lm .* but this one's is 'lmm'"),
        ({"model": {"depth": 3}}, r"does not fit this version of the package .*'depth'"),
        ({"model": {"layers": 2}}, r"layers\.1"),
        ({"model": {"d_ff": 65}}, r"65"),
        ({"task": {"context": WINDOW - 1}}, rf"of its model, {WINDOW}, but .* {WINDOW - 1};"),
        ({"task": {"context": str(WINDOW)}}, r"must be the max_length of its model"),
        ({"task": {"context": None}}, r"must be the max_length of its model"),
    ],
)
def test_a_configuration_that_does_not_fit(run, tmp_path, change, message):
    pretrained.export(run, tmp_path / "copy")
    path = tmp_path / "copy" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for room, entries in change.items():
        config[room] |= entries
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match=message) as error:
        pretrained.load(tmp_path / "copy")
    assert "\n" not in str(error.value)


@pytest.mark.plain
def test_an_unfinished_run_and_one_without_its_text(run, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_bytes((run / "config.json").read_bytes())
    (tmp_path / "run" / "checkpoint.safetensors").touch()
    with pytest.raises(CheckpointError, match=r"not finished; go on with .*train lm --resume"):
        pretrained.load(tmp_path / "run")
    with pytest.raises(ValueError, match="Words are judged with a pronouncing model, but"):
        runs.evaluate(run)
    with pytest.raises(ValueError, match="Only a pronouncing model has alignments"):
        runs.evaluate_alignment(run, "dev", tmp_path / "lexicon.db")
    pretrained.export(run, tmp_path / "small")
    path = tmp_path / "small" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["task"]["text"] = str(tmp_path / "gone.txt")
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match=r"gone\.txt"):
        runs.evaluate_lm(tmp_path / "small")
    assert pretrained.load(tmp_path / "small").write("the ", 3)  # it can still write


def test_the_window_of_a_loaded_model_is_that_of_its_task(run, writer):
    task = LM(read_text(run.parent / "mine.txt"), WINDOW)
    assert writer.about["config"]["task"]["context"] == task.context == WINDOW
    judged = task.judge(writer.model, "dev", None)
    assert judged["dev_loss"] == runs.evaluate_lm(run)["nats_a_character"]


@pytest.mark.plain
def test_a_run_is_not_judged_on_a_text_of_other_characters(run, tmp_path):
    """Its own text left out of the configuration, the plays would take its place."""
    pretrained.export(run, tmp_path / "copy")
    path = tmp_path / "copy" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["task"]["text"] = None
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(CheckpointError, match="must be those the run began with, but this text"):
        runs.evaluate_lm(tmp_path / "copy")
