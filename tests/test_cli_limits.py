"""Wishes beyond what a computer can give: each ends in a sentence."""

from __future__ import annotations

import os

import numpy as np
import pytest
from typer.testing import CliRunner

from transformer_lab import plots
from transformer_lab.cli import _sentence, app, shared

pytestmark = pytest.mark.plain


def test_a_full_memory_is_told_however_torch_says_it():
    for error in (
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes"),
    ):
        assert "smaller --batch-size or --beam" in (_sentence(error) or "")
    assert _sentence(RuntimeError("shapes differ")) is None


def test_more_threads_than_cores_are_refused():
    cores = os.cpu_count() or 1
    with pytest.raises(ValueError, match=f"cores, {cores}, but got --threads {cores + 1};"):
        shared.set_up(cores + 1)


def test_a_beam_has_an_upper_limit():
    result = CliRunner().invoke(app, ["generate", "cat", "--beam", "1001"])
    assert "1 to 1000 wide, but got 1001" in str(result.exception)


def test_a_pictures_name_is_checked_before_anything_is_computed(tmp_path):
    folder = tmp_path / "d.png"
    folder.mkdir()
    for name, rule in ((tmp_path / "x.bmp", "must end in one of"), (folder, "is a folder")):
        result = CliRunner().invoke(app, ["attention", "cat", "--out", str(name)])
        assert rule in str(result.exception) and "looks at" not in result.output


def test_symbols_the_font_lacks_are_told_and_folders_are_made(tmp_path):
    weights = np.array([[1.0]])
    assert plots.save_map(tmp_path / "new" / "a.png", weights, ["A"], ["b"])
    assert not plots.save_map(tmp_path / "b.png", weights, ["\U0001f6f8"], ["b"])
    assert (tmp_path / "new" / "a.png").stat().st_size > 1000
