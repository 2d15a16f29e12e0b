"""Right and strange answers to the exercises that have no place in the bank of threads.

``RIGHT``: right answers in several forms. ``STRANGE``: wrong ones that nobody has a name for; a
checker has to refuse them all the same, by what they do. ``AGAIN``: known mistakes, written in
other words than in the package, with the name they should get.
"""

import numpy as np
import sympy as sp
import torch
from bank import softmax, t

from transformer_lab.derivations.forms import E, array, delta, index, size, total


def _attention(q, k, v):
    return softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v


def _autograd(q, k, v, g):
    q = t(q).requires_grad_()
    out = torch.nn.functional.scaled_dot_product_attention(q, t(k), t(v))
    return torch.autograd.grad(out, q, t(g))[0]


def _differences(q, k, v, g, step=1e-6):
    found = np.zeros_like(q)
    for place in np.ndindex(*q.shape):
        up, down = q.copy(), q.copy()
        up[place] += step
        down[place] -= step
        away = _attention(up, k, v) - _attention(down, k, v)
        found[place] = (away * g).sum() / (2 * step)
    return np.round(found, 12)


def _by_jacobians(q, k, v, g):
    a = softmax(q @ k.T / np.sqrt(q.shape[-1]))
    rows = []
    for row, weights in zip(g @ v.T, a, strict=True):
        rows.append(row @ (np.diag(weights) - np.outer(weights, weights)))
    return np.stack(rows) @ k / np.sqrt(q.shape[-1])


def _fused(q, k, v, g):
    a = softmax(q @ k.T / np.sqrt(q.shape[-1]))
    row = (g * (a @ v)).sum(-1, keepdims=True)
    return a * (g @ v.T - row) @ k * q.shape[-1] ** -0.5


def _torch_jacobian(s, v):
    out = torch.autograd.functional.jacobian(lambda x: x.softmax(-1) @ t(v), t(s))
    return out.T


z, a, i, j, l, n = array("z"), array("a"), *index("i j l"), *size("n")
d_k = size("d_k")[0]
q, k = array("q", random=True), array("k", random=True)
EXP = total(sp.exp(z[l]), (l, n))
Z_I, Z_J = sp.exp(z[i]), sp.exp(z[j])

RIGHT = {
    "attention.query_gradient": [
        ("torch autograd", _autograd),
        ("central differences", _differences),
        ("row by row with Jacobians", _by_jacobians),
        ("row term from the output", _fused),
    ],
    "attention.pull": [
        (
            "weight times the way to the value",
            lambda s, v: softmax(s)[:, None] * (v - softmax(s) @ v),
        ),
        (
            "the Jacobian times the values",
            lambda s, v: (np.diag(softmax(s)) - np.outer(softmax(s), softmax(s))) @ v,
        ),
        ("torch jacobian", _torch_jacobian),
    ],
    "attention.backward_order": [
        ("as written", "DBFAGC"),
        ("values first", "CDBFGA"),
        ("a list", ["d", "b", "c", "f", "g", "a"]),
        ("with spaces", "D B F C A G"),
    ],
    "attention.lost_radical": [
        ("divided", ("b", _attention)),
        ("fourth root on both sides", ("B", lambda q, k, v: _attention_roots(q, k, v))),
    ],
    "softmax.jacobian": [
        ("diag minus outer", lambda a: np.diag(a) - np.outer(a, a)),
        (
            "entry by entry",
            lambda a: [[x * ((m == n) - y) for n, y in enumerate(a)] for m, x in enumerate(a)],
        ),
        (
            "torch autograd",
            lambda a: torch.autograd.functional.jacobian(
                lambda x: x.softmax(-1), t(np.log(a + 1e-300))
            ),
        ),
    ],
    "softmax.jacobian_gaps": [
        (
            "quotient rule, two fractions",
            {2: delta(i, j) * Z_I / EXP - Z_I * Z_J / EXP**2, 3: a[i] * (delta(i, j) - a[j])},
        ),
        (
            "one fraction",
            {
                2: (delta(i, j) * Z_I * EXP - Z_I * Z_J) / EXP**2,
                3: delta(i, j) * a[j] - a[j] * a[i],
            },
        ),
    ],
    "symbolic.score_variance_means": [
        ("one product at a time", lambda d, m, s: d * ((s + m**2) ** 2 - m**4)),
        ("factored", lambda d, m, s: d * s * (s + 2 * m**2)),
        ("a sum", lambda d, m, s: sp.summation(s**2 + 2 * s * m**2, (sp.Symbol("l"), 1, d))),
    ],
    "scores.variance_gaps": [
        (
            "sums",
            {
                4: total(E(q[l] ** 2) * E(k[l] ** 2) - E(q[l]) ** 2 * E(k[l]) ** 2, (l, d_k)),
                5: total(E(q[l] ** 2) * E(k[l] ** 2), (l, d_k)),
            },
        ),
        (
            "two sums",
            {
                4: total(E(q[l] ** 2) * E(k[l] ** 2), (l, d_k))
                - total(E(q[l]) ** 2 * E(k[l]) ** 2, (l, d_k)),
                5: total(E(k[l] ** 2) * E(q[l] ** 2), (l, d_k)),
            },
        ),
    ],
    "scores.independence_error": [
        ("multiplied out", ("c", lambda d, m, s: d * (s**2 + 2 * m**2 * s))),
        ("difference of moments", ("c", lambda d, m, s: d * ((s + m * m) ** 2 - m**4))),
    ],
}


