"""Which numbers decay, AdamW against its formula written out, schedules in torch's hands."""

import pytest
import torch
from helpers import tiny_model

from transformer_lab.models import EncoderDecoder
from transformer_lab.optim import adamw, parameter_groups
from transformer_lab.schedules import SCHEDULES, cosine


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_every_parameter_is_in_exactly_one_group(positions):
    model = tiny_model(positions=positions)
    groups = parameter_groups(model, 0.03)
    assert [g["weight_decay"] for g in groups] == [0.03, 0.0]
    ids = [id(p) for g in groups for p in g["params"]]
    assert sorted(ids) == sorted(id(p) for p in model.parameters())
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_matrices_decay_but_biases_norms_and_positions_do_not(positions):
    model = tiny_model(positions=positions)
    decaying = {id(p) for p in parameter_groups(model, 0.03)[0]["params"]}
    names = {name for name, p in model.named_parameters() if id(p) in decaying}
    kept = {name for name, _ in model.named_parameters()} - names
    ends = ("bias", "gamma_D", "beta_D", "positions.table_nD")
    assert all(name.endswith(ends) for name in kept), kept
    assert all(name.endswith("weight") for name in names), names
    assert len(kept) > 20 and len(names) > 20


def test_frozen_parameters_are_left_out():
    model = tiny_model()
    model.source_embedding.weight.requires_grad_(False)
    listed = sum(len(g["params"]) for g in parameter_groups(model, 0.1))
    assert listed == len(list(model.parameters())) - 1


def test_a_shared_matrix_is_listed_once():
    """The embedding that also scores must not move twice in a step."""
    tied = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    groups = parameter_groups(tied, 0.1)
    assert [len(g["params"]) for g in groups] == [1, 2]


def written_out(theta, gradients, lr, betas, decay, epsilon):
    """AdamW from the formula of its docstring, one tensor at a time."""
    m, v = torch.zeros_like(theta), torch.zeros_like(theta)
    for t, g in enumerate(gradients, start=1):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        corrected = (m / (1 - betas[0] ** t)) / ((v / (1 - betas[1] ** t)).sqrt() + epsilon)
        theta = (1 - lr * decay) * theta - lr * corrected
    return theta


def test_seven_steps_are_the_formula():
    model, steps = tiny_model(positions="learned"), 7
    lr, betas, decay = 3e-3, (0.9, 0.98), 0.07
    optimiser = adamw(model, lr, betas, decay)
    # this test is about the update; which parameters decay is asked above
    rate = {id(p): g["weight_decay"] for g in optimiser.param_groups for p in g["params"]}
    names = dict(model.named_parameters())
    start = {name: p.detach().clone() for name, p in names.items()}
    generator = torch.Generator().manual_seed(0)
    # also tiny gradients, where ε is felt
    gradients = {
        name: [
            10.0 ** -(5 * t % 11) * torch.randn(p.shape, generator=generator, dtype=p.dtype)
            for t in range(steps)
        ]
        for name, p in names.items()
    }
    for t in range(steps):
        for name, p in names.items():
            p.grad = gradients[name][t].clone()
        optimiser.step()
    for name, p in names.items():
        expected = written_out(start[name], gradients[name], lr, betas, rate[id(p)], 1e-9)
        torch.testing.assert_close(p.detach(), expected, atol=1e-12, rtol=0)


def test_the_first_step_is_lr_in_every_direction():
    """At t = 1 the corrected ratio is g/|g|: each number moves by lr, whatever the gradient."""
    model = tiny_model()
    before = [p.detach().clone() for p in model.parameters()]
    optimiser = adamw(model, 0.01, (0.9, 0.98), 0.0)
    for i, p in enumerate(model.parameters()):
        p.grad = torch.full_like(p, (-1) ** i * 10.0 ** (i % 5))
    optimiser.step()
    for i, (p, was) in enumerate(zip(model.parameters(), before, strict=True)):
        moved = torch.full_like(p, -0.01 * (-1) ** i)
        torch.testing.assert_close((p - was).detach(), moved, atol=1e-10, rtol=0)


def test_decay_pulls_towards_zero_without_touching_the_gradients_path():
    """Decoupled: with a zero gradient a matrix shrinks by 1 - lr·λ, a bias stays."""
    model: EncoderDecoder = tiny_model()
    weight, bias = model.encoder[0].feed_forward.inner.parameters()
    before = weight.detach().clone(), bias.detach().clone()
    optimiser = adamw(model, 0.1, (0.9, 0.98), 0.5)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimiser.step()
    torch.testing.assert_close(weight.detach(), before[0] * 0.95, atol=1e-15, rtol=1e-14)
    assert torch.equal(bias, before[1])


@pytest.mark.parametrize("name", SCHEDULES)
def test_torchs_lambda_schedule_gives_the_same_rates(name):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([parameter], lr=0.3)
    rates = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda s: SCHEDULES[name](s, 30, 7))
    for step in range(30):
        assert optimiser.param_groups[0]["lr"] == pytest.approx(0.3 * SCHEDULES[name](step, 30, 7))
        optimiser.step()
        rates.step()


def test_cosine_without_warmup_is_torchs():
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=30)
    for step in range(31):
        assert cosine(step, 30) == pytest.approx(optimiser.param_groups[0]["lr"], abs=1e-14)
        optimiser.step()
        rates.step()
