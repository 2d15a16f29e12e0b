r"""From symbols to code: the right side of a claim as torch, and three things it must equal.

1. the function of the package that the label names, at random sizes from 2 to 64;
2. autograd of torch's own way of computing what is differentiated;
3. central differences of the same, in random directions:
   :math:`(f(x + h u) - f(x - h u)) / 2h \approx \langle f'(x), u\rangle`.

All in float64. Tolerances are shares of the largest entry: 1e-11 for (1) and (2), which differ from
the formula by rounding only; 1e-7 for (3), whose own error is about h² ≈ 1e-11 and ε/h ≈ 1e-10
times the size of third derivatives and values.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

import sympy as sp

from .explicit import as_entry, sizes_of
from .scope import unfold
from .torch_form import largest_difference, to_torch

if TYPE_CHECKING:
    from torch import Tensor

    from .core import Derivation

EXACT = 1e-11
DIFFERENCES = 1e-7
STEP = 6e-6
DIRECTIONS = 8
LARGEST = 64

Values = dict[str, "Tensor"]


@dataclass(frozen=True)
class Bridge:
    """How the right side of a claim meets the code.

    arrays     name -> sizes, for every array and scalar of the unfolded right side
    function   dotted name of the package's function for this equation
    call       (that function, values) -> the same numbers, axes as the free indices of the claim
    forward    values -> what is differentiated, computed by torch; None if nothing is
    by         the array by which it is differentiated
    prepare    values -> values, e.g. to add arrays that follow from others
    positive   arrays whose entries are drawn above zero
    """

    arrays: dict[str, tuple[sp.Expr, ...]]
    function: str
    call: Callable[[Callable, Values], Tensor]
    forward: Callable[[Values], Tensor] | None = None
    by: str | None = None
    prepare: Callable[[Values], Values] | None = None
    positive: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Crossing:
    """What one crossing found: the sizes drawn, and the largest difference of each side."""

    sizes: dict[str, int]
    differences: dict[str, float]

    @property
    def holds(self) -> bool:
        """True if every side is within its tolerance."""
        return all(d <= tolerance(side) for side, d in self.differences.items())


def tolerance(side: str) -> float:
    """The share of the largest entry by which a side may differ from the formula."""
    return DIFFERENCES if side == "central differences" else EXACT


def cross(derivation: Derivation, seed: int) -> Crossing:
    """Draw sizes and values, and compare the formula with everything it must equal."""
    import torch

    bridge = derivation.bridge
    if bridge is None:
        raise ValueError(f"{derivation.label} has no bridge; give it one in its file.")
    sizes = _draw_sizes(derivation, random.Random(seed))
    generator = torch.Generator().manual_seed(seed)
    values = {
        name: _draw(shape, sizes, generator, name in bridge.positive)
        for name, shape in bridge.arrays.items()
    }
    if bridge.prepare is not None:
        values = bridge.prepare(values)
    right = as_entry(derivation.claim.rhs, derivation)
    formula = to_torch(unfold(right, derivation.definitions), values, sizes, derivation.ranges)
    sides = {"function": bridge.call(_function(bridge.function), values)}
    if bridge.forward is not None:
        sides["autograd"] = _autograd(bridge, values)
    differences = {side: largest_difference(value, formula) for side, value in sides.items()}
    if bridge.forward is not None:
        differences["central differences"] = _central(bridge, values, formula, generator)
    return Crossing({str(s): v for s, v in sizes.items()}, differences)


def _draw_sizes(derivation: Derivation, draw: random.Random) -> dict[sp.Symbol, int]:
    """A size for each symbol, no two alike, so that no two axes can be mistaken."""
    found = set(sizes_of(derivation))
    found |= {s for shape in derivation.bridge.arrays.values() for s in shape if s.is_Symbol}
    names = sorted(found, key=str)
    return dict(zip(names, draw.sample(range(2, LARGEST + 1), len(names)), strict=True))


def _draw(shape: tuple, sizes: dict, generator: object, positive: bool) -> Tensor:
    import torch

    numbers = [int(sp.sympify(s).subs(sizes)) for s in shape]
    drawn = torch.randn(numbers, generator=generator, dtype=torch.float64)
    return drawn.abs() + 0.1 if positive else drawn


def _function(dotted: str) -> Callable:
    module, name = dotted.rsplit(".", 1)
    return getattr(import_module(module), name)


def _autograd(bridge: Bridge, values: Values) -> Tensor:
    from torch.autograd.functional import jacobian

    def of(x: Tensor) -> Tensor:
        return bridge.forward(values | {bridge.by: x})

    return jacobian(of, values[bridge.by])


def _central(bridge: Bridge, values: Values, formula: Tensor, generator: object) -> float:
    import torch

    x, worst = values[bridge.by], 0.0
    for _ in range(DIRECTIONS):
        u = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        ahead, behind = (
            bridge.forward(values | {bridge.by: x + sign * STEP * u}) for sign in (1, -1)
        )
        slope = torch.tensordot(formula, u, dims=u.dim())
        worst = max(worst, largest_difference((ahead - behind) / (2 * STEP), slope))
    return worst
