r"""What may be assumed of random entries, and the expectation computed from it, exactly.

A term inside an expectation is a product of entries to whole powers, ``((q[l], 2), (k[l], 2))``.
An assumption is a rule that takes such a product and says what its expectation is, in terms of
simpler ones. Only the rules that a step names are applied, so a step that forgets one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import sympy as sp

from .core import Assumption
from .forms import E, RandomBase, Unknown

Factors = tuple[tuple[sp.Indexed, int], ...]


def is_random(expr: sp.Expr) -> bool:
    """True if random entries stand in ``expr``; an expectation itself is a number."""
    if isinstance(expr, (E, Unknown)):
        return False
    if isinstance(expr, sp.Indexed):
        return isinstance(expr.base, RandomBase)
    return any(is_random(a) for a in expr.args)


def expect(factors: Factors, rules: Sequence[Assumption]) -> sp.Expr:
    """The expectation of a product of entries, as far as the rules carry; the rest stays E[…]."""
    if not factors:
        return sp.S.One
    for assumption in rules:
        said = assumption.rule(factors)
        if said is not None:
            return sp.sympify(said).replace(
                lambda e: isinstance(e, E), lambda e: expect(factors_of(e.args[0]), rules)
            )
    return E(product(factors))


def factors_of(term: sp.Expr) -> Factors:
    """A product of powers of entries, taken apart; sorted, so that order means nothing."""
    powers = term.as_powers_dict()
    return tuple(sorted(((b, int(p)) for b, p in powers.items() if b != 1), key=str))


def product(factors: Factors) -> sp.Expr:
    """The product again."""
    return sp.Mul(*(base**power for base, power in factors))


def independent_entries(name: str, text: str) -> Assumption:
    """All entries of all random arrays are independent of each other.

    Where two entries carry different index symbols they may still be the same entry; the
    expectation is then split: delta(l, m) times the one case, 1 − delta(l, m) times the other.
    """

    def rule(factors: Factors) -> sp.Expr | None:
        return _split(factors, frozenset()) if len(factors) > 1 else None

    return Assumption(name, text, rule)


def _split(factors: Factors, differ: frozenset[frozenset[sp.Indexed]]) -> sp.Expr | None:
    """A product of expectations of single entries; ``differ``: pairs known not to be one entry."""
    for (a, _), (b, _) in combinations(factors, 2):
        unlike = [p for p in zip(a.indices, b.indices, strict=True) if p[0] != p[1]]
        apart = a.base != b.base or any((x - y).is_nonzero for x, y in unlike)
        if apart or frozenset((a, b)) in differ:
            continue
        swap: dict[sp.Expr, sp.Expr] = {}
        for x, y in unlike:
            x, y = x.xreplace(swap), y.xreplace(swap)
            if not (x.is_Symbol or y.is_Symbol):
                return None
            gone, stays = (y, x) if y.is_Symbol else (x, y)
            swap = {k: v.xreplace({gone: stays}) for k, v in swap.items()} | {gone: stays}
        same = sp.Mul(*(sp.KroneckerDelta(x, y) for x, y in unlike))
        merged = _merged(factors, differ, swap)
        otherwise = _split(factors, differ | {frozenset((a, b))})
        if merged is None or otherwise is None:
            return None
        return same * merged + (1 - same) * otherwise
    return sp.Mul(*(E(base**power) for base, power in factors))


def _merged(factors: Factors, differ: frozenset, swap: dict) -> sp.Expr | None:
    """The same where some indices are alike; 0 if that would make one of two that differ."""
    pairs = frozenset(frozenset(e.xreplace(swap) for e in pair) for pair in differ)
    if any(len(pair) == 1 for pair in pairs):
        return sp.S.Zero
    return _split(factors_of(product(factors).xreplace(swap)), pairs)


def independent_vectors(name: str, text: str) -> Assumption:
    """Each random array as a whole is independent of the others; within one, anything goes."""

    def rule(factors: Factors) -> sp.Expr | None:
        letters = sorted({str(base.base) for base, _ in factors})
        if len(letters) < 2:
            return None
        groups = ([f for f in factors if str(f[0].base) == letter] for letter in letters)
        return sp.Mul(*(E(product(tuple(group))) for group in groups))

    return Assumption(name, text, rule)


def moments(
    name: str, text: str, of: dict[sp.IndexedBase, Callable[..., dict[int, sp.Expr]]]
) -> Assumption:
    """``of[q](*indices)`` gives the known moments {power: value} of one entry of q."""

    def rule(factors: Factors) -> sp.Expr | None:
        if len(factors) != 1:
            return None
        (entry, power), *_ = factors
        known = of.get(entry.base)
        return None if known is None else known(*entry.indices).get(power)

    return Assumption(name, text, rule)


def second_moments(
    name: str, text: str, of: dict[sp.IndexedBase, Callable[[sp.Expr, sp.Expr], sp.Expr]]
) -> Assumption:
    """``of[q](l, m)`` gives E[q_l q_m], for l = m too."""

    def rule(factors: Factors) -> sp.Expr | None:
        entries = [base for base, power in factors for _ in range(power)]
        if len(entries) != 2 or entries[0].base != entries[1].base:
            return None
        known = of.get(entries[0].base)
        return None if known is None else known(entries[0].indices[0], entries[1].indices[0])

    return Assumption(name, text, rule)
