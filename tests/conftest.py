"""What several test files share: the built book, the browser, one thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from chromium import MISSING, find_chromium

ROOT = Path(__file__).resolve().parents[1]
SYMBOLIC = ["test_derivation*.py", "test_labels.py", "test_exercise*.py"]
SYMBOLIC += ["test_bank.py", "test_copies.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Derivations hold symbols, not arrays: their tests run where shapes are not checked.

    The check would also stumble over sympy's classes: beartype refuses those whose metaclass
    writes its own repr, and takes 0 for no float.
    """
    global collect_ignore_glob
    collect_ignore_glob = SYMBOLIC if config.getoption("--jaxtyping-packages", None) else []


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the project."""
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def nobodys_progress(tmp_path_factory):
    """No test touches what the person who runs it has solved."""
    path = tmp_path_factory.mktemp("progress") / "progress.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_LAB_PROGRESS", str(path))
        yield


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Small models are slower with two threads than with one on a busy machine."""
    try:
        import torch
    except ImportError:  # the rooms that need no torch are tested without it
        return
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The path of a Chromium for Playwright's `executable_path`."""
    path = find_chromium()
    if path is None:
        pytest.fail(MISSING)
    return path


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built book; built once, strictly, from the cache it shares with `make`."""
    built = subprocess.run(
        [sys.executable, str(ROOT / "book" / "build.py")],
        cwd=ROOT,
        env=os.environ | {"PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if built.returncode:
        pytest.fail(f"The book does not build:\n{built.stdout}\n{built.stderr}", pytrace=False)
    return ROOT / "_build" / "html"
