r"""The backward pass by hand, in NumPy, every intermediate named.

Nothing here is trained with: torch finds gradients by itself. This file does what torch does,
one line for each formula, so that each can be read, printed and checked against torch.

A bar over a letter is a gradient: :math:`\bar X = \partial L / \partial X`, the derivative of
the loss, one number for each number of X and in the same shape. In code it is ``grad_x``. A
function takes the gradient of what comes out and returns the gradients of what went in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float


def softmax_jacobian(weights_S: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S S"]:
    r"""How each weight of a row moves when a score of it is moved.

    .. math:: \frac{\partial a}{\partial s} = \operatorname{diag}(a) - a^\top a

    a = softmax(s) is a row, ``weights_S``; entry (i, j) says how weight i
    answers to score j: a_i (1 − a_i) on the diagonal, −a_i a_j elsewhere.
    The matrix is symmetric and every row of it sums to 0: adding a
    constant to all scores changes nothing.
    Equation: eq-softmax-jacobian
    """
    return np.diag(weights_S) - np.outer(weights_S, weights_S)


def softmax_backward(
    weights: Float[np.ndarray, "... S"], grad_weights: Float[np.ndarray, "... S"]
) -> Float[np.ndarray, "... S"]:
    r"""From the gradient of the weights to the gradient of the scores.

    .. math:: \bar s = a \odot \bigl(\bar a - \textstyle\sum_j \bar a_j a_j\bigr)

    a: ``weights``, ā: ``grad_weights``, each row along the last axis. It is
    ā times the Jacobian, without ever writing down its S × S numbers. The
    gradient of a row of scores sums to 0. What has weight 0 (a hidden key)
    gets gradient 0.
    Equation: eq-softmax-backward
    """
    if weights.shape != grad_weights.shape:
        raise ValueError(
            f"A gradient has the shape of what it belongs to, but the weights are "
            f"{weights.shape} and their gradient is {grad_weights.shape}; give one number for "
            f"each weight."
        )
    share = (grad_weights * weights).sum(-1, keepdims=True)
    return weights * (grad_weights - share)


@dataclass(frozen=True, eq=False)
class AttentionGradients:
    r"""All that :func:`attention_backward` meets on its way, forward and back.

    ========================  ===========  ====================================================
    field                     symbol       shape
    ========================  ===========  ====================================================
    ``scores``                S            (…, T, S): the scores before anything is hidden
    ``weights``               A            (…, T, S): 0 where hidden
    ``out``                   O            (…, T, d_v)
    ``grad_weights``          Ā            (…, T, S)
    ``grad_scores``           S̄            (…, T, S): 0 where hidden
    ``grad_q``                Q̄            that of Q
    ``grad_k``                K̄            that of K
    ``grad_v``                V̄            that of V
    ========================  ===========  ====================================================
    """

    scores: Float[np.ndarray, "*B T S"]
    weights: Float[np.ndarray, "*B T S"]
    out: Float[np.ndarray, "*B T Kv"]
    grad_weights: Float[np.ndarray, "*B T S"]
    grad_scores: Float[np.ndarray, "*B T S"]
    grad_q: Float[np.ndarray, "*B T K"]
    grad_k: Float[np.ndarray, "*B S K"]
    grad_v: Float[np.ndarray, "*B S Kv"]


def attention_backward(
    q_BHTK: Float[np.ndarray, "*B T K"],
    k_BHSK: Float[np.ndarray, "*B S K"],
    v_BHSK: Float[np.ndarray, "*B S Kv"],
    grad_out_BHTK: Float[np.ndarray, "*B T Kv"],
    allowed: Bool[np.ndarray, ...] | None = None,
) -> AttentionGradients:
    r"""Scaled dot-product attention, and the gradient of all that went in.

    .. math::
        \bar V &= A^\top \bar O \\
        \bar A &= \bar O\, V^\top \\
        \bar S &= A \odot \bigl(\bar A - \rho\, \mathbf 1^\top\bigr),
            \qquad \rho_t = \textstyle\sum_s \bar A_{ts} A_{ts}
            = \textstyle\sum_l \bar O_{tl} O_{tl} \\
        \bar Q &= \bar S K / \sqrt{d_k} \\
        \bar K &= \bar S^\top Q / \sqrt{d_k}

    Q, K, V: ``q_BHTK``, ``k_BHSK``, ``v_BHSK``; Ō: ``grad_out_BHTK``. Any
    leading axes will do, the same in all four; values may have a width of
    their own. ``allowed`` is True where a query may look at a key and
    broadcasts to (…, T, S); ``None`` hides nothing. A hidden key takes part
    in nothing; a query without any allowed key has output 0 and gradient 0.

    ρ can be read off the output alone, without the T × S weights: that is
    what lets fused kernels go backward row by row (Dao et al. 2022).
    Raises ``ValueError`` where shapes do not fit.
    Equations: eq-attention-gradient-values, eq-attention-gradient-weights,
    eq-attention-row-average, eq-attention-gradient-queries,
    eq-attention-gradient-keys
    """
    _check(q_BHTK, k_BHSK, v_BHSK, grad_out_BHTK)
    root = math.sqrt(q_BHTK.shape[-1])

    scores = q_BHTK @ _t(k_BHSK) / root
    weights = _softmax(scores, allowed)
    out = weights @ v_BHSK

    grad_v = _t(weights) @ grad_out_BHTK
    grad_weights = grad_out_BHTK @ _t(v_BHSK)
    grad_scores = softmax_backward(weights, grad_weights)
    grad_q = grad_scores @ k_BHSK / root
    grad_k = _t(grad_scores) @ q_BHTK / root

    return AttentionGradients(
        scores, weights, out, grad_weights, grad_scores, grad_q, grad_k, grad_v
    )


def _t(x: np.ndarray) -> np.ndarray:
    """The matrices along the last two axes, transposed."""
    return np.swapaxes(x, -1, -2)


def _softmax(scores: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    """Softmax of each row over its allowed keys; a row without any is all zeros."""
    if allowed is None:
        allowed = np.ones(scores.shape[-2:], dtype=bool)
    try:
        allowed = np.broadcast_to(allowed, scores.shape)
    except ValueError:
        raise ValueError(
            f"A mask must broadcast to one entry for each query and key, {scores.shape}, but it "
            f"is {allowed.shape}; give (queries, keys), with leading axes if rows differ."
        ) from None
    if allowed.dtype != bool:
        raise ValueError(
            f"A mask must hold booleans, True where a key is allowed, but got {allowed.dtype}; "
            f"compare, e.g. mask > 0, or mask == 0 if 0 means allowed."
        )
    largest = np.max(scores, axis=-1, where=allowed, initial=-np.inf, keepdims=True)
    raised = np.exp(scores - largest, where=allowed, out=np.zeros_like(scores))
    total = raised.sum(-1, keepdims=True)
    return np.divide(raised, total, where=total > 0, out=raised)


def _check(q: np.ndarray, k: np.ndarray, v: np.ndarray, grad_out: np.ndarray) -> None:
    """The four arrays must belong to one attention."""
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"Queries and keys must be equally wide, but queries are {q.shape[-1]} and keys are "
            f"{k.shape[-1]} wide; project both to d_k."
        )
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"Every key needs a value, but there are {k.shape[-2]} keys and {v.shape[-2]} "
            f"values; take both from the same sequence."
        )
    if grad_out.shape[-2:] != (q.shape[-2], v.shape[-1]):
        raise ValueError(
            f"The output has a row for each query, as wide as a value, {q.shape[-2]} × "
            f"{v.shape[-1]}, and its gradient is {grad_out.shape[-2]} × {grad_out.shape[-1]}; "
            f"give one number for each number of the output."
        )
    leading = {x.shape[:-2] for x in (q, k, v, grad_out)}
    if len(leading) > 1:
        raise ValueError(
            f"Queries, keys, values and the gradient must have the same leading axes, but they "
            f"have {', '.join(str(x.shape[:-2]) for x in (q, k, v, grad_out))}; repeat what is "
            f"shared, and add up its gradients afterwards."
        )
