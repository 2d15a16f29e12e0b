r"""How far scores spread: the variance of q·k, with every assumption named where it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import sympy as sp

from .bridge import Bridge
from .core import Definition, Derivation, Step
from .expectation import independent_entries, independent_vectors, moments, second_moments
from .forms import (
    E,
    Var,
    array,
    delta,
    index,
    minus,
    over,
    plus,
    size,
    symmetric,
    times,
    total,
)

if TYPE_CHECKING:
    from torch import Tensor

d, N, M = size("d_k N M")
l, m = index("l m")  # noqa: E741 - l counts the terms of a sum, in the book too
q, k = array("q", random=True), array("k", random=True)
mu_q, mu_k = array(r"\mu^{q}"), array(r"\mu^{k}")
kappa = sp.Symbol("kappa", positive=True)
rho_q, rho_k = sp.symbols("rho_q rho_k", real=True)
C_q, C_k = symmetric("C^{q}"), symmetric("C^{k}")

dot = sp.Symbol(r"q \cdot k", real=True)
DOT = Definition(dot, total(times(q[l], k[l]), (l, d)))

INDEPENDENT = independent_entries(
    "independent", "all $2 d_k$ entries of $q$ and $k$ are mutually independent"
)
CENTRED = moments("mean zero", "every entry has mean 0", {x: lambda _: {1: 0} for x in (q, k)})
UNIT = moments("variance one", "every entry has variance 1", {x: lambda _: {2: 1} for x in (q, k)})
OWN_MOMENTS = moments(
    "means and variances",
    "entry $l$ of $q$ has mean $\\mu^q_l$ and variance $C^q_{ll}$, that of $k$ has $\\mu^k_l$ and "
    "$C^k_{ll}$",
    {
        q: lambda x: {1: mu_q[x], 2: C_q[x, x] + mu_q[x] ** 2},
        k: lambda x: {1: mu_k[x], 2: C_k[x, x] + mu_k[x] ** 2},
    },
)
ONES = moments(
    "mean one, variance one",
    "every entry has mean 1 and variance 1, so that $\\mathbb{E}[q_l^2] = 2$",
    {x: lambda _: {1: 1, 2: 2} for x in (q, k)},
)
APART = independent_vectors(
    "q apart from k",
    "$q$ as a whole is independent of $k$; within either, entries may depend on each other",
)
MEANS_OF_ENTRIES = moments(
    "means",
    "$\\mathbb{E}[q_l] = \\mu^q_l$ and $\\mathbb{E}[k_l] = \\mu^k_l$",
    {q: lambda x: {1: mu_q[x]}, k: lambda x: {1: mu_k[x]}},
)
COVARIANCES = second_moments(
    "covariances",
    "$q_l$ and $q_m$ have covariance $C^q_{lm}$, $k_l$ and $k_m$ have $C^k_{lm}$",
    {
        q: lambda x, y: C_q[x, y] + mu_q[x] * mu_q[y],
        k: lambda x, y: C_k[x, y] + mu_k[x] * mu_k[y],
    },
)
CORRELATED = second_moments(
    "one correlation",
    "entries have variance 1; those of $q$ are correlated by $\\rho_q$, those of $k$ by $\\rho_k$",
    {
        q: lambda x, y: delta(x, y) + (1 - delta(x, y)) * rho_q,
        k: lambda x, y: delta(x, y) + (1 - delta(x, y)) * rho_k,
    },
)
FOURTH = moments(
    "kurtosis",
    "entries of $q$ have mean 0, variance 1 and $\\mathbb{E}[q_l^4] = \\kappa$, 3 for normal ones",
    {q: lambda _: {2: 1, 4: kappa}},
)
OWN_INDEPENDENT = independent_entries(
    "independent", "the $d_k$ entries of $q$ are mutually independent; the key is $q$ itself"
)

STATISTICS = "transformer_lab.attention.statistics."
VECTORS = {"q": (N, d), "k": (M, d)}  # N queries, M keys: what the package measures


def _measured(statistic: Callable, values: dict[str, Tensor]) -> Tensor:
    import torch

    variance = statistic(values["q"].numpy(), values["k"].numpy())
    return torch.tensor(variance, dtype=torch.float64)


def _normed(mean: float) -> Callable:
    """Every entry with exactly this mean, and with variance 1, over all vectors."""

    def prepare(values: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: (x - x.mean(0)) / x.std(0, correction=0) + mean for name, x in values.items()}

    return prepare


def _with_moments(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Add the means and covariances of the vectors at hand."""
    found = dict(values)
    for name in "qk":
        x = values[name]
        away = x - x.mean(0)
        found[rf"\mu^{{{name}}}"] = x.mean(0)
        found[f"C^{{{name}}}"] = away.T @ away / len(x)
    return found


