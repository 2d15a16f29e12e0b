"""The backward pass by hand: torch's own gradients, central differences, cases one can do by hand.

Every comparison is also made with a formula that lacks one part, which must be told apart.
"""

import math

import numpy as np
import pytest
import torch
from helpers import B, H, K, S, T, lengths_to_keys, properties, randn
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from transformer_lab.attention import Mask, attention_weights
from transformer_lab.backward import attention_backward, softmax_backward, softmax_jacobian

DV = 3  # values have a width of their own
FIELDS = ("grad_q", "grad_k", "grad_v")
KINDS = ["none", "causal", "padding", "both"]
CASES = [(n, m, k) for n, m in [(T, T), (T, S), (1, S), (1, 1), (S, T)] for k in KINDS
         if n <= m or k in ("none", "padding")]  # fmt: skip


def inputs(queries, keys, width=K, values=DV, scale=1.0):
    """Queries, keys, values and the gradient of the output, in float64."""
    shapes = [(B, H, queries, width), (B, H, keys, width), (B, H, keys, values)]
    shapes.append((B, H, queries, values))
    return [scale * randn(*s, seed=i).numpy() for i, s in enumerate(shapes)]


def make_mask(kind, keys):
    """Sequence 0 has no real key at all, sequence 1 has one, the others have several or all."""
    lengths = [0, 1, *(2 + 3 * b % max(1, keys - 1) for b in range(B - 3)), keys]
    real = lengths_to_keys([min(n, keys) for n in lengths], keys)
    return Mask(kind in ("causal", "both"), real if kind in ("padding", "both") else None)


def dense(mask, queries, keys):
    allowed = mask.dense(queries, keys)
    return None if allowed is None else allowed.numpy()


def by_autograd(q, k, v, grad_out, mask):
    """The gradients torch finds through our own open formula, with the weights and the output."""
    q, k, v = (torch.from_numpy(x).requires_grad_() for x in (q, k, v))
    weights = attention_weights(q, k, mask)
    out = weights @ v
    gradients = torch.autograd.grad((out * torch.from_numpy(grad_out)).sum(), [q, k, v])
    return [x.detach().numpy() for x in (weights, out, *gradients)]


def apart(found, expected):
    """The largest difference, as a share of the largest number expected."""
    return np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-300)


# ---- attention ----


@pytest.mark.parametrize(("queries", "keys", "kind"), CASES)
def test_what_torch_finds_through_the_open_formula(queries, keys, kind):
    q, k, v, grad_out = inputs(queries, keys)
    mask = make_mask(kind, keys)
    ours = attention_backward(q, k, v, grad_out, dense(mask, queries, keys))
    expected = by_autograd(q, k, v, grad_out, mask)
    for field, theirs in zip(("weights", "out", *FIELDS), expected, strict=True):
        assert getattr(ours, field).shape == theirs.shape
        if keys == 1 and field in ("grad_q", "grad_k"):  # one key: its weight is always 1
            assert np.abs(getattr(ours, field)).max() < 1e-14
        else:
            assert apart(getattr(ours, field), theirs) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_fused_kernel_of_torch_finds(kind):
    q, k, v, grad_out = inputs(T, S)
    mask = make_mask(kind, S)
    allowed = dense(mask, T, S)
    if allowed is not None:  # the kernel promises nothing for rows without a key
        allowed = allowed.copy()
        allowed[0] = True
    leaves = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    out = torch.nn.functional.scaled_dot_product_attention(
        *leaves, attn_mask=None if allowed is None else torch.from_numpy(allowed)
    )
    expected = torch.autograd.grad((out * torch.from_numpy(grad_out)).sum(), leaves)
    ours = attention_backward(q, k, v, grad_out, allowed)
    for field, theirs in zip(FIELDS, expected, strict=True):
        assert apart(getattr(ours, field), theirs.numpy()) < 1e-12


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_what_differences_say(name):
    """Every number of q, k and v is nudged; the loss answers as the gradient says."""
    rng = np.random.default_rng(0)
    parts = {"q": (5, 3), "k": (7, 3), "v": (7, 2)}
    parts = {key: rng.normal(size=shape) for key, shape in parts.items()}
    grad_out = rng.normal(size=(5, 2))
    allowed = rng.random((5, 7)) < 0.6
    allowed[1] = False
    found = getattr(attention_backward(*parts.values(), grad_out, allowed), f"grad_{name}")
    step, moved = 1e-5, np.zeros_like(parts[name])
    for place in np.ndindex(moved.shape):
        losses = []
        for sign in (1, -1):
            nudged = {key: x.copy() for key, x in parts.items()}
            nudged[name][place] += sign * step
            losses.append(
                (attention_backward(*nudged.values(), grad_out, allowed).out * grad_out).sum()
            )
        moved[place] = (losses[0] - losses[1]) / (2 * step)
    assert np.abs(found - moved).max() < 1e-9


