"""Numbers from a file into a model, and a training that goes on from them."""

from __future__ import annotations

import pytest
import torch
from helpers import TARGET_SIZE, tiny_model

from transformer_lab.checkpoint import (
    CheckpointError,
    load_into,
    load_tensors,
    restore_training_state,
    save_tensors,
    training_state,
)
from transformer_lab.optim import adamw

CPU = torch.device("cpu")


def same(found, expected) -> bool:
    """Equal names, types, shapes and numbers."""
    return found.keys() == expected.keys() and all(
        t.dtype == expected[n].dtype and torch.equal(t, expected[n]) for n, t in found.items()
    )


# ---- into a model ----


def test_weights_go_into_a_model_of_the_same_sizes():
    a, b = tiny_model(seed=1), tiny_model(seed=2)
    load_into(b, a.state_dict(), "here")
    assert same(b.state_dict(), a.state_dict())


def test_half_precision_becomes_the_models_own():
    model = tiny_model(seed=1, dtype=torch.float32)
    half = {name: t.half() for name, t in model.state_dict().items()}
    load_into(model, half, "here")
    for name, t in model.state_dict().items():
        assert t.dtype == torch.float32 and torch.equal(t, half[name].float())


@pytest.mark.plain
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder_layers": 3}, r"0 are missing \(first: none\) and \d+ are unknown .*encoder\.2"),
        ({"decoder_layers": 2}, r"\d+ are missing \(first: \['decoder\.2.* and 0 are unknown"),
        ({"d_ff": 43}, r"must have shape \(41, 35\) by the .*, but in here it has \(43, 35\)"),
        ({"target_size": TARGET_SIZE + 1}, r"target_embedding.weight .*\(23, 35\).*\(24, 35\)"),
    ],
)
def test_weights_of_other_sizes_are_refused_and_change_nothing(change, message):
    model = tiny_model()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    with pytest.raises(CheckpointError, match=message):
        load_into(model, tiny_model(**change).state_dict(), "here")
    assert same(model.state_dict(), before)


# ---- the state of a training ----


def stepped(steps: int):
    """A model with dropout and its optimiser after a few steps."""
    model = tiny_model(dtype=torch.float32, dropout=0.2).train()
    optimiser = adamw(model, 0.01, (0.9, 0.98), 0.1)
    go_on(model, optimiser, steps)
    return model, optimiser


def go_on(model, optimiser, steps: int) -> None:
    source, target = torch.tensor([[3, 4, 5, 6, 7]]), torch.tensor([[1, 3, 4]])
    for _ in range(steps):
        optimiser.zero_grad()
        model(source, target).square().mean().backward()
        optimiser.step()


@pytest.mark.parametrize("before", [0, 3])
def test_a_training_goes_on_exactly_from_its_state(before, tmp_path):
    torch.manual_seed(5)
    model, optimiser = stepped(before)
    save_tensors(tmp_path / "x", training_state(model, optimiser, CPU), {})
    go_on(model, optimiser, 4)
    torch.manual_seed(6)
    other, its_optimiser = stepped(before + 1)
    other = tiny_model(seed=9, dtype=torch.float32, dropout=0.2).train()
    its_optimiser = adamw(other, 0.01, (0.9, 0.98), 0.1)
    tensors, _ = load_tensors(tmp_path / "x")
    restore_training_state(tensors, other, its_optimiser, CPU, "here")
    go_on(other, its_optimiser, 4)
    assert same(other.state_dict(), model.state_dict())


@pytest.mark.plain
@pytest.mark.parametrize(
    "spoil",
    [
        lambda t: t.pop("random.cpu"),
        lambda t: t.pop("optimiser.3.exp_avg"),
        lambda t: t.pop("optimiser.3.step"),
        lambda t: t.update({"optimiser.x.step": torch.ones(())}),
        lambda t: t.update({"optimiser.99.step": torch.ones(())}),
        lambda t: t.update({"optimiser.3.exp_avg": torch.ones(2, 3)}),
        lambda t: t.pop("model.target_embedding.weight"),
    ],
)
def test_a_state_that_is_not_whole_is_refused(spoil):
    model, optimiser = stepped(1)
    tensors = training_state(model, optimiser, CPU)
    spoil(tensors)
    with pytest.raises(CheckpointError, match="here"):
        restore_training_state(tensors, model, optimiser, CPU, "here")


@pytest.mark.plain
def test_weights_alone_are_no_training_state(tmp_path):
    model, optimiser = stepped(1)
    with pytest.raises(CheckpointError, match="here"):
        restore_training_state(dict(model.state_dict()), model, optimiser, CPU, "here")