def _attention_roots(q, k, v):
    root = q.shape[-1] ** 0.25
    return softmax((q / root) @ np.swapaxes(k / root, -1, -2)) @ v


STRANGE = {
    "attention.scale": [
        lambda q, k, v: softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1] + 1)) @ v,
        lambda q, k, v: np.broadcast_to(
            v.mean(-2, keepdims=True), (*q.shape[:-1], v.shape[-1])
        ).copy(),
        lambda q, k, v: softmax(np.tanh(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))) @ v,
        lambda q, k, v: softmax(np.round(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), 2)) @ v,
    ],
    "attention.softmax_axis": [
        lambda s: softmax(2 * s),
        lambda s: np.full_like(s, 1 / s.shape[-1]),
        lambda s: np.exp(-s) / np.exp(-s).sum(-1, keepdims=True),
    ],
    "attention.query_gradient": [
        lambda q, k, v, g: np.zeros_like(q),
        lambda q, k, v, g: -_fused(q, k, v, g),
        lambda q, k, v, g: _fused(q, k, v, g) * (1 + 1e-4),
    ],
    "attention.pull": [
        lambda s, v: np.zeros_like(v),
        lambda s, v: softmax(s)[:, None] * (v - v.mean(0)),
        lambda s, v: softmax(s)[:, None] ** 2 * (v - softmax(s) @ v),
    ],
    "attention.backward_order": ["BDFAGC", "DBF", "DBFAGCC", "xyz", 7, "FDBAGC"],
    "attention.lost_radical": [
        ("a", _attention),
        ("b", 3),
        "b",
        ("z", _attention),
        ("b", lambda q, k, v: softmax(q @ np.swapaxes(k, -1, -2) / 3) @ v),
    ],
    "softmax.stable": [
        lambda x: np.exp(x - x.max(-1, keepdims=True)),
        lambda x: softmax(np.nan_to_num(x, neginf=-1e3)),
        lambda x: softmax(x.astype(np.float16)),
    ],
    "softmax.backward": [
        lambda s, g: np.zeros_like(g),
        lambda s, g: g - (g * s).sum(-1, keepdims=True),
        lambda s, g: s * (g - (g * s).sum(-1, keepdims=True)) + 1e-5,
    ],
    "softmax.jacobian": [
        lambda a: np.eye(len(a)),
        lambda a: np.diag(a) - np.outer(a, a) ** 2,
        lambda a: a,
    ],
    "softmax.jacobian_gaps": [
        {2: sp.Integer(1), 3: a[i]},
        {2: delta(i, j) * Z_I / EXP - Z_I * Z_J / EXP, 3: a[i] * (delta(i, j) - a[j])},
        {2: "exp(z)", 3: 1},
        {7: a[i]},
        {3: sp.Symbol("w")},
        [1, 2],
        {2: sp.zoo},
        {2: sp.Matrix([[1]])},
    ],
    "symbolic.softmax_jacobian": [
        lambda z: sp.eye(len(z)),
        lambda z: sp.Matrix([sp.Symbol("w")] * len(z)),
        lambda z: "softmax",
    ],
    "symbolic.score_variance": [
        lambda d, a, b: sp.sqrt(d * a * b),
        lambda d, a, b: sp.sqrt(d) * a,
        lambda d, a, b: 0,
    ],
    "symbolic.score_variance_means": [
        lambda d, m, s: 3 * d,
        lambda d, m, s: d * (s**2 + 2 * m * s),
        lambda d, m, s: d,
    ],
    "scores.variance_gaps": [{4: d_k, 5: E(q[l])}, {4: 0}, {5: total(E(q[l] ** 2), (l, d_k))}],
    "scores.independence_error": [
        ("a", lambda d, m, s: d),
        ("c", lambda d, m, s: 3 * d),
        ("c", None),
        None.__class__,
    ],
}

