r"""Is a derivation written so that it means one thing? Looked at before anything is computed.

One name is one thing, real, and always with the same number of indices; every free index has a
range; a definition speaks of nothing that is not given and does not come back to itself; nothing is
differentiated by what a definition already says. Each rule has its sentence: `ValueError`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.matrices.expressions.diagonal import DiagMatrix
from sympy.matrices.expressions.hadamard import HadamardProduct

from .core import Derivation
from .explicit import sizes_of
from .forms import SymmetricBase, Unknown

SCALARS = (sp.Add, sp.Mul, sp.Pow, sp.Sum, sp.Derivative, sp.KroneckerDelta, sp.Indexed, sp.Symbol)
MATRICES = (sp.MatAdd, sp.MatMul, sp.Transpose, sp.MatrixSymbol, DiagMatrix, HadamardProduct)
FUNCTIONS_WITHOUT_RULE = (sp.Piecewise, sp.DiracDelta, sp.Heaviside, AppliedUndef, Unknown)


class DoesNotFit(ValueError):
    """A matrix has another shape than its place."""


def check_given(derivation: Derivation) -> None:
    """Check names, definitions and ranges. Raises ``ValueError`` that says what to change."""
    _one_thing_each(derivation)
    defined = _definitions_apart(derivation)
    sizes = sizes_of(derivation)
    for d in derivation.definitions:
        what = f"the definition of {d.name}"
        check_line(d.body, derivation, (*sizes, *d.indices), what)
    for index, upto in derivation.ranges:
        if index in sizes or str(index) in defined:
            raise ValueError(
                f"{derivation.label}: {index} is a free index, up to {upto}, and also a size or "
                "a defined letter; take another letter."
            )
    clash = {str(s) for s in sizes} & set(defined)
    if clash:
        raise ValueError(
            f"{derivation.label}: {', '.join(sorted(clash))} is a size and is defined as something "
            "else; take another letter."
        )


def check_line(
    expr: sp.Basic, derivation: Derivation, also: tuple[sp.Symbol, ...], what: str = "the line"
) -> None:
    """Check one line; ``also``: sizes, and indices that it may use besides the free ones.

    Raises ``ValueError``, and ``DoesNotFit`` for a matrix of another shape.
    """
    where = f"{derivation.label}, {what} {expr}"
    if getattr(expr, "is_Matrix", False):
        _shape_fits(expr, derivation, where)
    known = {i for i, _ in derivation.ranges} | set(also)
    for node, bound in _nodes(expr, frozenset()):
        if not _has_rule(node):
            raise ValueError(
                f"{where}: there is no rule for {type(node).__name__} here; write it with sums, "
                "deltas, powers and exponentials."
            )
        for index in _indices(node):
            strange = index.free_symbols - known - bound
            if strange:
                raise ValueError(
                    f"{where}: how far {', '.join(sorted(map(str, strange)))} runs is not known; "
                    "bind it by a sum or name it under `ranges`."
                )
        if isinstance(node, sp.Derivative):
            _may_differentiate(node, derivation, where)


def _nodes(
    expr: sp.Basic, bound: frozenset[sp.Symbol]
) -> Iterator[tuple[sp.Basic, frozenset[sp.Symbol]]]:
    """Every part of an expression, with the indices that are bound there."""
    yield expr, bound
    if isinstance(expr, (sp.Indexed, sp.MatrixSymbol)):
        return
    if isinstance(expr, sp.Sum):
        inner = bound | {var for var, _, _ in expr.limits}
        yield from _nodes(expr.function, inner)
        for _, low, high in expr.limits:
            yield from _nodes(low, inner)
            yield from _nodes(high, inner)
        return
    if isinstance(expr, sp.Derivative):
        for part in (expr.expr, *expr.variables):
            yield from _nodes(part, bound)
        return
    for part in expr.args:
        yield from _nodes(part, bound)


def _has_rule(node: sp.Basic) -> bool:
    if isinstance(node, (*SCALARS, *MATRICES)):
        return not (isinstance(node, sp.KroneckerDelta) and len(node.args) != 2)
    if isinstance(node, sp.Function):
        return not isinstance(node, FUNCTIONS_WITHOUT_RULE)
    return isinstance(node, sp.Expr) and bool(node.is_number)


def _indices(node: sp.Basic) -> tuple[sp.Expr, ...]:
    if isinstance(node, sp.Indexed):
        return node.indices
    if isinstance(node, sp.KroneckerDelta):
        return node.args
    if isinstance(node, sp.Sum):
        return tuple(sp.sympify(end) for _, low, high in node.limits for end in (low, high))
    return ()


def _shape_fits(expr: sp.MatrixExpr, derivation: Derivation, where: str) -> None:
    """The parts of a matrix fit each other, and the whole fits the free indices."""
    for node, _ in _nodes(expr, frozenset()):
        shapes = [a.shape for a in node.args if getattr(a, "is_Matrix", False)]
        if isinstance(node, sp.MatMul):
            pairs = [(a[1], b[0]) for a, b in itertools.pairwise(shapes)]
        elif isinstance(node, (sp.MatAdd, HadamardProduct)):
            pairs = [(shapes[0], other) for other in shapes[1:]]
        else:
            continue
        if any(x != y for x, y in pairs):
            raise DoesNotFit(f"{where}: matrices of {_shapes(shapes)} do not fit in {node}")
    sizes = [upto for _, upto in derivation.ranges]
    shape = [s for s in expr.shape if len(sizes) != 1 or s != 1] or [sp.S.One]
    if shape != sizes:
        expected = _shapes([sizes]) if len(sizes) == 2 else " and ".join(map(str, sizes))
        raise DoesNotFit(
            f"{where}: this matrix is {_shapes([expr.shape])}, but the free indices run up to "
            f"{expected or 'nothing'}"
        )


def _shapes(shapes: list) -> str:
    return ", ".join(" × ".join(map(str, shape)) for shape in shapes)


def _may_differentiate(node: sp.Derivative, derivation: Derivation, where: str) -> None:
    defined = {d.name for d in derivation.definitions}
    for x in node.variables:
        name = str(x.base) if isinstance(x, sp.Indexed) else str(x)
        symmetric = isinstance(x, sp.Indexed) and isinstance(x.base, SymmetricBase)
        if name in defined or symmetric or x.is_integer:
            reason = (
                "is defined by other letters" if name in defined
                else "is symmetric: two entries move at once" if symmetric
                else "is a whole number"
            )
            raise ValueError(
                f"{where}: a derivative by {x} has no meaning here, since {name} {reason}; "
                "differentiate by what is free to move."
            )


def _one_thing_each(derivation: Derivation) -> None:
    """One name, one object, real; an array always with the same number of indices."""
    things: dict[str, sp.Basic] = {}
    axes: dict[str, int] = {}
    wholes: dict[str, sp.MatrixSymbol] = {}
    for expr in everything(derivation):
        bound = {var for s in expr.atoms(sp.Sum) for var, _, _ in s.limits}
        labels = {e.base.label for e in expr.atoms(sp.Indexed)}
        symbols = {s for s in expr.atoms(sp.Symbol) if not isinstance(s, sp.Dummy)}
        for thing in (expr.atoms(sp.IndexedBase) | symbols) - bound - labels:
            first = things.setdefault(str(thing), thing)
            if first != thing or not (thing.is_extended_real or isinstance(thing, sp.IndexedBase)):
                raise ValueError(
                    f"{derivation.label}: {thing} is two things, {_kind(first)} and "
                    f"{_kind(thing)}; one name stands for one real thing."
                    if first != thing
                    else f"{derivation.label}: {thing} is not known to be real; make it with "
                    "real=True or positive=True."
                )
        for m in expr.atoms(sp.MatrixSymbol):
            if wholes.setdefault(m.name, m) != m:
                raise ValueError(
                    f"{derivation.label}: {m.name} is {_shapes([wholes[m.name].shape, m.shape])}; "
                    "one matrix has one shape."
                )
        shapes = [(str(e.base), len(e.indices)) for e in expr.atoms(sp.Indexed)]
        shapes += [(m.name, 1 if 1 in m.shape else 2) for m in expr.atoms(sp.MatrixSymbol)]
        for name, count in shapes:
            if axes.setdefault(name, count) != count:
                raise ValueError(
                    f"{derivation.label}: {name} has {axes[name]} indices in one place and "
                    f"{count} in another; one array has one shape."
                )


def _kind(thing: sp.Basic) -> str:
    if isinstance(thing, sp.IndexedBase):
        return f"an array ({type(thing).__name__})"
    supposed = [k for k, v in thing._assumptions_orig.items() if v]
    return f"a symbol ({', '.join(supposed) or 'nothing assumed'})"


def _definitions_apart(derivation: Derivation) -> list[str]:
    """Each letter defined once, by others only. Returns the names that are defined."""
    names = [d.name for d in derivation.definitions]
    uses = {d.name: _names(d.body) & set(names) for d in derivation.definitions}
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{derivation.label}: {name} is defined twice; say one thing of it.")
        reached, ahead = set(), set(uses[name])
        while ahead:
            reached |= ahead
            ahead = set().union(*(uses[a] for a in ahead)) - reached
        if name in reached:
            raise ValueError(
                f"{derivation.label}: the definition of {name} comes back to {name}; define it by "
                "other letters."
            )
    return names


def _names(expr: sp.Basic) -> set[str]:
    return {str(x) for x in expr.atoms(sp.IndexedBase, sp.Symbol)}


def everything(derivation: Derivation) -> tuple[sp.Basic, ...]:
    """All expressions of a derivation: lines, slacks, heads and bodies, ranges."""
    given = (x for d in derivation.definitions for x in (d.head, d.body))
    slacks = (s.slack for s in derivation.steps if s.slack is not None)
    ranges = (x for pair in derivation.ranges for x in pair)
    return (*derivation.lines, *slacks, *given, *(sp.sympify(x) for x in ranges))
