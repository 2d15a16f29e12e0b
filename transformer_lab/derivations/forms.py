r"""The words in which derivations are written: arrays, sums, expectations, whole matrices.

sympy reorders what it is given; ``plus`` and ``times`` keep the order in which a reader should
see it. An entry is counted from 1. A whole matrix is known by the same letter as its entries:
``entry(A * V, t, v)`` is ``Sum(A[t, s] * V[s, v], (s, 1, m))``.
"""

from __future__ import annotations

import sympy as sp
from sympy.matrices.expressions.diagonal import DiagMatrix
from sympy.matrices.expressions.hadamard import HadamardProduct


class RandomBase(sp.IndexedBase):
    """An array of random entries: the expectation looks at these and at nothing else."""


class SymmetricBase(sp.IndexedBase):
    """An array of two indices whose order does not matter, such as a covariance."""


class E(sp.Function):
    r"""The expectation :math:`\mathbb{E}[x]`, left as it is until the rules are applied."""

    nargs = 1
    is_real = True


class Var(sp.Function):
    r"""The variance :math:`\operatorname{Var}(x) = \mathbb{E}[x^2] - \mathbb{E}[x]^2`."""

    nargs = 1
    is_real = True


class Unknown(sp.Function):
    """An expectation of which nothing is known, once sizes are explicit."""

    nargs = 1
    is_real = True


def index(names: str) -> tuple[sp.Symbol, ...]:
    """Index symbols, e.g. ``i, j, l = index("i j l")``."""
    return tuple(sp.symbols(names, integer=True, positive=True, seq=True))


def size(names: str) -> tuple[sp.Symbol, ...]:
    """Sizes: whole numbers from 1 on."""
    return tuple(sp.symbols(names, integer=True, positive=True, seq=True))


def array(name: str, *, positive: bool = False, random: bool = False) -> sp.IndexedBase:
    """An array of real numbers, indexed with brackets; ``name`` is its TeX."""
    kind = RandomBase if random else sp.IndexedBase
    return kind(name, real=True, positive=True) if positive else kind(name, real=True)


def symmetric(name: str) -> sp.IndexedBase:
    """A symmetric matrix of real numbers."""
    return SymmetricBase(name, real=True)


def in_order(expr: sp.Expr) -> sp.Expr:
    """The same expression with the indices of symmetric arrays in one order."""
    return expr.replace(
        lambda e: isinstance(e, sp.Indexed) and isinstance(e.base, SymmetricBase),
        lambda e: e.base[tuple(sorted(e.indices, key=str))],
    )


def total(body: sp.Expr | int, *limits: tuple[sp.Symbol, sp.Expr]) -> sp.Expr:
    """The sum of ``body`` for each index from 1 to its size, outermost first."""
    for var, upto in reversed(limits):
        body = sp.Sum(body, (var, 1, upto))
    return body


def plus(*terms: sp.Expr | int) -> sp.Expr:
    """A sum that is shown in this order."""
    return sp.Add(*(sp.sympify(t) for t in terms), evaluate=False)


def minus(first: sp.Expr | int, second: sp.Expr | int) -> sp.Expr:
    """A difference that is shown in this order."""
    second = sp.sympify(second)
    return plus(first, -second if second.is_number else times(-1, second))


def times(*factors: sp.Expr | int) -> sp.Expr:
    """A product that is shown in this order."""
    return sp.Mul(*(sp.sympify(f) for f in factors), evaluate=False)


def over(above: sp.Expr | int, below: sp.Expr | int) -> sp.Expr:
    """A fraction that is shown as one."""
    inverse = sp.Pow(sp.sympify(below), -1, evaluate=False)
    return inverse if above == 1 else sp.Mul(sp.sympify(above), inverse, evaluate=False)


def delta(i: sp.Expr, j: sp.Expr) -> sp.Expr:
    r"""Kronecker's delta: 1 where i = j, else 0."""
    return sp.KroneckerDelta(i, j)


def derivative(f: sp.Expr, x: sp.Expr) -> sp.Expr:
    """The derivative of f by x, not carried out."""
    return sp.Derivative(f, x, evaluate=False)


def matrix(name: str, rows: sp.Expr, columns: sp.Expr) -> sp.MatrixSymbol:
    """A matrix as a whole; its entries are those of ``array(name)``."""
    return sp.MatrixSymbol(name, rows, columns)


def entry(expr: sp.MatrixExpr, row: sp.Expr, column: sp.Expr) -> sp.Expr:
    """One entry of a matrix expression, with sums counted from 1.

    A matrix of one row or one column is a vector: its entries carry one index. Raises
    ``ValueError`` for a form of matrix that has no rule here.
    """
    if isinstance(expr, sp.MatrixSymbol):
        base = sp.IndexedBase(expr.name, real=True)
        if 1 in expr.shape:
            return base[column] if expr.shape[0] == 1 else base[row]
        return base[row, column]
    if isinstance(expr, sp.MatAdd):
        return sp.Add(*(entry(part, row, column) for part in expr.args))
    if isinstance(expr, sp.Transpose):
        return entry(expr.arg, column, row)
    if isinstance(expr, DiagMatrix):
        vector = expr.args[0]
        at = (1, row) if vector.shape[0] == 1 else (row, 1)
        return sp.KroneckerDelta(row, column) * entry(vector, *at)
    if isinstance(expr, HadamardProduct):
        return sp.Mul(*(entry(part, row, column) for part in expr.args))
    if isinstance(expr, sp.MatMul):
        scalar, matrices = expr.as_coeff_matrices()
        first, rest = matrices[0], matrices[1:]
        if not rest:
            return scalar * entry(first, row, column)
        inner = first.shape[1]
        others = rest[0] if len(rest) == 1 else sp.MatMul(*rest)
        if inner == 1:
            return scalar * entry(first, row, 1) * entry(others, 1, column)
        var = sp.Dummy("l", integer=True, positive=True)
        body = entry(first, row, var) * entry(others, var, column)
        return scalar * sp.Sum(body, (var, 1, inner))
    raise ValueError(
        f"No rule for the entries of {type(expr).__name__} {expr}; add one to entry()."
    )