def _correlated(values: dict[str, Tensor]) -> dict[str, Tensor]:
    r"""2 d_k vectors ±√d_k L_j each, L L^⊤ the covariance: variance 1, correlation rho, exactly."""
    import torch

    found, d_k = dict(values), values["q"].shape[1]
    for name in "qk":
        rho = found[f"rho_{name}"] = values[f"rho_{name}"].sigmoid()
        eye = torch.eye(d_k, dtype=torch.float64)
        columns = d_k**0.5 * torch.linalg.cholesky((1 - rho) * eye + rho).T
        found[name] = torch.cat([columns, -columns])
    return found


by_definition = Step(minus(E(sp.Pow(dot, 2)), sp.Pow(E(dot), 2)), "the definition of a variance")
pair = E(times(q[l], k[l], q[m], k[m]))
by_linearity = Step(
    total(minus(pair, times(E(times(q[l], k[l])), E(times(q[m], k[m])))), (l, d), (m, d)),
    "the square of a sum is a double sum, and $\\mathbb{E}$ goes into sums",
)
only_equal_indices = Step(
    total(minus(E(times(q[l] ** 2, k[l] ** 2)), sp.Pow(E(times(q[l], k[l])), 2)), (l, d)),
    "for $l \\ne m$ the products $q_l k_l$ and $q_m k_m$ are independent, and the term is 0",
    uses=("independent",),
)
factors_apart = Step(
    total(
        minus(
            times(E(q[l] ** 2), E(k[l] ** 2)),
            times(sp.Pow(E(q[l]), 2), sp.Pow(E(k[l]), 2)),
        ),
        (l, d),
    ),
    "$q_l$ is independent of $k_l$",
    uses=("independent",),
)

PLAIN = Derivation(
    label="eq-score-variance",
    title="The variance of a score is the width of the head",
    claim=sp.Eq(Var(dot), d, evaluate=False),
    given=(DOT, INDEPENDENT, CENTRED, UNIT),
    steps=(
        by_definition,
        by_linearity,
        only_equal_indices,
        factors_apart,
        Step(
            total(times(E(q[l] ** 2), E(k[l] ** 2)), (l, d)),
            "every entry has mean 0, so the second product is 0",
            uses=("mean zero",),
        ),
        Step(
            total(sp.S.One, (l, d)),
            "with mean 0, $\\mathbb{E}[q_l^2]$ is the variance, 1",
            uses=("variance one",),
        ),
        Step(d, "$d_k$ ones"),
    ),
    bridge=Bridge(VECTORS, STATISTICS + "variance_from_means", _measured, prepare=_normed(0)),
)

SCALED = Derivation(
    label="eq-score-variance-scaled",
    title="Divided by the root of the width, a score has variance one",
    claim=sp.Eq(Var(over(dot, sp.sqrt(d))), sp.S.One, evaluate=False),
    given=(DOT, INDEPENDENT, CENTRED, UNIT),
    steps=(
        Step(
            minus(E(over(sp.Pow(dot, 2), d)), sp.Pow(E(over(dot, sp.sqrt(d))), 2)),
            "the definition of a variance; $(x / \\sqrt{d_k})^2 = x^2 / d_k$",
        ),
        Step(
            times(over(1, d), minus(E(sp.Pow(dot, 2)), sp.Pow(E(dot), 2))),
            "$d_k$ is a number: it leaves both expectations as $1/d_k$",
        ),
        Step(times(over(1, d), Var(dot)), "the definition of a variance again"),
        Step(
            times(over(1, d), d),
            "{eq}`eq-score-variance`",
            uses=("independent", "mean zero", "variance one"),
        ),
        Step(sp.S.One, "so dividing by $\\sqrt{d_k}$ is right, and dividing by $d_k$ is not"),
    ),
    bridge=Bridge(
        VECTORS,
        STATISTICS + "variance_from_means",
        lambda statistic, v: _measured(statistic, v | {"q": v["q"] / v["q"].shape[1] ** 0.5}),
        prepare=_normed(0),
    ),
)

own = total(
    plus(
        times(C_q[l, l], C_k[l, l]),
        times(mu_q[l] ** 2, C_k[l, l]),
        times(mu_k[l] ** 2, C_q[l, l]),
    ),
    (l, d),
)
MEANS = Derivation(
    label="eq-score-variance-means",
    title="The variance of a score whose entries have means",
    claim=sp.Eq(Var(dot), own, evaluate=False),
    given=(DOT, INDEPENDENT, OWN_MOMENTS),
    steps=(
        by_definition,
        by_linearity,
        only_equal_indices,
        factors_apart,
        Step(
            total(
                minus(
                    times(plus(C_q[l, l], mu_q[l] ** 2), plus(C_k[l, l], mu_k[l] ** 2)),
                    times(mu_q[l] ** 2, mu_k[l] ** 2),
                ),
                (l, d),
            ),
            "a second moment is the variance plus the square of the mean",
            uses=("means and variances",),
        ),
        Step(own, "multiply out; the product of the squared means cancels, three terms stay"),
    ),
    bridge=Bridge(VECTORS, STATISTICS + "variance_from_means", _measured, prepare=_with_moments),
)

