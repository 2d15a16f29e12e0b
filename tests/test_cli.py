"""The command line as a reader meets it: help, answers, and one sentence when something is wrong.

Every command runs in a process of its own, so exit status and streams are those of a shell.
"""

from __future__ import annotations

import re

import pytest
from processes import Ended
from typer.main import get_command

from transformer_lab import __version__
from transformer_lab.cli import app
from transformer_lab.data import read_pairs

pytest_plugins = ["cli_fixtures"]

COMMANDS = {
    "data": [], "train": [], "train g2p": [], "train lm": [], "evaluate": [], "generate": ["WORD"],
    "attention": ["WORD"], "export": ["RUN", "FOLDER"], "progress": [], "gpu-check": [],
    "doctor": [],
}  # fmt: skip


# ---- help ----


def test_help_lists_every_command_with_a_whole_sentence(lab):
    ended = lab("--help")
    assert ended.code == 0
    listed = re.findall(r"^  ([a-z-]+)  +(\S.*)$", ended.out.split("Commands:")[1], re.MULTILINE)
    assert [name for name, _ in listed] == [name for name in COMMANDS if " " not in name]
    assert set(get_command(app).commands) == {name for name, _ in listed}
    for _, sentence in listed:
        assert sentence.endswith((".", "?")) and not sentence.endswith("...")
    assert max(map(len, ended.out.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_help_explains_every_option(name, lab):
    ended = lab(*name.split(), "-h")
    assert ended.code == 0 and ended.err == ""
    assert max(map(len, ended.out.splitlines())) <= 80
    usage, *rest = ended.out.splitlines()
    for argument in COMMANDS[name]:
        assert argument in usage
    commands = get_command(app)
    for part in name.split():
        commands = commands.commands[part]
    options = [p for p in commands.params if p.name != "help"]
    for option in options:
        assert option.help and option.help.endswith("."), option.name
        assert option.opts[0] in ended.out or option.param_type_name == "argument"
    assert "<" not in ended.out.split("Options:")[1], "an option shows its Python type"
    assert "..." not in "\n".join(rest)


def test_without_arguments_help_is_shown(lab):
    for arguments in ((), ("train",)):
        ended = lab(*arguments)
        assert "Usage: transformer-lab" in ended.out + ended.err and "Traceback" not in ended.err


def test_version(lab):
    assert lab("--version") == Ended(0, f"transformer-lab {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "No such command 'trian'"),
        (["train", "g2p", "--stepps", "3"], "No such option"),
        (["train", "g2p", "--steps", "many"], "Invalid value for '--steps'"),
        (["generate"], "Missing argument"),
        (["evaluate", "--beam", "0"], "Invalid value for '--beam'"),
        (["evaluate", "--limit", "0"], "Invalid value for '--limit'"),
        (["attention", "cab", "--head", "-1"], "Invalid value for '--head'"),
    ],
)
def test_a_mistyped_command_is_explained(arguments, message, lab):
    ended = lab(*arguments)
    assert ended.code == 2 and ended.out == "" and message in ended.err, ended
    assert "Traceback" not in ended.err and "Usage: transformer-lab" in ended.err


# ---- a reader's own run, from its file to a picture ----


def test_evaluate_says_rates_and_counts(run, pairs, lab):
    found = {}
    for options in ((), ("--part", "test"), ("--beam", 3), ("--pairs", pairs), ("--limit", 4)):
        ended = lab("evaluate", run, *options)
        assert ended.code == 0 and ended.err == "", ended
        found[options] = ended.out
        assert re.fullmatch(
            r"(dev|test), (greedy|beam 3), \d+ words: WER \d+\.\d\d% \(\d+ wrong\), "
            r"PER \d+\.\d\d% \(\d+ edits in \d+ phonemes\)\n",
            ended.out,
        ), ended.out
    assert found[()] == found[("--pairs", pairs)]
    count = len(read_pairs(pairs).test)
    assert found[("--part", "test")].startswith(f"test, greedy, {count} words")
    assert found[("--limit", 4)].startswith("dev, greedy, 4 words")


def test_evaluate_records_on_request(run, lab):
    ended = lab("evaluate", run, "--record")
    assert ended.code == 0 and '"dev greedy"' in (run / "figures.json").read_text(encoding="utf-8")
    assert "leave out --limit" in lab("evaluate", run, "--record", "--limit", 3).sentence


def test_generate_prints_a_table(run, lab):
    ended = lab("generate", "bad", "ABBADE", "--model", run)
    assert ended.code == 0 and ended.err == "", ended
    rows = ended.out.splitlines()
    assert [row.split()[0] for row in rows] == ["bad", "ABBADE"]
    assert all(re.fullmatch(r"\w+ +([A-Z]+ )+ *0\.\d{3}", row) for row in rows), rows
    assert len({row.rindex("0.") for row in rows}) == 1, "the columns are not in line"
    assert lab("generate", "bad", "--all", "--beam", 4, "--model", run).out.count("\n") == 4
    assert lab("generate", "bad", "--all", "--beam", 1, "--model", run).out.count("\n") == 1


def test_attention_says_and_draws(run, lab, tmp_path):
    ended = lab("attention", "bad", "--model", run, "--layer", 1, "--head", 2)
    assert ended.code == 0 and ended.err == "", ended
    for line in ended.out.splitlines():
        assert re.fullmatch(r"\S+ +looks at  (\w \(letter \d\) \d\.\d\d(, )?)+", line), line
    assert ended.out.splitlines()[-1].startswith("<eos>")
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        out = tmp_path / f"bad{suffix}"
        assert lab("attention", "bad", "--model", run, "--out", out).code == 0
        assert out.read_bytes().startswith(start)


def test_export_makes_a_model_of_it(run, lab, tmp_path):
    ended = lab("export", run, tmp_path / "small")
    assert ended.code == 0 and "evaluate" in ended.out, ended
    assert lab("generate", "bad", "--model", tmp_path / "small").code == 0
    assert "holds a run" in lab("export", run, run).sentence


def test_a_finished_run_may_be_resumed(run, lab):
    before = {name: (run / name).read_bytes() for name in ("weights.safetensors", "metrics.jsonl")}
    ended = lab("train", "g2p", "--resume", run)
    assert ended.code == 0 and ended.out.startswith("Done: 60 steps"), ended
    assert before == {name: (run / name).read_bytes() for name in before}


def test_a_model_of_the_book_speaks(lab):
    ended = lab("generate", "cat", "Night")
    assert ended.code == 0 and re.search(r"^cat +K AE T +0\.\d{3}$", ended.out, re.MULTILINE)


def test_own_files_are_checked_by_data(lab, pairs, tmp_path):
    ended = lab("data", "--pairs", pairs)
    data = read_pairs(pairs)
    counts = f"{len(data.train)} train, {len(data.dev)} dev, {len(data.test)} test"
    assert ended.code == 0 and ended.out == f"{pairs}: {counts}.\n", ended
    text = tmp_path / "text.txt"
    text.write_text("To be, or not to be. " * 100, encoding="utf-8")
    ended = lab("data", "--text", text)
    assert ended.code == 0 and "characters to train on" in ended.out, ended
