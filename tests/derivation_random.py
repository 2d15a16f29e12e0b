"""Random formulas for the verifier: sums whose indices are named alike, deltas, roots, letters."""

from __future__ import annotations

import random

import sympy as sp

from transformer_lab.derivations.core import Definition
from transformer_lab.derivations.forms import array, index, size, symmetric, total

n, m = size("n m")
i, j, s, l = index("i j s l")  # noqa: E741 - named as in the book
z, A, C = array("z"), array("A"), symmetric("C")
w = array("w", positive=True)
a, b = array("a"), array("b")
c, p = sp.Symbol("c", real=True), sp.Symbol("p", positive=True)

RANGES = ((i, n), (j, n), (s, m))
DEFINITIONS = (
    Definition(a[i], sp.exp(z[i]) / total(sp.exp(z[l]), (l, n))),
    Definition(b[l], A[l, s] + total(A[l, i] * a[i], (i, n)) + c * z[j]),
)


class Maker:
    """Formulas of a given depth; ``roots`` False: only what has a value everywhere."""

    def __init__(self, seed: int, *, roots: bool = True) -> None:
        self.draw, self.roots = random.Random(seed), roots

    def __call__(self, depth: int, scope: tuple = RANGES) -> sp.Expr:
        if depth == 0:
            return self._leaf([x for x, _ in scope])
        kinds = ["add", "mul", "mul", "sum", "sum", "delta", "exp", "square", "leaf"]
        if self.roots:
            kinds += ["inverse", "root", "positive root", "log", "function", "power"]
        return getattr(self, "_" + self.draw.choice(kinds).replace(" ", "_"))(depth - 1, scope)

    def _leaf(self, indices: list | int, scope: tuple = ()) -> sp.Expr:
        if scope:
            indices = [x for x, _ in scope]
        x, y = self.draw.choice(indices), self.draw.choice(indices)
        numbers = [sp.Integer(2), sp.Integer(-1), sp.Rational(1, 2), n, c, p]
        letters = [z[x], A[x, y], C[x, y], w[x], a[x], b[x], z[1], sp.KroneckerDelta(x, y)]
        return self.draw.choice(numbers + 2 * letters)

    def _add(self, depth: int, scope: tuple) -> sp.Expr:
        return self(depth, scope) + self.draw.choice([1, -1, 3]) * self(depth, scope)

    def _mul(self, depth: int, scope: tuple) -> sp.Expr:
        return self(depth, scope) * self(depth, scope)

    def _sum(self, depth: int, scope: tuple) -> sp.Expr:
        """Often named like an index that is in use already."""
        var = self.draw.choice([i, j, s, l])
        upto = self.draw.choice([n, n, m])
        inner = (*((x, u) for x, u in scope if x != var), (var, upto))
        return sp.Sum(self(depth, inner), (var, 1, upto))

    def _delta(self, depth: int, scope: tuple) -> sp.Expr:
        x, y = (self.draw.choice([v for v, _ in scope]) for _ in "xy")
        y = self.draw.choice([y, y, y, sp.S.One, sp.Integer(2)])
        return sp.KroneckerDelta(x, y) * self(depth, scope)

    def _exp(self, depth: int, scope: tuple) -> sp.Expr:
        return sp.exp(sp.Rational(1, 2) * self(min(depth, 1), scope))

    def _square(self, depth: int, scope: tuple) -> sp.Expr:
        return sp.Pow(self(depth, scope), self.draw.choice([2, 2, 3]))

    def _inverse(self, depth: int, scope: tuple) -> sp.Expr:
        return sp.Pow(self(depth, scope), -self.draw.choice([1, 2]))

    def _root(self, depth: int, scope: tuple) -> sp.Expr:
        power = self.draw.choice([(1, 2), (-1, 2), (1, 3), (3, 2)])
        return sp.Pow(self(min(depth, 2), scope), sp.Rational(*power))

    def _positive_root(self, depth: int, scope: tuple) -> sp.Expr:
        return sp.sqrt(w[self.draw.choice(scope)[0]] * sp.exp(self(min(depth, 1), scope)))

    def _log(self, depth: int, scope: tuple) -> sp.Expr:
        x = self.draw.choice(scope)[0]
        return sp.log(w[x] * sp.exp(self(min(depth, 1), scope)) + self.draw.choice([0, 0, 1]))

    def _function(self, depth: int, scope: tuple) -> sp.Expr:
        return sp.Abs(self(min(depth, 1), scope))

    def _power(self, depth: int, scope: tuple) -> sp.Expr:
        return sp.Pow(self.draw.choice([p, w[scope[0][0]], n]), self(0, scope))


def places(seed: int) -> list[dict]:
    """Sizes 1 to 3 and indices within them."""
    draw = random.Random(seed)
    found = []
    for sizes in ((1, 1), (2, 3), (3, 2), (2, 1), (1, 3)):
        at = dict(zip((n, m), sizes, strict=True))
        found.append(at | {x: draw.randint(1, at[upto]) for x, upto in RANGES})
    return found
