"""Scaled dot-product attention: the fused kernel, the open formula, and a small one by hand."""

import math

import pytest
import torch
from helpers import B, H, K, S, T, lengths_to_keys, randn
from jaxtyping import TypeCheckError

from transformer_lab.attention import (
    CAUSAL,
    EVERYTHING,
    Mask,
    attend,
    attention_scores,
    attention_weights,
)

G = 3  # groups of keys and values; queries then have 2 · G heads


def inputs(queries, keys, heads=H, groups=H, dtype=torch.float64):
    shapes = [(B, heads, queries, K), (B, groups, keys, K), (B, groups, keys, K)]
    return [randn(*s, seed=i).to(dtype).requires_grad_() for i, s in enumerate(shapes)]


def make_mask(kind, keys):
    """Sequence 0 has no real key at all, sequence 1 has one, the others have several or all."""
    if kind in ("none", "causal"):
        return Mask(causal=kind == "causal")
    lengths = [0, 1, *(2 + 3 * b % max(1, keys - 1) for b in range(B - 3)), keys]
    return Mask(kind == "both", lengths_to_keys([min(n, keys) for n in lengths], keys))


def both_ways(q, k, v, mask, extra):
    """(output, gradients) by the fused kernel and by weights @ values."""
    groups = q.shape[1] // v.shape[1]
    weights = attention_weights(q, k, mask, extra)
    outputs = [attend(q, k, v, mask, extra), weights @ v.repeat_interleave(groups, 1)]
    cotangent = randn(*outputs[0].shape, seed=7).to(q.dtype)
    wanted = [q, k, v] if extra is None else [q, k, v, extra]
    return [(o, *torch.autograd.grad((o * cotangent).sum(), wanted)) for o in outputs]


SHAPES = [(T, T), (T, S), (1, S), (1, 1), (S, T)]
KINDS = ["none", "causal", "padding", "both"]
CASES = [(n, m, k) for n, m in SHAPES for k in KINDS if n <= m or k in ("none", "padding")]


@pytest.mark.parametrize("grouped", [False, True], ids=["heads", "groups"])
@pytest.mark.parametrize("extra", ["nothing", "scores", "shared scores"])
@pytest.mark.parametrize(("queries", "keys", "kind"), CASES)
def test_the_fused_kernel_is_the_open_formula(queries, keys, kind, extra, grouped):
    heads, groups = (2 * G, G) if grouped else (H, H)
    q, k, v = inputs(queries, keys, heads, groups)
    added = None
    if extra != "nothing":
        rows = B if extra == "scores" else 1
        added = randn(rows, heads, queries, keys, seed=5).requires_grad_()
    fused, plain = both_ways(q, k, v, make_mask(kind, keys), added)
    for a, b in zip(fused, plain, strict=True):
        assert torch.isfinite(a).all() and torch.isfinite(b).all()
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_in_single_precision_they_agree_to_two_millionths(kind):
    """Outputs are averages of numbers near 1: float32 leaves some 1e-7 a step."""
    q, k, v = inputs(T, S, dtype=torch.float32)
    fused, plain = both_ways(q, k, v, make_mask(kind, S), None)
    torch.testing.assert_close(fused[0], plain[0], atol=2e-6, rtol=0)
    for a, b in zip(fused[1:], plain[1:], strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_sums_to_one_and_what_is_hidden_gets_exactly_nothing(kind):
    q, k, _ = inputs(T, S)
    mask = make_mask(kind, S)
    weights = attention_weights(q, k, mask, 30 * randn(B, H, T, S, seed=5))
    allowed = mask.dense(T, S)
    allowed = torch.ones(B, H, T, S, dtype=bool) if allowed is None else allowed
    some = allowed.expand(B, H, T, S).any(-1)
    torch.testing.assert_close(weights.sum(-1), some.double(), atol=1e-14, rtol=0)
    assert weights.min() >= 0
    assert (weights.masked_select(~allowed) == 0).all()


def test_a_sequence_without_real_keys_gives_zeros_and_finite_gradients():
    q, k, v = inputs(T, S)
    for extra in (None, randn(B, H, T, S, seed=5).requires_grad_()):
        for out, *gradients in both_ways(q, k, v, make_mask("padding", S), extra):
            assert (out[0] == 0).all() and (out[1] != 0).any()
            for gradient in gradients:
                assert torch.isfinite(gradient).all() and (gradient[0] == 0).all()


def test_no_step_of_the_open_formula_makes_a_number_that_is_none():
    """Not even one that is thrown away later: torch's anomaly detection would stop there."""
    q, k, v = inputs(T, S)
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly():
        (attention_weights(q, k, make_mask("padding", S)) @ v).sum().backward()


def test_a_kernel_that_fails_on_rows_without_keys_does_no_harm(monkeypatch):
    """Some of torch's kernels answer NaN there; the zeros do not depend on which one runs."""

    def kernel(q, k, v, attn_mask):
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~attn_mask, -math.inf)
        return scores.softmax(-1) @ v

    q, k, v = inputs(T, S)
    mask = make_mask("both", S)
    expected = attend(q, k, v, mask)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", kernel)
    assert torch.isnan(kernel(q, k, v, mask.dense(T, S))[0]).all()
    torch.testing.assert_close(attend(q, k, v, mask), expected, atol=1e-12, rtol=0)


