r"""Names and where they hold: bound indices made fresh, definitions put in without capture.

The index of a sum holds inside that sum only. A body that is put in for a defined letter may speak
of the derivation's own free indices; these never meet the bound ones of the place where it is put.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from .core import Definition


def fresh(expr: sp.Expr) -> sp.Expr:
    """The same expression with bound indices that occur nowhere else."""
    if not expr.args or isinstance(expr, (sp.Indexed, sp.IndexedBase)):
        return expr
    if isinstance(expr, sp.Sum):
        return _fresh_sum(expr)
    if isinstance(expr, sp.Derivative):
        return sp.Derivative(fresh(expr.expr), *expr.variables, evaluate=False)
    args = [fresh(a) for a in expr.args]
    return expr if all(a is b for a, b in zip(args, expr.args, strict=True)) else expr.func(*args)


def _fresh_sum(expr: sp.Sum) -> sp.Sum:
    """Limits from the outermost, the last, to the innermost: an end may name outer indices."""
    new: dict[sp.Symbol, sp.Dummy] = {}
    limits = []
    for var, low, high in reversed(expr.limits):
        ends = (fresh(sp.sympify(end)).xreplace(new) for end in (low, high))
        dummy = sp.Dummy(var.name, integer=True, positive=True)
        limits.append((dummy, *ends))
        new = new | {var: dummy}
    return sp.Sum(fresh(expr.function).xreplace(new), *reversed(limits))


def unfold(expr: sp.Expr, definitions: Sequence[Definition]) -> sp.Expr:
    """Put bodies for what is defined, and for what is defined in them."""
    by_name = {d.name: d for d in definitions}
    return _unfold(fresh(expr), by_name) if by_name else expr


def _unfold(expr: sp.Expr, by_name: dict[str, Definition]) -> sp.Expr:
    if isinstance(expr, sp.Indexed) and str(expr.base) in by_name:
        definition = by_name[str(expr.base)]
        at = dict(zip(definition.indices, expr.indices, strict=True))
        return _unfold(fresh(definition.body).xreplace(at), by_name)
    if isinstance(expr, sp.Symbol) and str(expr) in by_name:
        return _unfold(fresh(by_name[str(expr)].body), by_name)
    if not expr.args or isinstance(expr, (sp.Indexed, sp.IndexedBase)):
        return expr
    if isinstance(expr, sp.Derivative):
        return sp.Derivative(_unfold(expr.expr, by_name), *expr.variables, evaluate=False)
    if isinstance(expr, sp.Sum):
        return sp.Sum(_unfold(expr.function, by_name), *expr.limits)
    return expr.func(*(_unfold(a, by_name) for a in expr.args))
