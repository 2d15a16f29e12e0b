"""Derivations in sympy: an answer is an expression (or matrix); any equal form is right.

The probe puts the same random numbers into the answer and compares values to 25 digits, so no
simplification and no particular form is asked for. A checker of a notebook may do the same,
with sympy.simplify as a second opinion.

Part 1 of 2.
"""

import sympy as sp
from bank import Exercise
from symbolic_shared import _at, _seeded, _values


def _z(n):
    return sp.symbols(f"z1:{n + 1}", real=True)


def _soft(z):
    total = sum(sp.exp(a) for a in z)
    return [sp.exp(a) / total for a in z]


jacobian = Exercise(
    "symbolic.softmax_jacobian",
    "Derive the matrix of d softmax_i / d z_j for the symbols z.",
    "def jacobian(z): ...",
    lambda z: sp.Matrix(_soft(z)).jacobian(list(z)),
    {"three": _seeded(3), "two": _seeded(2)},
    probe=_at(lambda n: (_z(n),), -1.0, 1.0),
)


@jacobian.accept("diag(s) - s s^T")
def _(z):
    s = sp.Matrix(_soft(z))
    return sp.diag(*s) - s * s.T


@jacobian.accept("Kronecker delta")
def _(z):
    s = _soft(z)
    return sp.Matrix(len(z), len(z), lambda i, j: s[i] * (sp.KroneckerDelta(i, j) - s[j]))


@jacobian.accept("shifted exponentials")
def _(z):
    inverse = [sum(sp.exp(b - a) for b in z) for a in z]
    return sp.Matrix(len(z), len(z), lambda i, j: (int(i == j) - 1 / inverse[j]) / inverse[i])


@jacobian.reject(
    "diagonal only",
    "The off-diagonal terms -s_i s_j are missing: each output depends on every logit.",
    "deeplearning4j/libnd4j#440, Apiquet/DeepLearningFrameworkFromScratchCpp#1",
)
def _(z):
    return sp.diag(*[s * (1 - s) for s in _soft(z)])


@jacobian.reject(
    "s_i (1 - s_j) everywhere", "Off the diagonal the term s_i is missing: it is -s_i s_j there."
)
def _(z):
    s = _soft(z)
    return sp.Matrix(len(z), len(z), lambda i, j: s[i] * (1 - s[j]))


@jacobian.reject("sign turned", "The signs are turned: it is diag(s) - s s^T.", "mantasu/cs231n#10")
def _(z):
    s = sp.Matrix(_soft(z))
    return s * s.T - sp.diag(*s)


@jacobian.reject("plus instead of minus", "The product of the outputs is subtracted.")
def _(z):
    s = sp.Matrix(_soft(z))
    return sp.diag(*s) + s * s.T


@jacobian.reject(
    "denominator taken as a constant", "The sum in the denominator depends on every z_j."
)
def _(z):
    return sp.diag(*_soft(z))


ce = Exercise(
    "symbolic.cross_entropy_gradient",
    "Derive the gradient of -log softmax(z)_1 (the first class is the right one) by z.",
    "def gradient(z): ...",
    lambda z: [sp.diff(-sp.log(_soft(z)[0]), a) for a in z],
    {"three": _seeded(3), "two": _seeded(2)},
    probe=_at(lambda n: (_z(n),), -1.0, 1.0),
)


@ce.accept("softmax minus one-hot")
def _(z):
    s = _soft(z)
    return [s[0] - 1] + s[1:]


@ce.accept("derivative of the log-sum-exp")
def _(z):
    loss = sp.log(sum(map(sp.exp, z))) - z[0]
    return [loss.diff(a) for a in z]


@ce.accept("minus the others' share")
def _(z):
    s = _soft(z)
    return [-sum(s[1:])] + s[1:]


@ce.reject("right class only", "The other logits have a gradient as well.")
def _(z):
    return [_soft(z)[0] - 1] + [sp.Integer(0)] * (len(z) - 1)


@ce.reject("softmax without the one-hot", "The -1 at the right class is missing.")
def _(z):
    return _soft(z)


def _hot_probe(answer, n, seed):
    z, tau = _z(n), sp.Symbol("T", positive=True)
    return _values(answer(z, tau), list(z) + [tau], seed, 0.3, 2.0)


heat = Exercise(
    "symbolic.temperature_gradient",
    "Derive the gradient of -log softmax(z/T)_1 by z.",
    "def gradient(z, T): ...",
    lambda z, tau: [sp.diff(-sp.log(_soft([a / tau for a in z])[0]), a) for a in z],
    {"three": _seeded(3)},
    probe=_hot_probe,
)


@heat.accept("(p - y)/T")
def _(z, tau):
    p = sp.Matrix(_soft([a / tau for a in z]))
    p[0] -= 1
    return p.T / tau