def test_solved_by_hand():
    """d_k = 4, so scores are halved: q·k₁/2 = ln 3 and q·k₂/2 = 0 give weights 3/4 and 1/4."""
    q = torch.tensor([[[[2 * math.log(3), 0, 0, 0]]]], dtype=torch.float64)
    k = torch.tensor([[[[1.0, 5, 0, 0], [0, 0, 7, 0]]]], dtype=torch.float64)
    v = torch.tensor([[[[8.0, 0, 1, 0], [0, 4, 1, 0]]]], dtype=torch.float64)
    assert attention_scores(q, k).flatten().tolist() == pytest.approx([math.log(3), 0])
    assert attention_weights(q, k).flatten().tolist() == pytest.approx([0.75, 0.25])
    assert attend(q, k, v).flatten().tolist() == pytest.approx([6, 1, 1, 0])


def test_scores_of_random_vectors_have_variance_one():
    """That is what the division by √d_k is for."""
    q, k = randn(11, 5, 67, 101), randn(11, 5, 67, 101, seed=1)
    assert attention_scores(q, k).var().item() == pytest.approx(1, abs=0.02)


def test_equal_keys_share_evenly_and_a_large_score_takes_all():
    q, k, v = inputs(T, S)
    even = attend(q, k[:, :, :1].expand_as(k), v)
    torch.testing.assert_close(even, v.mean(2, keepdim=True).expand_as(even), atol=1e-12, rtol=0)
    towards_4 = torch.zeros(1, H, T, S, dtype=torch.float64)
    towards_4[..., 4] = 1e4
    torch.testing.assert_close(attend(q, k, v, scores=towards_4), v[:, :, 4:5].expand_as(q))


def test_order_of_keys_does_not_matter():
    q, k, v = inputs(T, S)
    order = torch.randperm(S, generator=torch.Generator().manual_seed(0))
    out = attend(q, k[:, :, order], v[:, :, order])
    torch.testing.assert_close(out, attend(q, k, v), atol=1e-12, rtol=0)


@pytest.mark.parametrize("queries", [T, 5])
def test_nothing_leaks_from_the_future(queries):
    """Change token s: no query before it moves, every query from it on does."""
    q, k, v = inputs(queries, T)
    before = attend(q, k, v, CAUSAL)
    for s in range(1, T):
        k2, v2 = k.detach().clone(), v.detach().clone()
        k2[:, :, s], v2[:, :, s] = 9.0, -9.0
        moved = (attend(q, k2, v2, CAUSAL) - before).abs().amax((0, 1, 3))
        at = torch.arange(T - queries, T)
        assert (moved[at < s] == 0).all() and (moved[at >= s] > 1e-6).all()


def test_groups_are_shared_by_neighbouring_heads():
    """With G groups, heads i·H/G … (i + 1)·H/G − 1 use group i, as torch's own kernel does."""
    q, k, v = inputs(T, S, 2 * G, G)
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(attend(q, k, v), theirs, atol=1e-12, rtol=0)


def test_the_run_checks_shapes():
    """jaxtyping looks at every call: keys of another batch, and a mask with a wrong type."""
    try:
        attention_scores(randn(2, H, T, K), randn(3, H, S, K))
    except TypeCheckError:
        pass
    except RuntimeError:
        pytest.fail("Shapes are not checked in this run: start the tests with `python tests`.")
    with pytest.raises(TypeCheckError):
        attend(*inputs(T, S), EVERYTHING, randn(B, H, S, T))  # swapped axes
    with pytest.raises(TypeCheckError):
        attention_weights(torch.zeros(B, H, T, K, dtype=torch.long), randn(B, H, S, K))
    with pytest.raises(TypeCheckError):
        Mask(keys_BS=torch.ones(B, S))  # numbers where booleans belong


@pytest.mark.plain
def test_groups_must_divide_heads():
    message = r"multiple of the heads of keys, but there are 5 and 3; choose a divisor of 5"
    for function in (attention_scores, attention_weights):
        with pytest.raises(ValueError, match=message):
            function(randn(2, 5, 3, 7), randn(2, 3, 4, 7))
    with pytest.raises(ValueError, match=message):
        attend(randn(2, 5, 3, 7), randn(2, 3, 4, 7), randn(2, 3, 4, 7))
