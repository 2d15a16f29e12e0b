"""Files of numbers: written whole or not at all, read only if they are ours and intact."""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import transformer_lab
from transformer_lab import checkpoint
from transformer_lab.checkpoint import (
    CheckpointError,
    load_tensors,
    save_tensors,
    sweep,
    write_atomically,
)

TENSORS = {
    "a": torch.tensor([[0.1, -2.5, 3e30], [float("inf"), -0.0, 1e-45]]),
    "b": torch.arange(5),
    "c": torch.tensor([1.5, -0.25], dtype=torch.float16),
    "d": torch.tensor([1.5, 3.0, -7.0], dtype=torch.bfloat16),
    "scalar": torch.tensor(7.0),
    "bytes": torch.arange(0, 251, 10, dtype=torch.uint8),
    "empty": torch.zeros(0, 3),
}
ABOUT = {"step": 7, "loss": 0.1 + 0.2, "words": ["α", "ß"]}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_tensors(path, TENSORS, ABOUT)
    return path


def same(found, expected) -> bool:
    """Equal names, types, shapes and bits."""
    return found.keys() == expected.keys() and all(
        t.dtype == expected[n].dtype
        and t.shape == expected[n].shape
        and t.reshape(-1).view(torch.uint8).tolist()
        == expected[n].reshape(-1).view(torch.uint8).tolist()
        for n, t in found.items()
    )


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---- the way there and back ----


def test_every_bit_comes_back(file):
    tensors, about = load_tensors(file)
    assert same(tensors, TENSORS)
    assert about == ABOUT


def test_another_program_can_read_the_numbers(file):
    assert same(load_file(file), TENSORS)


def test_what_is_stored_are_values_not_views(tmp_path):
    table = torch.arange(12.0).reshape(3, 4)
    parameter = torch.nn.Parameter(table.clone())
    save_tensors(tmp_path / "x", {"view": table.T[1:], "parameter": parameter}, {})
    tensors, _ = load_tensors(tmp_path / "x")
    assert torch.equal(tensors["view"], table.T[1:])
    assert not tensors["parameter"].requires_grad


def test_the_same_content_gives_the_same_bytes(file, tmp_path):
    for _ in range(10):
        save_tensors(tmp_path / "again", dict(reversed(TENSORS.items())), ABOUT)
        assert (tmp_path / "again").read_bytes() == file.read_bytes()


# ---- written whole or not at all ----


def test_new_content_replaces_the_old_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "a" / "b" / "x.bin"
    for content in (b"one", b"", b"three" * 1000):
        write_atomically(path, content)
        assert path.read_bytes() == content
        assert names(path.parent) == {"x.bin"}


