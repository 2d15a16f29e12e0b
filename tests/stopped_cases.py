"""A training that is stopped, killed, out of disk or not alone, and then goes on.

Each function disturbs the run of :func:`whole` in its own way, looks on the way at what must hold
in that very moment, and returns what the run left in the end.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from data_cases import small_disk
from processes import Child, command

from transformer_lab.checkpoint import load_tensors
from transformer_lab.train import FILES, read_metrics

SETTINGS = ("--preset", "test", "--steps", 100, "--batch-size", 8, "--seed", 3)
STOPPED = ["checkpoint.safetensors", "config.json", "metrics.jsonl"]


@dataclass(frozen=True)
class Site:
    """Where a training is disturbed: its folder, its data, how long an undisturbed one takes."""

    folder: Path
    pairs: Path
    seconds: float = 0.0

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def below(self, name: str) -> Site:
        return Site(self.folder / name, self.pairs, self.seconds)

    def begin(self, first=None) -> Child:
        return Child(
            "train", "g2p", *SETTINGS, "--pairs", self.pairs, "--out", self.run,
            folder=self.folder / "streams", first=partial(one_kernel, first),
        )  # fmt: skip

    def go_on(self, first=None) -> Child:
        return Child(
            "train", "g2p", "--resume", self.run, folder=self.folder / "streams", first=first
        )

    def start_or_go_on(self, first=None) -> Child:
        started = (self.run / "config.json").exists()
        return self.go_on(first) if started else self.begin(first)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.run.iterdir())

    def last_step(self) -> int:
        """Whatever happened: the file under the checkpoint's name is whole; its step, or -1."""
        path = self.run / "checkpoint.safetensors"
        if not path.exists():
            return -1
        tensors, about = load_tensors(path)
        assert {"random.cpu", "model.target_embedding.weight"} <= tensors.keys()
        assert all(t.isfinite().all() for n, t in tensors.items() if n.startswith("model."))
        return about["progress"]["step"]

    def lines(self) -> int:
        return len(read_metrics(self.run))

    def outcome(self) -> tuple[list[dict], bytes, list[str]]:
        """All that must be equal: records without times, the weights' bytes, the files' names."""
        records = [
            {k: v for k, v in r.items() if not k.endswith("_seconds")}
            for r in read_metrics(self.run)
        ]
        return records, (self.run / "weights.safetensors").read_bytes(), self.files()

    def finished(self) -> tuple[list[dict], bytes, list[str]]:
        ended = self.go_on().wait()
        assert ended.code == 0 and ended.out.startswith("Done: 100 steps"), ended
        return self.outcome()


def one_kernel(first=None) -> None:
    """The same linear kernel in every process, however busy the computer is; then ``first``."""
    from transformer_lab.kernels import choose_linear

    choose_linear("torch")
    if first is not None:
        first()


def whole(folder: Path, pairs: Path) -> tuple[tuple, float]:
    """The command that nothing stops: what it left, and how many seconds it took."""
    site = Site(folder, pairs)
    Child("--version", folder=folder / "streams").wait()  # starts what the others fork from
    began = time.monotonic()
    ended = site.begin().wait()
    seconds = time.monotonic() - began
    assert ended.code == 0, ended
    config = json.loads((site.run / "config.json").read_text(encoding="utf-8"))
    assert config["model"]["dropout"] > 0  # a lost random state would show
    assert site.files() == sorted(FILES)
    return site.outcome(), seconds


# ---- asked to stop ----


def signalled(number: int, site: Site):
    child, gate = standing(site)
    child.signal(number)
    gate.touch()
    ended = child.wait()
    assert ended.code == 130 and ended.out == "", ended
    assert ended.err.count("\n") == 1 and f"go on with --resume {site.run}" in ended.err
    assert site.files() == STOPPED
    assert "Stopped after step 45 of 100" in ended.err and site.last_step() == 45
    return site.finished()


def in_loss(at: int, what) -> None:
    """Have the loss of step ``at`` and of all after it go through ``what``, in this process."""
    from transformer_lab.tasks import G2P

    calls, real = [], G2P.loss

    def loss(self, model, *rest):
        calls.extend([1] * model.training)  # a judgement on the way is no step
        total, tokens = real(self, model, *rest)
        return (what(total) if len(calls) >= at else total), tokens

    G2P.loss = loss


def _wait_for(gate: Path, total):
    gate.with_name("here").touch()
    while not gate.exists():
        time.sleep(0.005)
    return total


