r"""Softmax: what it ignores, its Jacobian, what that Jacobian measures, and when it dies out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy as sp
from sympy.matrices.expressions.diagonal import DiagMatrix

from .bridge import Bridge
from .core import Definition, Derivation, Step
from .forms import array, delta, derivative, index, matrix, minus, over, plus, size, times, total

if TYPE_CHECKING:
    from torch import Tensor

n, m = size("n m")
i, j, l = index("i j l")  # noqa: E741 - l counts the terms of a sum, in the book too
c, g, t = sp.symbols("c g t", real=True)
z, a, u = array("z"), array("a"), array("u")
gap = array("g")
J, J_whole, a_row = array("J"), matrix("J", n, n), matrix("a", sp.S.One, n)

exp_sum = total(sp.exp(z[l]), (l, n))
SOFTMAX = Definition(a[i], over(sp.exp(z[i]), exp_sum))
SLOPES = Definition(J[i, j], derivative(a[i], z[j]))


def _softmax(values: dict[str, Tensor]) -> Tensor:
    return values["z"].softmax(-1)


SUM = Derivation(
    label="eq-softmax-sum",
    title="The weights of a row sum to one",
    claim=sp.Eq(total(a[i], (i, n)), sp.S.One, evaluate=False),
    given=(SOFTMAX,),
    steps=(
        Step(total(over(sp.exp(z[i]), exp_sum), (i, n)), "what $a_i$ stands for"),
        Step(over(total(sp.exp(z[i]), (i, n)), exp_sum), "the sum below does not depend on $i$"),
        Step(sp.S.One, "the same sum, above and below"),
    ),
    bridge=Bridge(
        arrays={"z": (n,)},
        function="torch.softmax",
        call=lambda softmax, v: softmax(v["z"], -1).sum(),
    ),
)

shifted = sp.exp(plus(z[i], c))
SHIFT = Derivation(
    label="eq-softmax-shift",
    title="Softmax does not see what all scores of a row have in common",
    claim=sp.Eq(
        over(shifted, total(sp.exp(plus(z[l], c)), (l, n))),
        over(sp.exp(z[i]), exp_sum),
        evaluate=False,
    ),
    ranges=((i, n),),
    facts=("$c$ is any number, the same for all scores of the row",),
    steps=(
        Step(
            over(times(sp.exp(z[i]), sp.exp(c)), total(times(sp.exp(z[l]), sp.exp(c)), (l, n))),
            "$e^{z + c} = e^z e^c$",
        ),
        Step(
            over(times(sp.exp(z[i]), sp.exp(c)), times(sp.exp(c), exp_sum)),
            "$e^c$ does not depend on $l$ and leaves the sum",
        ),
        Step(over(sp.exp(z[i]), exp_sum), "$e^c$ cancels: it is never zero"),
    ),
    bridge=Bridge(
        arrays={"z": (n,), "c": ()},
        function="torch.softmax",
        call=lambda softmax, v: softmax(v["z"] + v["c"], -1),
    ),
)

JACOBIAN = Derivation(
    label="eq-softmax-jacobian",
    title="The Jacobian of softmax",
    claim=sp.Eq(
        J_whole,
        sp.MatAdd(DiagMatrix(a_row), sp.MatMul(-1, a_row.T, a_row), evaluate=False),
        evaluate=False,
    ),
    ranges=((i, n), (j, n)),
    given=(SOFTMAX, SLOPES),
    steps=(
        Step(derivative(over(sp.exp(z[i]), exp_sum), z[j]), "what $J_{ij}$ and $a_i$ stand for"),
        Step(
            minus(
                over(times(delta(i, j), sp.exp(z[i])), exp_sum),
                over(times(sp.exp(z[i]), sp.exp(z[j])), sp.Pow(exp_sum, 2)),
            ),
            "the quotient rule: $z_j$ stands above only if $j = i$, and below always",
        ),
        Step(minus(times(delta(i, j), a[i]), times(a[i], a[j])), "each fraction is a softmax"),
        Step(
            sp.MatAdd(DiagMatrix(a_row), sp.MatMul(-1, a_row.T, a_row), evaluate=False),
            "the same for all $i$ and $j$ at once; $a$ is a row",
        ),
    ),
    bridge=Bridge(
        arrays={"z": (n,)},
        function="transformer_lab.backward.softmax_jacobian",
        call=lambda jacobian, v: _from_numpy(jacobian(_softmax(v).numpy())),
        forward=_softmax,
        by="z",
    ),
)

DIAGONAL = Derivation(
    label="eq-softmax-steepest",
    title="No weight answers its own score with a slope above one quarter",
    claim=sp.Eq(
        J[i, i], minus(sp.Rational(1, 4), sp.Pow(minus(a[i], sp.Rational(1, 2)), 2)), evaluate=False
    ),
    ranges=((i, n),),
    given=(SOFTMAX, SLOPES),
    steps=(
        Step(times(a[i], minus(1, a[i])), "{eq}`eq-softmax-jacobian` with $j = i$"),
        Step(
            minus(sp.Rational(1, 4), sp.Pow(minus(a[i], sp.Rational(1, 2)), 2)),
            "complete the square",
        ),
    ),
    bridge=Bridge(
        arrays={"z": (n,)},
        function="transformer_lab.backward.softmax_jacobian",
        call=lambda jacobian, v: _from_numpy(jacobian(_softmax(v).numpy())).diagonal(),
    ),
)

spread = times(
    sp.Rational(1, 2),
    total(times(a[i], a[j], sp.Pow(minus(u[i], u[j]), 2)), (i, n), (j, n)),
)
SPREAD = Derivation(
    label="eq-softmax-spread",
    title="What the Jacobian measures: the spread of a direction under the weights",
    claim=sp.Eq(total(times(u[i], J[i, j], u[j]), (i, n), (j, n)), spread, evaluate=False),
    given=(SOFTMAX, SLOPES),
    largest=3,
    steps=(
        Step(
            total(
                times(u[i], minus(times(delta(i, j), a[i]), times(a[i], a[j])), u[j]),
                (i, n),
                (j, n),
            ),
            "{eq}`eq-softmax-jacobian`",
        ),
        Step(
            minus(
                total(times(a[i], sp.Pow(u[i], 2)), (i, n)),
                sp.Pow(total(times(a[i], u[i]), (i, n)), 2),
            ),
            "the delta uses up one sum; the other product of sums is a square: this is the "
            "variance of $u$ when $i$ is drawn with probability $a_i$",
        ),
        Step(
            minus(
                times(
                    sp.Rational(1, 2),
                    plus(
                        total(times(a[i], a[j], sp.Pow(u[i], 2)), (i, n), (j, n)),
                        total(times(a[i], a[j], sp.Pow(u[j], 2)), (i, n), (j, n)),
                    ),
                ),
                total(times(a[i], u[i], a[j], u[j]), (i, n), (j, n)),
            ),
            "$\\sum_j a_j = 1$ by {eq}`eq-softmax-sum`, put in twice",
        ),
        Step(spread, "the binomial formula"),
    ),
    bridge=Bridge(
        arrays={"z": (n,), "u": (n,)},
        function="transformer_lab.backward.softmax_jacobian",
        call=lambda jacobian, v: v["u"] @ _from_numpy(jacobian(_softmax(v).numpy())) @ v["u"],
    ),
)

weight = sp.Symbol("a", positive=True)
first = over(1, plus(1, sp.exp(-g)))
TWO_KEYS = Derivation(
    label="eq-softmax-two-keys",
    title="Two keys: how the slope dies out with the gap between their scores",
    claim=sp.Eq(
        times(weight, minus(1, weight)),
        over(1, sp.Pow(plus(sp.exp(g / 2), sp.exp(-g / 2)), 2)),
        evaluate=False,
    ),
    given=(Definition(weight, first),),
    facts=("$g$ is the gap $z_1 - z_2$ between two scores, $a$ the weight of the first",),
    steps=(
        Step(
            over(sp.exp(-g), sp.Pow(plus(1, sp.exp(-g)), 2)),
            "put in $a = 1/(1 + e^{-g})$, so that $1 - a = e^{-g}/(1 + e^{-g})$",
        ),
        Step(
            over(1, sp.Pow(plus(sp.exp(g / 2), sp.exp(-g / 2)), 2)),
            "multiply above and below by $e^{g}$, which is $(e^{g/2})^2$",
        ),
    ),
    bridge=Bridge(
        arrays={"g": ()},
        function="transformer_lab.backward.softmax_jacobian",
        call=lambda jacobian, v: _from_numpy(jacobian(_two(v).numpy()))[0, 0],
        forward=lambda v: _two(v)[0],
        by="g",
    ),
)

others = total(sp.exp(-t * gap[l]), (l, m))
w = sp.Symbol("a_w", positive=True)
SATURATION = Derivation(
    label="eq-softmax-saturation",
    title="Many keys and one clear winner: everything else goes to zero",
    claim=sp.Le(minus(1, w), others, evaluate=False),
    given=(Definition(w, over(1, plus(1, others))),),
    facts=(
        "$a_w$ is the weight of the winner, $g_l > 0$ how far the score of the $l$-th of the $m$ "
        "other keys lies below the winner's, and all scores are multiplied by $t$",
    ),
    steps=(
        Step(over(others, plus(1, others)), "one minus the weight of the winner"),
        Step(
            others,
            "leave out $\\sum_l e^{-t g_l}$ below, which makes the fraction larger",
            relation="<=",
            slack=over(sp.Pow(others, 2), plus(1, others)),
        ),
    ),
)


def _two(values: dict[str, Tensor]) -> Tensor:
    """The weights of two keys whose scores differ by g."""
    import torch

    return torch.stack([values["g"], torch.zeros_like(values["g"])]).softmax(-1)


def _from_numpy(x: object) -> Tensor:
    import torch

    return torch.from_numpy(x)


DERIVATIONS = (SUM, SHIFT, JACOBIAN, DIAGONAL, SPREAD, TWO_KEYS, SATURATION)
