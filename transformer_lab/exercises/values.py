r"""Answers as plain numbers: NumPy, torch, lists, sympy – compared, and told where they differ.

``plain`` brings what a reader may return to float64 arrays and tuples of them; ``same`` compares
two such values; ``difference`` says in words where they part.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

LARGEST = 2_000_000  # numbers in an answer; none of the exercises needs a hundredth of it
SINGLE = 2e-5  # relative and absolute tolerance for an answer computed in float32
HALF = 4e-3  # and in float16 or bfloat16
SHOWN = 30  # numbers that are printed in full


class TooLarge(ValueError):
    """An answer with more numbers than any exercise asks for."""


@dataclass(frozen=True)
class Tolerance:
    """Two numbers are the same if they differ by at most ``absolute + relative · |expected|``."""

    relative: float = 1e-7
    absolute: float = 1e-9

    def at_least(self, least: float) -> Tolerance:
        """No tighter than ``least``, for answers of lower precision."""
        return Tolerance(max(self.relative, least), max(self.absolute, least))


EXACT = Tolerance()  # for answers computed in double precision


def plain(value: object, _depth: int = 0) -> object:
    """Float64 arrays, tuples of them, or the value itself if it is nothing of the kind.

    Raises ``TooLarge`` before it copies an answer of enormous size.
    """
    if _depth > 20:
        raise TooLarge("Lists inside lists inside lists, more than 20 deep.")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        _check_size(value.numel())
        value = value.detach().cpu()
        value = value.to(torch.float64) if value.is_floating_point() else value
        return _array(value.numpy())
    if isinstance(value, np.ndarray) and value.dtype != object:
        _check_size(value.size)
        return _array(value)
    if isinstance(value, np.ndarray):
        _check_size(value.size)
        return plain(value.tolist(), _depth + 1)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 1000:
        raise TooLarge(f"A whole number of {value.bit_length():,} binary digits.")
    if isinstance(value, bool | int | float | np.generic):
        return np.float64(value)
    sympy = sys.modules.get("sympy")
    if sympy is not None and isinstance(value, sympy.Expr) and value.is_number:
        return np.float64(value) if value.is_real else value
    if isinstance(value, dict):
        return tuple((key, plain(value[key], _depth + 1)) for key in sorted(value, key=repr))
    if isinstance(value, set | frozenset):
        return plain(sorted(value, key=repr), _depth + 1)
    if isinstance(value, list | tuple):
        return _sequence(value, _depth)
    return value


def _array(value: np.ndarray) -> np.ndarray | np.float64:
    """Float64 (or complex) numbers; an array without axes is a number."""
    made = value.astype(np.complex128 if np.iscomplexobj(value) else np.float64)
    return made if made.ndim or np.iscomplexobj(made) else np.float64(made)


def _sequence(value: list | tuple, depth: int) -> object:
    """A nested list of numbers is an array too; a tuple of arrays stays a tuple."""
    _check_size(len(value))
    parts = tuple(plain(v, depth + 1) for v in value)
    if parts and all(isinstance(p, np.float64) for p in parts):
        return np.array(parts)
    if isinstance(value, list) and parts and all(
        isinstance(p, np.ndarray) and p.shape == parts[0].shape for p in parts
    ):  # fmt: skip
        _check_size(len(parts) * parts[0].size)
        return np.stack(parts)
    return parts


def _check_size(count: int) -> None:
    if count > LARGEST:
        raise TooLarge(f"An answer of {count:,} numbers.")


def precision(value: object) -> float:
    """The least tolerance that an answer of this kind deserves: float32 and float16 are coarse."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return {torch.float32: SINGLE, torch.float16: HALF, torch.bfloat16: HALF}.get(
            value.dtype, 0.0
        )
    if isinstance(value, np.ndarray | np.generic):
        return {"float32": SINGLE, "float16": HALF}.get(value.dtype.name, 0.0)
    if isinstance(value, list | tuple) and len(value) <= LARGEST:
        return max((precision(v) for v in value), default=0.0)
    return 0.0


