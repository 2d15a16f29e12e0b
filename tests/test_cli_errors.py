"""The command line when something is wrong: one sentence, exit status 1, nothing half-done."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import threading
from functools import partial

import pytest
from processes import Ended

pytest_plugins = ["cli_fixtures"]

FILES = [
    "checkpoint.safetensors", "config.json", "loss.png", "metrics.jsonl", "weights.safetensors",
]  # fmt: skip


# ---- one sentence when something is wrong ----


def test_train_refuses_in_one_sentence(lab, pairs, run, tmp_path):
    def train(*options, **rest) -> str:
        return lab("train", "g2p", *options, "--pairs", pairs, "--out", out, **rest).sentence

    out = tmp_path / "run"
    assert "must be one of test, class, lab, but got 'huge'" in train("--preset", "huge")
    assert "lr = -0.1" in train("--lr", "-0.1")
    assert "lr = nan" in train("--lr", "nan")
    assert "steps must be at least 1, but got 0" in train("--steps", "0")
    assert "batch_size must be at least 1" in train("--batch-size", "-3")
    assert "seed must be at least 0" in train("--seed", "-1")
    assert "warmup must be at least 0" in train("--warmup", "-1")
    assert "torch can use here" in train("--device", "tpu", "--preset", "test")
    assert not out.exists(), "a refused run leaves a folder"
    out = pairs
    assert "is a file" in train()
    out = pairs / "below"
    assert str(pairs) in train()
    out = run
    assert f"go on with that run by --resume {run}" in train()


def test_resume_refuses_in_one_sentence(lab, run, pairs, tmp_path):
    def resume(folder, *options) -> str:
        return lab("train", "g2p", "--resume", folder, *options).sentence

    assert "has none" in resume(tmp_path / "nothing")
    assert "has none" in resume(tmp_path)
    assert "has none" in resume(pairs)
    message = resume(run, "--steps", 100, "--lr", 0.1)
    assert "keeps the settings it began with, but got --steps, --lr" in message


def test_a_run_with_other_pairs_than_it_began_with(lab, pairs, tmp_path):
    own = tmp_path / "own.txt"
    own.write_bytes(pairs.read_bytes())
    out = tmp_path / "run"
    train = ("train", "g2p", "--preset", "test", "--steps", 3, "--out", out, "--pairs", own)
    assert lab(*train).code == 0
    assert lab("train", "g2p", "--resume", out).code == 0
    own.write_text(own.read_text(encoding="utf-8") + "bb\tB B\n", encoding="utf-8")
    assert f"{own} has changed" in lab("train", "g2p", "--resume", out).sentence
    own.unlink()
    assert str(own) in lab("train", "g2p", "--resume", out).sentence
    assert str(own) in lab("evaluate", out).sentence


def test_an_unfinished_run_says_how_to_go_on(lab, unfinished):
    for arguments in (("evaluate", unfinished), ("generate", "bad", "--model", unfinished)):
        assert f"train g2p --resume {unfinished}" in lab(*arguments).sentence


def test_no_data_yet(lab, tmp_path):
    env = {"TRANSFORMER_LAB_DATA": str(tmp_path)}
    for arguments in (("train", "g2p", "--out", tmp_path / "run"), ("evaluate",)):
        assert "run `transformer-lab data`" in lab(*arguments, env=env).sentence
    assert list(tmp_path.iterdir()) == []


def test_words_it_cannot_say(lab, run):
    for word, message in (
        ("naïve", "'ï'"), ("", "at least one letter"), (" ", "at least one letter"),
        ("b" * 65, "at most 64 tokens"), ("名", "'名'"),
    ):  # fmt: skip
        assert message in lab("generate", word, "--model", run).sentence
    assert message in lab("attention", word, "--model", run).sentence


def test_looking_where_nothing_is(lab, run, tmp_path):
    def look(*options) -> Ended:
        return lab("attention", "bad", "--model", run, *options)

    assert "layer must lie between 1 and 1" in look("--layer", 2).sentence
    assert "head must lie between 1 and 2" in look("--head", 3).sentence
    (tmp_path / "file").write_text("")
    for out, message in (
        (tmp_path / "x.jpg", ".png, .pdf, .svg"),
        (tmp_path / "file" / "x.png", "file"),
    ):
        ended = look("--out", out)
        assert ended.code == 1 and message in ended.err and ended.err.count("\n") == 1, ended
    assert "has none" in lab("generate", "bad", "--model", tmp_path).sentence
    assert "dev or test" in lab("evaluate", run, "--part", "train").sentence


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"cab\tK AE B\nb\xe4d\tB AE D\n", "line 2: not UTF-8"),
        (b"cab\tK AE B\n\nbad B AE D\n", "line 3: no tab"),
        (b"cab\tK AE B\n", "too small to split"),
        (b"cab\t\n", "line 1: the target is empty"),
    ],
)
def test_bad_pairs_name_the_line(content, message, lab, tmp_path):
    path = tmp_path / "own.txt"
    path.write_bytes(content)
    for arguments in (("data",), ("train", "g2p", "--out", tmp_path / "run")):
        sentence = lab(*arguments, "--pairs", path).sentence
        assert message in sentence and str(path) in sentence
    assert not (tmp_path / "run").exists()


def test_damaged_and_foreign_weights(lab, run, tmp_path):
    """At the command line too: a file cut off, a text, a pickle, weights of another size."""
    for name, content in (
        ("weights.safetensors", (run / "weights.safetensors").read_bytes()[:-9]),
        ("weights.safetensors", b"not weights at all"),
        ("weights.safetensors", pickle.dumps({"weight": 1})),
        ("checkpoint.safetensors", (run / "checkpoint.safetensors").read_bytes()[:999]),
        ("config.json", b'{"task": '),
    ):
        copy = tmp_path / "copy"
        copy.mkdir(exist_ok=True)
        for file in FILES:
            (copy / file).write_bytes((run / file).read_bytes())
        (copy / name).write_bytes(content)
        doing = ("generate", "bad", "--model", copy)
        if name.startswith("checkpoint"):
            doing = ("train", "g2p", "--resume", copy)
        sentence = lab(*doing).sentence
        assert str(copy / name) in sentence and "damaged" in sentence


def refuse(kind: str) -> None:
    """Make the system refuse to write, or run out of memory."""
    import tempfile

    def mkstemp(**options):
        raise PermissionError(13, "Permission denied", str(options["dir"]))

    def loss(*_):
        raise MemoryError

    if kind == "rights":
        tempfile.mkstemp = mkstemp
    else:
        from transformer_lab.tasks import G2P

        G2P.loss = loss


@pytest.mark.parametrize(
    ("kind", "message"), [("rights", "Permission denied"), ("memory", "smaller --batch-size")]
)
def test_what_the_system_refuses(kind, message, lab, pairs, tmp_path):
    """Also as root, whom no missing right would stop."""
    ended = lab(
        "train", "g2p", "--preset", "test", "--pairs", pairs, "--out", tmp_path / "run",
        first=partial(refuse, kind),
    )  # fmt: skip
    assert message in ended.sentence


def interrupt(when: str) -> None:
    """Press Ctrl-C: twice in a step, or while the curve is drawn."""
    import signal

    from transformer_lab import runs
    from transformer_lab.tasks import G2P

    real = G2P.loss
    calls = []

    def loss(self, *rest):
        calls.append(1)
        if len(calls) == 25:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return real(self, *rest)

    def draw_curve(folder):
        signal.raise_signal(signal.SIGINT)

    if when == "twice":
        G2P.loss = loss
    else:
        runs.draw_curve = draw_curve


@pytest.mark.parametrize("when", ["twice", "drawing"])
def test_an_impatient_reader_is_told_how_to_go_on(when, lab, pairs, tmp_path):
    out = tmp_path / "run"
    options = ("--preset", "test", "--steps", 30, "--pairs", pairs, "--out", out)
    ended = lab("train", "g2p", *options, first=partial(interrupt, when))
    assert ended.code == 130 and ended.out == "", ended
    assert ended.err == f"Stopped at once; go on from the last checkpoint with --resume {out}.\n"
    assert lab("train", "g2p", "--resume", out).code == 0


def blunder() -> None:
    from transformer_lab import pretrained

    def load(*_):
        raise RuntimeError("a mistake of ours")

    pretrained.load = load


def test_our_own_mistakes_keep_their_traceback(lab):
    ended = lab("generate", "bad", first=blunder)
    assert ended.code == 1 and "Traceback" in ended.err and "a mistake of ours" in ended.err


# ---- the surroundings: no torch, no locale, a terminal ----


def without_torch(argument: str) -> str:
    """A Python line that runs the command where torch cannot be imported."""
    return (
        "import sys; sys.modules['torch'] = None; sys.argv[:] = ['transformer-lab', "
        f"*{argument!r}.split()]; from transformer_lab.cli import main; main()"
    )


def fresh(code: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, **options)


def test_without_torch_data_works_and_the_rest_says_what_is_missing(pairs):
    done = fresh(without_torch("data"))
    assert done.returncode == 0 and "already here and verified" in done.stdout, done
    for argument in ("train g2p", "evaluate", "generate cat"):
        done = fresh(without_torch(argument))
        assert done.returncode == 1 and done.stdout == "", done
        assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
        assert "pip install torch" in done.stderr and "pytorch.org" in done.stderr
    done = fresh(without_torch("doctor"))
    assert done.returncode == 1 and "PROBLEM  device: PyTorch cannot be loaded" in done.stdout, done


@pytest.mark.parametrize(
    "variables", [{}, {"LANG": "C", "LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}]
)
def test_a_bare_environment_shows_every_letter(variables, pairs):
    """With no locale at all, letters beyond ASCII are still written, as UTF-8."""
    kept = {name: os.environ[name] for name in ("SYSTEMROOT", "HOME", "TEMP") if name in os.environ}
    code = "from transformer_lab.cli import main; main()"
    for arguments, stream in (
        (["data", "--pairs", str(pairs)], "stdout"), (["data", "--pairs", "ß.txt"], "stderr"),
    ):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, encoding="utf-8",
            env=kept | variables, check=False,
        )  # fmt: skip
        assert ("päärs" if stream == "stdout" else "ß.txt") in getattr(done, stream), done
        assert "Traceback" not in done.stderr


def terminal() -> None:
    """Make stderr look like a terminal, so that the bar is drawn, at once and at every step."""
    import tqdm

    class Shown(tqdm.tqdm):
        def __init__(self, **options):
            assert options["disable"] is None and options["delay"] > 0
            options |= {"disable": False, "mininterval": 0, "delay": 1e-9, "dynamic_ncols": False}
            super().__init__(**options)

    tqdm.tqdm = Shown


def test_a_terminal_shows_progress_and_figures_on_the_way(lab, pairs, tmp_path):
    ended = lab(
        "train", "g2p", "--preset", "test", "--steps", 30, "--pairs", pairs,
        "--out", tmp_path / "run", first=terminal,
    )  # fmt: skip
    assert ended.code == 0 and ended.out.count("\n") == 1, ended
    assert "training:" in ended.err and "30/30" in ended.err and "loss" in ended.err
    assert re.search(r"step 30: loss [\d.]+, dev WER [\d.]+%, PER [\d.]+%\n", ended.err)
    ended = lab("evaluate", tmp_path / "run", first=terminal)
    assert "judging:" in ended.err and ended.code == 0


def test_no_bar_is_drawn_before_an_error(lab, tmp_path):
    ended = lab("evaluate", tmp_path / "nothing", first=terminal)
    assert ended.code == 1 and "judging" not in ended.err and ended.err.count("\n") == 1, ended


def test_output_into_a_closed_pipe_is_no_accident():
    """As `transformer-lab --help | head -1` does."""
    code = "from transformer_lab.cli import main; main()"
    read, write = os.pipe()
    closer = threading.Thread(target=os.close, args=(read,))
    closer.start()
    closer.join()
    with os.fdopen(write, "wb") as out:
        done = subprocess.run(
            [sys.executable, "-c", code, "--help"], stdout=out, stderr=subprocess.PIPE,
            encoding="utf-8", check=False,
        )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
