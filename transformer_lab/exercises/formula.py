r"""Answers that are formulas: a function from symbols to an expression of sympy, in any form.

Nothing is simplified. Numbers are put in for the symbols and the values compared, small whole
numbers first, so that whoever is refused can compute the counterexample by hand.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Names = dict[str, dict[str, bool]]
DIGITS = 30


def substituted(**names: dict[str, bool]) -> Callable:
    """A ``through`` for :class:`FunctionExercise`: hand over symbols, put the numbers in.

    ``names``: name of an argument -> what sympy may assume of it, such as ``dict(positive=True)``.
    An argument that is an array becomes a tuple of symbols z1, z2, …; a number becomes a symbol.
    """

    def through(answer: Callable, *numbers: object) -> np.ndarray:
        import sympy as sp

        symbols, values = [], {}
        for (name, assumed), value in zip(names.items(), numbers, strict=True):
            if np.ndim(value):
                made = sp.symbols(f"{name}1:{len(value) + 1}", **assumed)
                values |= dict(zip(made, map(sp.nsimplify, value), strict=True))
            else:
                made = sp.Symbol(name, **assumed)
                values[made] = sp.nsimplify(value)
            symbols.append(made)
        return evaluated(answer(*symbols), values)

    return through


def evaluated(expression: object, values: dict) -> object:
    """The numbers that an expression, a list or a matrix of them has at one point.

    Raises ``ValueError`` for a letter without a value. A row and a column are the same list.
    """
    import sympy as sp

    if expression is None or expression is ...:
        return expression
    matrix = isinstance(expression, sp.MatrixBase | list | tuple | np.ndarray)
    flat = sp.Matrix(expression) if matrix else sp.Matrix([[sp.sympify(expression)]])
    put = flat.subs(values).doit()
    strange = {s for entry in put for s in entry.free_symbols}
    if strange:
        raise ValueError(f"{', '.join(sorted(map(str, strange)))} is no letter of this exercise")
    numbers = np.array([complex(sp.N(entry, DIGITS)) for entry in put]).reshape(put.shape)
    if np.all(np.abs(numbers.imag) <= 1e-12 * (1 + np.abs(numbers.real))):
        numbers = numbers.real
    if not matrix:
        return numbers[0, 0]
    return numbers.ravel() if 1 in numbers.shape else numbers


def readable(*shapes: tuple[int, ...], low: float = -2.0, high: float = 2.0) -> Callable:
    """Draws for the arguments, one for each shape (``()`` is a number), rounded to tenths."""

    def draw(rng: np.random.Generator) -> tuple:
        made = [np.round(rng.uniform(low, high, shape), 1) for shape in shapes]
        return tuple(x if x.ndim else float(x) for x in made)

    return draw
