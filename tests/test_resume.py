"""A run that is stopped, however it is stopped, and resumed equals the run that was not.

Bit for bit, on the CPU: the bytes of the weights and every record but for its times. Dropout is
on, and the epochs are short, so that a lost random state or a forgotten place would show.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
from helpers import tiny_data
from processes import Child, write_pairs

from transformer_lab import train
from transformer_lab.checkpoint import load_tensors
from transformer_lab.models import EncoderDecoder, ModelConfig
from transformer_lab.tasks import G2P
from transformer_lab.train import FILES, TrainConfig, read_metrics

# ---- inside one process: stopped by an exception after any step ----

CONFIG = TrainConfig(
    steps=23, batch_size=5, lr=5e-3, warmup=3, log_every=4, judge_every=8, checkpoint_every=6,
    dev_words=11,
)  # fmt: skip


class Accident(Exception):
    pass


def go(task: G2P, folder: Path, resume: bool = False, stop_after: int | None = None, **rest):
    """Begin or go on; an accident happens after a step."""

    def note(step: int) -> None:
        if step == stop_after:
            raise Accident

    torch.manual_seed(CONFIG.seed + 99 * resume)  # a resumed run must not depend on it
    model = EncoderDecoder(
        ModelConfig(
            len(task.source), len(task.target), d_model=14, h=2, d_ff=22, encoder_layers=1,
            decoder_layers=1, dropout=0.3,
        )
    )  # fmt: skip
    return train.train(model, task, CONFIG, folder, resume=resume, on_step=note, **rest)


def outcome(folder: Path) -> tuple[list[dict], bytes]:
    """All that must be equal: records without times, and the weights as they lie on the disk."""
    records = [
        {k: v for k, v in r.items() if not k.endswith("_seconds")} for r in read_metrics(folder)
    ]
    return records, (folder / "weights.safetensors").read_bytes()


@pytest.fixture(scope="module")
def task():
    return G2P(tiny_data(50))


@pytest.fixture(scope="module")
def unbroken(task, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    go(task, folder)
    return outcome(folder)


@pytest.mark.parametrize("stop_after", [1, 5, 6, 7, 8, 12, 13, 17, 22, 23])
def test_an_accident_after_a_step_costs_nothing(stop_after, task, unbroken, tmp_path):
    with pytest.raises(Accident):
        go(task, tmp_path, stop_after=stop_after)
    assert not (tmp_path / "weights.safetensors").exists()
    records = go(task, tmp_path, resume=True)
    assert outcome(tmp_path) == unbroken
    assert [r["step"] for r in records] == [r["step"] for r in unbroken[0]]
    assert records == read_metrics(tmp_path)


def test_accident_upon_accident(task, unbroken, tmp_path):
    for stop_after in (3, 9, 10, 20, 19):
        with pytest.raises(Accident):
            go(task, tmp_path, resume=stop_after != 3, stop_after=stop_after)
    go(task, tmp_path, resume=True)
    assert outcome(tmp_path) == unbroken


def test_a_finished_run_resumed_stays_as_it_is(task, unbroken, tmp_path):
    go(task, tmp_path)
    records = go(task, tmp_path, resume=True)
    assert outcome(tmp_path) == unbroken and len(records) == len(unbroken[0])


@pytest.mark.parametrize("tail", ['{"step": 16, "lo', "\x00\x00\x00", '{"step": 16}\n{"st'])
def test_a_half_written_last_line_is_mended(tail, task, unbroken, tmp_path):
    with pytest.raises(Accident):
        go(task, tmp_path, stop_after=14)
    with (tmp_path / "metrics.jsonl").open("a", encoding="utf-8") as log:
        log.write(tail)
    go(task, tmp_path, resume=True)
    assert outcome(tmp_path) == unbroken
    for line in (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        json.loads(line)


def test_the_clock_goes_on_where_it_stopped(task, tmp_path):
    with pytest.raises(Accident):
        go(task, tmp_path, stop_after=13)
    _, about = load_tensors(tmp_path / "checkpoint.safetensors")
    go(task, tmp_path, resume=True)
    first = next(r for r in read_metrics(tmp_path) if r["step"] > about["progress"]["step"])
    assert first["wall_seconds"] >= round(about["progress"]["wall_seconds"], 2)


@pytest.mark.plain
def test_weights_without_a_checkpoint_are_not_trained_over(task, tmp_path):
    go(task, tmp_path)
    (tmp_path / "checkpoint.safetensors").unlink()
    with pytest.raises(ValueError, match="There is no checkpoint at"):
        go(task, tmp_path, resume=True)


@pytest.mark.plain
def test_the_weights_of_another_file_are_no_checkpoint(task, tmp_path):
    go(task, tmp_path)
    weights = (tmp_path / "weights.safetensors").read_bytes()
    (tmp_path / "checkpoint.safetensors").write_bytes(weights)
    with pytest.raises(ValueError, match="holds no training state"):
        go(task, tmp_path, resume=True)


# ---- whole commands: stopped by signals, killed, out of disk ----

SETTINGS = ("--preset", "test", "--steps", 100, "--batch-size", 8, "--seed", 3)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.txt", words=300)


@pytest.fixture(scope="module")
def whole(pairs, tmp_path_factory):
    """The command that nothing stops: what it left, and how many seconds it took."""
    folder = tmp_path_factory.mktemp("whole")
    Child("--version", folder=folder / "streams").wait()  # starts what the others fork from
    began = time.monotonic()
    ended = begin(folder, pairs).wait()
    seconds = time.monotonic() - began
    assert ended.code == 0, ended
    config = json.loads((folder / "run" / "config.json").read_text(encoding="utf-8"))
    assert config["model"]["dropout"] > 0
    assert files(folder) == sorted(FILES)
    return outcome(folder / "run"), seconds


def begin(folder: Path, pairs: Path, first=None) -> Child:
    return Child(
        "train", "g2p", *SETTINGS, "--pairs", pairs, "--out", folder / "run",
        folder=folder / "streams", first=first,
    )  # fmt: skip


def go_on(folder: Path, first=None) -> Child:
    return Child("train", "g2p", "--resume", folder / "run", folder=folder / "streams", first=first)


def start_or_go_on(folder: Path, pairs: Path, first=None) -> Child:
    started = (folder / "run" / "config.json").exists()
    return go_on(folder, first) if started else begin(folder, pairs, first)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "run").iterdir())


def check_last_checkpoint(folder: Path) -> int:
    """Whatever happened: the file under the checkpoint's name is whole; its step, or -1."""
    path = folder / "run" / "checkpoint.safetensors"
    if not path.exists():
        return -1
    tensors, about = load_tensors(path)
    assert {"random.cpu", "model.target_embedding.weight"} <= tensors.keys()
    return about["progress"]["step"]


