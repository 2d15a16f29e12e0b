"""The key of letters: complete, without doubles, and the one the package uses."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path

from transformer_lab.notation import AXES, SYMBOLS, axes_table, symbols_table

PACKAGE = Path(find_spec("transformer_lab").origin).parent
ANNOTATION = re.compile(r"(?:Float|Int|Bool)\[Tensor, \"([^\"]*)\"\]")

# Letters an annotation may use beside the axes: N = B·T tokens in one row, n = positions of a
# table, b = rows of a batch after some were chosen.
BESIDE = {"N", "n", "b"}


def letters_of(annotation: str) -> set[str]:
    """Axis letters of one annotation, without broadcasting signs and sizes in braces."""
    return {w.lstrip("#") for w in annotation.split() if w != "..." and not w.startswith("{")}


def test_axis_letters_are_capitals_and_differ():
    letters = [axis.letter for axis in AXES]
    assert all(re.fullmatch("[A-Z]", letter) for letter in letters)
    assert len(set(letters)) == len(letters)


def test_every_annotation_of_the_package_uses_the_key():
    known = {axis.letter for axis in AXES} | BESIDE
    used: set[str] = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for annotation in ANNOTATION.findall(path.read_text(encoding="utf-8")):
            assert letters_of(annotation) <= known, f"{path.name}: {annotation}"
            used |= letters_of(annotation)
    assert {"B", "T", "S", "H", "G", "K", "D", "V"} <= used  # the search found something


def test_a_suffix_says_the_same_as_its_annotation():
    """``scores_BHTS: Float[Tensor, "B H T S"]``: suffix and annotation name the same axes."""
    checked = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.arg | ast.AnnAssign) or node.annotation is None:
                continue
            name = node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)
            found = ANNOTATION.search(ast.unparse(node.annotation).replace("'", '"'))
            suffix = re.search(r"_([A-Zn]+)$", name)
            if found and suffix:
                axes = "".join(w.lstrip("#") for w in found[1].split())
                assert suffix[1].upper() == axes.upper(), f"{path.name}: {name} is {found[1]}"
                checked += 1
    assert checked > 30


def test_tables_have_a_row_for_each_entry():
    axes, symbols = axes_table().split("\n"), symbols_table().split("\n")
    assert len(axes) == 2 + len(AXES) and len(symbols) == 2 + len(SYMBOLS)
    for axis, row in zip(AXES, axes[2:], strict=True):
        assert row == f"| `{axis.letter}` | ${axis.size}$ | {axis.meaning} |"
    for symbol, row in zip(SYMBOLS, symbols[2:], strict=True):
        assert row == f"| ${symbol.tex}$ | ${symbol.space}$ | {symbol.meaning} |"
    # a bar inside a cell would open a column of its own
    assert all(row.replace(r"\mid", "").count("|") == 4 for row in axes + symbols)


def test_every_formula_closes_what_it_opens():
    for tex in [a.size for a in AXES] + [t for s in SYMBOLS for t in (s.tex, s.space)]:
        assert tex.count("{") == tex.count("}") and "$" not in tex, tex
        assert tex.count("[") + tex.count("(") == tex.count("]") + tex.count(")"), tex


def test_no_two_rows_of_the_symbol_table_are_the_same():
    assert len({(s.tex, s.space) for s in SYMBOLS}) == len(SYMBOLS)
    assert all(entry.meaning.strip() for entry in (*AXES, *SYMBOLS))
