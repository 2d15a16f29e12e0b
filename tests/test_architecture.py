"""The house rules that a machine can hold: who imports whom, how long files are, ruff."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
from repository import ROOT, text_files

import transformer_lab

HEAVY = ["torch", "sympy", "matplotlib", "plotly"]
WITHOUT_TORCH = [
    "notation", "plots", "tokens", "data", "baselines", "metrics", "schedules", "backward",
]  # fmt: skip


def python(code: str) -> subprocess.CompletedProcess:
    """Run a few lines in a fresh Python."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)


def test_rooms_import_only_rooms_before_them():
    # in a process of its own: import-linter switches off the loggers that are there already
    call = "lint_imports(config_filename='pyproject.toml', no_cache=True)"
    linted = python(f"import sys; from importlinter.cli import lint_imports; sys.exit({call})")
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_importing_the_package_loads_nothing_heavy():
    heavy = f"set({HEAVY!r})"
    loaded = python(f"import sys, transformer_lab; print({heavy} & sys.modules.keys())")
    assert loaded.stdout.strip() == "set()", loaded.stdout + loaded.stderr


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_room_works_without_torch(room):
    ran = python(f"import sys; sys.modules['torch'] = None; import transformer_lab.{room}")
    assert ran.returncode == 0, ran.stderr


def test_plots_import_their_libraries_only_when_they_draw():
    heavy = f"set({HEAVY!r})"
    loaded = python(f"import sys, transformer_lab.plots; print({heavy} & sys.modules.keys())")
    assert loaded.stdout.strip() == "set()", loaded.stdout + loaded.stderr


@pytest.mark.parametrize("name", sorted(transformer_lab.__all__))
def test_public_name_is_there_and_documented(name):
    thing = getattr(transformer_lab, name)
    if callable(thing):
        assert (inspect.getdoc(thing) or "").strip(), f"{name} has no docstring"


def test_no_file_is_longer_than_400_lines():
    suffixes = (".py", ".js", ".css")
    lines = {name: text.count("\n") for name, text in text_files() if name.endswith(suffixes)}
    assert {name: count for name, count in lines.items() if count > 400} == {}


def test_no_module_has_a_cache_or_passes_kwargs_along():
    for name, text in text_files():
        if name.startswith("transformer_lab/") and name.endswith(".py"):
            assert "lru_cache" not in text, f"{name} has a module-level cache"
            assert "**kwargs" not in text, f"{name} passes **kwargs along"


def test_ruff_is_content():
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "."]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stdout
