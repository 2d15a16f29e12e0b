r"""Where do two lines differ? Numbers put in, from small to large, until they do.

At each small size every entry gets a number: small whole ones first, since those can be read, then
random ones, and both sides are computed to fifty digits. To find no difference proves nothing. To
find no place at which both sides are defined is told apart from that: such lines were not compared.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product

import sympy as sp

from .core import Derivation
from .explicit import Where, at, places
from .forms import Unknown
from .symbolic import Known

DIGITS = 50
TOLERANCE = sp.Float(10) ** -40
PLACES = 400  # how many sizes and indices are looked at, at most, per line
POINTS = 3  # random points for each of them
SMALL = (0, 1, 2, -1)
Values = dict[sp.Expr, sp.Expr]


@dataclass(frozen=True)
class Counterexample:
    """The smallest place found at which two lines differ."""

    where: Where
    values: Values
    left: sp.Expr
    right: sp.Expr
    outcomes: bool = False  # values are pairs: two equally likely outcomes of random entries

    def __str__(self) -> str:
        at_sizes = ", ".join(f"{_plain(k)} = {v}" for k, v in self.where.items())
        if self.outcomes:
            names = ", ".join(map(_plain, self.values))
            one, two = (", ".join(str(v[k]) for v in self.values.values()) for k in (0, 1))
            at_values = f"({names}) = ({one}) or ({two}), equally likely"
        else:
            at_values = ", ".join(f"{_plain(k)} = {v}" for k, v in self.values.items())
        place = "; ".join(part for part in (at_sizes, at_values) if part)
        return f"at {place or 'every point'}: {_digits(self.left)} against {_digits(self.right)}"


class NowhereDefined(ValueError):
    """There was no place at which both lines have a value, so that they were not compared."""


def counterexample(
    derivation: Derivation, left: sp.Expr, right: sp.Expr, known: Known
) -> Counterexample | None:
    """The first place, from small to large, at which two expressions differ; None if none.

    Raises ``NowhereDefined`` if there was no place to compare them at.
    """
    compared = False
    for where in islice(places(derivation, derivation.largest), PLACES):
        a, b = at(left, where, known), at(right, where, known)
        lawless = not known.rules and (a.has(Unknown) or b.has(Unknown))
        names = {u: sp.Symbol(_unknown(u), real=True) for u in a.atoms(Unknown) | b.atoms(Unknown)}
        a, b = a.xreplace(names), b.xreplace(names)
        for values in points(atoms_of(a, b)):
            x, y = number(a, values), number(b, values)
            if x is None or y is None:
                continue
            compared = True
            if _differ(x, y):
                shown = _two_outcomes(derivation, left, right, where) if lawless else None
                return shown or Counterexample(where, values, x, y)
    if not compared:
        raise NowhereDefined("there is no place at which both lines have a value")
    return None


def atoms_of(*exprs: sp.Expr) -> list[sp.Expr]:
    """The entries and symbols whose values an expression at explicit size depends on."""
    entries = {e for expr in exprs for e in expr.atoms(sp.Indexed)}
    labels = {e.base.label for e in entries}
    symbols = {s for expr in exprs for s in expr.free_symbols if s.is_Symbol} - labels
    return sorted(entries | symbols, key=str)


def number(expr: sp.Expr, values: Values) -> sp.Expr | None:
    """The value to fifty digits; None where the expression is not defined."""
    value = sp.N(expr.xreplace(values), DIGITS)
    return value if value.is_number and value.is_finite else None


def points(symbols: list[sp.Expr]) -> Iterator[Values]:
    """Points to try: small whole numbers first, since those can be read, then random ones."""
    if not symbols:
        yield {}
        return
    for chosen in islice(_mixed(len(symbols)), 12):
        values = dict(zip(symbols, map(sp.Integer, chosen), strict=True))
        if all(_allowed(s, v) for s, v in values.items()):
            yield values
    draw = random.Random(20 + len(symbols))
    for _ in range(POINTS):
        yield {s: drawn(s, draw) for s in symbols}


def _allowed(symbol: sp.Expr, value: sp.Expr) -> bool:
    """True if the value is all that the symbol is assumed to be."""
    supposed = ((f"is_{kind}", truth) for kind, truth in symbol.assumptions0.items())
    return all(getattr(value, kind, None) in (None, truth) for kind, truth in supposed)


def drawn(symbol: sp.Expr, draw: random.Random) -> sp.Expr:
    """A random number that the symbol may be, between −3 and 3; whole if it must be."""
    for parts in (300, 1):
        for _ in range(50):
            value = sp.Rational(draw.randint(-3 * parts, 3 * parts), parts)
            if _allowed(symbol, value):
                return value
    raise NowhereDefined(f"no number was found that {symbol} may be")


def _mixed(count: int) -> Iterator[tuple[int, ...]]:
    """Short patterns of small numbers: all combinations if few, else single ones and mixtures."""
    if count <= 2:
        yield from sorted(product(SMALL, repeat=count), key=lambda v: (sum(map(abs, v)), v))
        return
    draw = random.Random(count)
    yield (0,) * count
    for k in range(min(count, 4)):
        yield tuple(int(i == k) for i in range(count))
    yield (1,) * count
    while True:
        yield tuple(draw.choice([1, 2, 3]) for _ in range(count))


def _two_outcomes(
    derivation: Derivation, left: sp.Expr, right: sp.Expr, where: Where
) -> Counterexample | None:
    """Two equally likely outcomes of the random entries for which two expectations differ."""
    bare = Known(derivation.definitions)
    a, b = at(left, where, bare), at(right, where, bare)
    entries = sorted(
        {e for u in a.atoms(Unknown) | b.atoms(Unknown) for e in u.atoms(sp.Indexed)}, key=str
    )
    if set(atoms_of(a, b)) - set(entries) or len(entries) > 4:
        return None
    outcomes = sorted(product(SMALL, repeat=len(entries)), key=lambda v: sum(map(abs, v)))
    for one, two in islice(product(outcomes, repeat=2), 2000):
        pair = [dict(zip(entries, map(sp.Integer, o), strict=True)) for o in (one, two)]

        def mean(u: sp.Expr, pair: list = pair) -> sp.Expr:
            return sum(u.args[0].xreplace(values) for values in pair) / 2

        x, y = (e.replace(lambda u: isinstance(u, Unknown), mean) for e in (a, b))
        if x.is_finite and y.is_finite and _differ(x, y):
            values = {e: sp.Tuple(v, pair[1][e]) for e, v in pair[0].items()}
            return Counterexample(where, values, x, y, outcomes=True)
    return None


def _differ(x: sp.Expr, y: sp.Expr) -> bool:
    return bool(abs(x - y) > TOLERANCE * (1 + abs(x) + abs(y)))


def _unknown(u: sp.Expr) -> str:
    return f"E[{'·'.join(_plain(f) for f in sp.Mul.make_args(u.args[0]))}]"


def _plain(symbol: sp.Expr) -> str:
    if isinstance(symbol, sp.Indexed):
        return f"{symbol.base}_{''.join(str(i) for i in symbol.indices)}".replace("\\", "")
    return str(symbol).replace("\\", "")


def _digits(value: sp.Expr) -> str:
    if not value.is_real:
        return str(sp.N(value, 6))
    return str(int(value)) if value == int(value) else f"{float(value):.6g}"
