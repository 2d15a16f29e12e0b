"""Wrong answers made by machine from right ones: one small change of the source, each in turn.

Operators, axes, constants, comparisons, another function, exchanged factors, a dropped
``keepdims``, transpose or term: whatever a tired person types. Used by the tests of the checkers.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator

SWAPS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Pow: ast.Mult,
}  # fmt: skip


NAMES = {
    "exp": "expm1", "sum": "mean", "mean": "sum", "max": "min", "min": "max", "sqrt": "square",
    "log": "log1p", "diag": "atleast_2d", "tril": "triu", "triu": "tril", "zeros": "ones",
    "ones": "zeros", "cumsum": "cumprod", "argmax": "argmin", "maximum": "minimum", "sin": "cos",
    "cos": "sin", "shape": "strides", "arange": "zeros", "abs": "negative",
}  # fmt: skip


def mutants(function: Callable) -> Iterator[tuple[str, Callable]]:
    """(what was changed, the changed function) for every place and every change."""
    tree = _tree(function)
    if tree is None:
        return
    count = len(list(_places(tree)))
    seen = {ast.unparse(tree)}
    for place in range(count):
        for change in range(3):
            changed = copy.deepcopy(tree)
            nodes = list(_places(changed))
            was = ast.unparse(nodes[place])[:20]
            said = _change(nodes[place], change)
            if said is None or ast.unparse(changed) in seen:
                continue
            seen.add(ast.unparse(changed))
            made = _compiled(changed, function)
            if made is not None:
                node = nodes[place]
                at = f"{node.lineno}:{node.col_offset}-{node.end_col_offset}"
                yield f"line {at}, {said}: {was} -> {ast.unparse(nodes[place])[:20]}", made


def _tree(function: Callable) -> ast.Module | None:
    """The function's source as a tree; a lambda becomes a function."""
    source = textwrap.dedent(inspect.getsource(function))
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    found = next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)), None)
    if found is None:
        return None
    found.decorator_list, found.name = [], "answer"
    found.body = [n for n in found.body if not _is_text(n)]
    return ast.Module([found], [])


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _places(tree: ast.Module) -> Iterator[ast.AST]:
    return (n for n in ast.walk(tree) if _change(n, 0, look=True))


def _change(node: ast.AST, number: int, look: bool = False) -> str | None:
    """Make change ``number`` at this node; what it was, or None if there is none."""
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        if look:
            return "place"
        if number == 0:
            node.op = SWAPS[type(node.op)]()
            return "operator"
        keep = node.left if number == 1 else node.right
        node.left, node.op, node.right = keep, ast.Mult(), ast.Constant(1)
        return "term dropped"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        if not look and number == 0:
            node.left, node.right = node.right, node.left
            return "factors exchanged"
        return "place" if look else None
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        if not look and number == 0:
            node.attr = NAMES[node.attr]
            return "another function"
        return "place" if look else None
    if isinstance(node, ast.Call) and len(node.args) == 2 and not _either_order(node):
        if not look and number == 0:
            node.args = node.args[::-1]
            return "arguments exchanged"
        return "place" if look else None
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        if not look and number == 0:
            node.ops[0] = SWAPS[type(node.ops[0])]()
            return "comparison"
        return "place" if look else None
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        if look:
            return "place"
        if number < 2:
            node.value += (1, -1)[number]
            return "constant"
        return None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        if not look and number == 0:
            node.op = ast.UAdd()
            return "sign"
        return "place" if look else None
    if isinstance(node, ast.Call) and any(k.arg == "keepdims" for k in node.keywords):
        if not look and number == 0:
            node.keywords = [k for k in node.keywords if k.arg != "keepdims"]
            return "keepdims dropped"
        return "place" if look else None
    if isinstance(node, ast.Attribute) and node.attr == "T":
        if not look and number == 0:
            node.attr = "real"
            return "transpose dropped"
        return "place" if look else None
    return None


def _either_order(node: ast.Call) -> bool:
    """Calls whose two arguments mean the same in either order, or whose keywords say which."""
    return bool(node.keywords) or ast.unparse(node.func).split(".")[-1] in (
        "min",
        "max",
        "transpose",
    )


def _compiled(tree: ast.Module, function: Callable) -> Callable | None:
    space = dict(function.__globals__)
    closure = inspect.getclosurevars(function)
    space |= closure.nonlocals
    exec(compile(ast.fix_missing_locations(tree), "<mutant>", "exec"), space)
    return space["answer"]
