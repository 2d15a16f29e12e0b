r"""The same expressions at explicit sizes: every sum written out, every entry a symbol of its own.

``at(expr, where, known)`` with ``where = {n: 3, i: 1, j: 2}`` is a plain expression in the entries
``z[1], z[2], z[3]``. It shares no code with the normal form of `symbolic.py`, so that the two can
disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import sympy as sp

from .core import Derivation
from .expectation import expect, is_random
from .forms import E, Unknown, Var, entry, in_order
from .symbolic import Known

Where = dict[sp.Symbol, int]


def sizes_of(derivation: Derivation) -> tuple[sp.Symbol, ...]:
    """The symbolic sizes that occur: in ends of sums, ranges of free indices, shapes."""
    ends, indices = {upto for _, upto in derivation.ranges}, set()
    bodies = [*derivation.lines, *(d.body for d in derivation.definitions)]
    bodies += [s.slack for s in derivation.steps if s.slack is not None]
    for expr in bodies:
        for s in expr.atoms(sp.Sum):
            indices |= {var for var, _, _ in s.limits}
            ends |= {end for _, low, high in s.limits for end in (low, high)}
        for m in expr.atoms(sp.MatrixSymbol):
            ends |= set(m.shape)
    found = {s for end in ends for s in sp.sympify(end).free_symbols}
    return tuple(sorted(found - indices - {i for i, _ in derivation.ranges}, key=str))


def places(derivation: Derivation, largest: int) -> Iterator[Where]:
    """All sizes 1 … ``largest`` and all values of the free indices, small ones first."""
    sizes = sizes_of(derivation)
    combos = sorted(
        product(range(1, largest + 1), repeat=len(sizes)), key=lambda c: (max(c, default=0), sum(c))
    )
    for combo in combos:
        chosen = dict(zip(sizes, combo, strict=True))
        ends = [int(sp.sympify(upto).subs(chosen)) for _, upto in derivation.ranges]
        for values in product(*(range(1, end + 1) for end in ends)):
            yield chosen | {i: v for (i, _), v in zip(derivation.ranges, values, strict=True)}


def as_entry(expr: sp.Basic, derivation: Derivation) -> sp.Expr:
    """A whole matrix becomes its entry at the free indices; a scalar stays what it is."""
    if not getattr(expr, "is_Matrix", False):
        return expr
    free = [i for i, _ in derivation.ranges]
    if len(free) == 1:
        free = [free[0], sp.S.One] if expr.shape[1] == 1 else [sp.S.One, free[0]]
    arrays = {str(x): x for line in derivation.lines for x in line.atoms(sp.IndexedBase)}
    arrays |= {d.name: d.head.base for d in derivation.definitions if d.indices}
    return entry(expr, *free).replace(
        lambda x: isinstance(x, sp.Indexed) and str(x.base) in arrays,
        lambda x: arrays[str(x.base)][x.indices],
    )


def at(expr: sp.Expr, where: Where, known: Known) -> sp.Expr:
    """``expr`` with sizes and indices put in, sums and derivatives carried out.

    Raises ``ValueError`` for an index whose value is not known.
    """
    return _Explicit(known, where)(expr, where)


class _Explicit:
    """``outer`` holds the values that a definition sees, whatever is bound where it is used."""

    def __init__(self, known: Known, outer: Where) -> None:
        self.rules, self.outer = known.rules, outer
        self.bodies = {d.name: d for d in known.definitions}

    def __call__(self, expr: sp.Expr, where: Where) -> sp.Expr:
        if isinstance(expr, sp.Symbol):
            return self._symbol(expr, where)
        if isinstance(expr, sp.Indexed):
            return self._entry(expr, where)
        if not expr.args:
            return expr
        if isinstance(expr, sp.Sum):
            return sp.Add(*(self(expr.function, inner) for inner in self._runs(expr, where)))
        if isinstance(expr, sp.Derivative):
            variables = [self(v, where) for v in expr.variables]
            return sp.diff(self(expr.expr, where), *variables)
        if isinstance(expr, Var):
            x = self(expr.args[0], where)
            return self._expected(x**2) - self._expected(x) ** 2
        if isinstance(expr, E):
            return self._expected(self(expr.args[0], where))
        return expr.func(*(self(a, where) for a in expr.args))

    def _symbol(self, symbol: sp.Symbol, where: Where) -> sp.Expr:
        if symbol in where:
            return sp.Integer(where[symbol])
        definition = self.bodies.get(str(symbol))
        return symbol if definition is None else self(definition.body, self.outer)

    def _entry(self, expr: sp.Indexed, where: Where) -> sp.Expr:
        indices = tuple(self._whole(i, where) for i in expr.indices)
        definition = self.bodies.get(str(expr.base))
        if definition is None:
            return in_order(expr.base[indices])
        inner = dict(zip(definition.indices, indices, strict=True))
        return self(definition.body, self.outer | inner)

    def _whole(self, index: sp.Expr, where: Where) -> int:
        value = self(sp.sympify(index), where)
        if not value.is_Integer:
            raise ValueError(
                f"An index or an end of a sum must be a whole number, but {index} is {value} at "
                f"{where}; name its range under `ranges`."
            )
        return int(value)

    def _runs(self, expr: sp.Sum, where: Where) -> Iterator[Where]:
        """The values of all bound indices; the last limit is the outermost."""
        runs = [where]
        for var, low, high in reversed(expr.limits):
            runs = [
                run | {var: value}
                for run in runs
                for value in range(self._whole(low, run), self._whole(high, run) + 1)
            ]
        yield from runs

    def _expected(self, body: sp.Expr) -> sp.Expr:
        parts = []
        for term in sp.Add.make_args(sp.expand(body)):
            split = [f.as_base_exp() for f in sp.Mul.make_args(term)]
            random = [(b, p) for b, p in split if is_random(b) or is_random(p)]
            rest = sp.Mul(*(b**p for b, p in split if (b, p) not in random))
            if all(isinstance(b, sp.Indexed) and p.is_Integer and p > 0 for b, p in random):
                factors = tuple(sorted(((b, int(p)) for b, p in random), key=str))
                value = expect(factors, self.rules)
                parts.append(rest * self(value.replace(E, Unknown), {}))
            else:
                parts.append(rest * Unknown(sp.Mul(*(b**p for b, p in random))))
        return sp.Add(*parts)


def is_zero_at(expr: sp.Expr) -> bool:
    """True if an expression without sums reduces to zero; exponentials become powers of symbols."""
    if expr == 0:
        return True
    names: dict[sp.Expr, sp.Symbol] = {}

    def power(arg: sp.Expr) -> sp.Expr:
        result = sp.S.One
        for part in sp.Add.make_args(sp.expand(arg)):
            number, rest = part.as_coeff_Mul()
            if rest == 1:
                number, rest = sp.S.One, part
            result *= names.setdefault(rest, sp.Dummy(positive=True)) ** number
        return result

    rational = expr.replace(sp.exp, power)
    entries = {
        e: sp.Dummy(positive=e.is_positive, real=True) for e in rational.atoms(sp.Indexed, Unknown)
    }
    above, _ = sp.fraction(sp.together(rational.xreplace(entries)))
    return sp.expand(above) == 0