@heat.accept("derivative of the log-sum-exp")
def _(z, tau):
    free = sp.log(sum(sp.exp(a / tau) for a in z))
    return [free.diff(a) - (1 / tau if i == 0 else 0) for i, a in enumerate(z)]


@heat.reject("inner derivative forgotten", "z enters as z/T: the chain rule gives a factor 1/T.")
def _(z, tau):
    p = _soft([a / tau for a in z])
    return [p[0] - 1] + p[1:]


@heat.reject("probabilities without the temperature", "p is softmax(z/T), not softmax(z).")
def _(z, tau):
    p = _soft(z)
    return [(p[0] - 1) / tau] + [a / tau for a in p[1:]]


@heat.reject(
    "1/T squared",
    "One factor 1/T only (the T^2 of distillation makes up for two of them, in another loss).",
)
def _(z, tau):
    p = _soft([a / tau for a in z])
    return [(p[0] - 1) / tau**2] + [a / tau**2 for a in p[1:]]


variance = Exercise(
    "symbolic.score_variance",
    "q and k have d independent entries of mean 0 and standard deviations a and b. Give the "
    "standard deviation of q.k, "
    "from which the scale of attention follows.",
    "def score_std(d, a, b): ...",
    lambda d, a, b: sp.sqrt(d) * a * b,
    {"generic": _seeded()},
    probe=_at(lambda: sp.symbols("d a b", positive=True), 0.3, 5.0),
)


@variance.accept("root of the sum of variances")
def _(d, a, b):
    return sp.sqrt(d * a**2 * b**2)


@variance.accept("summation")
def _(d, a, b):
    i = sp.Symbol("i", integer=True)
    return sp.sqrt(sp.summation(a**2 * b**2, (i, 1, d)))


@variance.reject(
    "variance instead of standard deviation",
    "That is the variance; the scores are divided by the standard deviation, its root.",
    "thegregyang/NTK4A#3",
)
def _(d, a, b):
    return d * a**2 * b**2


@variance.reject("variance of one product", "The sum runs over d products.")
def _(d, a, b):
    return a * b


@variance.reject(
    "variances added",
    "The variance of a product of independent entries of mean 0 is the product a^2 b^2.",
)
def _(d, a, b):
    return sp.sqrt(d * (a**2 + b**2))


@variance.reject("inverse", "That is the factor to multiply with, not the standard deviation.")
def _(d, a, b):
    return 1 / (sp.sqrt(d) * a * b)


def _xhat(x):
    n = len(x)
    m = sum(x) / n
    s = sp.sqrt(sum((a - m) ** 2 for a in x) / n)
    return [(a - m) / s for a in x], s


ln = Exercise(
    "symbolic.layernorm_jacobian",
    "Derive d xhat_i / d x_j for xhat = (x - mean)/std (population std, no eps), three entries.",
    "def jacobian(x): ...",
    lambda x: sp.Matrix(_xhat(x)[0]).jacobian(list(x)),
    {"three": _seeded(3)},
    probe=_at(lambda n: (sp.symbols(f"x1:{n + 1}", real=True),), -2.0, 2.0),
)


@ln.accept("projection")
def _(x):
    h, s = _xhat(x)
    h, n = sp.Matrix(h), len(x)
    return (sp.eye(n) - sp.ones(n, n) / n - h * h.T / n) / s


@ln.accept("entry by entry")
def _(x):
    h, s = _xhat(x)
    n = len(x)
    return [
        [(int(i == j) - sp.Rational(1, n) * (1 + h[i] * h[j])) / s for j in range(n)]
        for i in range(n)
    ]


@ln.accept("product of centring and scaling")
def _(x):
    n = len(x)
    c = sp.eye(n) - sp.ones(n, n) / n
    y = c * sp.Matrix(x)
    r2 = (y.T * y)[0] / n
    return (sp.eye(n) / sp.sqrt(r2) - y * y.T / (n * r2 ** sp.Rational(3, 2))) * c


@ln.reject(
    "std as a constant", "The term -xhat_i xhat_j / n, from the standard deviation, is missing."
)
def _(x):
    n = len(x)
    return (sp.eye(n) - sp.ones(n, n) / n) / _xhat(x)[1]


@ln.reject("mean as a constant", "The term -1/n, from the mean, is missing.")
def _(x):
    h, s = _xhat(x)
    h = sp.Matrix(h)
    return (sp.eye(len(x)) - h * h.T / len(x)) / s


@ln.reject("variance in the denominator", "The common factor is 1/std, not 1/variance.")
def _(x):
    h, s = _xhat(x)
    h, n = sp.Matrix(h), len(x)
    return (sp.eye(n) - sp.ones(n, n) / n - h * h.T / n) / s**2


EXERCISES = [jacobian, ce, heat, variance, ln]
