"""Derivations in sympy: an answer is an expression (or matrix); any equal form is right.

The probe puts the same random numbers into the answer and compares values to 25 digits, so no
simplification and no particular form is asked for. A checker of a notebook may do the same,
with sympy.simplify as a second opinion.

Part 2 of 2.
"""

import sympy as sp
from bank import Exercise
from symbolic_shared import _at, _seeded, _values


def _rot(a):
    return sp.Matrix([[sp.cos(a), -sp.sin(a)], [sp.sin(a), sp.cos(a)]])


shift = Exercise(
    "symbolic.position_shift",
    "Find the 2x2 matrix M, free of p, with (sin w(p+k), cos w(p+k)) = M (sin wp, cos wp).",
    "def shift_matrix(w, k): ...",
    lambda w, k: sp.Matrix([[sp.cos(w * k), sp.sin(w * k)], [-sp.sin(w * k), sp.cos(w * k)]]),
    {"generic": _seeded()},
    probe=_at(lambda: sp.symbols("w k", real=True), 0.2, 3.0),
)


@shift.accept("cosine as shifted sine")
def _(w, k):
    return [[sp.sin(w * k + sp.pi / 2), sp.sin(w * k)], [sp.cos(w * k + sp.pi / 2), sp.cos(w * k)]]


@shift.accept("double angles")
def _(w, k):
    h = sp.tan(w * k / 2)
    return sp.Matrix([[1 - h**2, 2 * h], [-2 * h, 1 - h**2]]) / (1 + h**2)


@shift.reject(
    "shift backwards", "This matrix leads from p to p - k: the sign of the sines is turned."
)
def _(w, k):
    return _rot(w * k)


@shift.reject(
    "cosine first",
    "The vector is (sin, cos), you derived the matrix of (cos, sin) with its rows swapped.",
)
def _(w, k):
    return sp.Matrix([[-sp.sin(w * k), sp.cos(w * k)], [sp.cos(w * k), sp.sin(w * k)]])


@shift.reject("both sines positive", "cos(a+b) = cos a cos b - sin a sin b: one sign is minus.")
def _(w, k):
    return sp.Matrix([[sp.cos(w * k), sp.sin(w * k)], [sp.sin(w * k), sp.cos(w * k)]])


@shift.reject("frequency forgotten", "The angle of the shift is w*k.")
def _(w, k):
    return sp.Matrix([[sp.cos(k), sp.sin(k)], [-sp.sin(k), sp.cos(k)]])


@shift.reject("still depends on p", "M must be free of p: expand with the addition theorems.")
def _(w, k):
    p = sp.Symbol("p", real=True)
    return sp.diag(sp.sin(w * (p + k)) / sp.sin(w * p), sp.cos(w * (p + k)) / sp.cos(w * p))


rope = Exercise(
    "symbolic.rope_is_relative",
    "R(a) rotates by a. Give R(m t)^T R(n t) as a matrix in which m and n occur as their "
    "difference only.",
    "def product(m, n, t): ...",
    lambda m, n, t: _rot((n - m) * t),
    {"generic": _seeded()},
    probe=_at(lambda: sp.symbols("m n t", real=True), 0.3, 3.0),
)


@rope.accept("complex exponential")
def _(m, n, t):
    z = sp.exp(sp.I * (n - m) * t)
    return sp.Matrix([[sp.re(z), -sp.im(z)], [sp.im(z), sp.re(z)]])


@rope.accept("matrix product (equal, though not yet in the asked form)")
def _(m, n, t):
    return _rot(m * t).T * _rot(n * t)


@rope.accept("transpose of the opposite")
def _(m, n, t):
    return _rot(m * t - n * t).T


@rope.reject("m - n", "R(a)^T = R(-a), so the angle is (n - m) t.")
def _(m, n, t):
    return _rot((m - n) * t)


@rope.reject("m + n", "The transpose was forgotten: R(m t) R(n t) would depend on the sum.")
def _(m, n, t):
    return _rot((m + n) * t)


@rope.reject(
    "reflection instead of a rotation", "One sine must be negative; your matrix has determinant -1."
)
def _(m, n, t):
    a = (n - m) * t
    return sp.Matrix([[sp.cos(a), sp.sin(a)], [sp.sin(a), -sp.cos(a)]])


@rope.reject("difference without the frequency", "The angle is (n - m) times t.")
def _(m, n, t):
    return _rot(n - m)


_SETTINGS = (sp.Rational(1, 10), sp.Rational(9, 10), sp.Rational(999, 1000), sp.Rational(1, 50))


def _first_probe(answer, seed):
    """A symbolic g, then one negative and one positive number for it."""
    g = sp.Symbol("g", real=True)
    fixed = [sp.sympify(answer(sp.Rational(n, 10), *_SETTINGS)) for n in (-7, 4)]
    return _values(sp.sympify(answer(g, *_SETTINGS)), [g], seed, -3, 3) + _values(
        fixed, [], seed, 0, 1
    )


first = Exercise(
    "symbolic.adam_first_step",
    "Simplify the change of the parameter in Adam's very first step for the gradient g (may be "
    "negative).",
    "def first_update(g, lr, b1, b2, eps): ...",
    lambda g, lr, b1, b2, eps: -lr * g / (sp.Abs(g) + eps),
    {"either sign": _seeded()},
    probe=_first_probe,
)


@first.accept("root of the square")
def _(g, lr, b1, b2, eps):
    return -lr * g / (sp.sqrt(g**2) + eps)


@first.accept("sign times a fraction")
def _(g, lr, b1, b2, eps):
    return -lr * sp.sign(g) * (1 - eps / (sp.Abs(g) + eps))


@first.reject("plain gradient step", "Adam's first step has about the size lr, whatever g is.")
def _(g, lr, b1, b2, eps):
    return -lr * g


@first.reject(
    "eps inside the root", "eps is added to the root.", "keras-team/keras#17391 (read so there)"
)
def _(g, lr, b1, b2, eps):
    return -lr * g / sp.sqrt(g**2 + eps)


@first.reject("sign turned", "The step goes against the gradient.")
def _(g, lr, b1, b2, eps):
    return lr * g / (sp.Abs(g) + eps)


def _gap_probe(answer, seed):
    """First e varies for 7 classes, then the number of classes for e = 1/10."""
    e, k = sp.symbols("e K", positive=True)
    return _values(sp.sympify(answer(e, sp.Integer(7))), [e], seed, 0.05, 0.6) + _values(
        sp.sympify(answer(sp.Rational(1, 10), k)), [k], seed, 2, 50
    )


smooth = Exercise(
    "symbolic.label_smoothing_optimum",
    "With label smoothing e over K classes (target 1-e + e/K for the right class, e/K else) the "
    "loss is least for logits "
    "that differ by a fixed amount. Give z_right - z_other.",
    "def gap(e, K): ...",
    lambda e, k: sp.log((1 - e + e / k) / (e / k)),
    {"generic": _seeded()},
    probe=_gap_probe,
)


@smooth.accept("expanded")
def _(e, k):
    return sp.log(k * (1 - e) + e) - sp.log(e)


@smooth.accept("log1p form")
def _(e, k):
    return sp.log(1 + k * (1 - e) / e)


@smooth.reject("right class at 1 - e", "The right class also has its share e/K.")
def _(e, k):
    return sp.log((1 - e) * k / e)


@smooth.reject("sign turned", "The right class has the larger logit.")
def _(e, k):
    return sp.log((e / k) / (1 - e + e / k))


EXERCISES = [shift, rope, first, smooth]
