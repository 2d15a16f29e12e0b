"""Formulas computed with plain Python numbers, in a way that shares nothing with the verifier."""

from __future__ import annotations

import cmath
import math
import random
from collections.abc import Callable

import sympy as sp

from transformer_lab.derivations.core import Definition
from transformer_lab.derivations.forms import SymmetricBase
from transformer_lab.derivations.symbolic import Exp

Numbers = Callable[[str, tuple[int, ...]], float]
H = 1e-5


class NoValue(ArithmeticError):
    """The expression has no value here."""


def numbers(seed: int, positive: frozenset[str] = frozenset()) -> Numbers:
    """A number for each entry, the same whenever it is asked for."""

    def of(name: str, indices: tuple[int, ...]) -> float:
        drawn = random.Random(f"{seed} {name} {indices}").uniform(-1.4, 1.4)
        return abs(drawn) + 0.1 if name in positive else drawn

    return of


class Value:
    """``Value(of, definitions)(expr, {index or size: whole number})``."""

    def __init__(self, of: Numbers, definitions: tuple[Definition, ...] = ()) -> None:
        self.of, self.bodies = of, {d.name: d for d in definitions}

    def __call__(self, expr: sp.Expr, where: dict) -> complex:
        try:
            value = self._value(expr, where, where)
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            raise NoValue(str(error)) from None
        if not cmath.isfinite(value):
            raise NoValue("not finite")
        return value

    def _value(self, e: sp.Expr, here: dict, outer: dict) -> complex:
        def of(x: sp.Expr) -> complex:
            return self._value(sp.sympify(x), here, outer)

        if isinstance(e, sp.Symbol):
            return here[e] if e in here else self._letter(str(e), (), outer)
        if isinstance(e, sp.Indexed):
            indices = tuple(int(of(i)) for i in e.indices)
            if isinstance(e.base, SymmetricBase):
                indices = tuple(sorted(indices))
            return self._letter(str(e.base), indices, outer)
        if isinstance(e, sp.Sum):
            return self._sum(e, here, outer)
        if isinstance(e, sp.Derivative):
            return self._slope(e, here, outer)
        if isinstance(e, sp.KroneckerDelta):
            return 1.0 if of(e.args[0]) == of(e.args[1]) else 0.0
        if isinstance(e, sp.Add):
            return sum(of(a) for a in e.args)
        if isinstance(e, sp.Mul):
            return math.prod(of(a) for a in e.args)
        if isinstance(e, (sp.exp, Exp)):
            return cmath.exp(of(e.args[0]))
        if isinstance(e, sp.Pow):
            base, power = of(e.base), of(e.exp)
            return real(base) ** real(power)
        if isinstance(e, sp.log):
            return cmath.log(real(of(e.args[0])))
        if isinstance(e, sp.Abs):
            return abs(of(e.args[0]))
        if isinstance(e, sp.Max):
            return max(real(of(a)) for a in e.args)
        if e.is_number:
            return float(e) if e.is_real else complex(e)
        raise TypeError(f"no rule for {type(e).__name__} {e}")

    def _letter(self, name: str, indices: tuple[int, ...], outer: dict) -> complex:
        if name in self.bodies:
            definition = self.bodies[name]
            inner = outer | dict(zip(definition.indices, indices, strict=True))
            return self._value(definition.body, inner, outer)
        return self.of(name, indices)

    def _sum(self, e: sp.Sum, here: dict, outer: dict) -> complex:
        (var, low, high), *more = reversed(e.limits)
        body = sp.Sum(e.function, *reversed(more)) if more else e.function
        ends = [int(self._value(sp.sympify(end), here, outer).real) for end in (low, high)]
        runs = range(ends[0], ends[1] + 1)
        return sum(self._value(body, here | {var: k}, outer) for k in runs)

    def _slope(self, e: sp.Derivative, here: dict, outer: dict) -> complex:
        """Central differences."""
        (x,) = e.variables
        name = str(x.base) if isinstance(x, sp.Indexed) else str(x)
        place = tuple(here.get(i, i) for i in x.indices) if isinstance(x, sp.Indexed) else ()

        def moved(h: float) -> complex:
            def of(n: str, k: tuple) -> float:
                return self.of(n, k) + (h if (n, k) == (name, tuple(map(int, place))) else 0)

            other = Value(of, tuple(self.bodies.values()))
            return other._value(e.expr, here, outer)

        return (moved(H) - moved(-H)) / (2 * H)


def real(x: complex) -> complex:
    """The same number, as a float where it is real, so that roots lie on the same branch."""
    return x.real if abs(x.imag) <= 1e-12 * (1 + abs(x)) else x


def close(x: complex, y: complex, tolerance: float = 1e-7) -> bool:
    """Equal but for rounding."""
    return abs(x - y) <= tolerance * (1 + abs(x) + abs(y))
