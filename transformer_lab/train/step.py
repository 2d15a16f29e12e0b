r"""One step: the gradient of the mean loss per token, over one batch or several, and the move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..batches import Batch, WindowBatch
from ..devices import autocast, grad_scaler
from ..optim import adamw
from ..schedules import SCHEDULES
from ..tasks import Task
from .config import TrainConfig


def endless(task: Task, config: TrainConfig, start: int) -> Iterator[list[Batch | WindowBatch]]:
    """What each step learns from, from step ``start`` on: ``config.accumulate`` batches.

    Epoch follows epoch, in the order of an unbroken run. Raises ``ValueError`` if there is no
    batch at all.
    """
    epoch, passed, drawn = 0, 0, []
    while True:
        count = 0
        for batch in task.batches(config.seed, epoch, config.batch_size):
            count += 1
            passed += 1
            if passed <= start * config.accumulate:
                continue
            drawn.append(batch)
            if len(drawn) == config.accumulate:
                yield drawn
                drawn = []
        if not count:
            raise ValueError("Training needs at least one pair, but the training part is empty.")
        epoch += 1


class Stepper:
    """The model with its optimiser and, for fp16, its scaler: makes one step after another."""

    def __init__(
        self, model: nn.Module, task: Task, config: TrainConfig, device: torch.device,
        precision: str,
    ):  # fmt: skip
        self.model, self.task, self.config = model, task, config
        self.device, self.precision = device, precision
        self.optimiser = adamw(model, config.lr, config.betas, config.weight_decay)
        self.scaler = grad_scaler(device, precision)

    def rate(self, step: int) -> float:
        """The learning rate of the step after ``step`` steps."""
        config = self.config
        return config.lr * SCHEDULES[config.schedule](step, config.steps, config.warmup)

    def gradient(
        self, batches: Sequence[Batch | WindowBatch]
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""], Float[Tensor, ""]]:
        r"""Fill in the gradient, clipped; the summed loss, the tokens, the norm before the clip.

        .. math:: g = \nabla \frac{\sum_{k} \ell_k}{\sum_{k} n_k}

        ℓ_k is the summed loss of batch k in nats, n_k its number of tokens: the gradient of the
        one large batch, not the mean of the batches' means. Since n_2, n_3, … are not known
        when the first gradient is computed, all are divided by n_1 and the sum is corrected in
        the end, by n_1 / Σ n_k.
        """
        total = count = first = None
        for batch in batches:
            batch = batch.to(self.device)
            with autocast(self.device, self.precision):
                loss, tokens = self.task.loss(self.model, batch, self.config.smoothing)
            if first is None:
                first = tokens
                self.optimiser.zero_grad(set_to_none=True)
            self.scaler.scale(loss / first).backward()
            total = loss.detach() if total is None else total + loss.detach()
            count = tokens if count is None else count + tokens
        self.scaler.unscale_(self.optimiser)
        if len(batches) > 1:
            for p in self.model.parameters():
                if p.grad is not None:
                    p.grad.mul_(first).div_(count)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        return total, count, norm

    def move(self, rate: float) -> None:
        """Let the optimiser move the weights along the gradient, at this learning rate."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.scaler.step(self.optimiser)
        self.scaler.update()

    def skip(self) -> None:
        """Leave the weights where they are: the gradient overflowed; the scale is halved."""
        self.scaler.update()
