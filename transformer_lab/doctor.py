r"""Checks of the reader's computer, each with its cure."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import __version__

LOWEST, HIGHEST = (3, 11), (3, 13)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was found and, if it is not well, what to do."""

    name: str
    ok: bool
    found: str
    cure: str = ""


def examine() -> Iterator[Check]:
    """All checks, one after another, cheap ones first."""
    yield _python()
    yield from _packages()
    yield _torch()
    yield _data()
    yield _room()
    yield _models()


def _python() -> Check:
    version = sys.version_info[:2]
    return Check(
        "Python",
        LOWEST <= version <= HIGHEST,
        f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        f"The book needs Python {LOWEST[0]}.{LOWEST[1]} to {HIGHEST[0]}.{HIGHEST[1]}; install "
        f"one of these and make a new environment with it.",
    )


def _packages() -> Iterator[Check]:
    """Each library the package needs: installed, and within the declared range?"""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        yield Check(
            "packaging", False, "is not installed", "Run `python -m pip install packaging`."
        )
        return
    try:
        declared = importlib.metadata.requires("transformer-lab") or []
    except importlib.metadata.PackageNotFoundError:
        yield Check(
            "transformer-lab", False, "is not installed, only imported from its folder",
            "Run `python -m pip install -e .` in the folder of the book.",
        )  # fmt: skip
        return
    yield Check("transformer-lab", True, __version__)
    for line in declared:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        cure = f'Run `python -m pip install "{requirement.name}{requirement.specifier}"`.'
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            yield Check(requirement.name, False, "is not installed", cure)
            continue
        fits = requirement.specifier.contains(version, prereleases=True)
        found = version if fits else f"{version}, but {requirement.specifier} is needed"
        yield Check(requirement.name, fits, found, cure)


def _torch() -> Check:
    cure = (
        "Install PyTorch as its own page says for your computer: "
        "https://pytorch.org/get-started/locally/"
    )
    try:
        import torch

        from .devices import available_devices, choose_device, describe_device
    except (ImportError, OSError) as error:
        return Check("device", False, f"PyTorch cannot be loaded ({error})", cure)
    found = []
    for name in available_devices():
        try:
            device = choose_device(name)
            a = torch.arange(6.0).reshape(2, 3).to(device)
            works = float((a @ a.T).sum()) == 83.0
            found.append(f"{name} ({describe_device(device)})")
        except RuntimeError as error:
            return Check("device", False, f"{name} does not work ({error!s:.200})", cure)
        if not works:
            return Check("device", False, f"{name} computes wrong numbers", cure)
    return Check("device", True, f"{', '.join(found)}; {os.cpu_count()} CPU cores", cure)


def _data() -> Check:
    try:
        from .data import SOURCES, data_dir, member

        for name, source in SOURCES.items():
            for file in source.files:
                member(name, file)
    except (ValueError, OSError, ImportError) as error:
        return Check("data", False, str(error), "Run `transformer-lab data` (needs the network).")
    return Check("data", True, f"{', '.join(SOURCES)} in {data_dir()}, every hash right")


def _room() -> Check:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    return Check(
        "disk",
        free > 1,
        f"{free:.1f} GiB free here",
        "Free some space: building the book and a few runs take up to 1 GiB.",
    )


def _models() -> Check:
    cure = "Restore the folder transformer_lab/pretrained: install the package again."
    try:
        from . import pretrained

        said = []
        for name in pretrained.available():
            model = pretrained.load(name)
            if isinstance(model, pretrained.Writer):
                said.append(f"{name} continues 'To be' with {model.write('To be', 12)!r}")
            else:
                phones = " ".join(model.pronounce("transformer"))
                said.append(f"{name} says transformer as {phones}")
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        return Check("models", False, str(error), cure)
    return Check("models", bool(said), "; ".join(said) or "none are there", cure)
