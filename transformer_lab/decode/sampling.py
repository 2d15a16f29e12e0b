r"""Sampling: first a distribution, then a draw from it.

A strategy has two methods. ``distribution`` says how likely each symbol is to come next, so
that it can be looked at, plotted and compared; ``draw`` takes one symbol from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from .truncations import Temperature, TopK, TopP, checked


def pick(p_BV: Float[Tensor, "B V"], u_B: Float[Tensor, " B"]) -> Int[Tensor, " B"]:
    r"""The symbol on whose piece of the number line u falls.

    .. math:: \#\{v : c_v \le u \, c_{V-1}\}, \qquad c_v = p_0 + \dots + p_v

    p: probabilities, one row for each draw; u ∈ [0, 1). The interval from 0 to 1 is cut into
    pieces of the lengths p_v, so a u that is uniform falls on piece v with probability p_v. A
    piece of length 0 is never hit. (c_{V−1} is 1 up to rounding. Multiplied by it, even the
    largest u below 1 stays below the last c, so that rounding cannot pick a symbol past the
    last one with p_v > 0.)
    """
    c_BV = p_BV.cumsum(-1)
    return (c_BV <= u_B[:, None] * c_BV[:, -1:]).sum(-1)


@dataclass(frozen=True)
class Strategy:
    r"""Truncations one after another, softmax, a draw.

    .. math:: p = \mathrm{softmax}\bigl(f_n(\cdots f_1(z))\bigr), \qquad y \sim p

    z: logits, of shape (B, V); f_1 … f_n: ``truncations`` (functions of logits and history, such
    as those in ``TRUNCATIONS``), in the order in which they act, which matters: top-p after a
    temperature is the nucleus of the tempered distribution. Without truncations p is the model's
    own. All of it is computed in float64 on the CPU, whatever the logits are and wherever they
    lie. Raises ``ValueError`` for truncations that are not a tuple of functions.
    """

    truncations: tuple[Callable[[Tensor, Tensor], Tensor], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.truncations, tuple) or not all(map(callable, self.truncations)):
            raise ValueError(
                "The truncations of a strategy must be a tuple of functions of logits and "
                f"history, but got {self.truncations!r}; write for example (TopK(5),)."
            )

    def distribution(
        self, logits_BV: Float[Tensor, "B V"], history_BT: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B V"]:
        """Probabilities of the next symbol (float64, CPU); every row sums to 1.

        Each row depends on its own logits and history alone. Raises ``ValueError`` for logits
        that hold NaN or +∞, and where no symbol is left.
        """
        z_BV, history_BT = logits_BV.to("cpu", torch.float64), history_BT.cpu()
        for truncation in self.truncations:
            z_BV = truncation(z_BV, history_BT)
        return checked(z_BV).softmax(-1)

    def draw(
        self,
        logits_BV: Float[Tensor, "B V"],
        history_BT: Int[Tensor, "B T"],
        generator: torch.Generator | None = None,
    ) -> Int[Tensor, " B"]:
        """One symbol for each row, drawn from ``distribution``.

        ``generator`` lives on the CPU (None: torch's own). A call takes exactly B numbers from
        it, one for each row in turn, and row b depends on number b and on its own distribution
        only: the same seed gives the same draws, whatever the other rows hold. To keep it so
        over many steps, go on drawing for rows that have ended.
        """
        p_BV = self.distribution(logits_BV, history_BT)
        u_B = torch.rand(len(p_BV), dtype=torch.float64, generator=generator)
        return pick(p_BV, u_B).to(logits_BV.device)


@dataclass(frozen=True)
class Greedy:
    r"""All probability on the largest logit, the smallest id among equals.

    .. math:: p_v = [\,v = \arg\max_w z_w\,]

    The limit of ``Temperature(T)`` for T → 0 where the largest logit is alone, and the same as
    ``Strategy((TopK(1),))``, but drawn without chance, with one argmax and no check of the
    logits. z: logits, of shape (B, V).
    """

    def distribution(
        self, logits_BV: Float[Tensor, "B V"], history_BT: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B V"]:
        """Rows with a single 1 (float64, CPU); the logits are checked as everywhere."""
        best_B = checked(logits_BV).argmax(-1).cpu()
        return F.one_hot(best_B, logits_BV.shape[1]).double()

    def draw(
        self,
        logits_BV: Float[Tensor, "B V"],
        history_BT: Int[Tensor, "B T"],
        generator: torch.Generator | None = None,
    ) -> Int[Tensor, " B"]:
        """The likeliest symbol of each row; ``generator`` is left alone."""
        return logits_BV.argmax(-1)


GREEDY = Greedy()
"""The strategy that always takes the likeliest symbol."""


def sampling(
    temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Strategy:
    r"""Temperature, then top-k, then top-p; what is None is left out.

    .. math:: p = \mathrm{softmax}(f_p(f_k(z / T)))

    The order is the usual one (``transformers`` has it too), and it matters: the nucleus is that
    of the tempered distribution over the k symbols left. For another order make a ``Strategy``.
    Raises ``ValueError`` as :class:`Temperature`, :class:`TopK` and :class:`TopP` do.
    """
    truncations = [Temperature(temperature)]
    if top_k is not None:
        truncations.append(TopK(top_k))
    if top_p is not None:
        truncations.append(TopP(top_p))
    return Strategy(tuple(truncations))
