"""Commands, and a small run of a reader's own that they made once for all tests.

A pytest plugin: a test file takes it in with `pytest_plugins = ["cli_fixtures"]`.
"""

from __future__ import annotations

import re

import pytest
from processes import Ended, command, write_pairs


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """Run a command; its streams go into a folder of their own."""
    streams = tmp_path_factory.mktemp("streams")

    def run(*arguments, env=None, first=None) -> Ended:
        narrow = {"COLUMNS": "80", **(env or {})}
        return command(*arguments, folder=streams, env=narrow, first=first)

    return run


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("data") / "päärs.txt", words=300)


@pytest.fixture(scope="session")
def run(lab, pairs, tmp_path_factory):
    """A finished run on a reader's own pairs, made by the command."""
    folder = tmp_path_factory.mktemp("runs") / "own"
    ended = lab(
        "train", "g2p", "--preset", "test", "--pairs", pairs, "--out", folder,
        "--steps", 60, "--lr", 0.01, "--seed", 4, "--batch-size", 16, "--warmup", 5,
    )  # fmt: skip
    assert ended.code == 0 and ended.err == "", ended
    assert re.fullmatch(
        r"Done: 60 steps, \d+ s of CPU time; dev WER [\d.]+%, PER [\d.]+% \(greedy\)\. "
        rf"The run is in {re.escape(str(folder))}\.\n",
        ended.out,
    ), ended.out
    return folder
