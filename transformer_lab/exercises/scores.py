r"""Exercises on how far scores spread: variances, in symbols, in gaps, and as guesses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..derivations.forms import E, times, total
from ..derivations.score_variance import d as d_k
from ..derivations.score_variance import k, l, q
from .core import Misconception
from .error import ErrorExercise
from .formula import readable, substituted
from .function import FunctionExercise
from .gaps import GapsExercise

if TYPE_CHECKING:
    import sympy as sp

CHAPTER = "04-scaled-dot-product-attention"
POSITIVE = {"positive": True}
SYMBOLS = substituted(d={"positive": True, "integer": True}, a=POSITIVE, b=POSITIVE)


def _root(x: object) -> sp.Expr:
    import sympy as sp

    return sp.sqrt(x)


def _width_and(*shapes: tuple, low: float = 0.5, high: float = 3.0):
    rest = readable(*shapes, low=low, high=high)
    return lambda rng: (float(rng.integers(2, 9)), *rest(rng))


STANDARD_DEVIATION = FunctionExercise(
    id="symbolic.score_variance",
    chapter=CHAPTER,
    title="How far scores spread",
    task="`q` and `k` have `d` entries, all independent, of mean 0 and with the standard "
    "deviations `a` "
    "(those of q) and `b` (those of k). Give the standard deviation of q·k, as an expression of "
    "sympy.",
    template="import sympy as sp\n\n\ndef score_std(d, a, b):\n    ...\n",
    label="eq-score-variance",
    hints=(
        "Begin with the variance of one product of entries.",
        "With mean 0 and independence it is the product of the two variances.",
        "Variances of independent terms add up. Then one step is left.",
    ),
    reference=lambda d, a, b: _root(d) * a * b,
    names=("d", "a", "b"),
    through=SYMBOLS,
    kinds={"all one": lambda rng: (4.0, 1.0, 1.0), "generic": _width_and((), ())},
    misconceptions=(
        Misconception(
            "the variance instead of the standard deviation",
            "That is the variance; scores are divided by the standard deviation, its root.",
            lambda d, a, b: d * a**2 * b**2,
            "thegregyang/NTK4A#3",
        ),
        Misconception(
            "the spread of one product",
            "The sum runs over d products.",
            lambda d, a, b: a * b,
        ),
        Misconception(
            "variances added",
            "The variance of a product of independent entries of mean 0 is the product a² b².",
            lambda d, a, b: _root(d * (a**2 + b**2)),
        ),
        Misconception(
            "the inverse",
            "That is the factor to multiply with, not the standard deviation.",
            lambda d, a, b: 1 / (_root(d) * a * b),
        ),
        Misconception(
            "standard deviations added",
            "Not standard deviations but variances of independent terms add up: the root of d, "
            "not d.",
            lambda d, a, b: d * a * b,
        ),
    ),
)

WITH_MEANS = FunctionExercise(
    id="symbolic.score_variance_means",
    chapter=CHAPTER,
    title="The variance of a score whose entries have a mean",
    task="All entries of `q` and `k` are independent, with the same mean `m` and the same "
    "variance `s`. Give "
    "the variance of q·k for `d` entries, as an expression of sympy.",
    template="import sympy as sp\n\n\ndef score_variance(d, m, s):\n    ...\n",
    label="eq-score-variance-means",
    hints=(
        "E[q²] is the variance plus the square of the mean.",
        "Var(q k) = E[q²] E[k²] − (E[q] E[k])² for each of the d products.",
        "Multiply out: one term cancels, three stay.",
    ),
    reference=lambda d, m, s: d * (s**2 + 2 * m**2 * s),
    names=("d", "m", "s"),
    through=substituted(d={"positive": True, "integer": True}, m={"real": True}, s=POSITIVE),
    kinds={
        "all one": lambda rng: (1.0, 1.0, 1.0),
        "mean zero": lambda rng: (4.0, 0.0, 2.0),
        "generic": _width_and((), ()),
        "negative mean": lambda rng: (5.0, -1.5, 2.0),
    },
    misconceptions=(
        Misconception(
            "the mean forgotten",
            "“The variance of a product is the product of the variances” needs both means to be 0.",
            lambda d, m, s: d * s**2,
        ),
        Misconception(
            "the second moment instead of the variance",
            "The square of the mean of each product, m⁴, has to be subtracted.",
            lambda d, m, s: d * (s + m**2) ** 2,
        ),
        Misconception(
            "one of the two mixed terms",
            "Both q and k have a mean: m² s stands there twice.",
            lambda d, m, s: d * (s**2 + m**2 * s),
        ),
        Misconception(
            "s taken for the standard deviation",
            "Here s is the variance already; it is not squared once more.",
            lambda d, m, s: d * (s**4 + 2 * m**2 * s**2),
        ),
    ),
)

GAPS = GapsExercise(
    id="scores.variance_gaps",
    chapter=CHAPTER,
    title="The variance of a score, line by line",
    task="Fill in lines 4 and 5: `E` is the expectation, `q[l]` and `k[l]` are entries, "
    "`total(what, (l, d_k))` is a sum over l from 1 to d_k.",
    template="""from transformer_lab.derivations.forms import E, array, index, size, total

