r"""A symbolic formula as torch: index symbols become named axes, sums become contractions.

``to_torch(expr, arrays, ranges)`` gives a tensor with one axis for each free index. No entry is
looked at one by one, so that sizes of 64 cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from string import ascii_letters
from typing import TYPE_CHECKING

import sympy as sp

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Named:
    """A tensor whose axes carry index symbols."""

    tensor: Tensor
    axes: tuple[sp.Symbol, ...]


def to_torch(
    expr: sp.Expr,
    arrays: dict[str, Tensor],
    sizes: dict[sp.Symbol, int],
    ranges: tuple[tuple[sp.Symbol, sp.Expr], ...] = (),
) -> Tensor:
    """The value of ``expr``; axes in the order of ``ranges``, one for each free index.

    ``arrays``: name -> tensor, for entries and for scalars; ``sizes``: size symbol -> number.
    Definitions must have been unfolded (`scope.unfold`), derivatives carried out. Indices are
    single symbols or numbers. Raises ``ValueError`` for a form or a letter that has no rule here.
    """
    import torch

    translate = _Translator(arrays, sizes, ranges)
    value = translate(expr)
    order = tuple(i for i, _ in ranges)
    strange = set(value.axes) - set(order)
    if strange:
        raise ValueError(
            f"The formula has the free indices {', '.join(sorted(map(str, strange)))}, which are "
            "not named in `ranges`; name them, or bind them by a sum."
        )
    return torch.broadcast_to(translate.arranged(value, order), [translate.ends[i] for i in order])


class _Translator:
    def __init__(self, arrays: dict, sizes: dict, ranges: tuple) -> None:
        import torch

        self.torch, self.arrays, self.sizes = torch, arrays, sizes
        self.ends = {i: self._count(upto) for i, upto in ranges}
        self.functions = {
            sp.exp: torch.exp,
            sp.log: torch.log,
            sp.Abs: torch.abs,
            sp.sin: torch.sin,
            sp.cos: torch.cos,
            sp.tanh: torch.tanh,
        }

    def __call__(self, expr: sp.Expr) -> Named:
        if expr.is_number:
            return self._constant(float(expr))
        if isinstance(expr, sp.Symbol):
            return self._symbol(expr)
        if isinstance(expr, sp.Indexed):
            return self._entry(expr)
        if isinstance(expr, sp.KroneckerDelta):
            return self._delta(expr)
        if isinstance(expr, sp.Sum):
            return self._sum(expr)
        if isinstance(expr, sp.Add):
            return self._together(self.torch.add, *expr.args)
        if isinstance(expr, sp.Mul):
            return self._contract([self(a) for a in expr.args], gone=())
        if isinstance(expr, sp.Pow):
            return self._together(self.torch.pow, expr.base, expr.exp)
        if isinstance(expr, sp.Max):
            return self._together(self.torch.maximum, *expr.args)
        if expr.func in self.functions:
            inner = self(expr.args[0])
            return Named(self.functions[expr.func](inner.tensor), inner.axes)
        raise ValueError(f"No rule for {type(expr).__name__} {expr}; add one to torch_form.py.")

    def _together(self, function: Callable, *parts: sp.Expr) -> Named:
        """A function of two, applied from left to right, entry by entry."""
        named = [self(part) for part in parts]
        axes = tuple(dict.fromkeys(x for p in named for x in p.axes))
        return Named(reduce(function, (self.arranged(p, axes) for p in named)), axes)

    def arranged(self, value: Named, axes: tuple[sp.Symbol, ...]) -> Tensor:
        """The tensor with its axes in this order, of length 1 where it has none."""
        have = [x for x in axes if x in value.axes]
        tensor = value.tensor.permute([value.axes.index(x) for x in have])
        for place, x in enumerate(axes):
            if x not in value.axes:
                tensor = tensor.unsqueeze(place)
        return tensor

    def _constant(self, number: float) -> Named:
        return Named(self.torch.tensor(number, dtype=self.torch.float64), ())

    def _symbol(self, symbol: sp.Symbol) -> Named:
        if symbol in self.sizes:
            return self._constant(self.sizes[symbol])
        if symbol in self.ends:
            counted = self.torch.arange(1, self.ends[symbol] + 1, dtype=self.torch.float64)
            return Named(counted, (symbol,))
        return Named(self._array(str(symbol), 0), ())

    def _array(self, name: str, axes: int) -> Tensor:
        if name not in self.arrays or self.arrays[name].dim() != axes:
            got = f"{self.arrays[name].dim()} axes" if name in self.arrays else "nothing"
            raise ValueError(
                f"The formula needs {name} with {axes} axes, but {got} was given for it; put it "
                f"into `arrays`, where there is {', '.join(sorted(self.arrays)) or 'nothing'}."
            )
        return self.arrays[name]

    def _entry(self, expr: sp.Indexed) -> Named:
        """Numbers choose an entry, a repeated index takes the diagonal, the others name axes."""
        tensor, axes = self._array(str(expr.base), len(expr.indices)), []
        for index in expr.indices:
            place = self._place(index)
            if place is not None:
                if not 1 <= place <= tensor.shape[len(axes)]:
                    raise ValueError(
                        f"{expr} is not there: entries run from 1 to {tensor.shape[len(axes)]}."
                    )
                tensor = tensor.select(len(axes), place - 1)
            elif index in axes:
                at = axes.index(index)
                tensor = tensor.diagonal(0, at, len(axes)).movedim(-1, at)
            elif tensor.shape[len(axes)] != self._end(index):
                raise ValueError(
                    f"In {expr}, {index} runs to {self._end(index)}, but that axis has "
                    f"{tensor.shape[len(axes)]} entries; one index has one range."
                )
            else:
                axes.append(index)
        return Named(tensor, tuple(axes))

    def _place(self, index: sp.Expr) -> int | None:
        """The number that an index is; None if it runs."""
        if index.is_number or index in self.sizes:
            return self._count(index)
        return None

    def _delta(self, expr: sp.Expr) -> Named:
        """Both sides counted along their own axes, and compared."""
        axes = tuple(x for x in expr.args if self._place(x) is None)
        counted = [
            self.arranged(
                Named(self.torch.arange(1, self._end(x) + 1), (x,))
                if x in axes
                else Named(self.torch.tensor(self._place(x)), ()),
                axes,
            )
            for x in expr.args
        ]
        return Named((counted[0] == counted[1]).double(), axes)

    def _end(self, index: sp.Expr) -> int:
        if index not in self.ends:
            raise ValueError(
                f"How far the index {index} runs is not known; an index is a single symbol, bound "
                "by a sum or named in `ranges`."
            )
        return self.ends[index]

    def _count(self, upto: sp.Expr) -> int:
        value = sp.sympify(upto).subs(self.sizes)
        if not value.is_Integer:
            raise ValueError(f"The size {upto} is not known; name it in `sizes`.")
        return int(value)

    def _sum(self, expr: sp.Sum) -> Named:
        """A contraction; the index holds inside only, and hides one of the same name outside."""
        *more, (var, low, high) = expr.limits
        if low != 1:
            raise ValueError(f"No rule for a sum that does not begin at 1: {expr}.")
        body = sp.Sum(expr.function, *more) if more else expr.function
        outside, count = dict(self.ends), self._count(high)
        self.ends[var] = count
        parts = [self(a) for a in (body.args if isinstance(body, sp.Mul) else (body,))]
        self.ends = outside
        if not any(var in p.axes for p in parts):
            parts.append(self._constant(count))
        return self._contract(parts, gone=(var,))

    def _contract(self, parts: list[Named], gone: tuple[sp.Symbol, ...]) -> Named:
        """The product of all parts, summed over the axes in ``gone``."""
        axes = tuple(dict.fromkeys(x for p in parts for x in p.axes))
        letter = dict(zip(axes, ascii_letters, strict=False))
        kept = tuple(x for x in axes if x not in gone)
        spelled = ",".join("".join(letter[x] for x in p.axes) for p in parts)
        equation = f"{spelled}->{''.join(letter[x] for x in kept)}"
        return Named(self.torch.einsum(equation, *(p.tensor for p in parts)), kept)


def largest_difference(a: Tensor, b: Tensor) -> float:
    """The largest difference of entries, as a share of the largest entry (at least 1).

    Infinite where shapes differ or a number is missing (nan): nothing was found to be equal then.
    """
    if a.shape != b.shape:
        return math.inf
    scale = max(1.0, float(a.abs().max()), float(b.abs().max()))
    share = float((a - b).abs().max()) / scale
    return math.inf if math.isnan(share) else share
