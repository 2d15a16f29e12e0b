"""The commands of README: what they say when something is missing, and that they exist."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

MAKE = shutil.which("make")
BOTH_RUNS = ["not plain", "plain"]


def load(path: Path, name: str):
    """A script of this repository as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def install(tmp_path):
    """book/install.py, in an empty copy of the project."""
    for name in ("requirements.txt", "requirements-test.txt", "pyproject.toml", "Makefile"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "book").mkdir()
    shutil.copy(ROOT / "book" / "install.py", tmp_path / "book")
    return load(tmp_path / "book" / "install.py", "install")


def one_sentence(text: str) -> str:
    """The message, which must be a single line that ends as a sentence does."""
    lines = [line for line in text.strip().splitlines() if not line.startswith("make")]
    assert len(lines) == 1 and lines[0].endswith("."), text
    return lines[0]


def make(folder: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess:
    """Run make with nothing in the environment but a PATH."""
    environment = {"PATH": os.environ["PATH"] if path is None else path}
    command = [MAKE, "--no-print-directory", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )


def test_help_is_the_default_and_lists_every_target():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.*)$", text, re.M)[1].split()
    told = make(ROOT)
    assert told.returncode == 0 and told.stdout == make(ROOT, "help").stdout
    listed = re.findall(r"^  make (\S+) +\S", told.stdout, re.M)
    assert listed == targets and {"book", "test", "lab", "data", "clean"} <= set(targets)


@pytest.mark.parametrize("target", ["book", "test", "data"])
def test_wrong_python_is_named_in_a_sentence(install, target):
    wrong = install.ROOT / "python3.9"
    wrong.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    wrong.chmod(0o755)
    ran = make(install.ROOT, target, f"PYTHON={wrong}")
    told = one_sentence(ran.stderr)
    assert ran.returncode and str(wrong) in told and "3.11, 3.12 or 3.13" in told
    assert f"make {target} PYTHON=" in told


def test_no_python_at_all_is_said_in_a_sentence(install):
    ran = make(install.ROOT, "book", path=str(install.ROOT / "nothing"))
    assert ran.returncode and "No Python 3.11, 3.12 or 3.13 was found" in one_sentence(ran.stderr)


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_install_refuses_another_python(install, version, capsys):
    with pytest.raises(SystemExit) as stopped:
        install.check_python(version)
    assert stopped.value.code == 1
    assert f"This is Python 3.{version[1]}" in one_sentence(capsys.readouterr().err)


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
def test_install_takes_its_pythons(install, version):
    install.check_python(version)


def test_install_refuses_a_full_disk(install, capsys):
    with pytest.raises(SystemExit):
        install.check_disk(free=1.2e9)
    told = one_sentence(capsys.readouterr().err)
    assert "1.2 GB are free" in told and "3 GB" in told
    install.check_disk(free=4e9)


def test_a_python_without_venv_is_said_in_a_sentence(install, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(SystemExit):
        install.make_environment()
    assert "-venv` as root" in one_sentence(capsys.readouterr().err)


def test_an_environment_of_another_python_is_not_touched(install, monkeypatch, capsys):
    monkeypatch.setattr(install, "version_of_environment", lambda: "3.10")
    with pytest.raises(SystemExit):
        install.main(["book"])
    told = one_sentence(capsys.readouterr().err)
    assert "holds Python 3.10" in told and str(install.VENV) in told


@pytest.mark.parametrize(
    "printed, said",
    [
        ("ERROR: [Errno 28] No space left on device", "The disk became full"),
        ("NewConnectionError: Failed to establish", "check the network"),
        ("ERROR: No matching distribution found for x", "lines above"),
    ],
)
def test_a_failed_installation_is_explained(install, printed, said):
    assert said in one_sentence(install.explain(printed))


def test_nothing_is_installed_twice(install, monkeypatch):
    calls = []
    monkeypatch.setattr(install, "pip", calls.append)
    monkeypatch.setattr(install, "make_environment", lambda: install.VENV.mkdir(exist_ok=True))
    monkeypatch.setattr(install, "version_of_environment", install.version_of_this_python)
    monkeypatch.setattr(install, "check_disk", lambda: None)
    install.main(["test"])
    assert calls[0] == ["-r", "requirements-test.txt"] and len(calls) == 2
    install.main(["test"])
    install.main(["book"])
    assert len(calls) == 2, "an unchanged environment was installed again"
    with (install.ROOT / "requirements.txt").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    install.main(["book"])
    assert len(calls) == 4, "a change in requirements.txt was not noticed"


@pytest.fixture
def tests_main(monkeypatch):
    """tests/__main__.py as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    return load(ROOT / "tests" / "__main__.py", "tests_main")


def test_no_chromium_is_said_in_a_sentence(tests_main, monkeypatch, capsys):
    monkeypatch.setenv("CHROMIUM", str(ROOT / "no-such-browser"))
    monkeypatch.setattr(tests_main, "run", lambda *a, **k: pytest.fail("tests were started"))
    assert tests_main.main([]) == 1
    assert "apt-get install chromium" in one_sentence(capsys.readouterr().err)


@pytest.mark.parametrize("bad", [None, *BOTH_RUNS])
def test_both_runs_are_made_and_either_can_fail(tests_main, monkeypatch, bad):
    made = []

    def run(arguments, **variables):
        made.append((arguments[arguments.index("-m") + 1], variables))
        return int(made[-1][0] == bad)

    monkeypatch.setattr(tests_main, "find_chromium", lambda: "chromium")
    monkeypatch.setattr(tests_main, "run", run)
    assert tests_main.main([]) == int(bad is not None)
    assert [selected for selected, _ in made] == BOTH_RUNS
    assert [variables for _, variables in made] == [{}, {"JAXTYPING_DISABLE": "1"}]


def test_ci_runs_the_readmes_command():
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert text.startswith("#!/usr/bin/env bash\n") and os.access(ROOT / ".ci" / "run", os.X_OK)
    assert text.rstrip().endswith("make test") and "apt-get update" in text


def test_the_build_says_what_is_missing(tmp_path):
    code = (
        "import sys; sys.modules['filelock'] = None; sys.argv = ['build.py'];"
        f"sys.path.insert(0, {str(ROOT / 'book')!r}); import build; sys.exit(build.main())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False
    )
    assert ran.returncode == 1 and "make book" in one_sentence(ran.stderr)
