r"""Which function of the package is which equation: read from the sources, importing nothing.

A docstring that has a line ``Equation: eq-softmax-jacobian`` (or several labels, with commas)
says that its function computes what stands behind that label.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
LINE = re.compile(r"^\s*Equations?:\s*(eq-[\w-]+(?:\s*,\s*eq-[\w-]+)*)\.?\s*$", re.MULTILINE)


def labels_in_code(package: Path = PACKAGE) -> dict[str, list[str]]:
    """Every label that a docstring names, with the dotted names that name it, sorted.

    ``package`` is the folder of a package; names begin with that folder's name. Methods are
    named with their class (``transformer_lab.norms.LayerNorm.forward``).
    """
    found: dict[str, list[str]] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        for name, label in _named(tree, module):
            found.setdefault(label, []).append(name)
    return {label: sorted(set(names)) for label, names in sorted(found.items())}


def functions_of(label: str, package: Path = PACKAGE) -> list[str]:
    """The functions, methods and classes whose docstring says ``Equation: label``; maybe none.

    Reads every file of the package, which takes about a second; who needs many labels asks
    ``labels_in_code`` once.
    """
    return labels_in_code(package).get(label, [])


def _named(tree: ast.AST, prefix: str) -> list[tuple[str, str]]:
    """Pairs (dotted name, label) of what is defined in a module or class."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{prefix}.{node.name}"
            for labels in LINE.findall(ast.get_docstring(node) or ""):
                found += [(name, label.strip()) for label in labels.split(",")]
            if isinstance(node, ast.ClassDef):
                found += _named(node, name)
    return found
