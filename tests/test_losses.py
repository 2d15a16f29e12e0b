"""Cross-entropy: by hand, in the open, by torch's kernel; padding and smoothing."""

import math

import pytest
import torch
from helpers import TARGET_SIZE, B, T, properties, randn
from hypothesis import given
from hypothesis import strategies as st

from transformer_lab.losses import cross_entropy, smoothed_cross_entropy

V = TARGET_SIZE
LOGITS = 2 * randn(B, T, V)
IDS = torch.randint(1, V, (B, T), generator=torch.Generator().manual_seed(0))
PADDED = IDS.masked_fill(torch.arange(T)[None] >= torch.arange(2, 2 + B)[:, None], 0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_kernel_open_formula_and_the_sum_written_out_are_one(smoothing):
    logits = LOGITS.clone().requires_grad_()
    total, count = cross_entropy(logits, PADDED, smoothing)
    real = PADDED.flatten() != 0
    plain = smoothed_cross_entropy(logits.flatten(0, 1)[real], PADDED.flatten()[real], smoothing)
    torch.testing.assert_close(total, plain.sum(), atol=1e-11, rtol=0)
    assert count.item() == int(real.sum()) and count.item() < B * T
    # -Σ q log p with q and p written out, one token at a time
    by_hand = 0.0
    for z, y in zip(LOGITS.flatten(0, 1).tolist(), PADDED.flatten().tolist(), strict=True):
        if y != 0:
            norm = math.log(math.fsum(math.exp(a) for a in z))
            q = [smoothing / V + (1 - smoothing) * (v == y) for v in range(V)]
            by_hand -= math.fsum(a * (b - norm) for a, b in zip(q, z, strict=True))
    assert total.item() == pytest.approx(by_hand, rel=1e-13)
    one = torch.autograd.grad(total, logits, retain_graph=True)
    other = torch.autograd.grad(plain.sum(), logits)
    torch.testing.assert_close(one, other, atol=1e-13, rtol=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_open_formula_is_torchs(smoothing):
    logits, ids = LOGITS.flatten(0, 1), IDS.flatten()
    theirs = torch.nn.CrossEntropyLoss(reduction="none", label_smoothing=smoothing)(logits, ids)
    ours = smoothed_cross_entropy(logits, ids, smoothing)
    torch.testing.assert_close(ours, theirs, atol=1e-13, rtol=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_gradient_is_p_minus_q(smoothing):
    logits = LOGITS.clone().requires_grad_()
    cross_entropy(logits, PADDED, smoothing)[0].backward()
    q = torch.nn.functional.one_hot(PADDED, V).double() * (1 - smoothing) + smoothing / V
    expected = (LOGITS.softmax(-1) - q) * (PADDED != 0)[..., None]
    torch.testing.assert_close(logits.grad, expected, atol=1e-14, rtol=0)


def test_values_one_can_check_by_hand():
    even = torch.zeros(1, 3, V, dtype=torch.float64)
    ids = torch.tensor([[3, 4, 0]])
    total, count = cross_entropy(even, ids)
    assert (total.item(), count.item()) == (pytest.approx(2 * math.log(V)), 2)
    # two symbols with odds 3 : 1, the likelier is true: ℓ = ln(4/3)
    odds = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64)
    loss = smoothed_cross_entropy(odds, torch.tensor([0]))
    assert loss.item() == pytest.approx(math.log(4 / 3))
    # with α = 1/2: q = (3/4, 1/4) = p, so the loss is the entropy of (3/4, 1/4)
    loss = smoothed_cross_entropy(odds, torch.tensor([0]), 0.5)
    assert loss.item() == pytest.approx(0.75 * math.log(4 / 3) + 0.25 * math.log(4))


def test_what_stands_on_padding_does_not_matter():
    changed = LOGITS.clone()
    changed[PADDED == 0] = 100 * randn(int((PADDED == 0).sum()), V, seed=8)
    for smoothing in (0.0, 0.1):
        one, other = (cross_entropy(z, PADDED, smoothing)[0] for z in (changed, LOGITS))
        assert torch.equal(one, other)


def test_a_batch_of_padding_costs_nothing():
    total, count = cross_entropy(LOGITS, torch.zeros_like(IDS), 0.1)
    assert (total.item(), count.item()) == (0.0, 0)


@properties
@given(st.integers(1, B - 1), st.sampled_from([0.0, 0.1]))
def test_two_parts_of_a_batch_add_up_to_the_whole(cut, smoothing):
    """That is what sum and count are for; the mean of two means would be another number."""
    parts = [
        cross_entropy(LOGITS[rows], PADDED[rows], smoothing)
        for rows in (slice(cut), slice(cut, None))
    ]
    whole = cross_entropy(LOGITS, PADDED, smoothing)
    assert sum(t.item() for t, _ in parts) == pytest.approx(whole[0].item(), rel=1e-13)
    assert sum(c.item() for _, c in parts) == whole[1].item()


def test_smoothing_has_a_floor_and_pays_for_certainty():
    """No logits get below the entropy of q; more and more certainty costs more and more."""
    alpha, y = 0.1, 3
    q = torch.full((V,), alpha / V, dtype=torch.float64)
    q[y] += 1 - alpha
    floor = -(q * q.log()).sum()
    best = smoothed_cross_entropy(q.log()[None], torch.tensor([y]), alpha)
    torch.testing.assert_close(best[0], floor, atol=1e-14, rtol=0)
    sure = torch.zeros(1, V, dtype=torch.float64)
    losses = []
    for height in (5, 10, 20, 40):
        sure[0, y] = height
        losses.append(smoothed_cross_entropy(sure, torch.tensor([y]), alpha).item())
    assert losses == sorted(losses) and losses[0] > floor
    sure[0, y] = 40.0
    assert smoothed_cross_entropy(sure, torch.tensor([y])).item() < 1e-12
