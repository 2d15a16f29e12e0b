r"""Attention: its own gradient, and how its output moves when one score does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy as sp

from .bridge import Bridge
from .core import Definition, Derivation, Step
from .forms import array, delta, derivative, index, matrix, minus, over, plus, size, times, total

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

n, m, d_k, d_v = size("n m d_k d_v")
t, s, r, v, p, e = index("t s r v p e")
L = sp.Symbol("L", real=True)
Q, K, V, S, A, O = (array(name) for name in "QKVSAO")  # noqa: E741 - O is the output's letter
dQ, dK, dV, dS, dA, dO = (array(rf"\bar{{{name}}}") for name in "QKVSAO")

WEIGHTS = Definition(A[t, s], over(sp.exp(S[t, s]), total(sp.exp(S[t, r]), (r, m))))
OUTPUT = Definition(O[t, v], total(times(A[t, s], V[s, v]), (s, m)))
SCORES = Definition(S[t, s], over(total(times(Q[t, e], K[s, e]), (e, d_k)), sp.sqrt(d_k)))


def _loss(x: sp.IndexedBase, bar: sp.IndexedBase, rows: sp.Expr, columns: sp.Expr, c: sp.Symbol):
    """A loss that is linear in x with slopes ``bar``: to first order, every loss is one."""
    return Definition(L, total(times(bar[p, c], x[p, c]), (p, rows), (c, columns)))


BY_OUTPUT, BY_WEIGHTS, BY_SCORES = (
    _loss(O, dO, n, d_v, e),
    _loss(A, dA, n, m, r),
    _loss(S, dS, n, m, r),
)


def _slope(bar: sp.IndexedBase, x: sp.IndexedBase, row: sp.Symbol, column: sp.Symbol) -> Definition:
    return Definition(bar[row, column], derivative(L, x[row, column]))


def _bar(name: str, rows: sp.Expr, columns: sp.Expr) -> sp.MatrixSymbol:
    return matrix(rf"\bar{{{name}}}", rows, columns)


LINEAR = (
    "a bar over a letter is the gradient of the loss $L$ by it: $\\bar{X}$ has the shape of $X$; "
    "for a small step only slopes count, so $L$ may be taken as linear in what comes next"
)


def _backward(part: str) -> Callable:
    """Compare one part of what attention_backward returns."""

    def call(attention_backward: Callable, values: dict[str, Tensor]) -> Tensor:
        import torch

        names = ("Q", "K", "V", r"\bar{O}")
        done = attention_backward(*(values[name].numpy() for name in names))
        return torch.from_numpy(getattr(done, part))

    return call


def _forward(values: dict[str, Tensor]) -> Tensor:
    """The loss, by torch's own attention."""
    from torch.nn import functional as F

    out = F.scaled_dot_product_attention(*(values[name][None, None] for name in "QKV"))[0, 0]
    return (values[r"\bar{O}"] * out).sum()


