r"""Wrong lines made from right ones, to test the verifier: every one must be refused.

Each operator makes one small change at one place, at every place where it can: a sign turned, a
factor 2, an index taken for another, an exponent one higher, a term or a factor left out, rows
taken for columns. Some changes change nothing (:math:`\delta_{ij} a_i = \delta_{ij} a_j`); the
tests list those with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import sympy as sp
from sympy.matrices.expressions.diagonal import DiagMatrix
from sympy.matrices.expressions.hadamard import HadamardProduct

from .core import Definition, Derivation, Grade
from .tex import tex
from .verify import check_step


@dataclass(frozen=True)
class Mutant:
    """Step ``number`` (from 1; 0: the left side) of a derivation after ``operator`` changed it."""

    number: int
    operator: str
    expression: sp.Basic

    def __str__(self) -> str:
        return f"step {self.number}, {self.operator}: {tex(self.expression)}"


def mutants(derivation: Derivation) -> Iterator[Mutant]:
    """All mutants of all steps, and of the left side of the claim; each expression once."""
    free = tuple(i for i, _ in derivation.ranges)
    for number, line in enumerate(derivation.lines):
        for operator, changed in _each_once(line, free):
            yield Mutant(number, operator, changed)


def definition_mutants(derivation: Derivation) -> Iterator[tuple[str, str, Derivation]]:
    """(what is defined, operator, the derivation with that definition changed)."""
    for place, given in enumerate(derivation.given):
        if isinstance(given, Definition):
            for operator, body in _each_once(given.body, given.indices):
                changed = (*derivation.given[:place], replace(given, body=body))
                whole = (*changed, *derivation.given[place + 1 :])
                yield given.name, operator, replace(derivation, given=whole)


def check(derivation: Derivation, mutant: Mutant) -> Grade:
    """What the verifier says of a mutant: raises as it does, or returns the grade reached."""
    if mutant.number == 0:
        return check_step(derivation, mutant.expression, derivation.steps[0])
    bad = derivation.with_step(mutant.number, mutant.expression)
    return check_step(bad, bad.lines[mutant.number - 1], bad.steps[mutant.number - 1])


def _each_once(expr: sp.Basic, scope: tuple[sp.Symbol, ...]) -> Iterator[tuple[str, sp.Basic]]:
    seen = {sp.srepr(expr)}
    for operator, changed in _changes(expr, scope):
        if sp.srepr(changed) not in seen:
            seen.add(sp.srepr(changed))
            yield operator, changed


def _changes(expr: sp.Basic, scope: tuple[sp.Symbol, ...]) -> Iterator[tuple[str, sp.Basic]]:
    """Every change at this node, then every change below it, with the node rebuilt around it."""
    yield from _here(expr, scope)
    if isinstance(expr, (sp.Indexed, sp.MatrixSymbol, sp.KroneckerDelta)) or not expr.args:
        return
    if isinstance(expr, sp.Sum):
        inner = scope + tuple(var for var, *_ in expr.limits)
        for operator, body in _changes(expr.function, inner):
            yield operator, sp.Sum(body, *expr.limits)
        return
    if isinstance(expr, sp.Derivative):
        for operator, f in _changes(expr.expr, scope):
            yield operator, sp.Derivative(f, *expr.variables, evaluate=False)
        for operator, x in _here(expr.variables[0], scope):
            if isinstance(x, sp.Indexed):
                yield operator, sp.Derivative(expr.expr, x, evaluate=False)
        return
    for place, part in enumerate(expr.args):
        for operator, changed in _changes(part, scope):
            args = [changed if k == place else a for k, a in enumerate(expr.args)]
            rebuilt = _rebuilt(expr, args)
            if rebuilt is not None:
                yield operator, rebuilt


def _rebuilt(expr: sp.Basic, args: list) -> sp.Basic | None:
    """The node around changed parts; None where matrices no longer fit."""
    try:
        if isinstance(expr, (sp.Add, sp.Mul, sp.MatAdd)):
            return expr.func(*args, evaluate=False)
        return expr.func(*args)
    except (ValueError, TypeError):
        return None


def _here(expr: sp.Basic, scope: tuple[sp.Symbol, ...]) -> Iterator[tuple[str, sp.Basic]]:
    if isinstance(expr, sp.Indexed):
        yield from _entry(expr, scope)
    elif isinstance(expr, (sp.Add, sp.MatAdd)):
        for k, term in enumerate(expr.args):
            rest = [t for m, t in enumerate(expr.args) if m != k]
            yield "term missing", rest[0] if len(rest) == 1 else _rebuilt(expr, rest)
            yield "sign", _rebuilt(expr, [*rest[:k], -term, *rest[k:]])
    elif isinstance(expr, sp.Mul):
        yield "factor 2", sp.Mul(2, expr, evaluate=False)
        for k in range(len(expr.args)):
            rest = [f for m, f in enumerate(expr.args) if m != k]
            yield "factor missing", rest[0] if len(rest) == 1 else _rebuilt(expr, rest)
    elif isinstance(expr, sp.Pow):
        yield "exponent", sp.Pow(expr.base, expr.exp + 1, evaluate=False)
        if expr.exp == sp.Rational(1, 2) or expr.exp == -sp.Rational(1, 2):
            yield "root dropped", sp.Pow(expr.base, 2 * expr.exp, evaluate=False)
    elif isinstance(expr, sp.exp):
        yield "sign", sp.exp(-expr.args[0])
    elif isinstance(expr, sp.Symbol) and not expr.is_integer:
        yield "exponent", expr**2
    elif isinstance(expr, (sp.MatMul, HadamardProduct)):
        yield "factor 2", sp.MatMul(2, expr)
        yield "sign", sp.MatMul(-1, expr)
        yield from _orders(expr)
    elif isinstance(expr, sp.Transpose):
        yield "transpose", expr.arg
    elif isinstance(expr, (sp.MatrixSymbol, DiagMatrix)):
        yield "transpose", expr.T
        yield "factor 2", sp.MatMul(2, expr)


def _orders(expr: sp.Basic) -> Iterator[tuple[str, sp.Basic]]:
    """The product with one factor left out, where the rest still fits."""
    for k in range(len(expr.args)):
        rest = [f for m, f in enumerate(expr.args) if m != k]
        if rest and all(getattr(f, "is_Matrix", False) for f in rest):
            left = rest[0] if len(rest) == 1 else _rebuilt(expr, rest)
            if left is not None and left.shape == expr.shape:
                yield "factor missing", left


def _entry(expr: sp.Indexed, scope: tuple[sp.Symbol, ...]) -> Iterator[tuple[str, sp.Basic]]:
    for k, index in enumerate(expr.indices):
        for other in scope:
            if other != index:
                changed = tuple(other if m == k else i for m, i in enumerate(expr.indices))
                yield "index", expr.base[changed]
    if len(expr.indices) == 2:
        yield "transpose", expr.base[expr.indices[1], expr.indices[0]]
    yield "exponent", expr**2
