"""Copies of the notebooks for a class: `python book/copies.py` (or `make copies`).

Solutions stand once, folded on the page of a chapter, in cells that name their exercise
(``:exercise: softmax.stable``). The student's copy is the notebook as it is, without any of them;
in the teacher's copy each follows the cell in which its exercise is checked.
"""

from __future__ import annotations

import copy
import re
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "book" / "_ext")]

from runner import read_page  # noqa: E402 - found by the line above
from shared_cache import Page  # noqa: E402

SYNTAX = frozenset({"amsmath", "colon_fence", "dollarmath"})
CHECKED = re.compile(r'^check\("([\w.]+)"', re.M)


def solutions(page: Path) -> dict[str, str]:
    """The solutions that a chapter's page holds, by exercise."""
    told = read_page(Page(page.stem, page), SYNTAX)
    cells = told.cells if told is not None else []
    return {c.metadata["exercise"]: c.source for c in cells if "exercise" in c.metadata}


def student(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook without outputs; it holds no solution but the worked example."""
    made = copy.deepcopy(notebook)
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return made


def teacher(notebook: nbformat.NotebookNode, solved: dict[str, str]) -> nbformat.NotebookNode:
    """The same with each solution after the cell that checks its exercise.

    Raises ``ValueError`` if a solution belongs to no cell of the notebook.
    """
    made = student(notebook)
    cells, left = [], dict(solved)
    for cell in made.cells:
        cells.append(cell)
        found = CHECKED.findall(cell.source) if cell.cell_type == "code" else []
        for id in found:
            if id in left:
                number = f"solution-{len(cells)}"
                says = f"**Solution** (`{id}`)"
                title = nbformat.v4.new_markdown_cell(says, id=f"{number}-title")
                cells += [title, nbformat.v4.new_code_cell(left.pop(id), id=number)]
    if left:
        raise ValueError(
            f"The page has solutions that the notebook has no exercise for: {', '.join(left)}; "
            "name them alike in both."
        )
    made.cells = cells
    return made


def main(out: Path = ROOT / "_build" / "copies") -> int:
    """Write both copies of every notebook; say where they are."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        page = ROOT / "book" / f"{path.stem}.md"
        for kind, made in (
            ("student", student(notebook)),
            ("teacher", teacher(notebook, solutions(page))),
        ):
            (out / kind).mkdir(parents=True, exist_ok=True)
            nbformat.write(made, out / kind / path.name)
    print(f"For students: {out / 'student'}\nFor teachers: {out / 'teacher'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