AGAIN = {
    "attention.query_gradient": [
        (
            "the root forgotten on the way back",
            lambda q, k, v, g: (
                np.einsum("ts,sk->tk", np.sqrt(q.shape[-1]) * _fused_scores(q, k, v, g), k)
                / np.sqrt(q.shape[-1])
            ),
        ),
    ],
    "attention.pull": [
        ("the weight forgotten", lambda s, v: np.stack([x - softmax(s) @ v for x in v])),
        ("the sign turned", lambda s, v: -RIGHT["attention.pull"][1][1](s, v)),
    ],
    "softmax.jacobian": [
        ("the diagonal only", lambda a: np.eye(len(a)) * (a - a**2)),
        ("the sign turned", lambda a: a[:, None] * a - np.diag(a)),
    ],
    "softmax.jacobian_gaps": [
        ("the second term added", {3: a[i] * (delta(i, j) + a[j])}),
        ("the delta lost", {3: a[i] * (1 - a[j])}),
        ("only how a weight answers to its own score", {3: delta(i, j) * a[j]}),
    ],
    "symbolic.score_variance_means": [
        ("the mean forgotten", lambda d, m, s: d * s * s),
        (
            "the second moment instead of the variance",
            lambda d, m, s: d * (s * s + 2 * s * m**2 + m**4),
        ),
    ],
    "attention.backward_order": [
        ("the values' gradient without a transpose", "DE"),
        ("the average over the queries", "DH"),
    ],
}


def _fused_scores(q, k, v, g):
    a = softmax(q @ k.T / np.sqrt(q.shape[-1]))
    return a * (g @ v.T - (g * (a @ v)).sum(-1, keepdims=True))


# ---- Exercises of chapters that are not written yet: what nobody has a name for ----------

STRANGE |= {
    "mask.causal": [lambda n: np.eye(n, dtype=bool), lambda n: np.ones((n, n), bool)],
    "mask.apply": [
        lambda s, keep: keep / keep.sum(-1, keepdims=True) + 0 * s,
        lambda s, keep: softmax(np.where(keep, s, s - 20)),
    ],
    "mask.padding": [
        lambda s, ids: np.full(s.shape, 1 / s.shape[-1]),
        lambda s, ids: softmax(np.where((ids != 0)[:, None, :, None], s, -1e30)),
    ],
    "mask.half": [lambda s, keep: keep / keep.sum(-1, keepdims=True)],
    "mask.empty_rows": [lambda s, keep: np.zeros(s.shape)],
    "mask.causal_with_cache": [lambda q, k: np.tril(np.ones((k, k), bool))[:q]],
    "attention.split_heads": [
        lambda x, h: np.stack(np.split(x, h, axis=-1)[::-1], axis=1),
        lambda x, h: np.stack(np.split(x, h, axis=-1), axis=1) + 1,
    ],
    "attention.merge_heads": [
        lambda x: x[:, ::-1].transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1),
        lambda x: x.sum(1),
    ],
    "attention.multihead": [
        lambda x, wq, wk, wv, wo, h: x @ wv @ wo,
        lambda x, wq, wk, wv, wo, h: x,
    ],
    "attention.grouped_queries": [lambda q, k, v: q, lambda q, k, v: np.zeros(q.shape)],
    "positions.sinusoidal": [
        lambda n, d: np.zeros((n, d)),
        lambda n, d: np.tile([0.0, 1.0], (n, d // 2)),
    ],
    "positions.sinusoidal_odd": [lambda n, d: np.ones((n, d))],
    "norms.layernorm": [
        lambda x, g, b, eps: x,
        lambda x, g, b, eps: g * (x - np.median(x, -1, keepdims=True)) + b,
    ],
    "losses.from_logits": [lambda z, y: 0.0, lambda z, y: np.log(z.shape[1])],
    "losses.ignore_padding": [lambda z, y: np.log(z.shape[-1]), lambda z, y: np.ones(y.shape)],
    "losses.label_smoothing": [lambda z, y, eps: np.log(z.shape[1])],
    "symbolic.cross_entropy_gradient": [lambda z: [0] * len(z), lambda z: z[0]],
    "schedules.noam": [lambda s, d, w: 1 / (d * w) ** 0.5, lambda s, d, w: 1.0],
    "schedules.linear_warmup": [lambda t, w, peak: peak],
    "schedules.cosine": [lambda t, w, total, peak, low: low],
    "decoding.temperature": [lambda z, T: np.full(len(z), 1 / len(z))],
    "decoding.top_k": [lambda z, k: z, lambda z, k: np.full(z.shape, -np.inf)],
    "decoding.top_p": [lambda q, p: q, lambda q, p: np.eye(len(q))[q.argmax()]],
    "symbolic.temperature_gradient": [lambda z, T: [1 / T] * len(z)],
}