def wrong_forms(q, k, v, grad_out):
    """What one writes who forgets or turns one thing, by what is wrong with it."""
    right = attention_backward(q, k, v, grad_out)
    a, ga, root = right.weights, right.grad_weights, math.sqrt(q.shape[-1])
    turned = np.swapaxes
    return {
        "no row sum": ("grad_q", a * ga @ k / root),
        "row sum without weights": ("grad_q", a * (ga - ga.sum(-1, keepdims=True)) @ k / root),
        "mean instead of sum": ("grad_q", a * (ga - (ga * a).mean(-1, keepdims=True)) @ k / root),
        "sum over queries": ("grad_q", a * (ga - (ga * a).sum(-2, keepdims=True)) @ k / root),
        "no root": ("grad_q", right.grad_scores @ k),
        "no root for keys": ("grad_k", turned(right.grad_scores, -1, -2) @ q),
        "d_k instead of its root": ("grad_q", right.grad_q / root),
        "width of values": ("grad_q", right.grad_q * root / math.sqrt(v.shape[-1])),
        "weights not transposed": ("grad_v", a @ grad_out),
        "scores not transposed": ("grad_k", right.grad_scores @ q / root),
    }


@pytest.mark.parametrize("wrong", list(wrong_forms(*inputs(S, S))))
def test_a_formula_that_lacks_a_part_is_told_apart(wrong):
    """As many queries as keys: where shapes cannot give a wrong formula away."""
    q, k, v, grad_out = inputs(S, S)
    field, form = wrong_forms(q, k, v, grad_out)[wrong]
    expected = dict(zip(FIELDS, by_autograd(q, k, v, grad_out, Mask())[2:], strict=True))[field]
    assert form.shape == expected.shape
    assert apart(form, expected) > 0.05


def test_the_row_sum_can_be_read_off_the_output():
    q, k, v, grad_out = inputs(T, S)
    found = attention_backward(q, k, v, grad_out, dense(make_mask("both", S), T, S))
    by_weights = (found.grad_weights * found.weights).sum(-1)
    by_output = (grad_out * found.out).sum(-1)
    assert apart(by_output, by_weights) < 1e-12
    assert np.abs(by_weights).max() > 1


def test_what_is_hidden_gets_exactly_nothing():
    q, k, v, grad_out = inputs(T, S)
    allowed = np.broadcast_to(dense(make_mask("padding", S), T, S), (B, H, T, S))
    clean = attention_backward(q, k, v, grad_out, allowed)
    k[~allowed[:, :, 0]] = 1e200  # whatever stands there
    v[~allowed[:, :, 0]] = 1e9
    with np.errstate(over="raise", invalid="raise"):
        found = attention_backward(q, k, v, grad_out, allowed)
    for field in ("weights", "grad_scores"):
        assert (getattr(found, field)[~allowed] == 0).all()
    for field in ("grad_k", "grad_v"):
        assert (getattr(found, field)[~allowed[:, :, 0]] == 0).all()
        assert (getattr(found, field)[2:][allowed[2:, :, 0]] != 0).all()  # two keys or more
    for field in ("weights", "out", "grad_scores", *FIELDS):
        assert apart(getattr(found, field), getattr(clean, field)) < 1e-12
    for field in ("weights", "out", "grad_scores", *FIELDS):  # sequence 0 has no key
        assert (getattr(found, field)[0] == 0).all()
        assert np.isfinite(getattr(found, field)).all()


def test_large_scores_do_no_harm():
    q, k, v, grad_out = inputs(T, S, scale=100.0)
    found = attention_backward(q, k, v, grad_out)
    assert np.abs(found.scores).max() > 1e4
    assert apart(found.grad_v, by_autograd(q, k, v, grad_out, Mask())[4]) < 1e-12


