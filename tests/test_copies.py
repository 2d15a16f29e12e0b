"""The notebooks of chapters with exercises, and their copies for a class."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import nbformat
import pytest
from repository import ROOT

sys.path.insert(0, str(ROOT / "book"))
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import copies

from transformer_lab.exercises import EXERCISES
from transformer_lab.exercises.guess import GuessExercise

pytestmark = pytest.mark.plain
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WITH_SOLUTIONS = [p for p in NOTEBOOKS if copies.solutions(ROOT / "book" / f"{p.stem}.md")]
WORKED = {"softmax.jacobian"}  # solved in the notebook itself, as the example


def source(notebook: nbformat.NotebookNode) -> str:
    return "\n".join(c.source for c in notebook.cells if c.cell_type == "code")


def ids(pattern: str, text: str) -> list[str]:
    return re.findall(pattern + r'\("([\w.]+)"', text)


@pytest.fixture(params=WITH_SOLUTIONS, ids=lambda p: p.stem)
def pair(request) -> tuple[nbformat.NotebookNode, dict[str, str]]:
    """A notebook, and the solutions on its page."""
    path = request.param
    return nbformat.read(path, 4), copies.solutions(ROOT / "book" / f"{path.stem}.md")


def test_chapter_04_is_among_them():
    assert "04-scaled-dot-product-attention" in [p.stem for p in WITH_SOLUTIONS]


def test_every_exercise_of_the_notebook_has_its_solution_and_the_other_way_round(pair):
    notebook, solved = pair
    assert set(ids("check", source(notebook))) - WORKED == set(solved)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_every_exercise_and_every_guess_of_a_chapter_is_in_its_notebook(path):
    text = source(nbformat.read(path, 4))
    here = [e for e in EXERCISES.values() if e.chapter == path.stem]
    guesses = {e.id for e in here if isinstance(e, GuessExercise)}
    assert {e.id for e in here} - guesses == set(ids("check", text))
    assert guesses == set(ids("guess", text)) == set(ids("reveal", text))
    for id in guesses:  # committed to before it is shown
        assert text.index(f'guess("{id}"') < text.index(f'reveal("{id}"')


def test_a_students_copy_holds_no_solution_and_no_output(pair):
    notebook, solved = pair
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("stream", text="seen")]
    made = copies.student(notebook)
    assert all(c.outputs == [] for c in made.cells if c.cell_type == "code")
    for body in solved.values():
        assert body not in source(made)
    assert [c.source for c in made.cells] == [c.source for c in notebook.cells]


def test_in_a_teachers_copy_each_solution_follows_its_exercise(pair):
    notebook, solved = pair
    made = copies.teacher(notebook, solved)
    nbformat.validate(made)
    assert len(made.cells) == len(notebook.cells) + 2 * len(solved)
    cells = [c.source for c in made.cells]
    for id, body in solved.items():
        at = cells.index(body)
        assert f"`{id}`" in cells[at - 1] and f'check("{id}"' in cells[at - 2]


def test_a_solution_without_an_exercise_is_refused(pair):
    notebook, solved = pair
    with pytest.raises(ValueError, match=r"no exercise for: strange\.one"):
        copies.teacher(notebook, {**solved, "strange.one": "1"})


def test_both_copies_are_written(tmp_path, capsys):
    assert copies.main(tmp_path) == 0
    told = capsys.readouterr().out
    for kind in ("student", "teacher"):
        assert str(tmp_path / kind) in told
        assert [p.name for p in sorted((tmp_path / kind).iterdir())] == [p.name for p in NOTEBOOKS]
    made = json.loads((tmp_path / "teacher" / WITH_SOLUTIONS[0].name).read_text("utf-8"))
    assert made["nbformat"] == 4


def test_a_teachers_copy_runs_and_every_check_passes(tmp_path, monkeypatch, pair):
    """Exercises only: the experiments are executed with the book."""
    _, solved = pair
    space: dict[str, object] = {}
    monkeypatch.setenv("TRANSFORMER_LAB_PROGRESS", str(tmp_path / "progress.json"))
    imports = "import math\nimport numpy as np\nimport sympy as sp\nimport torch\n"
    exec(imports + "from transformer_lab.exercises import check\n", space)
    for body in solved.values():
        exec(body, space)
    stored = json.loads(Path(tmp_path / "progress.json").read_text("utf-8"))["exercises"]
    assert {id for id, entry in stored.items() if entry["state"] == "passed"} == set(solved)
