r"""Why a run left the numbers: which layer was the first, and what is the likely cause.

A healthy step pays nothing for it. Only when a loss or a gradient is no longer finite is the
batch of that step looked at again, with the weights and the random numbers from before the
step, and with a hook on every layer. Where a step is not checked at once (a GPU would have to
wait), the run is first replayed from its last checkpoint up to that step.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from ..batches import Batch, WindowBatch
from ..checkpoint import load_tensors, restore_training_state
from ..devices import DTYPES, autocast, random_state, set_random_state
from .step import Stepper, endless

ORDINARY = 1e4
"""Weights and inputs of a healthy run stay far below this."""


@dataclass(frozen=True)
class Failure:
    """A step that failed: its number from 1, its batches, the random state before it, what it gave.

    ``loss`` is the sum in nats, ``norm`` that of the gradient.
    """

    step: int
    batches: list[Batch | WindowBatch]
    random: dict[str, Tensor]
    loss: float
    norm: float


@dataclass(frozen=True)
class Diagnosis:
    """What a failed step showed.

    ``what`` was the first thing that was not finite: the "output" of a layer, the "loss", the
    "slope" of the loss (its gradient at the logits), the "gradient" that a layer passes on or
    has for its weights, the "norm" of finite gradients, or the "batch" itself. ``layer`` is the
    name of that module ("" for the model as a whole). ``cause`` is "batch", "weights",
    "learning rate", "half precision", "loss", "layer" or "unknown"; ``sentence`` says it all.
    """

    step: int
    layer: str
    what: str
    cause: str
    sentence: str


class NotFinite(FloatingPointError):
    """A run left the numbers; ``diagnosis`` says where and why."""

    def __init__(self, diagnosis: Diagnosis):
        super().__init__(diagnosis.sentence)
        self.diagnosis = diagnosis


@dataclass(frozen=True)
class _Found:
    """The first thing that was not finite, and the largest finite number that went into it."""

    what: str
    layer: str = ""
    largest: float = 0.0


def replay(stepper: Stepper, checkpoint: Path, until: int) -> Failure | None:
    """Go again from the checkpoint to the step that failed, at most to step ``until``.

    The weights are then those from before it. ``None`` if no step fails this time.
    """
    tensors, about = load_tensors(checkpoint)
    restore_training_state(
        tensors, stepper.model, stepper.optimiser, stepper.device, str(checkpoint)
    )
    start = about["progress"]["step"]
    batches = endless(stepper.task, stepper.config, start)
    for step in range(start, until):
        drawn, random = next(batches), random_state(stepper.device)
        loss, _, norm = stepper.gradient(drawn)
        if not math.isfinite(float(loss) + float(norm)):
            return Failure(step + 1, drawn, random, float(loss), float(norm))
        stepper.move(stepper.rate(step))
    return None


def diagnose(
    stepper: Stepper, failure: Failure | None, seen: int, good: int, records: Sequence[dict]
) -> Diagnosis:
    """Look at the failed step again and put into words what is found.

    ``failure`` is ``None`` if a replay did not meet it again. ``seen`` is the step at which it
    was seen, ``good`` that of the checkpoint on disk, ``records`` are the records so far.
    """
    found = failure and _look(stepper, failure, stepper.precision)
    if failure is None or found is None:
        return Diagnosis(seen, "", "loss", "unknown", (
            f"Loss and gradient must stay finite numbers, but by step {seen} they were not. "
            f"Computed again from the state of step {good}, which is on disk, every number was "
            f"finite: sums in another order suffice, so this run is at the edge of what can be "
            f"computed. Train with a smaller --lr."
        ))  # fmt: skip
    cause, words = _cause(stepper, failure, found)
    layer = found.layer
    if cause == "weights":  # the module that holds them, not one that computes with them
        spoilt = list(_spoilt(stepper.model))
        inside = [name for name in spoilt if not layer or name.startswith(f"{layer}.")]
        layer = (inside or spoilt)[0].rpartition(".")[0]
    where = {
        "batch": "The batch holds numbers that are not finite.",
        "loss": "The output of every layer is finite, the loss is not.",
        "slope": "The loss is finite, its gradient at the logits is not.",
        "norm": f"Every number is finite, the norm is not; the largest gradient is in {layer}.",
    }.get(found.what) or (
        f"The first {found.what} that is not finite is that of "
        + (f"the layer {layer}." if layer else "the whole model: its logits.")
    )
    norms = ", ".join(f"{r['gradient_norm']:.3g}" for r in records[-3:])
    return Diagnosis(failure.step, layer, found.what, cause, (
        f"Loss and gradient must stay finite numbers, but in step {failure.step}, at learning "
        f"rate {stepper.rate(failure.step - 1):.2g}, loss and gradient norm were "
        f"{failure.loss} and {failure.norm} (norms in the last records: {norms or 'none yet'}). "
        f"{where} {words} The state after step {good} is on disk."
    ))  # fmt: skip


def _cause(stepper: Stepper, failure: Failure, found: _Found) -> tuple[str, str]:
    """The likely cause: its name, and what to do about it."""
    spoilt = _spoilt(stepper.model)
    weight = _largest(stepper.model.parameters())
    if spoilt and stepper.config.lr > ORDINARY:  # one step of such a rate leaves the numbers
        weight = math.inf
    if found.what == "batch":
        return "batch", "Likely cause: the data; look at what your task's batches() yields."
    if weight <= ORDINARY and spoilt:
        held = ", ".join(f"{name} ({count} of them)" for name, count in list(spoilt.items())[:3])
        return "weights", (
            f"Likely cause: weights that were not finite before the step, in {held}. No step of "
            f"training made them so, for its gradients were finite; look at what else writes into "
            f"the model."
        )
    if weight <= ORDINARY and stepper.precision != "fp32":
        exact = _look(stepper, failure, "fp32")
        if exact is None or exact.what == "norm":
            most = torch.finfo(DTYPES[stepper.precision]).max
            return "half precision", (
                f"Likely cause: overflow in half precision ({stepper.precision} ends at "
                f"{most:.3g}), for in float32 the same step is finite. Train with --precision "
                f"fp32 or bf16."
            )
    if max(weight, found.largest) > ORDINARY or found.what == "norm":
        return "learning rate", (
            f"Likely cause: the learning rate is too high; the largest weight has grown to "
            f"{weight:.2g}, and a few units are usual. Train with a smaller --lr or a longer "
            f"--warmup."
        )
    if found.what in ("loss", "slope"):
        return "loss", (
            f"Likely cause: what the loss computes, such as a logarithm, a root or a division at "
            f"0; no weight is larger than {weight:.2g}, so a smaller --lr would not help."
        )
    return "layer", (
        f"Likely cause: what is computed there, such as a logarithm, a root or a division at 0, "
        f"for what goes in is ordinary (no number above {max(weight, found.largest):.2g})."
    )


def _look(stepper: Stepper, failure: Failure, precision: str) -> _Found | None:
    """Forward and backward through the batches of a failed step, with a hook on every module."""
    model, scaler = stepper.model.train(), stepper.scaler
    set_random_state(failure.random, stepper.device)
    stepper.optimiser.zero_grad(set_to_none=True)
    outputs: list[_Found] = []
    gradients: list[tuple[str, bool, bool, float]] = []
    first = None
    with _hooks(model, outputs, gradients):
        for batch in failure.batches:
            if not _finite(vars(batch)):
                return _Found("batch")
            batch = batch.to(stepper.device)
            with autocast(stepper.device, precision):
                loss, tokens = stepper.task.loss(model, batch, stepper.config.smoothing)
            if outputs:
                return outputs[0]
            if not _finite(loss):
                return _Found("loss")
            first = tokens if first is None else first
            mean = loss / first
            (scaler.scale(mean) if precision == stepper.precision else mean).backward()
            if found := _origin(gradients):
                return found
    grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    for name, grad in grads.items():
        if not _finite(grad):
            return _Found("gradient", name.rpartition(".")[0])
    if not _finite(nn.utils.get_total_norm(grads.values())):
        largest = max(grads, key=lambda name: float(grads[name].abs().max()))
        return _Found("norm", largest.rpartition(".")[0])
    return None


@contextlib.contextmanager
def _hooks(model: nn.Module, outputs: list, gradients: list) -> Iterator[None]:
    """Inside, every module tells of a first output that is not finite, and of its gradients."""

    def forward(name: str, module: nn.Module, args: tuple, named: dict, output: object) -> None:
        if not outputs and not _finite(output):
            own = _finite((args, named))  # else it came from between two modules
            layer = name if own else name.rpartition(".")[0]
            outputs.append(_Found("output", layer, _largest(_floats((args, named)))))

    def backward(name: str, module: nn.Module, passed_on: tuple, received: tuple) -> None:
        largest = _largest(_floats(received))
        gradients.append((name, _finite(received), _finite(passed_on), largest))

    with contextlib.ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch, about inputs that have no gradient
        for name, module in model.named_modules():
            for handle in (
                module.register_forward_hook(partial(forward, name), with_kwargs=True),
                module.register_full_backward_hook(partial(backward, name)),
            ):
                stack.callback(handle.remove)
        yield


def _origin(gradients: list[tuple[str, bool, bool, float]]) -> _Found | None:
    """The layer that made a gradient infinite: it received a finite one and passed on another.

    ``gradients`` in the order of the backward pass: module, finite received, finite passed on.
    """
    bad = [g for g in gradients if not (g[1] and g[2])]
    if not bad:
        return None
    if any(name == "" and not received for name, received, _, _ in bad):
        return _Found("slope")
    for name, received, _, largest in bad:
        if received:
            return _Found("gradient", name, largest)
    name, *_, largest = bad[0]  # made between two modules, in the one around them
    return _Found("gradient", name.rpartition(".")[0], largest)


def _floats(value: object) -> Iterator[Tensor]:
    """The tensors of real numbers in nested tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value.detach()
    elif isinstance(value, (tuple, list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _floats(part)


def _finite(value: object) -> bool:
    return all(bool(t.isfinite().all()) for t in _floats(value))


def _largest(tensors: Iterable[Tensor]) -> float:
    """The largest absolute value that is finite; 0 if there is none."""
    finite = [t[t.isfinite()].abs() for t in map(Tensor.detach, tensors)]
    return max((float(t.max()) for t in finite if t.numel()), default=0.0)


def _spoilt(model: nn.Module) -> dict[str, int]:
    """How many numbers are not finite, by the name of the parameter or buffer that holds them."""
    named = [*model.named_parameters(), *model.named_buffers()]
    counts = {name: int((~t.isfinite()).sum()) for name, t in named}
    return {name: count for name, count in counts.items() if count}
