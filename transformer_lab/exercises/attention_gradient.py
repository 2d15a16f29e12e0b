r"""Exercises on the gradients of attention: what flows back to queries, scores and the output."""

from __future__ import annotations

import numpy as np

from ..backward import attention_backward, softmax_backward
from .core import Misconception, template_of
from .function import FunctionExercise, Property
from .numeric import softmax
from .order import Line, OrderExercise

CHAPTER = "04-scaled-dot-product-attention"


def _for_gradient(tq: int, tk: int, d: int, dv: int):
    def draw(rng: np.random.Generator) -> tuple:
        made = [np.round(rng.normal(size=s), 2) for s in ((tq, d), (tk, d), (tk, dv), (tq, dv))]
        return tuple(made)

    return draw


def _in_half(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray):
    """What a backward pass meets on its way: weights, and the gradient of the scores."""
    a = softmax(q @ k.T / np.sqrt(q.shape[-1]))
    return a, softmax_backward(a, g @ v.T)


QUERY_GRADIENT = FunctionExercise(
    id="attention.query_gradient",
    chapter=CHAPTER,
    title="The gradient of the queries",
    task="Given `q` (T, d), `k` (S, d), `v` (S, dv) and the gradient `g` (T, dv) of a loss by the "
    "output of attention, return the gradient of the loss by `q`.",
    template="""def query_gradient(q, k, v, g):
    a = ...          # the weights, (T, S)
    grad_a = ...     # gradient of the weights, (T, S)
    grad_s = ...     # gradient of the scaled scores, (T, S)
    return ...       # gradient of the queries, (T, d)
""",
    label="eq-attention-gradient-queries",
    hints=(
        "Go backwards, one line for each line of attention: output, weights, scores, queries.",
        "A weight moves the output along its value: its gradient is a dot product of g with v.",
        "Back through the softmax: compare each with the row's own average, weighted by a.",
        "The scores were divided by the root of d on the way there, so their gradient is on the "
        "way back.",
    ),
    reference=lambda q, k, v, g: attention_backward(q, k, v, g).grad_q,
    names=("q", "k", "v", "g"),
    kinds={
        "one query, two keys": _for_gradient(1, 2, 2, 1),
        "generic": _for_gradient(4, 5, 3, 2),
        "all sizes equal": _for_gradient(4, 4, 4, 4),
        "d = 1": _for_gradient(3, 4, 1, 2),
    },
    properties=(
        Property(
            "The gradient has the shape of q",
            lambda f, q, k, v, g: (np.array(q.shape), np.array(np.shape(f(q, k, v, g)))),
        ),
        Property(
            "A vector added to all keys changes nothing that the loss can see",
            lambda f, q, k, v, g: (f(q, k, v, g), f(q, k + np.ones(k.shape[-1]), v, g)),
        ),
        Property(
            "If all values are equal, no query has a gradient",
            lambda f, q, k, v, g: (np.zeros(q.shape), f(q, k, np.ones_like(v), g)),
        ),
    ),
    misconceptions=(
        Misconception(
            "the root forgotten on the way back",
            "The scores are q·k divided by sqrt(d); that factor belongs to the gradient as well.",
            lambda q, k, v, g: _in_half(q, k, v, g)[1] @ k,
        ),
        Misconception(
            "the softmax taken for a plain product",
            "Back through the softmax, the row's average has to be subtracted; you multiply by the "
            "weights only.",
            lambda q, k, v, g: _in_half(q, k, v, g)[0] * (g @ v.T) @ k / np.sqrt(q.shape[-1]),
        ),
        Misconception(
            "the softmax left out",
            "The gradient of the weights is not that of the scores: the softmax lies between them.",
            lambda q, k, v, g: g @ v.T @ k / np.sqrt(q.shape[-1]),
        ),
        Misconception(
            "the average taken over the queries",
            "Each query's row has its own average, over its keys; you sum over the queries.",
            lambda q, k, v, g: (
                (lambda a, d: a * (d - (d * a).sum(0, keepdims=True)))(
                    _in_half(q, k, v, g)[0], g @ v.T
                )
                @ k
                / np.sqrt(q.shape[-1])
            ),
        ),
    ),
)