def lines(folder: Path) -> int:
    return len(read_metrics(folder / "run"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly_and_says_how_to_go_on(number, whole, pairs, tmp_path):
    child = begin(tmp_path, pairs)
    child.until(lambda: lines(tmp_path) >= 3)
    child.signal(number)
    ended = child.wait()
    assert ended.code == 130 and ended.out == "", ended
    assert ended.err.count("\n") == 1 and f"go on with --resume {tmp_path / 'run'}" in ended.err
    assert files(tmp_path) == ["checkpoint.safetensors", "config.json", "metrics.jsonl"]
    step = check_last_checkpoint(tmp_path)
    assert f"Stopped after step {step} of 100" in ended.err and 30 <= step < 100
    ended = go_on(tmp_path).wait()
    assert ended.code == 0 and ended.out.startswith("Done: 100 steps"), ended
    assert outcome(tmp_path / "run") == whole[0] and files(tmp_path) == sorted(FILES)


def die(name: str, count: int, moment: str) -> None:
    """Make this process kill itself while it writes the file ``name`` the ``count``-th time."""
    real_mkstemp, real_replace = tempfile.mkstemp, os.replace
    real_fsync = os.fsync
    seen = {"begun": 0, "now": False, "path": ""}

    def kill(when: str) -> None:
        if seen["now"] and moment == when:
            os.kill(os.getpid(), signal.SIGKILL)

    def mkstemp(*args, **options):
        seen["now"] = False
        if str(options.get("prefix", "")) == f".{name}.":
            seen["begun"] += 1
            seen["now"] = seen["begun"] == count
        handle, seen["path"] = real_mkstemp(*args, **options)
        kill("opened")
        return handle, seen["path"]

    def fsync(number: int) -> None:
        if seen["now"] and moment == "half":
            os.truncate(seen["path"], os.path.getsize(seen["path"]) // 2)
        kill("half")
        real_fsync(number)

    def replace(old, new) -> None:
        real_replace(old, new)
        kill("renamed")

    tempfile.mkstemp, os.fsync, os.replace = mkstemp, fsync, replace


@pytest.mark.parametrize("moment", ["opened", "half", "renamed"])
def test_killed_while_it_writes(moment, whole, pairs, tmp_path):
    """At each moment of the writing of each file, one after another in one run."""
    if not hasattr(signal, "SIGKILL"):  # Windows: the random moments below
        return
    before = -1
    for name, count in (
        ("config.json", 1), ("metrics.jsonl", 1), ("checkpoint.safetensors", 1),
        ("checkpoint.safetensors", 2), ("checkpoint.safetensors", 2),
        ("weights.safetensors", 1), ("loss.png", 1),
    ):  # fmt: skip
        child = start_or_go_on(tmp_path, pairs, partial(die, name, count, moment))
        assert child.wait().code == -signal.SIGKILL, (name, count)
        step = check_last_checkpoint(tmp_path)
        assert step >= before
        before = step
    assert step == 100
    ended = go_on(tmp_path).wait()
    assert ended.code == 0, ended
    assert outcome(tmp_path / "run") == whole[0]
    assert files(tmp_path) == sorted(FILES)  # nothing half-written stays behind


def test_killed_at_random_moments(whole, pairs, tmp_path):
    """Twelve kills at moments that no one chose; every finished run is the unbroken one."""
    expected, seconds = whole
    rng = random.Random(7)
    kills, runs = 0, 0
    folder = tmp_path / "0"
    while kills < 12 or not runs:
        child = start_or_go_on(folder, pairs)
        child.process.join(rng.uniform(0, 0.6 * seconds) if kills < 12 else None)
        if child.kill() == 0:
            assert outcome(folder / "run") == expected and files(folder) == sorted(FILES)
            runs += 1
            folder = tmp_path / str(runs)
        else:
            kills += 1
            assert not child.read()[1], child.read()
        if (folder / "run").exists():
            check_last_checkpoint(folder)


def no_room_after(limit: int) -> None:
    """Let this process write only so many bytes at a time: a full disk without a disk."""
    real = os.fdopen

    def fdopen(number: int, *args, **options):
        file = real(number, *args, **options)
        if "checkpoint" not in os.readlink(f"/proc/self/fd/{number}"):
            return file
        write = file.write

        def limited(content) -> int:
            if len(content) > limit:
                write(content[:limit])
                raise OSError(28, os.strerror(28))
            return write(content)

        file.write = limited
        return file

    os.fdopen = fdopen


@contextmanager
def small_disk(folder: Path, room: int):
    """A file system of this size, if root may mount one; else a process that acts as if."""
    folder.mkdir()
    mounted = False
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(folder)]
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield None if mounted else partial(no_room_after, room // 3)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_ends_in_a_sentence_and_the_run_goes_on_later(whole, pairs, tmp_path):
    """1 MB, most of it filled: the first checkpoints fit, a later one does not."""
    with small_disk(tmp_path / "disk", 1 << 20) as first:
        folder = tmp_path / "disk"
        filler = folder / "filler"
        filler.write_bytes(b"\0" * 480_000)
        ended = begin(folder, pairs, first).wait()
        path = folder / "run" / "checkpoint.safetensors"
        assert ended.sentence == f"The disk is full ({path}); free some and retry."
        assert not [name for name in files(folder) if name.startswith(".")]
        assert 0 <= check_last_checkpoint(folder) < 100
        filler.unlink()
        ended = go_on(folder).wait()
        assert ended.code == 0, ended
        assert outcome(folder / "run") == whole[0]
        assert files(folder) == sorted(FILES)
