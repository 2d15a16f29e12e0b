r"""Exercises on the softmax: exact for all scores, its Jacobian, and the way back through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sympy import exp

from ..backward import softmax_backward, softmax_jacobian
from ..derivations.forms import delta
from ..derivations.softmax import a, exp_sum, i, j, z
from .adapt import with_tensors
from .core import Misconception, template_of
from .formula import readable, substituted
from .function import FunctionExercise, Property
from .gaps import GapsExercise
from .numeric import softmax

if TYPE_CHECKING:
    import sympy as sp

CHAPTER = "04-scaled-dot-product-attention"


def _plain(x: np.ndarray, largest: object = 0.0) -> np.ndarray:
    e = np.exp(x - largest)
    return e / e.sum(-1, keepdims=True)


def _rows(shift: list[float], k: int = 5):
    n = len(shift)
    return lambda rng: (np.round(rng.normal(size=(n, k)), 2) + np.reshape(shift, (n, 1)),)


def _with_inf(rng: np.random.Generator) -> tuple:
    x = np.round(rng.normal(size=(3, 5)), 2)
    x[0, 1] = x[2, 0] = -np.inf
    return (x,)


STABLE = FunctionExercise(
    id="softmax.stable",
    chapter=CHAPTER,
    title="A softmax that is exact for all scores",
    task="Write a softmax over the last axis that is exact for rows of any size (also ±1000) "
    "and for "
    "entries of −inf (a row has at least one finite entry).",
    template=template_of("def softmax(x): ..."),
    label="eq-softmax-shift",
    hints=(
        "What does the largest exponential look like if scores are near 1000? Near −1000?",
        "A constant taken off a whole row changes nothing. Which constant makes all exponentials "
        "harmless?",
        "The row's own largest entry; mind its axis.",
    ),
    reference=with_tensors(lambda x: x.softmax(-1)),
    names=("x",),
    kinds={
        "two entries": lambda rng: (np.array([[0.0, 1.0]]) * rng.integers(1, 4),),
        "moderate": _rows([0, 0, 0]),
        "large": _rows([1000] * 3),
        "large and negative": _rows([-1000] * 3),
        "rows far apart": _rows([1000, -1000, 0]),
        "square": _rows([3, -3, 0, 1], 4),
        "far apart within a row": lambda rng: (np.array([[0.0, 600, -600], [5, 5, 800]]),),
        "with -inf": _with_inf,
        "with -inf among -1000": lambda rng: (
            np.array([[-np.inf, -1000, -1001], [-999, -1000, -np.inf]]),
        ),
    },
    properties=(
        Property("Every row sums to 1", lambda f, x: (np.ones(x.shape[:-1]), f(x).sum(-1))),
        Property(
            "A constant added to a row changes nothing",
            lambda f, x: (f(x), f(x - x.max(-1, keepdims=True))),
        ),
    ),
    misconceptions=(
        Misconception(
            "no maximum subtracted",
            "exp overflows at about 709 and you get inf/inf = nan; far below 0 it is 0/0. Subtract "
            "the row's maximum first.",
            lambda x: _plain(x),
            "numenta/nupic-legacy#3818",
        ),
        Misconception(
            "the maximum without its axis",
            "The maximum lost its axis, so it is broadcast along the wrong one (silently if the "
            "array is square).",
            lambda x: _plain(x, x.max(-1)),
        ),
        Misconception(
            "a maximum that is never below 0",
            "max(0, maximum) does nothing for rows of large negative numbers, which underflow "
            "to 0/0.",
            lambda x: _plain(x, np.maximum(x.max(-1, keepdims=True), 0)),
            "FluxML/NNlib.jl#43",
        ),
        Misconception(
            "one maximum for the whole array",
            "A row far below the largest entry of another row underflows. Each row has its own "
            "maximum.",
            lambda x: _plain(x, x.max()),
        ),
        Misconception(
            "clipping the scores",
            "Clipping changes the answer; subtracting the maximum does not.",
            lambda x: _plain(np.clip(x, -50, 50)),
        ),
    ),
)


def _weights_and_gradient(n: int, k: int):
    def draw(rng: np.random.Generator) -> tuple:
        return softmax(np.round(rng.normal(size=(n, k)), 1)), np.round(rng.normal(size=(n, k)), 1)

    return draw


BACKWARD = FunctionExercise(
    id="softmax.backward",
    chapter=CHAPTER,
    title="Back through a softmax",
    task="Given `s` = softmax(z) (rows) and the gradient `g` of the loss by `s`, return the "
    "gradient by "
    "z, without writing down a Jacobian.",
    template=template_of("def softmax_backward(s, g): ..."),
    label="eq-softmax-backward",
    hints=(
        "It is g times the Jacobian, row by row: sum over i of g_i s_i (δ_ij − s_j).",
        "The delta leaves g_j s_j. What is left of the other term, once s_j is taken out?",
        "A mean of g, weighted with s: one number for each row.",
    ),
    reference=softmax_backward,
    names=("s", "g"),
    kinds={
        "two even weights": lambda rng: (
            np.array([[0.5, 0.5]]),
            rng.permutation([[0.0, 1.0]], axis=1),
        ),
        "two classes": _weights_and_gradient(3, 2),
        "one row": _weights_and_gradient(1, 4),
        "generic": _weights_and_gradient(3, 5),
        "square": _weights_and_gradient(4, 4),
    },
    properties=(
        Property(
            "The gradients of a row sum to 0",
            lambda f, s, g: (np.zeros(len(s)), f(s, g).sum(-1)),
        ),
        Property(
            "A constant added to a row of g changes nothing",
            lambda f, s, g: (f(s, g), f(s, g + np.arange(1.0, len(g) + 1)[:, None])),
        ),
        Property(
            "Twice the gradient is twice the result", lambda f, s, g: (2 * f(s, g), f(s, 2 * g))
        ),
    ),
    misconceptions=(
        Misconception(
            "the average left out",
            "The term sum(g·s), subtracted in each row, is missing.",
            lambda s, g: s * g,
            "HomericIntelligence/Odyssey#2134",
        ),
        Misconception(
            "a plain sum instead of the weighted one",
            "Subtract the mean of g weighted with s, sum(g·s), not sum(g).",
            lambda s, g: s * (g - g.sum(-1, keepdims=True)),
        ),
        Misconception(
            "the plain mean instead of the weighted one",
            "The mean of g is taken with the weights s: sum(g·s), not the plain mean.",
            lambda s, g: s * (g - g.mean(-1, keepdims=True)),
        ),
        Misconception(
            "the sum over the rows",
            "The inner sum runs over the entries of one row, not over the rows.",
            lambda s, g: s * (g - (g * s).sum(0, keepdims=True)),
        ),
        Misconception(
            "the diagonal only",
            "Every weight of a row depends on every score of it; you use only how each answers to "
            "its own.",
            lambda s, g: s * (1 - s) * g,
        ),
    ),
)

JACOBIAN = FunctionExercise(
    id="softmax.jacobian",
    chapter=CHAPTER,
    title="The Jacobian of a softmax, in code",
    task="Given one row of weights `a` (S), return the (S, S) Jacobian of the softmax: entry "
    "[i, j] is the "
    "derivative of weight i by score j.",
    template=template_of("def jacobian(a): ..."),
    label="eq-softmax-jacobian",
    hints=("Two terms: one lives on the diagonal only.", "The other is an outer product."),
    reference=softmax_jacobian,
    names=("a",),
    kinds={
        "two even weights": lambda rng: (np.array([0.5, 0.5]),),
        "one key": lambda rng: (np.array([1.0]),),
        "generic": lambda rng: (softmax(np.round(rng.normal(size=4), 1)),),
        "one winner": lambda rng: (softmax(np.array([0.0, 30.0, 0.0])),),
    },
    properties=(
        Property("Its rows sum to 0", lambda f, a: (np.zeros(len(a)), f(a).sum(-1))),
        Property("It is symmetric", lambda f, a: (f(a), f(a).T)),
    ),
    misconceptions=(
        Misconception(
            "the diagonal only",
            "The entries beside the diagonal, −a_i a_j, are missing: every weight depends on every "
            "score.",
            lambda a: np.diag(a * (1 - a)),
        ),
        Misconception(
            "plus instead of minus",
            "The outer product is subtracted: what one weight gains the others lose.",
            lambda a: np.diag(a) + np.outer(a, a),
        ),
        Misconception(
            "the same everywhere",
            "a_i (1 − a_j) holds on the diagonal only; beside it the 1 is missing.",
            lambda a: np.outer(a, 1 - a),
        ),
        Misconception(
            "the sign turned",
            "A weight grows with its own score: the diagonal is positive.",
            lambda a: np.outer(a, a) - np.diag(a),
        ),
    ),
)


def _soft(z: tuple) -> list[sp.Expr]:
    import sympy as sp

    total = sum(sp.exp(x) for x in z)
    return [sp.exp(x) / total for x in z]


def _grid(z: tuple, entry) -> sp.Matrix:
    import sympy as sp

    s = _soft(z)
    return sp.Matrix(len(z), len(z), lambda i, j: entry(s[i], s[j], int(i == j)))


def _derived(z: tuple) -> sp.Matrix:
    import sympy as sp

    return sp.Matrix(_soft(z)).jacobian(list(z))


SYMBOLIC_JACOBIAN = FunctionExercise(
    id="symbolic.softmax_jacobian",
    chapter=CHAPTER,
    title="The Jacobian of a softmax, in symbols",
    task="Derive the matrix of the derivatives of softmax_i by z_j, for the tuple of symbols "
    "`z`. Any form "
    "that is equal will do; sympy's `diff` is allowed, but try it by hand first.",
    template="import sympy as sp\n\n\ndef jacobian(z):\n    ...\n",
    label="eq-softmax-jacobian",
    hints=(
        "The quotient rule: z_j stands in the numerator of softmax_i only if i = j.",
        "It stands in the denominator always.",
        "Write both terms with the softmaxes themselves.",
    ),
    reference=_derived,
    names=("z",),
    through=substituted(z={"real": True}),
    kinds={
        "two zeros": lambda rng: (np.array([0.0, 0.0]),),
        "two": readable((2,)),
        "three": readable((3,)),
    },
    properties=(
        Property("Its rows sum to 0", lambda f, z: (np.zeros(len(z)), f(z).sum(-1))),
        Property("It is symmetric", lambda f, z: (f(z), f(z).T)),
    ),
    misconceptions=(
        Misconception(
            "the diagonal only",
            "The terms −s_i s_j beside the diagonal are missing: each output depends on every "
            "score.",
            lambda z: _grid(z, lambda s, t, same: same * s * (1 - s)),
            "deeplearning4j/libnd4j#440",
        ),
        Misconception(
            "s_i (1 − s_j) everywhere",
            "Beside the diagonal it is −s_i s_j: the term s_i belongs to i = j.",
            lambda z: _grid(z, lambda s, t, same: s * (1 - t)),
        ),
        Misconception(
            "the sign turned",
            "The signs are turned: it is diag(s) minus the outer product.",
            lambda z: _grid(z, lambda s, t, same: s * t - same * s),
            "mantasu/cs231n#10",
        ),
        Misconception(
            "plus instead of minus",
            "The product of the outputs is subtracted.",
            lambda z: _grid(z, lambda s, t, same: s * t + same * s),
        ),
        Misconception(
            "the denominator taken for a constant",
            "The sum in the denominator depends on every z_j.",
            lambda z: _grid(z, lambda s, t, same: same * s),
        ),
    ),
)

GAPS = GapsExercise(
    id="softmax.jacobian_gaps",
    chapter=CHAPTER,
    title="The Jacobian, line by line",
    task="Fill in lines 2 and 3 of the derivation. Letters: `z`, `a` (arrays, entries from 1), "
    "`i`, `j`, `l` "
    "(indices), `n`; `delta(i, j)` and `total(what, (l, n))` are the words of the engine.",
    template="""import sympy as sp
