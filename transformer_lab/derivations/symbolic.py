r"""A normal form for expressions with sums of symbolic size, in which equal ones meet.

Every expression becomes a sum of terms; a term is a number times powers of factors, under some
bound indices. Deltas are used up (:math:`\sum_l \delta_{lj} f_l = f_j`, where l and j run over the
same range), factors that do not know a bound index leave its sum, bound indices are named anew.
Two expressions are equal if their difference has no terms left, at once or after it is brought to
one denominator. "Equal" means: wherever both are defined. A difference that does not vanish proves
nothing; see `refute.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations, product
from math import factorial, prod

import sympy as sp

from .core import Assumption, Definition
from .expectation import expect, is_random
from .forms import E, Var, in_order
from .scope import fresh, unfold

MOST_TERMS = 4000
MOST_ORDERS = 720
Limits = tuple[tuple[sp.Symbol, sp.Expr], ...]
Factor = tuple[sp.Expr, sp.Expr]


class Exp(sp.Function):
    """An exponential that does not merge with its neighbours."""

    nargs = 1

    def _eval_is_positive(self) -> bool | None:
        return True if self.args[0].is_extended_real else None


class NoNormalForm(RuntimeError):
    """The normal form has no rule for this; nothing is said about whether it is zero."""


class TooLarge(NoNormalForm):
    """The normal form would have too many terms, or too many bound indices in one."""


@dataclass(frozen=True)
class Term:
    """``number`` times the product of ``factors``, summed over ``bound`` ((index, size), …)."""

    number: sp.Expr
    bound: Limits
    factors: tuple[Factor, ...]


ONE = Term(sp.S.One, (), ())


@dataclass(frozen=True)
class Known:
    """What may be used: definitions, assumptions for expectations, ranges of free indices."""

    definitions: tuple[Definition, ...] = ()
    rules: tuple[Assumption, ...] = ()
    ranges: Limits = ()
    expectations: bool = True  # False: what stands in E[…] is left alone


def is_zero(expr: sp.Expr, known: Known) -> bool:
    """True if the normal form proves that ``expr`` is zero wherever it is defined.

    Raises ``NoNormalForm`` where it has no rule, ``TooLarge`` where it would grow too large.
    """
    expr = normal(expr, known)
    if expr == 0:
        return True
    atoms = sorted(expr.atoms(sp.Sum, Exp, sp.Indexed, sp.KroneckerDelta), key=str)
    outer = [a for a in atoms if not any(a != b and b.has(a) for b in atoms)]
    names = {a: sp.Dummy(positive=a.is_positive, real=a.is_extended_real) for a in outer}
    above, below = sp.fraction(sp.together(expr.xreplace(names)))
    back = {name: a for a, name in names.items()}
    plain = Known(ranges=known.ranges, expectations=False)
    return normal(above.xreplace(back), plain) == 0 and normal(below.xreplace(back), plain) != 0


def normal(expr: sp.Expr, known: Known) -> sp.Expr:
    """The normal form, as an expression."""
    return sp.Add(*(_built(term) for term in _used_up(_terms(expr, known), known.ranges)))


def _terms(expr: sp.Expr, known: Known) -> list[Term]:
    """A sum of products; products of sums are multiplied out."""
    if known.definitions:
        expr = unfold(expr, known.definitions)
        known = replace(known, definitions=())
    if isinstance(expr, Var):
        x = expr.args[0]
        return _terms(E(x**2) - E(x) ** 2, known)
    if isinstance(expr, E):
        return _expectation(expr.args[0], known) if known.expectations else _one(expr)
    if isinstance(expr, (sp.exp, Exp)) or expr == sp.E:
        return _exponential(expr.args[0] if expr.args else sp.S.One, known)
    if expr.is_number:
        if not expr.is_finite:
            raise NoNormalForm(f"{expr} is not a finite number")
        return [Term(expr, (), ())]
    if isinstance(expr, (sp.Indexed, sp.Symbol, sp.KroneckerDelta)):
        return _one(in_order(expr))
    if isinstance(expr, sp.Add):
        return [term for a in expr.args for term in _terms(a, known)]
    if isinstance(expr, sp.Mul):
        return _product([_terms(a, known) for a in expr.args])
    if isinstance(expr, sp.Sum):
        return _sum(expr, known)
    if isinstance(expr, sp.log):
        return _logarithm(expr.args[0], known)
    if isinstance(expr, sp.Pow):
        return _power(expr, known)
    if isinstance(expr, sp.Derivative):
        f = fresh(expr.expr).replace(Exp, sp.exp)  # its sums must not bind what we differentiate by
        return _terms(sp.diff(f, *expr.variables), known)
    if not isinstance(expr, sp.Function):
        raise NoNormalForm(f"no rule for {type(expr).__name__} {expr}")
    return _one(expr.func(*(normal(a, known) for a in expr.args)))


def _one(factor: sp.Expr, power: sp.Expr = sp.S.One) -> list[Term]:
    return [Term(sp.S.One, (), ((factor, power),))]


def _sum(expr: sp.Sum, known: Known) -> list[Term]:
    """Each term gets the limits of the sum; every index is a fresh one."""
    expr = fresh(expr)
    if any(low != 1 for _, low, _ in expr.limits):
        raise NoNormalForm(f"a sum that does not begin at 1: {expr}")
    limits = tuple((var, high) for var, _, high in expr.limits)
    result = []
    for term in _terms(expr.function, known):
        bound = term.bound + limits
        if any(high.has(var) for var, _ in bound for _, high in bound):
            raise NoNormalForm(f"a sum whose end depends on another index: {expr}")
        result.append(Term(term.number, bound, term.factors))
    return result


def _product(parts: list[list[Term]]) -> list[Term]:
    result = [ONE]
    for part in parts:
        if len(result) * len(part) > MOST_TERMS:
            raise TooLarge(f"more than {MOST_TERMS} terms")
        result = [_join(a, _renamed(b)) for a in result for b in part]
    return result


def _join(a: Term, b: Term) -> Term:
    return Term(a.number * b.number, a.bound + b.bound, a.factors + b.factors)


def _renamed(term: Term) -> Term:
    """The same term with fresh bound indices, so that two sums do not share one."""
    if not term.bound:
        return term
    new = {v: sp.Dummy(v.name, integer=True, positive=True) for v, _ in term.bound}
    factors = tuple((f.xreplace(new), p) for f, p in term.factors)
    return Term(term.number, tuple((new[v], upto) for v, upto in term.bound), factors)


def _exponential(arg: sp.Expr, known: Known) -> list[Term]:
    """The exponential of a sum is a product; where a delta switches x on, it is 1 + δ(e^x − 1)."""
    parts = []
    for part in sp.Add.make_args(normal(arg, known)):
        number, rest = part.as_coeff_Mul()
        switches = [f for f in sp.Mul.make_args(rest) if isinstance(f, sp.KroneckerDelta)]
        if switches:
            x = part.xreplace({f: sp.S.One for f in switches})
            on = tuple((f, sp.S.One) for f in switches)
            raised = [_join(term, Term(sp.S.One, (), on)) for term in _exponential(x, known)]
            parts.append([ONE, *raised, Term(sp.S.NegativeOne, (), on)])
        elif isinstance(rest, sp.log) and rest.args[0].is_positive:
            parts.append(_one(rest.args[0], number))
        elif part != 0:
            parts.append(_one(Exp(rest), number))
    return _product(parts)


def _logarithm(arg: sp.Expr, known: Known) -> list[Term]:
    """The logarithm of a product of positive factors is a sum; that of an exponential is undone."""
    if isinstance(arg, (sp.exp, Exp)) and arg.args[0].is_extended_real:
        return _terms(arg.args[0], known)
    if arg.is_Mul and all(f.is_positive for f in arg.args):
        return [term for f in arg.args for term in _logarithm(f, known)]
    if arg.is_Pow and arg.base.is_positive and arg.exp.is_extended_real:
        return _product([_terms(arg.exp, known), _logarithm(arg.base, known)])
    inside = normal(arg, known)
    apart = inside.is_Mul or inside.is_Pow or isinstance(inside, Exp)
    if apart and inside != arg and inside.is_positive:
        return _logarithm(inside, known)
    return _terms(sp.log(arg), known) if arg.is_number else _one(sp.log(inside))


def _power(expr: sp.Pow, known: Known) -> list[Term]:
    """Powers of products of positive factors are products; of others only whole powers are."""
    base, power = expr.args
    if power.is_Integer and 1 < power <= 6:
        return _product([_terms(base, known)] * int(power))
    inside, power = normal(base, known), normal(power, known)
    if not power.is_number:
        if inside.is_positive and power.is_extended_real:
            return _exponential(power * sp.log(inside), known)
        return _one(sp.Pow(inside, power, evaluate=False))
    if inside == 0 and not power.is_positive:
        raise NoNormalForm(f"a division by zero: {expr}")
    number, parts = sp.S.One, []
    for f in sp.Mul.make_args(inside):
        if f.is_number:
            number *= f**power
        elif f.is_Pow and f.exp.is_number and (power.is_Integer or f.base.is_positive):
            parts.append((f.base, f.exp * power))
        elif power.is_Integer or f.is_positive:
            parts.append((f, power))
        else:
            return _one(inside, power)
    return [Term(number, (), tuple(parts))]


def _expectation(body: sp.Expr, known: Known) -> list[Term]:
    """Numbers and sums leave the expectation; the rules say what becomes of the entries."""
    result = []
    for term in _used_up(_terms(body, known), known.ranges):
        random = [(f, p) for f, p in term.factors if is_random(f)]
        rest = [(f, p) for f, p in term.factors if not is_random(f)]
        entries = all(isinstance(f, sp.Indexed) and p.is_Integer and p > 0 for f, p in random)
        if entries:
            value = expect(tuple(sorted(((f, int(p)) for f, p in random), key=str)), known.rules)
        else:
            value = E(sp.Mul(*(f**p for f, p in random)))
        for t in _terms(value, replace(known, expectations=False)):
            result.append(_join(Term(term.number, term.bound, tuple(rest)), t))
    return result


# ---- Terms put in order -----------------------------------------------------------------


def _used_up(terms: list[Term], ranges: Limits) -> list[Term]:
    """Deltas used up, powers collected, indices that nothing knows counted, like terms added."""
    sums: dict[tuple, sp.Expr] = {}
    for term in terms:
        done = _collected(term, dict(ranges))
        if done is not None:
            key = (done.bound, done.factors)
            sums[key] = sums.get(key, sp.S.Zero) + done.number
    return [Term(number, b, f) for (b, f), number in sums.items() if number != 0]


def _collected(term: Term, ranges: dict) -> Term | None:
    """The term in order; None if it is zero."""
    number, bound = term.number, dict(term.bound)
    factors, alike = _deltas_used(list(term.factors), bound, ranges)
    powers: dict[sp.Expr, sp.Expr] = {}
    for f, p in factors:
        f = in_order(f)
        if f == 0 and not p.is_positive:
            raise NoNormalForm("a division by zero")
        if f.is_number:
            number *= f**p
        elif _is_delta(f, p):
            powers[f] = sp.S.One
        else:
            powers[f] = powers.get(f, sp.S.Zero) + p
    powers |= {delta: sp.S.One for delta in alike}
    for var, upto in list(bound.items()):
        if not any(var in f.free_symbols for f, p in powers.items() if p != 0):
            bound.pop(var)
            if upto.is_number:
                number *= upto
            else:
                powers[upto] = powers.get(upto, sp.S.Zero) + 1
    kept = tuple(sorted(((f, p) for f, p in powers.items() if p != 0), key=str))
    return None if number == 0 else _canonical(number, bound, kept)


def _is_delta(f: sp.Expr, p: sp.Expr) -> bool:
    return isinstance(f, sp.KroneckerDelta) and bool(p.is_positive)


def _deltas_used(
    factors: list[Factor], bound: dict, ranges: dict
) -> tuple[list[Factor], list[sp.Expr]]:
    """Where a delta says that two indices are alike, one of them goes; ``bound`` shrinks.

    A bound index may go only if the other runs over the same range (or is 1, which is in every
    range). Of free ones that are alike, the first in the alphabet stays in all other factors; what
    is alike is returned as deltas. What may not be used stays a factor.
    """
    classes: list[set[sp.Expr]] = []
    while True:
        for f, p in factors:
            gone = _may_go(f, bound, ranges) if _is_delta(f, p) else None
            if gone is not None:
                break
        else:
            return factors, [
                sp.KroneckerDelta(min(c, key=str), x)
                for c in classes
                for x in c - {min(c, key=str)}
            ]
        (stays,) = set(f.args) - {gone}
        if gone in bound:
            bound.pop(gone)
            swap = {gone: stays}
        else:
            one = {gone, stays}.union(*(c for c in classes if c & {gone, stays}))
            classes = [c for c in classes if not c & one] + [one]
            first = min(one, key=str)
            swap = {x: first for x in one - {first} if not x.is_number}
        factors = [(g.xreplace(swap), p) for g, p in factors]


def _may_go(delta: sp.Expr, bound: dict, ranges: dict) -> sp.Expr | None:
    x, y = delta.args
    for gone, stays in ((x, y), (y, x)):
        if gone in bound and (stays == 1 or bound.get(stays, ranges.get(stays)) == bound[gone]):
            return gone
    free = all((a.is_Symbol and a not in bound) or a.is_Integer for a in (x, y))
    return max((a for a in (x, y) if not a.is_number), key=str) if free else None


def _canonical(number: sp.Expr, bound: dict, factors: tuple[Factor, ...]) -> Term:
    """Bound indices renamed so that the same sum always looks the same."""
    best, start = None, 1 + max((_depth(f) for f, _ in factors), default=-1)
    for order in _orders(bound, factors):
        new = {v: _name(start + k) for k, v in enumerate(order)}
        renamed = tuple(sorted(((in_order(f.xreplace(new)), p) for f, p in factors), key=str))
        limits = tuple((new[v], bound[v]) for v in order)
        candidate = (str(renamed) + str(limits), limits, renamed)
        best = candidate if best is None or candidate[0] < best[0] else best
    return Term(number, best[1], best[2])


def _orders(bound: dict, factors: tuple[Factor, ...]) -> Iterator[tuple[sp.Symbol, ...]]:
    """The orders in which bound indices may be named: those first that look different anyway."""
    if len(bound) < 3:
        return permutations(bound)
    other, this = _name(0), sp.Symbol("_", integer=True, positive=True)
    looks: dict[str, list[sp.Symbol]] = {}
    for v, upto in bound.items():
        marked = {x: this if x == v else other for x in bound}
        parts = sorted(str((in_order(f.xreplace(marked)), p)) for f, p in factors)
        looks.setdefault(f"{upto} {parts}", []).append(v)
    alike = [looks[look] for look in sorted(looks)]
    if prod(factorial(len(group)) for group in alike) > MOST_ORDERS:
        raise TooLarge(f"{len(bound)} bound indices in one term that look alike")
    return (sum(parts, ()) for parts in product(*(permutations(group) for group in alike)))


def _name(k: int) -> sp.Symbol:
    return sp.Symbol(f"_{k}", integer=True, positive=True)


def _depth(expr: sp.Expr) -> int:
    """The largest number in the names of sums inside ``expr``, so that names do not meet."""
    names = (var.name for s in expr.atoms(sp.Sum) for var, *_ in s.limits)
    return max((int(name[1:]) for name in names if name[1:].isdigit()), default=-1)


def _built(term: Term) -> sp.Expr:
    """The term as an expression: each connected group of indices under a sum of its own."""
    left, bound = list(term.factors), dict(term.bound)
    result = term.number
    while bound:
        group, mine = {next(iter(bound))}, []
        grown = True
        while grown:
            touching = [f for f in left if group & f[0].free_symbols]
            mine += touching
            left = [f for f in left if f not in touching]
            wider = {v for v in bound if any(v in f[0].free_symbols for f in mine)} | group
            grown, group = wider != group, wider
        inner = _canonical(sp.S.One, {v: bound.pop(v) for v in sorted(group, key=str)}, tuple(mine))
        body = sp.Mul(*(f**p for f, p in inner.factors))
        for var, upto in inner.bound:
            body = sp.Sum(body, (var, 1, upto))
        result *= body
    return result * sp.Mul(*(f**p for f, p in left))