ONE = Derivation(
    label="eq-score-variance-mean-one",
    title="Entries of mean one: three times the variance",
    claim=sp.Eq(Var(dot), times(3, d), evaluate=False),
    given=(DOT, INDEPENDENT, ONES),
    steps=(
        Step(
            total(plus(1, 1, 1), (l, d)),
            "{eq}`eq-score-variance-means` with every $C_{ll} = 1$ and every mean 1",
            uses=("independent", "mean one, variance one"),
        ),
        Step(times(3, d), "$d_k$ times three"),
    ),
    bridge=Bridge(VECTORS, STATISTICS + "variance_from_means", _measured, prepare=_normed(1)),
)

shared = total(
    plus(
        times(C_q[l, m], C_k[l, m]),
        times(mu_q[l], C_k[l, m], mu_q[m]),
        times(mu_k[l], C_q[l, m], mu_k[m]),
    ),
    (l, d),
    (m, d),
)
COVARIANCE = Derivation(
    label="eq-score-variance-covariance",
    title="The variance of a score, if queries are independent of keys",
    claim=sp.Eq(Var(dot), shared, evaluate=False),
    given=(DOT, APART, MEANS_OF_ENTRIES, COVARIANCES),
    steps=(
        by_definition,
        by_linearity,
        Step(
            total(
                minus(
                    times(E(times(q[l], q[m])), E(times(k[l], k[m]))),
                    times(E(q[l]), E(k[l]), E(q[m]), E(k[m])),
                ),
                (l, d),
                (m, d),
            ),
            "$q$ is independent of $k$",
            uses=("q apart from k",),
        ),
        Step(
            total(
                minus(
                    times(
                        plus(C_q[l, m], times(mu_q[l], mu_q[m])),
                        plus(C_k[l, m], times(mu_k[l], mu_k[m])),
                    ),
                    times(mu_q[l], mu_k[l], mu_q[m], mu_k[m]),
                ),
                (l, d),
                (m, d),
            ),
            "the mean of a product is the covariance plus the product of the means",
            uses=("means", "covariances"),
        ),
        Step(shared, "multiply out; the product of the four means cancels"),
    ),
    bridge=Bridge(
        VECTORS, STATISTICS + "variance_from_covariances", _measured, prepare=_with_moments
    ),
)

grown = plus(d, times(d, minus(d, 1), rho_q, rho_k))
CORRELATION = Derivation(
    label="eq-score-variance-correlated",
    title="Entries that agree make scores grow like the width itself",
    claim=sp.Eq(Var(dot), grown, evaluate=False),
    given=(DOT, APART, CENTRED, CORRELATED),
    steps=(
        by_definition,
        by_linearity,
        Step(
            total(times(E(times(q[l], q[m])), E(times(k[l], k[m]))), (l, d), (m, d)),
            "$q$ is independent of $k$, and every entry has mean 0",
            uses=("q apart from k", "mean zero"),
        ),
        Step(
            total(
                times(
                    plus(delta(l, m), times(minus(1, delta(l, m)), rho_q)),
                    plus(delta(l, m), times(minus(1, delta(l, m)), rho_k)),
                ),
                (l, d),
                (m, d),
            ),
            "1 on the diagonal, the correlation elsewhere",
            uses=("one correlation",),
        ),
        Step(grown, "$d_k$ places on the diagonal, $d_k (d_k - 1)$ beside it"),
    ),
    bridge=Bridge(
        VECTORS | {"rho_q": (), "rho_k": ()},
        STATISTICS + "variance_from_covariances",
        _measured,
        prepare=_correlated,
    ),
)

square = sp.Symbol(r"q \cdot q", real=True)
SAME = Derivation(
    label="eq-score-variance-same",
    title="A query that is its own key",
    claim=sp.Eq(Var(square), times(d, minus(kappa, 1)), evaluate=False),
    given=(Definition(square, total(q[l] ** 2, (l, d))), OWN_INDEPENDENT, FOURTH),
    steps=(
        Step(
            total(
                minus(E(times(q[l] ** 2, q[m] ** 2)), times(E(q[l] ** 2), E(q[m] ** 2))),
                (l, d),
                (m, d),
            ),
            "the definition of a variance, and $\\mathbb{E}$ goes into sums",
        ),
        Step(
            total(minus(E(q[l] ** 4), sp.Pow(E(q[l] ** 2), 2)), (l, d)),
            "for $l \\ne m$ the entries are independent, and the term is 0",
            uses=("independent",),
        ),
        Step(
            times(d, minus(kappa, 1)),
            "$\\mathbb{E}[q_l^4] = \\kappa$, and $\\mathbb{E}[q_l^2]$ is the variance, 1",
            uses=("kurtosis",),
        ),
    ),
)

DERIVATIONS = (PLAIN, SCALED, MEANS, ONE, COVARIANCE, CORRELATION, SAME)
