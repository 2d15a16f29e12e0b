"""The command line in bad surroundings; what a reader can do wrong stands in test_faults.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading

import pytest

pytest_plugins = ["cli_fixtures"]


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