def standing(site: Site) -> tuple[Child, Path]:
    """A training that stands in step 45 until there is a file at the path that is returned."""
    site.folder.mkdir(parents=True, exist_ok=True)
    gate = site.folder / "gate"
    child = site.begin(partial(in_loss, 45, partial(_wait_for, gate)))
    child.until(gate.with_name("here").exists)
    return child, gate


def twice(total):
    """Ctrl-C, and again before the step is done."""
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    return total


def impatient(site: Site):
    ended = site.begin(partial(in_loss, 45, twice)).wait()
    assert ended.code == 130 and ended.out == "", ended
    told = f"Stopped at once; go on from the last checkpoint with --resume {site.run}.\n"
    assert ended.err == told and site.last_step() == 40
    return site.finished()


def draw_no_curve() -> None:
    from transformer_lab import runs

    runs.draw_curve = lambda folder: signal.raise_signal(signal.SIGINT)


def stopped_while_drawing(site: Site):
    ended = site.begin(draw_no_curve).wait()
    assert ended.code == 130 and f"with --resume {site.run}" in ended.err, ended
    return site.finished()


# ---- killed ----


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


def killed_while_it_writes(moment: str, site: Site):
    """At one moment of the writing of each file, one after another in one run."""
    if not hasattr(signal, "SIGKILL"):  # Windows: the random moments below
        return killed_at_random_moments(3, site)
    before = -1
    for name, count in (
        ("config.json", 1), ("metrics.jsonl", 1), ("checkpoint.safetensors", 1),
        ("checkpoint.safetensors", 2), ("checkpoint.safetensors", 2),
        ("weights.safetensors", 1), ("loss.png", 1),
    ):  # fmt: skip
        child = site.start_or_go_on(partial(die, name, count, moment))
        assert child.wait().code == -signal.SIGKILL, (name, count)
        step = site.last_step()
        assert step >= before
        before = step
    assert step == 100
    return site.finished()  # nothing half-written stays behind


def killed_at_random_moments(times: int, site: Site):
    """Kills at moments that no one chose; all runs that ended by themselves must be alike."""
    rng = random.Random(7)
    kills, ends = 0, []
    here = site.below("0")
    while kills < times or not ends:
        child = here.start_or_go_on()
        child.process.join(rng.uniform(0, 0.6 * site.seconds) if kills < times else None)
        if child.kill() == 0:
            ends.append(here.outcome())
            here = site.below(str(len(ends)))
        else:
            kills += 1
            assert not child.read()[1], child.read()
        if here.run.exists():
            here.last_step()
    assert all(end == ends[0] for end in ends)
    return ends[0]


# ---- no numbers, no room, not alone ----


def not_a_number(value: float, site: Site):
    """The loss is no number in step 45: the state of step 40 stays, and it goes on from there."""
    ended = site.begin(partial(in_loss, 45, partial(_spoil, value))).wait()
    for said in (
        "must stay finite numbers, but in step 45,", f"were {value} and ",
        "The output of every layer is finite, the loss is not.", "Likely cause: what the loss",
        "The state after step 40 is on disk.",
    ):  # fmt: skip
        assert said in ended.sentence, (said, ended)
    assert site.last_step() == 40 and site.files() == STOPPED
    return site.finished()


def _spoil(value: float, total):
    return total * math.nan if math.isnan(value) else total + value


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


def full_disk(site: Site):
    """1 MB, most of it filled: the first checkpoints fit, a later one does not."""
    here = site.below("disk")
    site.folder.mkdir(parents=True, exist_ok=True)
    with small_disk(here.folder, str(1 << 20)) as mounted:
        filler = here.folder / "filler"
        filler.write_bytes(b"\0" * 480_000)
        ended = here.begin(None if mounted else partial(no_room_after, (1 << 20) // 3)).wait()
        path = here.run / "checkpoint.safetensors"
        assert ended.sentence == f"The disk is full ({path}); free some and retry."
        assert not [name for name in here.files() if name.startswith(".")]
        assert 0 <= here.last_step() < 100
        filler.unlink()
        return here.finished()


def not_alone(site: Site):
    """While one training stands at step 45, another wants to go on with the same run."""
    child, gate = standing(site)
    other = {"folder": site.folder / "other streams"}
    told = command("train", "g2p", "--resume", site.run, **other).sentence
    assert "Only one training may run in a folder at a time" in told and str(site.run) in told
    assert "wait until it has ended" in told
    again = ("train", "g2p", *SETTINGS, "--pairs", site.pairs, "--out", site.run)
    assert f"{site.run} already holds a run" in command(*again, **other).sentence
    assert site.lines() == 4 and site.last_step() == 40
    gate.touch()
    assert child.wait().code == 0
    return site.outcome()
