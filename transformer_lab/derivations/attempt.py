r"""A reader's line in place of a step: taken as it is meant, and checked in limited time.

A reader types ``sp.Symbol("g")`` or ``sp.IndexedBase("z")``; the derivation's own letters carry
assumptions (real, positive, random). Letters are told by their names.
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp
from sympy.core.function import AppliedUndef

from .core import EVALUATED, Derivation, Grade
from .forms import E, Var
from .limit import time_limit
from .verify import GradeNotReached, check_step
from .written import everything


def try_step(
    derivation: Derivation, number: int, expression: sp.Basic, seconds: float = 10
) -> Grade:
    """Put a reader's line in place of step ``number`` and check it against the line before.

    Any form that equals the line before under what is given is right; where the step is an
    inequality, any form that equals the step. Returns the grade reached: the one that the step
    declares, or EVALUATED if fifty digits agree but no proof was found. Raises ``FalseStep`` with
    the smallest counterexample found, ``TimeoutError`` after ``seconds``, ``ValueError`` for a
    letter that stands for nothing here, a form without a rule, or a step that does not exist.
    """
    if not 1 <= number <= len(derivation.steps):
        raise ValueError(
            f"{derivation.label} has steps 1 to {len(derivation.steps)}, but you named {number}."
        )
    step = derivation.steps[number - 1]
    with time_limit(seconds):
        line = _as_meant(expression, derivation)
        if step.relation == "=":
            before, uses = derivation.lines[number - 1], (a.name for a in derivation.assumptions)
        else:
            before, uses = step.expression, step.uses
        tried = replace(
            step,
            expression=line,
            uses=tuple(uses),
            relation="=",
            slack=None,
            tex=None,
            reading=None,
        )
        try:
            return check_step(derivation, before, tried)
        except GradeNotReached:
            return EVALUATED


def _as_meant(expression: object, derivation: Derivation) -> sp.Basic:
    """The same line in the derivation's own letters. Raises ``ValueError`` for a strange one."""
    if isinstance(expression, str) or isinstance(expression, bool):
        raise ValueError(
            f"A line is an expression of sympy, but you gave {expression!r}; write it with the "
            f"letters of {derivation.label}, without quotation marks."
        )
    try:
        line = sp.sympify(expression)
    except sp.SympifyError:
        line = None
    if not isinstance(line, (sp.Expr, sp.MatrixExpr)) or line.has(sp.nan, sp.zoo, sp.oo):
        raise ValueError(
            f"A line is an expression with a value, but you gave {expression!r}, a "
            f"{type(expression).__name__}; give one side only, not an equation."
        )
    return _Letters(derivation)(line)


class _Letters:
    """The derivation's letters by name: arrays, matrices, and the rest."""

    def __init__(self, derivation: Derivation) -> None:
        self.label, exprs = derivation.label, everything(derivation)
        entries = {e for x in exprs for e in x.atoms(sp.Indexed)}
        self.arrays = {str(e.base): (e.base, len(e.indices)) for e in entries}
        self.matrices = {m.name: m for x in exprs for m in x.atoms(sp.MatrixSymbol)}
        free = {s for x in exprs for s in x.free_symbols if s.is_Symbol}
        self.symbols = {str(s): s for s in free - {e.base.label for e in entries}}

    def __call__(self, expr: sp.Basic, bound: tuple[tuple[sp.Symbol, sp.Symbol], ...] = ()):
        """``bound``: the reader's index -> ours, the innermost last."""
        if isinstance(expr, sp.Symbol):
            return self._symbol(expr, bound)
        if isinstance(expr, sp.Indexed):
            return self._entry(expr, bound)
        if isinstance(expr, sp.MatrixSymbol):
            return self._matrix(expr, bound)
        if isinstance(expr, sp.IndexedBase):
            raise ValueError(f"{expr} has entries; say which one you mean, e.g. {expr}[1].")
        if not expr.args:
            return expr
        if isinstance(expr, sp.Sum):
            return self._sum(expr, bound)
        if isinstance(expr, sp.Derivative):
            parts = [self(x, bound) for x in (expr.expr, *expr.variables)]
            return sp.Derivative(*parts, evaluate=False)
        args = [self(a, bound) for a in expr.args]
        if isinstance(expr, AppliedUndef):
            ours = {"E": E, "Var": Var}.get(str(expr.func))
            if ours is None or len(args) != 1:
                raise ValueError(
                    f"{expr.func} is no function here; {self.label} knows sums, powers, "
                    "exponentials, deltas and E."
                )
            return ours(*args)
        return expr.func(*args)

    def _symbol(self, symbol: sp.Symbol, bound: tuple) -> sp.Symbol:
        for theirs, ours in reversed(bound):
            if theirs == symbol:
                return ours
        if str(symbol) in self.symbols:
            return self.symbols[str(symbol)]
        if str(symbol) in self.arrays:
            raise ValueError(f"{symbol} has entries; say which one you mean, e.g. {symbol}[i].")
        raise self._strange(symbol)

    def _entry(self, expr: sp.Indexed, bound: tuple) -> sp.Indexed:
        if str(expr.base) not in self.arrays:
            raise self._strange(expr.base)
        base, count = self.arrays[str(expr.base)]
        if len(expr.indices) != count:
            raise ValueError(
                f"{base} carries {count} ind{'ex' if count == 1 else 'ices'} here, but you wrote "
                f"{expr} with {len(expr.indices)}."
            )
        return base[tuple(self(sp.sympify(i), bound) for i in expr.indices)]

    def _matrix(self, expr: sp.MatrixSymbol, bound: tuple) -> sp.MatrixSymbol:
        ours = self.matrices.get(expr.name)
        if ours is None and expr.name not in self.arrays:
            raise self._strange(expr.name)
        shape = tuple(self(sp.sympify(s), bound) for s in expr.shape)
        if ours is not None and shape != ours.shape:
            raise ValueError(
                f"{expr.name} is {ours.shape[0]} × {ours.shape[1]} here, but you made it "
                f"{shape[0]} × {shape[1]}."
            )
        return sp.MatrixSymbol(expr.name, *shape)

    def _sum(self, expr: sp.Sum, bound: tuple) -> sp.Sum:
        limits = []
        for limit in reversed(expr.limits):
            if len(limit) != 3:
                raise ValueError(f"Say from where to where {limit[0]} runs in {expr}.")
            var, low, high = limit
            ends = (self(low, bound), self(high, bound))
            index = sp.Symbol(var.name, integer=True, positive=True)
            limits.append((index, *ends))
            bound = (*bound, (var, index))
        return sp.Sum(self(expr.function, bound), *reversed(limits))

    def _strange(self, letter: object) -> ValueError:
        return ValueError(f"Nothing here is called {letter}; use the letters of {self.label}.")