q, k = array("q", random=True), array("k", random=True)
(l,), (d_k,) = index("l"), size("d_k")
lines = {4: ..., 5: ...}
""",
    label="eq-score-variance",
    hints=(
        "The reason beside each line says what it uses.",
        "Line 4: the expectation of a product of independent factors is the product of their "
        "expectations, also inside a square.",
        "Line 5: which of the two products is 0 if every mean is?",
    ),
    lines=(4, 5),
    misconceptions=(
        Misconception(
            "the expectation of a square taken for the square of the expectation",
            "E[q²] is the variance plus E[q]²: with mean 0 the one is the variance, the other 0.",
            (4, total(E(q[l]) ** 2 * E(k[l]) ** 2 - E(q[l]) ** 2 * E(k[l]) ** 2, (l, d_k))),
        ),
        Misconception(
            "the wrong product dropped",
            "Means are 0, second moments are not.",
            (5, -total(times(E(q[l]) ** 2, E(k[l]) ** 2), (l, d_k))),
        ),
        Misconception(
            "the sum lost",
            "There are d_k such terms; keep the sum.",
            (5, E(q[1] ** 2) * E(k[1] ** 2)),
        ),
    ),
)

INDEPENDENT = ErrorExercise(
    id="scores.independence_error",
    chapter=CHAPTER,
    title="Find the error: “because they are independent”",
    task="A document argues: (a) *the terms q_l k_l are independent of each other*, so (b) "
    "*their variances add "
    "up*. (c) *Since q_l and k_l are independent, Var(q_l k_l) = Var(q_l) Var(k_l).* (d) "
    "*Divided by the "
    "root of the sum, a score has variance 1.* Entries are independent; nothing was said about "
    "their "
    "mean. Which part does not follow? Name it, and write Var(q·k) for `d` entries of mean `m` and "
    "variance `s`.",
    template='part = ...  # such as "a"\n\n\ndef mended(d, m, s):\n    ...\n',
    label="eq-score-variance-means",
    hints=(
        "Test each part on q, k ∈ {0, 2}, by the toss of a coin: mean 1, variance 1.",
        "Then q k is 4 with probability ¼, else 0. Its variance is 3.",
    ),
    parts={
        "a": "the terms q_l k_l are independent of each other",
        "b": "so their variances add up",
        "c": "since q_l and k_l are independent, Var(q_l k_l) = Var(q_l) Var(k_l)",
        "d": "divided by the root of its variance, a score has variance 1",
    },
    wrong="c",
    because={
        "a": "They are made of different, independent entries.",
        "b": "Variances of independent numbers always add up.",
        "d": "Var(x / c) = Var(x) / c², whatever x is.",
    },
    mended=FunctionExercise(
        id="scores.independence_mended",
        chapter=CHAPTER,
        title="The variance, mended",
        task="The variance as it should be.",
        reference=lambda d, m, s: d * (s**2 + 2 * m**2 * s),
        names=("d", "m", "s"),
        kinds={
            "all one": lambda rng: (1.0, 1.0, 1.0),
            "mean zero": lambda rng: (4.0, 0.0, 2.0),
            "generic": _width_and((), ()),
        },
        misconceptions=WITH_MEANS.misconceptions,
    ),
)

EXERCISES = (STANDARD_DEVIATION, WITH_MEANS, GAPS, INDEPENDENT)
