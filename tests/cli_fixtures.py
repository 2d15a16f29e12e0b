"""Commands, and a small run of a reader's own that they made once for all tests.

A pytest plugin: a test file takes it in with `pytest_plugins = ["cli_fixtures"]`.
"""

from __future__ import annotations

import re
from functools import partial

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


@pytest.fixture(scope="session")
def unfinished(lab, pairs, tmp_path_factory):
    """A run that an error stopped after its first checkpoint."""
    folder = tmp_path_factory.mktemp("runs") / "unfinished"
    ended = lab(
        "train", "g2p", "--preset", "test", "--pairs", pairs, "--out", folder,
        "--steps", 30, first=partial(stumble, 25),
    )  # fmt: skip
    assert ended.code == 1 and (folder / "checkpoint.safetensors").exists()
    return folder


def stumble(step: int) -> None:
    from transformer_lab.tasks import G2P

    calls = []
    real = G2P.loss

    def loss(self, *rest):
        calls.append(1)
        if len(calls) > step:
            raise ValueError("stumbled")
        return real(self, *rest)

    G2P.loss = loss