def test_solved_by_hand():
    """Weights 3/4 and 1/4, values 0 and 8: s̄ = ± 3/4 · 1/4 · 8 = ± 3/2."""
    q = np.array([[2 * math.log(3), 0.0, 0.0, 0.0]])
    k = np.array([[1.0, 0.0, 5.0, 0.0], [0.0, 7.0, 0.0, 0.0]])
    v = np.array([[0.0], [8.0]])
    found = attention_backward(q, k, v, np.array([[1.0]]))
    np.testing.assert_allclose(found.scores, [[math.log(3), 0]], atol=1e-15)
    np.testing.assert_allclose(found.weights, [[0.75, 0.25]], rtol=1e-15)
    np.testing.assert_allclose(found.grad_weights, [[0, 8]], atol=1e-15)
    np.testing.assert_allclose(found.grad_scores, [[-1.5, 1.5]], rtol=1e-14)
    np.testing.assert_allclose(found.grad_v, [[0.75], [0.25]], rtol=1e-15)
    np.testing.assert_allclose(found.grad_q, [[-0.75, 5.25, -3.75, 0]], rtol=1e-14)
    np.testing.assert_allclose(found.grad_k[:, 0], [-1.5 * math.log(3), 1.5 * math.log(3)])


def test_single_and_double_precision_keep_their_type():
    for dtype in (np.float32, np.float64):
        parts = [x.astype(dtype) for x in inputs(T, S)]
        found = attention_backward(*parts, dense(make_mask("padding", S), T, S))
        assert {getattr(found, f).dtype for f in ("weights", "out", *FIELDS)} == {np.dtype(dtype)}


# ---- softmax ----


rows = arrays.arrays(np.float64, st.integers(1, 9), elements=st.floats(-30, 30))


@given(rows)
@properties
def test_the_jacobian_is_that_of_torch(scores):
    weights = torch.from_numpy(scores).softmax(-1).numpy()
    expected = torch.autograd.functional.jacobian(
        lambda s: s.softmax(-1), torch.from_numpy(scores)
    )
    found = softmax_jacobian(weights)
    np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=1e-15)
    assert (found == found.T).all()
    assert np.abs(found.sum(0)).max() < 1e-15
    assert np.linalg.eigvalsh(found).min() > -1e-15


@given(rows, st.integers(0, 1000))
@properties
def test_backward_is_the_jacobian_applied(scores, seed):
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    grad = np.random.default_rng(seed).normal(size=scores.shape)
    found = softmax_backward(weights, grad)
    np.testing.assert_allclose(found, grad @ softmax_jacobian(weights), rtol=0, atol=1e-14)
    assert abs(found.sum()) < 1e-14


def test_each_row_has_a_backward_of_its_own():
    scores = randn(B, H, T, S).requires_grad_()
    grad = randn(B, H, T, S, seed=1)
    weights = scores.softmax(-1)
    (expected,) = torch.autograd.grad((weights * grad).sum(), scores)
    found = softmax_backward(weights.detach().numpy(), grad.numpy())
    assert apart(found, expected.numpy()) < 1e-14
    a, ga = weights.detach().numpy(), grad.numpy()
    for share in (0, (ga * a).sum(-2, keepdims=True), ga.mean(-1, keepdims=True)):
        wrong = a * (ga - share)
        assert apart(wrong, expected.numpy()) > 0.05


# ---- what it refuses ----


@pytest.mark.plain
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({1: (S, K + 1)}, r"queries are 7 and keys are 8 wide; project both to d_k"),
        ({2: (S - 1, DV)}, r"17 keys and 16 values; take both from the same sequence"),
        ({3: (T, DV + 1)}, r"13 × 3, and its gradient is 13 × 4"),
        ({3: (T + 1, DV)}, r"13 × 3, and its gradient is 14 × 3"),
        ({1: (2, S, K), 2: (2, S, DV)}, r"the same leading axes, but they have \(\), \(2,\)"),
    ],
)
def test_shapes_that_do_not_fit(changed, message):
    shapes = [(T, K), (S, K), (S, DV), (T, DV)]
    parts = [np.ones(changed.get(i, shape)) for i, shape in enumerate(shapes)]
    with pytest.raises(ValueError, match=message):
        attention_backward(*parts)


@pytest.mark.plain
def test_masks_that_do_not_fit():
    parts = [np.ones(s) for s in [(T, K), (S, K), (S, DV), (T, DV)]]
    with pytest.raises(ValueError, match=r"\(13, 17\), but it is \(17, 13\)"):
        attention_backward(*parts, np.ones((S, T), dtype=bool))
    with pytest.raises(ValueError, match=r"True where a key is allowed, but got float64"):
        attention_backward(*parts, np.ones((T, S)))
    with pytest.raises(ValueError, match=r"\(13, 17\) and their gradient is \(17,\)"):
        softmax_backward(np.ones((T, S)), np.ones(S))