PULL = FunctionExercise(
    id="attention.pull",
    chapter=CHAPTER,
    title="Where the output goes when one score is raised",
    task="A query has the scores `s` (S) over keys with the values `v` (S, dv). Return the (S, dv) "
    "matrix whose row i is the derivative of the output by score i.",
    template=template_of("def pull(s, v): ..."),
    label="eq-attention-pull",
    hints=(
        "The output is a mean of the values. Which way does a mean move when one of them gets more "
        "weight?",
        "Towards that value, away from where it is: along v_i − o.",
        "How fast? As fast as the weight i answers to its own score, shared out over all.",
    ),
    reference=lambda s, v: (
        softmax_backward(
            np.broadcast_to(softmax(s), (v.shape[1], len(s))).copy(), np.ascontiguousarray(v.T)
        ).T
    ),
    names=("s", "v"),
    kinds={
        "two keys": lambda rng: (rng.integers(0, 3, 2).astype(float), np.array([[0.0], [1.0]])),
        "generic": lambda rng: (
            np.round(rng.normal(size=4), 2),
            np.round(rng.normal(size=(4, 3)), 2),
        ),
        "as wide as there are keys": lambda rng: (
            np.round(rng.normal(size=3), 2),
            np.round(rng.normal(size=(3, 3)), 2),
        ),
        "one key": lambda rng: (np.array([2.0]), np.round(rng.normal(size=(1, 3)), 2)),
    },
    properties=(
        Property(
            "Raising all scores alike moves nothing: the rows sum to 0",
            lambda f, s, v: (np.zeros(v.shape[1]), np.asarray(f(s, v)).sum(0)),
        ),
        Property(
            "A vector added to all values changes no derivative",
            lambda f, s, v: (f(s, v), f(s, v + np.arange(v.shape[1], dtype=float))),
        ),
    ),
    misconceptions=(
        Misconception(
            "away from the origin instead of the output",
            "More weight for value i is less for all others: the output moves along v_i − o, not "
            "along v_i.",
            lambda s, v: softmax(s)[:, None] * v,
        ),
        Misconception(
            "the weight forgotten",
            "The direction is right. A score whose weight is small moves the output little.",
            lambda s, v: v - softmax(s) @ v,
        ),
        Misconception(
            "only the weight's own slope",
            "a_i (1 − a_i) is how weight i answers to its own score. The other weights answer too.",
            lambda s, v: (softmax(s) * (1 - softmax(s)))[:, None] * v,
        ),
        Misconception(
            "the sign turned",
            "Raising a score pulls the output towards its value; yours pushes it away.",
            lambda s, v: softmax(s)[:, None] * (softmax(s) @ v - v),
        ),
    ),
)


BACKWARD_ORDER = OrderExercise(
    id="attention.backward_order",
    chapter=CHAPTER,
    title="The backward pass of attention, in order",
    task="Put the lines of the backward pass in order. `s`, `a`, `o` are scores, weights and "
    "output of "
    "the forward pass, `g` is the gradient of the output, `root` the root of d. Two lines do not "
    "belong there. Answer with a string of letters.",
    template='order = ...  # such as "CAB"\n',
    label="eq-attention-gradient-keys",
    hints=(
        "Each line may use only what is there: s, a, o, g, root, q, k, v, and what came before it.",
        "`grad_s` needs `grad_a`; the gradients of queries and keys need `grad_s`.",
    ),
    lines=(
        Line("D", "`grad_a = g @ v.T`"),
        Line("B", "`mean = (grad_a * a).sum(-1, keepdims=True)`", "D"),
        Line("F", "`grad_s = a * (grad_a - mean)`", "DB"),
        Line("A", "`grad_q = grad_s @ k / root`", "F"),
        Line("G", "`grad_k = grad_s.T @ q / root`", "F"),
        Line("C", "`grad_v = a.T @ g`"),
    ),
    strangers=(
        Misconception(
            "the values' gradient without a transpose",
            "A value collects from all queries that looked at it: column s of the weights, so the "
            "transpose.",
            Line("E", "`grad_v = a @ g`"),
        ),
        Misconception(
            "the average over the queries",
            "The average is that of one query's row, over its keys: the last axis, not the first.",
            Line("H", "`mean = (grad_a * a).sum(0, keepdims=True)`", "D"),
        ),
    ),
)

EXERCISES = (QUERY_GRADIENT, PULL, BACKWARD_ORDER)
