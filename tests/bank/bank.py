"""Shared pieces of the bank of wrong answers.

An Exercise carries what a self-study check needs to be tried against:

* right  -- list of Right(form, fn): answers in different forms, all to be accepted;
* wrong  -- list of Wrong(name, hint, source, fn): answers to be rejected, each with
  the misconception's name and the hint that a good check would give;
* reference and inputs -- what run_all.py needs to prove both claims.

`inputs` maps a kind of input to a function rng -> tuple of arguments.  Kinds matter:
many wrong answers are invisible on a square, single-batch, even-sized or unpadded
input, and run_all.py reports on which kinds each one shows.

`probe(fn, *args)` may replace the plain call fn(*args) where the answer is only fixed
up to a freedom (ties, the choice of shards, the form of an expression).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

try:
    import torch
except ImportError:  # the numpy and sympy forms still run
    torch = None


class Right(NamedTuple):
    form: str
    fn: Callable


class Wrong(NamedTuple):
    name: str
    hint: str
    source: str
    fn: Callable


@dataclass
class Exercise:
    id: str
    task: str
    signature: str
    reference: Callable
    inputs: dict
    right: list = field(default_factory=list)
    wrong: list = field(default_factory=list)
    probe: Callable | None = None
    rtol: float = 1e-7
    atol: float = 1e-9

    def accept(self, form: str):
        """Register a right answer; forms whose name starts with 'torch' need torch."""

        def add(fn):
            self.right.append(Right(form, fn))
            return fn

        return add

    def reject(self, name: str, hint: str, source: str = "no thread found"):
        """Register a wrong answer."""

        def add(fn):
            self.wrong.append(Wrong(name, hint, source, fn))
            return fn

        return add


class Raised(NamedTuple):
    """The outcome of an answer that stopped with an error."""

    kind: str


def plain(value: Any) -> Any:
    """Bring arrays, tensors, numbers and nests of them to float64 arrays and tuples."""
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach()
        value = value.to(torch.float64) if value.is_floating_point() else value
        return np.asarray(value.numpy(), dtype=np.float64)
    if isinstance(value, np.ndarray):
        return value.astype(np.float64)
    if isinstance(value, (bool, int, float, np.generic)):
        return np.float64(value)
    if isinstance(value, dict):
        return tuple((key, plain(value[key])) for key in sorted(value))
    if isinstance(value, (set, frozenset)):
        return plain(sorted(value))
    if isinstance(value, (list, tuple)):
        parts = tuple(plain(v) for v in value)
        if parts and all(isinstance(p, np.float64) for p in parts):
            return np.array(parts)
        if (
            isinstance(value, list)
            and parts
            and all(isinstance(p, np.ndarray) and p.shape == parts[0].shape for p in parts)
        ):
            return np.stack(parts)  # a nested list of numbers is an array, too
        return parts
    return value


def same(a: Any, b: Any, rtol: float, atol: float) -> bool:
    """Equal in structure and shape, and close in value; NaN equals nothing."""
    if isinstance(a, Raised) or isinstance(b, Raised):
        return False
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y, rtol, atol) for x, y in zip(a, b))
    if isinstance(a, (np.ndarray, np.float64)) and isinstance(b, (np.ndarray, np.float64)):
        return np.shape(a) == np.shape(b) and bool(np.allclose(a, b, rtol=rtol, atol=atol))
    return type(a) is type(b) and a == b


def alike(a: Any, b: Any) -> bool:
    """Bitwise-style equality for the 'did it change its arguments' test; NaN equals NaN."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b))
    if isinstance(a, (np.ndarray, np.float64)) and isinstance(b, (np.ndarray, np.float64)):
        return np.array_equal(a, b, equal_nan=True)
    return type(a) is type(b) and (a == b or callable(a))


def outcome(ex: Exercise, fn: Callable, args: tuple) -> tuple:
    """(result or Raised, whether the arguments were changed)."""
    mine = copy.deepcopy(args)
    before = plain(mine)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            got = plain(ex.probe(fn, *mine) if ex.probe else fn(*mine))
        except Exception as error:  # a wrong answer may fail in any way
            got = Raised(type(error).__name__)
    return got, not alike(before, plain(mine))


# -- small numpy tools that the modules share -------------------------------------------


def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def log_softmax(x, axis=-1):
    m = np.max(x, axis=axis, keepdims=True)
    return x - m - np.log(np.exp(x - m).sum(axis=axis, keepdims=True))


def t(x):
    """numpy to torch, kept in double precision."""
    return torch.from_numpy(np.array(x, copy=True))
