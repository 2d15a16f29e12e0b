"""Wishes beyond what a computer can give: each ends in a sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from transformer_lab import plots, pretrained, runs
from transformer_lab.cli import _sentence, app
from transformer_lab.decode import beam
from transformer_lab.tasks import g2p

pytestmark = pytest.mark.plain


def test_a_full_memory_is_told_however_torch_says_it():
    for error in (
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes"),
    ):
        assert "smaller --batch-size or --beam" in (_sentence(error) or "")
    assert _sentence(RuntimeError("shapes differ")) is None


def test_a_wide_beam_takes_fewer_words_at_a_time(monkeypatch):
    speaker = pretrained.load("g2p-class")
    rows = []

    def counted(model, ids_BS, width):
        rows.append(len(ids_BS) * width)
        return beam(model, ids_BS, width)

    monkeypatch.setattr(g2p, "beam", counted)
    words = ["cat", "dog", "bird"] * 30
    said = g2p.transcribe(speaker.model, words, speaker.source, speaker.target, width=100)
    assert max(rows) == 1000 and sum(rows) == 90 * 100  # 100,000 pairs of hypotheses
    assert said[:3] == said[3:6] == [speaker.pronounce(word, 100) for word in words[:3]]


def test_a_run_from_a_larger_computer_goes_on_with_the_cores_there_are(tmp_path):
    text = tmp_path / "mine.txt"
    text.write_text("to be or not to be that is the question\n" * 50, encoding="utf-8")
    run = runs.new_lm(tmp_path / "run", "test", {"steps": 2}, text)
    runs.perform(run, "cpu")
    config = json.loads((run.folder / "config.json").read_text(encoding="utf-8"))
    config["machine"]["threads"] = 10_000
    (run.folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    result = CliRunner().invoke(app, ["train", "lm", "--resume", str(run.folder)])
    assert result.exit_code == 0, result.exception
    torch.set_num_threads(1)


def test_symbols_the_font_lacks_are_told_and_folders_are_made(tmp_path):
    weights = np.array([[1.0]])
    assert plots.save_map(tmp_path / "new" / "a.png", weights, ["A"], ["b"])
    assert not plots.save_map(tmp_path / "b.png", weights, ["\U0001f6f8"], ["b"])
    assert (tmp_path / "new" / "a.png").stat().st_size > 1000
