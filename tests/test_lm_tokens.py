"""The language model's options: characters or pieces of words, a cut of the plays, the size."""

from __future__ import annotations

import json
import math
import os
import signal

import pytest
import torch
from typer.testing import CliRunner

from transformer_lab import pretrained, runs
from transformer_lab.cli import app
from transformer_lab.data.text import TextData
from transformer_lab.decode import generate, sampling
from transformer_lab.models import DecoderOnly, DecoderOnlyConfig
from transformer_lab.pretrained import Writer
from transformer_lab.pretrained.writer import NEVER
from transformer_lab.tasks import LM
from transformer_lab.tokens import ByteBPE, Vocabulary
from transformer_lab.train import Stopped

TEXT = "the quick brown fox jumps over the lazy dog.\nand then it sleeps!\n" * 23
WIDE = "Größe, 日本 und 😀: zwölf Bäume, 日 本 im Café.\n" * 29  # one to four bytes a character
TRAIN, HELD_OUT = WIDE[:1100], WIDE[1100:]


def task_of(context=7, size=259 + 12, train=TRAIN, held_out=HELD_OUT):
    return LM.learn(TextData(train, held_out), context, "bpe", size)


def model_for(task, **changes):
    torch.manual_seed(3)
    sizes = {"d_model": 14, "h": 2, "d_ff": 17, "layers": 2} | changes
    return DecoderOnly(
        DecoderOnlyConfig(len(task.vocabulary), max_length=task.context, **sizes)
    ).eval()


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def asked(monkeypatch):
    """The cuts of the plays that were asked for; a short text stands for them."""
    cuts = []

    def plays(cut="tiny"):
        cuts.append(cut)
        return TextData(TEXT[:1300], TEXT[1300:])

    monkeypatch.setattr(runs, "load_shakespeare", plays)
    return cuts


# ---- the task ----


def test_pieces_are_learned_from_the_part_to_train_on():
    train, held_out = "ab " * 50, "xyz " * 50
    task = task_of(4, 262, train, held_out)
    assert task.vocabulary == ByteBPE.train(train, 262) and len(task.vocabulary) == 261
    text = "".join(f"{i} " for i in range(1_000, 9_000)) * 2  # enough for as many as usual
    assert len(LM.learn(TextData(text, text), 7, "bpe").vocabulary) == 1024
    characters = LM.learn(TextData(train, held_out), 4).vocabulary
    assert characters == LM(TextData(train, held_out), 4).vocabulary == Vocabulary.of([" abxyz"])


def test_a_loss_is_counted_by_the_characters_that_begin_in_its_tokens():
    task = task_of()
    model = model_for(task)
    tokens = task.vocabulary.encode(TRAIN)
    lead = [sum(b < 0x80 or b > 0xBF for b in task.vocabulary.bytes_of(i)) for i in tokens]
    assert sum(lead) == len(TRAIN) > len(tokens) / 2 and set(lead) >= {0, 1, 2}
    seen = 0
    for batch in task.batches(seed=1, epoch=0, batch_size=5):
        total, count = task.loss(model, batch, 0.0)
        rows = [task.vocabulary.decode(row) for row in batch.target_BT.tolist()]
        cut = sum(row.startswith("\ufffd") for row in rows)  # begun before the window
        whole = sum(len(row) - row.count("\ufffd") for row in rows)
        assert whole <= count <= sum(map(len, rows)) and count.dtype == torch.int64
        log_p_BTV = model(batch.input_BT).log_softmax(-1)
        nats = -log_p_BTV.gather(-1, batch.target_BT[..., None]).sum()
        assert total.item() == pytest.approx(nats.item(), rel=1e-5)
        seen += cut
    assert seen > 0


def test_characters_are_counted_as_before(mine):
    task = LM.learn(TextData(TEXT[:1200], TEXT[1200:]), 11)
    batch = next(task.batches(1, 0, 3))
    assert task.loss(model_for(task), batch, 0.1)[1] == 33
    assert task.predicted == len(TEXT) - 1201


