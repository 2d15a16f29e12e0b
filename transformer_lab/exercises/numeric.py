"""What wrong answers are written with: a softmax and a transpose, in NumPy."""

from __future__ import annotations

import numpy as np


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    r"""Softmax along an axis, with the largest entry taken off first."""
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def transposed(x: np.ndarray) -> np.ndarray:
    """The matrices along the last two axes, transposed."""
    return np.swapaxes(x, -1, -2)