def test_the_file_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    """fsync of the file, then the rename, then fsync of the folder: else a power cut loses it."""
    events = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(number):
        is_folder = os.path.isdir(f"/proc/self/fd/{number}")
        events.append("folder" if is_folder else "file")
        real_fsync(number)

    def replace(old, new):
        assert Path(old).read_bytes() == b"content" and Path(old).parent == Path(new).parent
        events.append("rename")
        real_replace(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_atomically(tmp_path / "x", b"content")
    assert events[:2] == ["file", "rename"]
    if os.path.isdir("/proc/self/fd"):
        assert events == ["file", "rename", "folder"]


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def broken(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize("trouble", [full, broken])
def test_trouble_on_the_way_keeps_the_old_file(step, trouble, tmp_path, monkeypatch):
    path = tmp_path / "x.bin"
    write_atomically(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, step, trouble)
        with pytest.raises((OSError, KeyboardInterrupt)) as error:
            write_atomically(path, b"new" * 1000)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == {"x.bin"}
    if trouble is full:
        assert error.value.errno == errno.ENOSPC and error.value.filename == str(path)


def test_a_write_that_ends_halfway_keeps_the_old_file(tmp_path, monkeypatch):
    real = os.fdopen

    def small_disk(number, mode):
        file = real(number, mode, buffering=0)
        write = file.write

        class Small:
            def __enter__(self):
                return self

            def __exit__(self, *exc):
                file.close()

            def write(self, content):
                write(content[:1000])
                full()

        return Small()

    path = tmp_path / "x.bin"
    write_atomically(path, b"old")
    monkeypatch.setattr(os, "fdopen", small_disk)
    with pytest.raises(OSError, match=re.escape(os.strerror(errno.ENOSPC))):
        write_atomically(path, b"n" * 4000)
    assert path.read_bytes() == b"old" and names(tmp_path) == {"x.bin"}


def test_a_full_device_is_an_error_with_the_name_of_the_file(tmp_path, monkeypatch):
    """A real ENOSPC, where the system offers one."""
    if not os.path.exists("/dev/full"):  # Windows, macOS: the tests above stand for it
        return
    real = tempfile.mkstemp

    def on_full_device(**options):
        handle, name = real(**options)
        os.close(handle)
        return os.open("/dev/full", os.O_WRONLY), name

    monkeypatch.setattr(tempfile, "mkstemp", on_full_device)
    with pytest.raises(OSError) as error:
        write_atomically(tmp_path / "x", b"n" * 4000)
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(tmp_path / "x"))
    assert names(tmp_path) == set()


def test_sweeping_takes_only_what_a_killed_writer_left(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:  # a kill: nothing is tidied up
        patch.setattr(os, "replace", broken)
        patch.setattr(os, "unlink", lambda path: None)
        for name in ("weights.safetensors", "other.txt"):
            with pytest.raises(KeyboardInterrupt):
                write_atomically(tmp_path / name, b"half")
    left = {name for name in names(tmp_path) if name.startswith(".weights.safetensors.")}
    kept = names(tmp_path) - left
    assert len(left) == len(kept) == 1
    for name in (
        "weights.safetensors", ".weights.safetensors", ".weights.safetensors.swp",
        ".weights.safetensors.backup-1", "weights.safetensors.abcdefgh",
        ".weightsXsafetensors.abcdefgh",
    ):  # fmt: skip
        (tmp_path / name).write_bytes(b"mine")
        kept.add(name)
    folder = ".weights.safetensors.aaaaaaaa"
    (tmp_path / folder).mkdir()
    sweep(tmp_path, ["weights.safetensors", "config.json"])
    assert names(tmp_path) == kept | {folder}


# ---- refused: damaged, foreign, dangerous ----


def refused(path) -> str:
    """The sentence with which a file is refused; it names the file."""
    with pytest.raises(CheckpointError) as error:
        load_tensors(path)
    message = str(error.value)
    assert str(path) in message and "\n" not in message
    return message


@pytest.mark.plain
def test_a_file_cut_off_anywhere_is_refused(file, tmp_path):
    content = file.read_bytes()
    cut = tmp_path / "cut"
    for length in [*range(0, len(content), 7), len(content) - 1]:
        cut.write_bytes(content[:length])
        assert "damaged, cut off" in refused(cut)
    cut.write_bytes(content + b"\0")
    refused(cut)


@pytest.mark.plain
def test_no_changed_bit_goes_unnoticed(file, tmp_path):
    """Every bit of the header and some of the numbers: refused, or the same is read."""
    content = file.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    places = [*range(header * 8), *range(header * 8, len(content) * 8, 13)]
    changed = tmp_path / "changed"
    for bit in places:
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        changed.write_bytes(damaged)
        try:
            tensors, about = load_tensors(changed)
        except CheckpointError as error:
            assert str(changed) in str(error)
        else:  # a bit that means nothing: a blank that became a tab
            assert same(tensors, TENSORS) and about == ABOUT


@pytest.mark.plain
def test_other_files_are_refused(tmp_path):
    text = tmp_path / "text.safetensors"
    text.write_text("step 1: loss 3.2\n" * 100, encoding="utf-8")
    assert "not a safetensors file" in refused(text)
    empty = tmp_path / "empty.safetensors"
    empty.touch()
    assert "not a safetensors file" in refused(empty)
    assert "is a folder" in refused(tmp_path)
    assert "There is no checkpoint at" in refused(tmp_path / "nothing")
    foreign = tmp_path / "foreign.safetensors"
    for metadata in (None, {"format": "pt"}):
        save_file({"weight": torch.ones(2, 3)}, foreign, metadata)
        assert "another program" in refused(foreign)
    save_file({}, foreign)
    assert "another program" in refused(foreign)
    save_file({"weight": torch.ones(2, 3)}, foreign, {"format": checkpoint.FORMAT})
    assert "it has no 'sha256'" in refused(foreign)


def test_the_package_has_no_way_to_unpickle():
    """By reading its text: nothing names pickle or what loads pickles."""
    forbidden = re.compile(
        r"^\s*(?:import|from)\s+(?:pickle|cPickle|dill|joblib|shelve|marshal|cloudpickle)\b"
        r"|torch\.load|allow_pickle|np\.load|load_state_dict_from_url|torch\.hub",
        re.MULTILINE,
    )
    folder = Path(transformer_lab.__file__).parent
    files = sorted(folder.rglob("*.py"))
    assert len(files) > 20
    for path in files:
        assert not forbidden.search(path.read_text(encoding="utf-8")), path


def test_the_description_is_json(file):
    header = file.read_bytes()
    size = int.from_bytes(header[:8], "little")
    metadata = json.loads(header[8 : 8 + size])["__metadata__"]
    assert json.loads(metadata["about"]) == ABOUT
    assert metadata["format"] == checkpoint.FORMAT and len(metadata["sha256"]) == 64