@pytest.mark.parametrize("context", [7, 8])
def test_held_out_loss_is_nats_of_all_tokens_over_characters(context):
    task = task_of(context, held_out=HELD_OUT[:97])
    model, bpe = model_for(task), task.vocabulary
    ids = bpe.encode(HELD_OUT[:97])
    nats = 0.0
    for place in range(1, len(ids)):
        start = 0
        if place > context:  # the window whose second half holds this token
            stride, skip = context // 2, context - context // 2
            start = stride * ((place - skip - 1) // stride)
            assert place - start > skip >= context / 2
        seen = torch.tensor([ids[start:place]])
        nats -= float(model(seen)[0, -1].log_softmax(-1)[ids[place]].detach())
    characters = 97 - len(bpe.decode(ids[:1]))
    judged = task.judge(model, "dev", None)
    assert task.predicted == characters != len(ids)
    assert judged["dev_loss"] == pytest.approx(nats / characters, abs=1e-5)
    assert judged["dev_bits"] == pytest.approx(nats / characters / math.log(2), abs=1e-5)


# ---- runs ----


def test_a_run_with_pieces_stops_goes_on_and_is_judged_by_characters(tmp_path, mine):
    settings = {"steps": 40}
    whole = runs.new_lm(
        tmp_path / "whole", "test", settings, mine, tokens="bpe", vocabulary_size=290
    )
    records = runs.perform(whole, "cpu")
    config = json.loads((tmp_path / "whole" / "config.json").read_text(encoding="utf-8"))
    cut = len(TEXT) * 9 // 10
    assert config["task"]["tokens"] == "bpe" and config["model"]["size"] == 290
    assert config["task"]["merges"] == list(ByteBPE.train(TEXT[:cut], 290).merges)
    assert config["task"]["cut"] is None and config["model"]["max_length"] == 64
    # per character: well below the ln 290 nats a token of a model that has learned nothing
    pieces = ByteBPE.train(TEXT[:cut], 290).encode(TEXT[:cut])
    first = math.log(290) * len(pieces) / cut
    assert records[0]["loss"] == pytest.approx(first, rel=0.25)
    assert records[-1]["dev_loss"] < records[0]["loss"] - 0.5
    judged = runs.evaluate_lm(tmp_path / "whole", "cpu")
    assert judged["nats_a_character"] == pytest.approx(records[-1]["dev_loss"], rel=1e-6)
    assert judged["characters"] == len(TEXT) - cut - 1
    assert "bits) a character" in runs.summary(whole)

    part = runs.new_lm(tmp_path / "part", "test", settings, mine, None, "bpe", 290)

    def stop(step):
        if step == 23:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped):
        runs.perform(part, "cpu", on_step=stop)
    again = runs.reopen_lm(tmp_path / "part")
    assert again.task.describe() == part.task.describe()
    runs.perform(again, "cpu", resume=True)
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "part")]
    assert weights[0] == weights[1]
    written = pretrained.load(tmp_path / "whole").write("the quick", 9)
    assert written and written == pretrained.load(tmp_path / "part").write("the quick", 9)


@pytest.mark.parametrize("cut", [None, "tiny", "full"])
def test_a_cut_of_the_plays_is_remembered(tmp_path, asked, cut):
    run = runs.new_lm(tmp_path / "run", "test", {"steps": 2}, cut=cut)
    runs.perform(run, "cpu")
    named = cut or "tiny"
    assert run.config["task"]["cut"] == named and run.config["task"]["tokens"] == "characters"
    assert runs.reopen_lm(run.folder).task.describe() == run.task.describe()
    runs.evaluate_lm(run.folder, "cpu")
    assert asked == [named] * 3


def test_a_run_of_an_earlier_version_is_one_of_characters_and_tiny(tmp_path, asked, mine):
    for name, text in (("plays", None), ("own", mine)):
        run = runs.new_lm(tmp_path / name, "test", {"steps": 2}, text)
        runs.perform(run, "cpu")
        path = run.folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        del config["task"]["tokens"], config["task"]["cut"]
        path.write_text(json.dumps(config), encoding="utf-8")
        again = runs.reopen_lm(run.folder)
        assert again.config["task"]["cut"] == ("tiny" if text is None else None)
        assert runs.perform(again, "cpu", resume=True)
        assert isinstance(pretrained.load(run.folder).vocabulary, Vocabulary)
        assert runs.evaluate_lm(run.folder, "cpu")["nats_a_character"] > 0
    assert set(asked) == {"tiny"}


@pytest.mark.plain
def test_the_command_takes_the_options(tmp_path, asked, mine):
    folder = tmp_path / "run"
    options = ["--preset", "test", "--steps", "2", "--out", str(folder)]
    wishes = ["--cut", "full", "--tokens", "bpe", "--vocabulary-size", "280"]
    result = CliRunner().invoke(app, ["train", "lm", *options, *wishes])
    assert result.exit_code == 0, result.exception
    config = pretrained.read_config(folder)
    assert config["task"]["cut"] == "full" and config["model"]["size"] == 280
    for option in (["--tokens", "bpe"], ["--cut", "full"], ["--vocabulary-size", "280"]):
        result = CliRunner().invoke(app, ["train", "lm", "--resume", str(folder), *option])
        assert f"but got {option[0]};" in str(result.exception)
    result = CliRunner().invoke(app, ["generate", "the", "--model", str(folder), "--length", "3"])
    assert result.exit_code == 0 and result.output.startswith("the")


# ---- a writer of pieces ----