def same(a: object, b: object, tolerance: Tolerance) -> bool:
    """Whether ``a`` equals the expected ``b`` in structure, shape and value; NaN equals nothing."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) and all(same(x, y, tolerance) for x, y in pairs)
    if _is_array(a) and _is_array(b):
        if np.shape(a) != np.shape(b):
            return False
        return bool(np.allclose(a, b, rtol=tolerance.relative, atol=tolerance.absolute))
    return type(a) is type(b) and bool(a == b)


def alike(a: object, b: object) -> bool:
    """Equal to the last bit, NaN equal to NaN: what an argument must still be after a call."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if _is_array(a) and _is_array(b):
        return np.array_equal(a, b, equal_nan=True)
    return type(a) is type(b) and (a is b or callable(a) or bool(a == b))


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray | np.float64)


def difference(got: object, expected: object, tolerance: Tolerance) -> str:
    """Where two values part: their kind, their shapes, or their first entry that differs."""
    if isinstance(expected, tuple):
        if not isinstance(got, tuple):
            return f"A tuple of {len(expected)} was expected, but you return {kind_of(got)}."
        if len(got) != len(expected):
            return f"A tuple of {len(expected)} was expected, but yours has {len(got)} parts."
        for place, (g, e) in enumerate(zip(got, expected, strict=True), 1):
            if not same(g, e, tolerance):
                return f"Part {place} of the tuple differs. {difference(g, e, tolerance)}"
        return ""
    if not (_is_array(got) and _is_array(expected)):
        return f"{kind_of(expected, capital=True)} was expected, but you return {kind_of(got)}."
    if np.shape(got) != np.shape(expected):
        return f"The shape should be {shape(expected)}, but yours is {shape(got)}."
    got, expected = np.asarray(got), np.asarray(expected)
    bad = ~np.isclose(got, expected, rtol=tolerance.relative, atol=tolerance.absolute)
    if expected.ndim == 0:
        return ""
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    count = f"{bad.sum()} of {bad.size} entries differ" if bad.size > 1 else "It differs"
    at = f"the first at [{', '.join(map(str, where))}]" if bad.size > 1 else ""
    e, g = number(expected[where]), number(got[where])
    return f"{count}{', ' + at if at else ''}: expected {e}, got {g}."


def kind_of(value: object, capital: bool = False) -> str:
    """What a value is, for a sentence: "an array of shape (2, 3)"."""
    if isinstance(value, np.float64):
        words = "a number"
    elif isinstance(value, np.ndarray):
        words = f"an array of shape {shape(value)}"
    elif isinstance(value, tuple):
        words = f"a tuple of {len(value)}"
    elif value is None:
        words = "nothing (None)"
    else:
        name = type(value).__name__
        words = f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
    return words[0].upper() + words[1:] if capital else words


def shape(value: object) -> str:
    """A shape as people write it: (2, 3), or "a single number"."""
    sizes = np.shape(value)
    return str(tuple(int(s) for s in sizes)) if sizes else "a single number"


def number(x: object) -> str:
    """A number with as many digits as one wants to read."""
    if isinstance(x, complex | np.complexfloating) and x.imag:
        return f"{x.real:.4g}{x.imag:+.4g}i"
    x = float(np.real(x))
    return f"{x:.0f}" if x.is_integer() and abs(x) < 1e15 else f"{x:.4g}"


def written(value: object) -> str:
    """A value in print: all of it if it is small, else its shape and its beginning."""
    if isinstance(value, tuple):
        return "; ".join(written(v) for v in value) if value else "()"
    if isinstance(value, np.float64):
        return number(value)
    if isinstance(value, np.ndarray):
        if value.size > SHOWN:
            first = ", ".join(number(x) for x in value.flat[:6])
            return f"shape {shape(value)}, beginning {first}, …"
        return _rows(value)
    if isinstance(value, list | dict | set):
        text = repr(value)
        return text if len(text) <= 200 else text[:199] + "…"
    if callable(value):
        return "a function"
    text = str(value)
    return text if len(text) <= 200 else text[:199] + "…"


def _rows(value: np.ndarray) -> str:
    if value.ndim == 1:
        return "[" + ", ".join(number(x) for x in value) + "]"
    return "[" + ", ".join(_rows(part) for part in value) + "]"