from transformer_lab.derivations.forms import array, delta, index, size, total

z, a = array("z"), array("a")
i, j, l = index("i j l")
(n,) = size("n")
lines = {2: ..., 3: ...}
""",
    label="eq-softmax-jacobian",
    hints=(
        "Line 2 is the quotient rule, with the sum of exponentials still written out.",
        "The derivative of exp(z_i) by z_j is exp(z_i) if i = j, and 0 else: a delta.",
        "Line 3: each fraction of line 2 is a softmax, so an entry of a.",
    ),
    lines=(2, 3),
    misconceptions=(
        Misconception(
            "the denominator taken for a constant",
            "z_j stands below the line as well; the quotient rule has a second term.",
            (2, delta(i, j) * exp(z[i]) / exp_sum),
        ),
        Misconception(
            "only how a weight answers to its own score",
            "Beside the diagonal, −a_i a_j is missing: every weight depends on every score.",
            (3, delta(i, j) * a[i]),
        ),
        Misconception(
            "the second term added",
            "What one weight gains the others lose: the product of the weights is subtracted.",
            (3, delta(i, j) * a[i] + a[i] * a[j]),
        ),
        Misconception(
            "the delta lost",
            "The first term is there only for i = j.",
            (3, a[i] - a[i] * a[j]),
        ),
    ),
)

EXERCISES = (STABLE, BACKWARD, JACOBIAN, SYMBOLIC_JACOBIAN, GAPS)
