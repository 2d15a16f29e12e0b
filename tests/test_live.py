"""The curve that grows in a notebook, and the baselines that stand in a run's curve."""

from __future__ import annotations

import json
import sys
import time

import nbformat
import pytest
from matplotlib.figure import Figure
from nbclient import NotebookClient

from transformer_lab import baselines, plots, runs
from transformer_lab.plots import live
from transformer_lab.plots.live import LiveCurve

RECORDS = [{"step": 10 * s, "loss": 4.0 / s} for s in range(1, 8)]


class Display:
    """What IPython would show, and how often each place was drawn anew."""

    def __init__(self):
        self.shown, self.updates = [], []

    def __call__(self, thing, display_id):
        assert display_id is True
        self.shown.append(thing)
        return self

    def update(self, thing):
        self.updates.append(thing)


@pytest.fixture
def notebook(monkeypatch):
    """A display, and a clock that only moves when it is told to."""
    display = Display()
    display.now = 100.0
    monkeypatch.setattr(live, "_display", lambda: display)
    monkeypatch.setattr(time, "perf_counter", lambda: display.now)
    return display


def test_one_figure_is_drawn_anew_in_place(notebook):
    curve = LiveCurve(unit="character", baselines={"guessing": 3.5})
    for record in RECORDS:
        curve(record)
        notebook.now += 2.0
    assert len(notebook.shown) == 1 and len(notebook.updates) == 6
    svg = notebook.updates[-1].svg
    assert "0.571 nats a character at step 70" in svg and "guessing" in svg
    assert "4.000 nats a character at step 10" in notebook.shown[0].svg


def test_it_is_drawn_at_most_so_often_but_at_every_judgement(notebook):
    curve = LiveCurve(every=5.0)
    for record in RECORDS[:6]:
        curve(record)
        notebook.now += 2.0
    assert len(notebook.shown) + len(notebook.updates) == 2  # at 0 and at 6 seconds
    curve({"step": 61, "loss": 0.6, "dev_loss": 0.75})
    assert "0.750 on what is held out" in notebook.updates[-1].svg
    assert len(curve.records) == 7
    curve(RECORDS[6])
    assert len(notebook.updates) == 2
    curve.draw()
    assert len(notebook.updates) == 3


def test_slow_drawing_is_done_less_often(notebook, monkeypatch):
    drawn = live.inline_svg

    def slowly(*rest):
        notebook.now += 0.5
        return drawn(*rest)

    monkeypatch.setattr(live, "inline_svg", slowly)
    curve = LiveCurve()
    curve(RECORDS[0])
    notebook.now += 9.9
    curve(RECORDS[1])
    assert not notebook.updates
    notebook.now += 0.2
    curve(RECORDS[2])
    assert len(notebook.updates) == 1


def test_a_run_that_goes_on_shows_what_was_before(notebook):
    curve = LiveCurve(earlier=RECORDS[:3])
    curve.draw()
    assert "at step 30" in notebook.shown[0].svg
    curve(RECORDS[3])
    assert [r["step"] for r in curve.records] == [10, 20, 30, 40]


def test_outside_a_notebook_nothing_is_drawn(monkeypatch):
    def never(*_):
        raise AssertionError("drawn")

    monkeypatch.setattr(live, "inline_svg", never)
    curve = LiveCurve()
    assert live._display() is None
    for record in RECORDS:
        curve(record)
    curve.draw()
    monkeypatch.setitem(sys.modules, "IPython", None)
    assert live._display() is None and len(curve.records) == 7


CELL = """
import tempfile
from pathlib import Path
from transformer_lab import runs
from transformer_lab.plots import LiveCurve
import torch
torch.set_num_threads(1)
folder = Path(tempfile.mkdtemp())
text = folder / "text.txt"
text.write_text("to be or not to be, that is the question.\\n" * 40, encoding="utf-8")
run = runs.new_lm(folder / "run", "test", {"steps": 30, "log_every": 5, "judge_every": 10}, text)
curve = LiveCurve(unit="character", every=0.01)
records = runs.perform(run, "cpu", on_record=curve)
"""


def test_in_a_real_notebook_the_last_figure_stays():
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    NotebookClient(book, timeout=120, kernel_name="python3").execute()
    shown = [o for o in book.cells[0].outputs if o.output_type == "display_data"]
    assert len(shown) == 1 and len(book.cells[0].outputs) == 1, book.cells[0].outputs
    assert "at step 30, " in shown[0].data["text/html"]
    assert shown[0].data["text/html"].count("<svg") == 1


# ---- the curve of a finished run ----

TEXT = "the quick brown fox jumps over the lazy dog.\nand then it sleeps!\n" * 23


@pytest.fixture
def drawn(monkeypatch):
    """What is put into loss.png."""
    seen = []
    real = plots.loss_curve

    def loss_curve(*rest, **named):
        seen.append(real(*rest, **named))
        return seen[-1]

    monkeypatch.setattr(runs, "loss_curve", loss_curve)
    return seen


def test_a_language_models_curve_has_its_baselines(tmp_path, monkeypatch, drawn):
    """Computed once, from both parts of the text; a run that is reopened reads them."""
    text = tmp_path / "mine.txt"
    text.write_text(TEXT, encoding="utf-8")
    asked = []

    def method(value):
        def loss(train: str, held_out: str) -> float:
            asked.append((train, held_out))
            return value

        return loss

    methods = {"5-gram": method(1.25), "bz2": method(2.5)}
    monkeypatch.setattr(baselines, "TEXT_BASELINES", methods)
    run = runs.new_lm(tmp_path / "run", "test", {"steps": 4}, text)
    runs.perform(run, "cpu")
    cut = len(TEXT) * 9 // 10
    assert asked == [(TEXT[:cut], TEXT[cut:])] * 2
    kept = json.loads((run.folder / "baselines.json").read_text(encoding="utf-8"))
    assert kept == {"5-gram": 1.25, "bz2": 2.5}
    runs.perform(runs.reopen_lm(run.folder), "cpu", resume=True)
    assert len(asked) == 2
    for axes in drawn:
        dashed = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
        assert [line.get_ydata()[0] for line in dashed] == [2.5, 1.25]
        names = [t.get_text() for t in axes.get_legend().get_texts()]
        assert names[-2:] == ["bz2: 2.500", "5-gram: 1.250"]
        assert axes.get_ylabel() == "loss (nats a character)"
    for damaged in ("{", '["bz2"]', '{"5-gram": "1", "bz2": null}', "\x00"):
        (run.folder / "baselines.json").write_text(damaged, encoding="utf-8")
        assert runs.text_baselines(run.folder, run.task.data, methods) == kept
    del asked[2:]
    methods["xz"] = method(2.25)
    runs.perform(runs.reopen_lm(run.folder), "cpu", resume=True)
    assert len(asked) == 5 and len(drawn) == 3  # another set of methods is computed anew


def test_a_pronouncing_models_curve_counts_phonemes(tmp_path, monkeypatch, drawn):
    from helpers import tiny_data

    monkeypatch.setattr(runs, "load_g2p", lambda: tiny_data(60))
    run = runs.new_g2p(tmp_path / "run", "test", {"steps": 2})
    runs.perform(run, "cpu")
    assert drawn[0].get_ylabel() == "loss (nats a phoneme)"
    assert len(drawn[0].get_legend().get_texts()) == 2
    assert not (run.folder / "baselines.json").exists()
    assert isinstance(drawn[0].figure, Figure)
