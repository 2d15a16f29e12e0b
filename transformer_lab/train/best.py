r"""Early stopping: the best weights so far, and how long they have stayed the best."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor, nn


@dataclass
class Best:
    """The weights with the least dev loss, after which step, and the judgements since then.

    ``loss`` is in nats a token; ``stale`` counts judgements without a new least one. Part of
    every checkpoint of a run that has ``patience``, so that a resumed run knows it as well.
    """

    loss: float = math.inf
    step: int = 0
    stale: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)

    def hear(self, loss: float, step: int, model: nn.Module) -> None:
        """Take the weights of ``model`` if ``loss`` is less than any before (NaN never is)."""
        if loss < self.loss:
            self.loss, self.step, self.stale = loss, step, 0
            self.weights = {n: t.detach().cpu().clone() for n, t in model.state_dict().items()}
        else:
            self.stale += 1

    def state(self) -> tuple[dict[str, Tensor], dict]:
        """What a checkpoint keeps of it: tensors, and JSON-able values."""
        tensors = {f"best.{name}": t for name, t in self.weights.items()}
        return tensors, {"loss": self.loss, "step": self.step, "stale": self.stale}

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], about: dict) -> Best:
        """The inverse of :meth:`state`; other tensors are left aside."""
        own = {n.removeprefix("best."): t for n, t in tensors.items() if n.startswith("best.")}
        return cls(about["loss"], about["step"], about["stale"], own)