def _with_rest(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Add what the formulas name besides Q, K, V and the gradient that comes in."""
    q, k, v_, d_o = (values[name] for name in ("Q", "K", "V", r"\bar{O}"))
    scores = q @ k.T / q.shape[1] ** 0.5
    weights = scores.softmax(-1)
    d_a = d_o @ v_.T
    d_s = weights * (d_a - (d_a * weights).sum(-1, keepdim=True))
    return values | {"S": scores, "A": weights, r"\bar{A}": d_a, r"\bar{S}": d_s}


INPUTS = {"Q": (n, d_k), "K": (m, d_k), "V": (m, d_v), r"\bar{O}": (n, d_v)}
BACKWARD = "transformer_lab.backward.attention_backward"

VALUES = Derivation(
    label="eq-attention-gradient-values",
    title="The gradient reaches a value through every query that looked at it",
    claim=sp.Eq(
        _bar("V", m, d_v), sp.MatMul(matrix("A", n, m).T, _bar("O", n, d_v)), evaluate=False
    ),
    ranges=((s, m), (v, d_v)),
    given=(_slope(dV, V, s, v), BY_OUTPUT, Definition(O[p, e], total(A[p, r] * V[r, e], (r, m)))),
    facts=(LINEAR,),
    largest=2,
    steps=(
        Step(
            total(times(dO[p, e], derivative(O[p, e], V[s, v])), (p, n), (e, d_v)),
            "the chain rule, through every entry of the output",
        ),
        Step(
            total(times(dO[p, e], A[p, s], delta(e, v)), (p, n), (e, d_v)),
            "$O_{pe} = \\sum_r A_{pr} V_{re}$ holds $V_{sv}$ if $e = v$, with weight $A_{ps}$",
        ),
        Step(total(times(A[p, s], dO[p, v]), (p, n)), "the delta uses up the sum over $e$"),
        Step(
            sp.MatMul(matrix("A", n, m).T, _bar("O", n, d_v)), "a row of $A^\\top$ times $\\bar{O}$"
        ),
    ),
    bridge=Bridge(INPUTS, BACKWARD, _backward("grad_v"), _forward, "V", _with_rest),
)

INTO_WEIGHTS = Derivation(
    label="eq-attention-gradient-weights",
    title="The gradient of a weight: its value against the gradient of the output",
    claim=sp.Eq(
        _bar("A", n, m), sp.MatMul(_bar("O", n, d_v), matrix("V", m, d_v).T), evaluate=False
    ),
    ranges=((t, n), (s, m)),
    given=(_slope(dA, A, t, s), BY_OUTPUT, Definition(O[p, e], total(A[p, r] * V[r, e], (r, m)))),
    facts=(LINEAR,),
    largest=2,
    steps=(
        Step(
            total(times(dO[p, e], derivative(O[p, e], A[t, s])), (p, n), (e, d_v)),
            "the chain rule, through every entry of the output",
        ),
        Step(
            total(times(dO[t, e], V[s, e]), (e, d_v)),
            "$A_{ts}$ stands in row $t$ of the output only, beside $V_{se}$",
        ),
        Step(
            sp.MatMul(_bar("O", n, d_v), matrix("V", m, d_v).T),
            "a row of $\\bar{O}$ times $V^\\top$",
        ),
    ),
    bridge=Bridge(
        INPUTS,
        BACKWARD,
        _backward("grad_weights"),
        lambda x: (x[r"\bar{O}"] * (x["A"] @ x["V"])).sum(),
        "A",
        _with_rest,
    ),
)

row_mean = total(times(dA[t, r], A[t, r]), (r, m))
THROUGH_SOFTMAX = Derivation(
    label="eq-softmax-backward",
    title="Back through softmax: compare with the row's own average",
    claim=sp.Eq(dS[t, s], times(A[t, s], minus(dA[t, s], row_mean)), evaluate=False),
    ranges=((t, n), (s, m)),
    given=(_slope(dS, S, t, s), BY_WEIGHTS, WEIGHTS),
    facts=(LINEAR,),
    largest=2,
    steps=(
        Step(
            total(times(dA[p, r], derivative(A[p, r], S[t, s])), (p, n), (r, m)),
            "the chain rule, through every weight",
        ),
        Step(
            total(times(dA[t, r], derivative(A[t, r], S[t, s])), (r, m)),
            "the softmax of another row does not see this score",
        ),
        Step(
            total(times(dA[t, r], A[t, r], minus(delta(r, s), A[t, s])), (r, m)),
            "{eq}`eq-softmax-jacobian`, for row $t$",
        ),
        Step(
            times(A[t, s], minus(dA[t, s], row_mean)),
            "the delta uses up one sum; take out $A_{ts}$",
        ),
    ),
    bridge=Bridge(
        {"S": (n, m), r"\bar{A}": (n, m)},
        "transformer_lab.backward.softmax_backward",
        lambda backward, x: _numpy_softmax(backward, x),
        lambda x: (x[r"\bar{A}"] * x["S"].softmax(-1)).sum(),
        "S",
    ),
)

ROW_SUM = Derivation(
    label="eq-attention-row-average",
    title="The row's average needs no weights: a row of the output and its gradient are enough",
    claim=sp.Eq(row_mean, total(times(dO[t, v], O[t, v]), (v, d_v)), evaluate=False),
    ranges=((t, n),),
    given=(
        Definition(dA[t, s], total(times(dO[t, v], V[s, v]), (v, d_v))),
        Definition(O[t, v], total(times(A[t, s], V[s, v]), (s, m))),
    ),
    largest=2,
    steps=(
        Step(
            total(times(total(times(dO[t, v], V[r, v]), (v, d_v)), A[t, r]), (r, m)),
            "{eq}`eq-attention-gradient-weights`",
        ),
        Step(
            total(times(dO[t, v], total(times(A[t, r], V[r, v]), (r, m))), (v, d_v)),
            "two finite sums may change places",
        ),
        Step(total(times(dO[t, v], O[t, v]), (v, d_v)), "the inner sum is the output"),
    ),
    bridge=Bridge(INPUTS, BACKWARD, lambda of, x: _row_average(of, x), prepare=_with_rest),
)

QUERIES = Derivation(
    label="eq-attention-gradient-queries",
    title="The gradient of a query is a mixture of keys",
    claim=sp.Eq(
        _bar("Q", n, d_k),
        sp.MatMul(1 / sp.sqrt(d_k), _bar("S", n, m), matrix("K", m, d_k)),
        evaluate=False,
    ),
    ranges=((t, n), (e, d_k)),
    given=(
        _slope(dQ, Q, t, e),
        BY_SCORES,
        Definition(S[p, r], over(total(Q[p, v] * K[r, v], (v, d_k)), sp.sqrt(d_k))),
    ),
    facts=(LINEAR,),
    largest=2,
    steps=(
        Step(
            total(times(dS[p, r], derivative(S[p, r], Q[t, e])), (p, n), (r, m)),
            "the chain rule, through every score",
        ),
        Step(
            over(total(times(dS[t, r], K[r, e]), (r, m)), sp.sqrt(d_k)),
            "$Q_{te}$ stands in the scores of row $t$ only, beside $K_{re}$, over $\\sqrt{d_k}$",
        ),
        Step(
            sp.MatMul(1 / sp.sqrt(d_k), _bar("S", n, m), matrix("K", m, d_k)),
            "a row of $\\bar{S}$ times $K$",
        ),
    ),
    bridge=Bridge(INPUTS, BACKWARD, _backward("grad_q"), _forward, "Q", _with_rest),
)

KEYS = Derivation(
    label="eq-attention-gradient-keys",
    title="The gradient of a key is a mixture of queries",
    claim=sp.Eq(
        _bar("K", m, d_k),
        sp.MatMul(1 / sp.sqrt(d_k), _bar("S", n, m).T, matrix("Q", n, d_k)),
        evaluate=False,
    ),
    ranges=((s, m), (e, d_k)),
    given=(
        _slope(dK, K, s, e),
        BY_SCORES,
        Definition(S[p, r], over(total(Q[p, v] * K[r, v], (v, d_k)), sp.sqrt(d_k))),
    ),
    facts=(LINEAR,),
    largest=2,
    steps=(
        Step(
            total(times(dS[p, r], derivative(S[p, r], K[s, e])), (p, n), (r, m)),
            "the chain rule, through every score",
        ),
        Step(
            over(total(times(dS[p, s], Q[p, e]), (p, n)), sp.sqrt(d_k)),
            "$K_{se}$ stands in the scores of column $s$ only, beside $Q_{pe}$, over $\\sqrt{d_k}$",
        ),
        Step(
            sp.MatMul(1 / sp.sqrt(d_k), _bar("S", n, m).T, matrix("Q", n, d_k)),
            "a row of $\\bar{S}^\\top$ times $Q$",
        ),
    ),
    bridge=Bridge(INPUTS, BACKWARD, _backward("grad_k"), _forward, "K", _with_rest),
)

c = sp.Symbol("c", real=True)
(j,) = index("j")
a, z, o, moved = array("a"), array("z"), array("o"), array(r"\tilde{o}")
raised = sp.exp(z[s] + c * delta(s, j))
more = minus(sp.exp(c), 1)
PULL = Derivation(
    label="eq-attention-pull",
    title="Raise one score, and the output moves straight towards that value",
    claim=sp.Eq(
        moved[v],
        plus(V[j, v], over(minus(o[v], V[j, v]), plus(1, times(a[j], more)))),
        evaluate=False,
    ),
    ranges=((j, m), (v, d_v)),
    given=(
        Definition(a[s], over(sp.exp(z[s]), total(sp.exp(z[r]), (r, m)))),
        Definition(o[v], total(times(a[s], V[s, v]), (s, m))),
        Definition(moved[v], over(total(times(raised, V[s, v]), (s, m)), total(raised, (s, m)))),
    ),
    facts=("$\\tilde{o}$ is the output after $c$ has been added to the score $z_j$ alone",),
    largest=2,
    steps=(
        Step(
            over(
                plus(
                    total(times(sp.exp(z[s]), V[s, v]), (s, m)),
                    times(more, sp.exp(z[j]), V[j, v]),
                ),
                plus(total(sp.exp(z[s]), (s, m)), times(more, sp.exp(z[j]))),
            ),
            "only the term of $j$ has changed: $e^{z_j + c} = e^{z_j} + (e^c - 1)\\, e^{z_j}$",
        ),
        Step(
            over(
                plus(o[v], times(a[j], more, V[j, v])),
                plus(1, times(a[j], more)),
            ),
            "divide above and below by $\\sum_s e^{z_s}$",
        ),
        Step(
            plus(V[j, v], over(minus(o[v], V[j, v]), plus(1, times(a[j], more)))),
            "take $V_{jv}$ out of the fraction",
        ),
    ),
    bridge=Bridge(
        {"z": (m,), "V": (m, d_v), "c": ()},
        "torch.softmax",
        lambda softmax, x: _pulled(softmax, x),
    ),
)


def _row_average(attention_backward: Callable, values: dict[str, Tensor]) -> Tensor:
    """What softmax_backward subtracts from a row of gradients, computed the long way."""
    grad_weights = _backward("grad_weights")(attention_backward, values)
    return (grad_weights * _backward("weights")(attention_backward, values)).sum(-1)


def _pulled(softmax: Callable, values: dict[str, Tensor]) -> Tensor:
    """The output after c has been added to the score of one key; a row for each key."""
    import torch

    one_raised = values["z"] + values["c"] * torch.eye(len(values["z"]), dtype=torch.float64)
    return softmax(one_raised, -1) @ values["V"]


def _numpy_softmax(backward: Callable, values: dict[str, Tensor]) -> Tensor:
    import torch

    weights = values["S"].softmax(-1).numpy()
    return torch.from_numpy(backward(weights, values[r"\bar{A}"].numpy()))


DERIVATIONS = (VALUES, INTO_WEIGHTS, THROUGH_SOFTMAX, ROW_SUM, QUERIES, KEYS, PULL)
