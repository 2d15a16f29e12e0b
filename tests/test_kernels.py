"""The seam of the linear map: same results by both kernels, and a choice that can be trusted."""

import pytest
import torch
from torch.nn import functional as F

from transformer_lab import kernels
from transformer_lab.kernels import FEWEST_ROWS, Linear, choose_linear, linear, probe


@pytest.fixture(autouse=True)
def restore():
    before = kernels._chosen
    yield
    kernels._chosen = before


def operands(rows=(7, 11), width=5, out=13, bias=True):
    generator = torch.Generator().manual_seed(3)
    shapes = ((*rows, width), (out, width), (out,))
    found = [torch.randn(*s, generator=generator, requires_grad=True) for s in shapes]
    return found if bias else [*found[:2], None]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [(7, 11), (83,), (2, 3, 17)])
def test_both_kernels_agree_forward_and_backward(rows, bias):
    assert choose_linear("onednn") == "onednn", "torch's wheels have oneDNN on this processor"
    x, w, b = operands(rows, bias=bias)
    inputs = (x, w, b) if bias else (x, w)
    ours, theirs = linear(x, w, b), F.linear(x, w, b)
    assert type(ours.grad_fn).__name__ == "_OneDNNLinearBackward"
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    upstream = torch.randn(ours.shape, generator=torch.Generator().manual_seed(4))
    for a, e in zip(
        torch.autograd.grad(ours, inputs, upstream),
        torch.autograd.grad(theirs, inputs, upstream),
        strict=True,
    ):
        assert a.shape == e.shape
        torch.testing.assert_close(a, e, rtol=0, atol=3e-5)


def test_gradients_equal_double_precision():
    choose_linear("onednn")
    x, w, b = operands()
    exact = [t.detach().double().requires_grad_() for t in (x, w, b)]
    linear(x, w, b).square().sum().backward()
    F.linear(*exact).square().sum().backward()
    for ours, theirs in zip((x, w, b), exact, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-4)


def test_only_what_asks_for_a_gradient_gets_one():
    choose_linear("onednn")
    x, w, b = operands()
    x, w = x.detach(), w.detach()
    linear(x, w, b).sum().backward()
    assert x.grad is None and w.grad is None
    torch.testing.assert_close(b.grad, torch.full((13,), 77.0))


def used(x, w, b):
    """Which kernel :func:`linear` takes."""
    name = type(linear(x, w, b).grad_fn).__name__
    return "onednn" if name == "_OneDNNLinearBackward" else "torch"


def test_small_maps_and_other_types_stay_with_torch():
    choose_linear("onednn")
    assert used(*operands((FEWEST_ROWS,))) == "onednn"
    assert used(*operands((FEWEST_ROWS - 1,))) == "torch"
    assert used(*(t.detach().double().requires_grad_() for t in operands())) == "torch"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear(*operands()).dtype == torch.bfloat16
    choose_linear("torch")
    assert used(*operands()) == "torch"


def test_without_gradient_the_result_is_the_same():
    choose_linear("onednn")
    x, w, b = operands()
    with torch.inference_mode():
        plain = linear(x, w, b)
    assert torch.equal(plain, linear(x, w, b))


def test_a_computer_without_onednn_works_silently(monkeypatch, recwarn):
    def missing(*_):
        raise AttributeError("no such operator")

    monkeypatch.setattr(kernels, "_onednn", missing)
    assert probe() == choose_linear("auto") == choose_linear("onednn") == "torch"
    x, w, b = operands()
    assert torch.equal(linear(x, w, b), F.linear(x, w, b))
    assert not recwarn.list


def test_an_operator_that_computes_something_else_is_not_trusted(monkeypatch):
    monkeypatch.setattr(kernels, "_onednn", lambda x, w, b: F.linear(x, w, b) + 1)
    assert choose_linear("onednn") == "torch"


@pytest.mark.parametrize(("share", "expected"), [(0.5, "onednn"), (0.95, "torch"), (2.0, "torch")])
def test_the_probe_takes_onednn_only_if_it_is_clearly_faster(monkeypatch, share, expected):
    clock = iter([t for _ in range(6) for t in (0.0, 1.0, 0.0, share)])
    monkeypatch.setattr(kernels.time, "perf_counter", lambda: next(clock))
    assert probe() == expected


def test_the_probe_runs_inside_inference_mode_and_leaves_no_trace():
    state = torch.get_rng_state()
    with torch.inference_mode():
        assert choose_linear("auto") in ("torch", "onednn")
    assert torch.equal(torch.get_rng_state(), state)


def test_one_probe_a_process(monkeypatch):
    calls = []
    monkeypatch.setattr(kernels, "probe", lambda: calls.append(1) or "torch")
    monkeypatch.setattr(kernels, "_chosen", None)
    for _ in range(3):
        linear(*operands())
    assert len(calls) == 1


def test_the_layer_has_torchs_parameters_and_first_values():
    torch.manual_seed(5)
    ours = Linear(5, 13)
    torch.manual_seed(5)
    theirs = torch.nn.Linear(5, 13)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)
    choose_linear("onednn")
    x = torch.randn(89, 5)
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-5)


@pytest.mark.plain
def test_an_unknown_kernel_is_refused():
    with pytest.raises(ValueError, match="one of auto, torch, onednn, but got 'mkl'"):
        choose_linear("mkl")
