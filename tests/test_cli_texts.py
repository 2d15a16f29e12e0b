"""The command line with a language model: trained, judged, and made to write on."""

from __future__ import annotations

import json
import re

import pytest

from transformer_lab import __version__, pretrained, runs
from transformer_lab.decode import GREEDY, sampling

pytest_plugins = ["cli_fixtures"]

TEXT = "Löwen mögen Äpfel.\nthe lion asks: who eats the apple?\nnobody does!\n" * 22


@pytest.fixture(scope="module")
def model(lab, tmp_path_factory):
    """A finished run on a reader's own text, made by the command."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "löwe.txt").write_text(TEXT, encoding="utf-8")
    ended = lab(
        "train", "lm", "--preset", "test", "--text", folder / "löwe.txt", "--out", folder / "run",
        "--steps", 50, "--seed", 2,
    )  # fmt: skip
    assert ended.code == 0 and ended.err == "", ended
    assert re.fullmatch(
        r"Done: 50 steps, \d+ s of CPU time; held-out loss \d\.\d{3} nats \(\d\.\d\d bits\) a "
        rf"character\. The run is in {re.escape(str(folder / 'run'))}\.\n",
        ended.out,
    ), ended.out
    return folder / "run"


@pytest.fixture(scope="module")
def writer(model):
    return pretrained.load(model)


# ---- generate ----


def test_texts_are_continued_as_the_library_does(lab, model, writer):
    for options, length, strategy, seed in (
        (["--greedy"], 300, GREEDY, 1),
        ([], 300, sampling(), 1),
        (["--seed", 0, "--length", 90], 90, sampling(), 0),
        (["--seed", 7, "--length", 1], 1, sampling(), 7),
        (["--length", 70, "--temperature", 0.6], 70, sampling(0.6), 1),
        (["--length", 71, "--top-k", 4], 71, sampling(top_k=4), 1),
        (["--length", 72, "--top-p", 0.7], 72, sampling(top_p=0.7), 1),
        (
            ["--length", 73, "--temperature", 1.5, "--top-k", 9, "--top-p", 0.9, "--seed", 3],
            73, sampling(1.5, 9, 0.9), 3,
        ),
    ):  # fmt: skip
        ended = lab("generate", "the ", "--model", model, *options)
        assert ended.code == 0 and ended.err == "", ended
        written = writer.write("the ", length, strategy, seed)
        assert ended.out == f"the {written}\n" and len(written) == length


def test_the_same_command_writes_the_same_and_another_seed_another_text(lab, model):
    def written(seed):
        return lab("generate", "who", "--model", model, "--length", 60, "--seed", seed).out

    assert written(4) == written(4) != written(5)


def test_several_texts_stand_apart(lab, model, writer):
    ended = lab("generate", "Ä", "lion\n", "--model", model, "--greedy", "--length", 20)
    one, two = (prompt + writer.write(prompt, 20) for prompt in ("Ä", "lion\n"))
    assert ended.out == f"{one}\n\n{two}\n"


def test_what_belongs_to_words_is_refused_with_a_text(lab, model):
    def generate(*options) -> str:
        return lab("generate", "the", "--model", model, *options).sentence

    end = "cannot be used with a language model; leave that out, or name another --model."
    assert generate("--beam", 3) == f"--beam {end}"
    assert generate("--beam", 1) == f"--beam {end}"
    assert generate("--all") == f"--all {end}"
    assert generate("--all", "--beam", 5, "--greedy") == f"--beam, --all {end}"


def test_greedy_leaves_nothing_to_shape(lab, model):
    end = "cannot be used with --greedy; leave that out."
    for options, named in (
        (["--temperature", 0.8], "--temperature"),
        (["--temperature", 0], "--temperature"),
        (["--top-k", 3], "--top-k"),
        (["--top-k", 0], "--top-k"),
        (["--top-p", 0.5, "--temperature", 2], "--temperature, --top-p"),
    ):
        ended = lab("generate", "the", "--model", model, "--greedy", *options)
        assert ended.sentence == f"{named} {end}"


def test_what_belongs_to_texts_is_refused_with_a_word(lab):
    for options in (
        ["--length", 9], ["--greedy"], ["--temperature", 1], ["--temperature", 0], ["--top-k", 2],
        ["--top-p", 0.5], ["--seed", 3], ["--seed", 0],
    ):  # fmt: skip
        sentence = lab("generate", "cat", *options).sentence
        assert sentence.startswith(f"{options[0]} cannot be used with a pronouncing model; leave")
    sentence = lab("generate", "cat", "--seed", 0, "--length", 3).sentence
    assert sentence.startswith("--length, --seed cannot be used")


def test_settings_and_texts_that_cannot_be(lab, model):
    for options, message in (
        (["the", "--temperature", 0], "finite number greater than 0, but got 0.0"),
        (["the", "--temperature", "nan"], "greater than 0, but got nan"),
        (["the", "--top-k", 0], "at least 1, but got 0"),
        (["the", "--top-p", 1.5], "greater than 0 and at most 1, but got 1.5"),
        ([""], "at least one symbol, but got an empty one"),
        (["Zebra ß"], r"but 'Z', 'r', 'ß' are not among them; use these: '\n' ' ' ! . : ? L a b"),
    ):
        assert message in lab("generate", *options, "--model", model).sentence
    for options in (["--length", 0], ["--seed", -1]):
        ended = lab("generate", "the", "--model", model, *options)
        assert ended.code == 2 and f"Invalid value for '{options[0]}'" in ended.err


# ---- evaluate, export ----


def test_evaluate_says_nats_and_bits(lab, model):
    ended = lab("evaluate", model)
    assert ended.code == 0 and ended.err == "", ended
    found = re.fullmatch(
        r"held-out text, (\d+) characters: (\d\.\d{4}) nats \((\d\.\d{3}) bits\) a character\n",
        ended.out,
    )
    figures = runs.evaluate_lm(model, "cpu")
    assert int(found[1]) == figures["characters"] == len(TEXT) - len(TEXT) * 9 // 10 - 1
    assert float(found[2]) == pytest.approx(figures["nats_a_character"], abs=6e-5)
    assert float(found[3]) == pytest.approx(figures["bits_a_character"], abs=6e-4)
    assert not (model / "figures.json").exists()


def test_a_shipped_copy_is_judged_and_its_figures_recorded(lab, model, tmp_path):
    folder = tmp_path / "small"
    assert f"evaluate {folder} --record" in lab("export", model, folder).out
    assert lab("evaluate", folder, "--record").code == 0
    kept = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    expected = runs.evaluate_lm(folder, "cpu") | {"version": __version__, "part": "held-out"}
    assert kept == {"held-out all": expected}
    assert pretrained.load(folder).about["figures"] == kept


def test_what_belongs_to_words_is_not_judged(lab, model, pairs, tmp_path):
    for options in (
        ["--beam", 3], ["--pairs", pairs], ["--limit", 4], ["--alignments", tmp_path / "a.db"],
        ["--part", "test"],
    ):  # fmt: skip
        sentence = lab("evaluate", model, *options).sentence
        assert sentence.startswith(f"{options[0]} cannot be used with a language model; leave")
    assert "leave out --limit" in lab("evaluate", model, "--record", "--limit", 4).sentence


def test_a_text_that_is_gone_or_changed(lab, model, tmp_path):
    text = tmp_path / "own.txt"
    text.write_text(TEXT, encoding="utf-8")
    train = ("train", "lm", "--preset", "test", "--steps", 2)
    assert lab(*train, "--text", text, "--out", tmp_path / "run").code == 0
    text.write_text("ß" + TEXT, encoding="utf-8")
    resumed = lab("train", "lm", "--resume", tmp_path / "run").sentence
    assert f"{text} has changed; restore it" in resumed
    text.unlink()
    assert str(text) in lab("evaluate", tmp_path / "run").sentence
    assert lab("generate", "the", "--model", tmp_path / "run", "--length", 3).code == 0


# ---- the rest ----


def test_no_letters_are_looked_at(lab, model, tmp_path):
    sentence = lab("attention", "the", "--model", model, "--out", tmp_path / "a.png").sentence
    assert "which letters a pronouncing model looks at, but" in sentence
    assert f"{model} is a language model; name another --model." in sentence
    assert not (tmp_path / "a.png").exists()


def test_the_other_task_does_not_resume_it(lab, model):
    sentence = lab("train", "g2p", "--resume", model).sentence
    assert f"go on with it by `train lm --resume {model}`" in sentence


def test_an_alignment_takes_neither_beam_nor_pairs(lab, pairs, tmp_path):
    for option, value in (("--beam", 3), ("--pairs", pairs)):
        ended = lab("evaluate", "g2p-class", "--alignments", tmp_path / "a.db", option, value)
        assert ended.sentence == f"{option} cannot be used with --alignments; leave that out."
