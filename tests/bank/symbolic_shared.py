"""What the exercises on symbolic share."""

import random

import numpy as np
import sympy as sp


def _values(expr, symbols, seed, low, high, points=4):
    draw = random.Random(seed)
    out = []
    for _point in range(points):
        numbers = {
            s: sp.Rational(draw.randint(int(1000 * low), int(1000 * high)), 1000) for s in symbols
        }
        flat = (
            sp.Matrix(expr)
            if isinstance(expr, (list, tuple, sp.MatrixBase))
            else sp.Matrix([[expr]])
        )
        put = flat.subs(numbers)
        left = put.free_symbols
        if left:
            raise ValueError(f"unknown symbols {left}")
        out.append([complex(sp.N(v, 25)) for v in put])
        if min(flat.shape) > 1:  # a gradient may be written as a row or as a column
            out.append([float(n) for n in flat.shape])
    return tuple(
        np.array([[v.real, v.imag] if isinstance(v, complex) else [v, 0.0] for v in row])
        for row in out
    )


def _at(make_symbols, low=0.2, high=2.0):
    """probe: build the symbols, ask for the expression, put in numbers."""

    def probe(answer, *args):
        *sizes, seed = args
        groups = make_symbols(*sizes)
        symbols = [s for g in groups for s in (g if isinstance(g, (list, tuple)) else [g])]
        return _values(answer(*groups), symbols, seed, low, high)

    return probe


def _seeded(*sizes):
    return lambda rng: tuple(sizes) + (int(rng.integers(10**6)),)
