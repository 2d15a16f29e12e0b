"""Layer norm against torch's and by hand; where the norm stands."""

import math

import pytest
import torch
from helpers import D, randn, shake
from torch import nn

from transformer_lab.norms import ARRANGEMENTS, LayerNorm, PostNorm, PreNorm, layer_norm

GAMMA, BETA = randn(D, seed=1), randn(D, seed=2)
ONE, ZERO = torch.ones(D, dtype=torch.float64), torch.zeros(D, dtype=torch.float64)


@pytest.mark.parametrize("shape", [(D,), (7, D), (2, 3, 5, D)])
@pytest.mark.parametrize("epsilon", [1e-5, 0.5])
def test_open_formula_kernel_and_torchs_layer_are_one(shape, epsilon):
    x = (3 * randn(*shape) + 2).requires_grad_()
    cotangent = randn(*shape, seed=3)
    ours, theirs = LayerNorm(D, epsilon).double(), nn.LayerNorm(D, epsilon).double()
    with torch.no_grad():
        for module in (ours, theirs):
            for p, value in zip(module.parameters(), (GAMMA, BETA), strict=True):
                p.copy_(value)
    outputs = [layer_norm(x, ours.gamma_D, ours.beta_D, epsilon), ours(x), theirs(x)]
    gradients = [torch.autograd.grad((y * cotangent).sum(), x)[0] for y in outputs]
    for y, g in zip(outputs, gradients, strict=True):
        torch.testing.assert_close(y, outputs[-1], atol=1e-12, rtol=0)
        torch.testing.assert_close(g, gradients[-1], atol=1e-12, rtol=0)


def test_solved_by_hand():
    """x = (1, 0, 0, 0): mean 1/4, variance 3/16 (divided by 4, not 3), y = (√3, -1/√3, …)."""
    x = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
    one, zero = torch.ones_like(x), torch.zeros_like(x)
    expected = [math.sqrt(3), *[-1 / math.sqrt(3)] * 3]
    assert layer_norm(x, one, zero, 0.0).tolist() == pytest.approx(expected, abs=1e-15)
    # ε stands inside the root: with ε = 1/16 the root is 1/2, so y = (3/2, -1/2, -1/2, -1/2)
    assert layer_norm(x, one, zero, 1 / 16).tolist() == [1.5, -0.5, -0.5, -0.5]
    # γ scales before β shifts
    got = layer_norm(x, torch.tensor([2.0, 4, 6, 8]).double(), torch.full_like(x, 10), 1 / 16)
    assert got.tolist() == [13.0, 8.0, 7.0, 6.0]


def test_a_constant_token_becomes_beta():
    x = torch.full((3, D), 7.0, dtype=torch.float64)
    assert torch.equal(layer_norm(x, GAMMA, BETA), BETA.expand(3, D))


def test_scale_and_shift_of_the_input_do_not_matter_but_a_sign_does():
    """LN(αx + c) = sign(α) LN(x) for γ = 1, β = 0 and without ε; with ε only nearly."""
    x = randn(5, D)
    y = layer_norm(x, ONE, ZERO, 0.0)
    for alpha in (0.01, 3.0, 1e4):
        for sign in (1, -1):
            moved = layer_norm(sign * alpha * x + 5, ONE, ZERO, 0.0)
            torch.testing.assert_close(moved, sign * y, atol=1e-9, rtol=0)
    assert (layer_norm(0.01 * x, ONE, ZERO, 1e-5) - y).abs().max() > 1e-3


def test_mean_zero_and_variance_one_along_the_features():
    y = layer_norm(4 * randn(7, 5, D) - 1, ONE, ZERO, 0.0)
    assert y.mean(-1).abs().max() < 1e-14
    assert (y.var(-1, correction=0) - 1).abs().max() < 1e-13
    # the other axes are left alone: tokens do not mix
    x = randn(7, 5, D)
    changed = x.clone()
    changed[2, 3] += randn(D, seed=9)
    same = (layer_norm(x, ONE, ZERO) == layer_norm(changed, ONE, ZERO)).all(-1)
    assert same.sum() == 34 and not same[2, 3]


def test_the_sum_of_the_output_has_no_gradient():
    """Each token's output sums to Σβ whatever x is, so nothing flows back through the sum."""
    x = randn(5, D).requires_grad_()
    layer_norm(x, ONE, BETA).sum().backward()
    assert x.grad.abs().max() < 1e-14
    # nor through the direction of x itself (only ε lets a little pass)
    x.grad = None
    layer_norm(x, ONE, ZERO, 0.0).pow(2).sum().backward()
    assert x.grad.abs().max() < 1e-13


def test_where_the_norm_stands():
    """Against torch's own layer norm: post = LN(x + f(x)), pre = x + f(LN(x))."""
    x, W = randn(3, 5, D), randn(D, D, seed=4)

    def f(t):
        return torch.tanh(t @ W)

    for kind in (PostNorm, PreNorm):
        block = shake(kind(D, 0.0).double(), 5).eval()
        norm = nn.LayerNorm(D).double()
        norm.weight.data.copy_(block.norm.gamma_D)
        norm.bias.data.copy_(block.norm.beta_D)
        expected = norm(x + f(x)) if kind is PostNorm else x + f(norm(x))
        torch.testing.assert_close(block(x, f), expected, atol=1e-12, rtol=0)


def test_a_pre_norm_block_is_the_identity_plus_something():
    """Without its sub-layer a pre-norm block passes x on untouched; a post-norm block does not."""
    x = randn(3, 5, D)
    assert torch.equal(PreNorm(D, 0.0).double()(x, torch.zeros_like), x)
    assert not torch.allclose(PostNorm(D, 0.0).double()(x, torch.zeros_like), x)
    assert (PreNorm.final_norm, PostNorm.final_norm) == (True, False)


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_dropout_falls_on_the_sub_layer_only(name):
    torch.manual_seed(0)
    block, x = ARRANGEMENTS[name](D, 0.25).double(), randn(7, 11, D)
    gone = torch.zeros_like(x)

    def sub_layer(t):
        return torch.full_like(t, 3.0)

    for _ in range(20):
        out = block(x, sub_layer)
        if name == "pre":
            branch = out - x
            kept = (branch - 4.0).abs() < 1e-9  # 3 / (1 - 0.25)
            assert (kept | (branch.abs() < 1e-9)).all()
            gone += ~kept
    if name == "pre":
        assert gone.mean().item() / 20 == pytest.approx(0.25, abs=0.01)
    else:
        assert not torch.equal(block(x, sub_layer), block(x, sub_layer))
    # the skip path is never thinned: a sub-layer that says nothing leaves x (or its norm)
    quiet = block(x, torch.zeros_like)
    assert torch.equal(quiet, x if name == "pre" else block.norm(x))
    block.eval()
    assert torch.equal(block(x, sub_layer), block(x, sub_layer))


def test_a_new_norm_starts_neutral():
    norm = LayerNorm(D)
    assert norm.gamma_D.eq(1).all() and norm.beta_D.eq(0).all() and norm.epsilon == 1e-5
