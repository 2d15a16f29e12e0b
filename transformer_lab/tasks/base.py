r"""What the training loop asks of a task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from ..batches import Batch, WindowBatch


@runtime_checkable
class Task(Protocol):
    """What the training loop asks of a task, whatever the model."""

    def describe(self) -> dict:
        """Everything needed to use the trained model again, as JSON-able values."""

    def batches(self, seed: int, epoch: int, batch_size: int) -> Iterator[Batch | WindowBatch]:
        """One epoch of batches, the same whenever it is asked for."""

    def loss(
        self, model: nn.Module, batch: Batch | WindowBatch, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """Sum of the losses of the batch in nats, and what it is divided by for the mean.

        The number of target tokens; where a token may stand for several characters, the number
        of characters, so that losses are nats a character.
        """

    def judge(self, model: nn.Module, part: str, limit: int | None) -> dict[str, float]:
        """Figures on a held-out part, by name."""