@pytest.fixture
def writer():
    task = task_of(context=24, size=259 + 40)
    return Writer(model_for(task), task.vocabulary, {})


def test_pieces_are_written_and_decoded_together(writer):
    bpe, strategy = writer.vocabulary, sampling(1.0)
    for seed in range(5):
        random = torch.Generator().manual_seed(seed)
        ids = generate(writer.model, [bpe.encode("日本")], 30, strategy, random, never=NEVER)[0]
        assert writer.write("日本", 30, strategy, seed) == bpe.decode(ids)


@pytest.mark.parametrize("stop", [" ", "本", "a", "!Ca"])
def test_writing_stops_at_a_character_wherever_a_piece_holds_it(writer, stop):
    strategy, stopped = sampling(1.0), 0
    prompts = ["Größe", "im Café", "und", "zwölf"]
    for seed in range(3):
        whole = writer.write_many(prompts, 50, strategy, seed)
        short = writer.write_many(prompts, 50, strategy, seed, stop)
        for long, text in zip(whole, short, strict=True):
            before, found, _ = long.partition(stop[-1])
            assert text == before + found
            stopped += bool(found)
    assert stopped


def test_no_more_is_computed_than_up_to_the_stop(writer, monkeypatch):
    given = []

    def spy(model, ids, length, strategy, generator, ends, never):
        given.append(set(ends))
        return iter([[5]])

    monkeypatch.setattr("transformer_lab.pretrained.writer.stream", spy)
    writer.write("im", stop="B")
    holds = {i for i in range(3, len(writer.vocabulary)) if b"B" in writer.vocabulary.bytes_of(i)}
    assert given == [holds] and len(holds) > 1
    task = LM.learn(TextData(TRAIN, HELD_OUT), 7)
    Writer(model_for(task), task.vocabulary, {}).write("im", stop="aB")
    assert given[1] == set(task.vocabulary.encode("B"))


def test_distribution_and_surprise_are_those_of_pieces(writer):
    p = writer.distribution("zwölf ")
    labels = {writer.vocabulary.label(i) for i in range(3, len(writer.vocabulary))}
    assert p.keys() == labels and sum(p.values()) == pytest.approx(1, abs=1e-5)
    text = "zwölf Bäume"
    assert len(writer.surprise(text)) == len(writer.vocabulary.encode(text)) - 1


# ---- refusals ----


@pytest.mark.plain
def test_options_that_do_not_go_together(tmp_path, mine):
    data = TextData(TRAIN, HELD_OUT)
    with pytest.raises(ValueError, match=r"got the cut 'full' and the text .*mine\.txt; leave one"):
        runs.new_lm(tmp_path / "run", "test", None, mine, "full")
    for size in (0, 300):
        with pytest.raises(ValueError, match=f"Only a vocabulary of bpe .* got {size} for char"):
            LM.learn(data, 7, "characters", size)
    with pytest.raises(ValueError, match="must be characters or bpe, but got 'words'; choose"):
        LM.learn(data, 7, "words")
    with pytest.raises(ValueError, match=r"at least 259 tokens .* but got size = 0;"):
        LM.learn(data, 7, "bpe", 0)
    with pytest.raises(ValueError, match='must be "tiny" or "full", not \'half\''):
        runs.new_lm(tmp_path / "run", "test", cut="half")
    assert not (tmp_path / "run").exists()


@pytest.mark.plain
def test_windows_are_measured_in_tokens():
    with pytest.raises(ValueError, match="holds at least 4 tokens, but context = 3; take"):
        task_of(3)
    few = len(ByteBPE.train(TRAIN, 300).encode("im Café im"))
    with pytest.raises(ValueError, match=rf"holds 64 tokens and the shorter part {few}; give"):
        task_of(64, 300, held_out="im Café im")


@pytest.mark.plain
def test_a_damaged_configuration_is_told(tmp_path, mine):
    run = runs.new_lm(tmp_path / "run", "test", {"steps": 2}, mine, None, "bpe", 280)
    for change, rule in (
        ({"tokens": "words"}, "must be characters or bpe, but this one's are 'words'"),
        ({"merges": ["x yz"]}, "but merge 0 is 'x yz'; restore the list"),
        ({"merges": run.config["task"]["merges"][:-1]}, "size must count the symbols .*279"),
    ):
        with pytest.raises(ValueError, match=rule):
            pretrained.build({**run.config, "task": run.config["task"] | change})
    broken = {k: v for k, v in run.config["task"].items() if k != "merges"}
    with pytest.raises(ValueError, match="does not fit this version"):
        pretrained.build({**run.config, "task": broken})


@pytest.mark.plain
def test_an_empty_stop_is_refused(writer):
    with pytest.raises(ValueError, match="stops at a character, but stop is empty"):
        writer.write("im", stop="")
