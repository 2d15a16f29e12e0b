r"""The library's own functions as references: NumPy in, NumPy out, any leading axes.

Inputs of exercises are small arrays without a batch or with one; the library's attention wants
batch and head. Nothing is computed here, shapes are only put right and back.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def with_tensors(function: Callable) -> Callable:
    """``function`` of torch tensors as one of NumPy arrays; other arguments pass as they are."""

    def called(*arguments: object) -> object:
        import torch

        def there(value: object) -> object:
            return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value

        result = function(*map(there, arguments))
        if isinstance(result, tuple):
            return tuple(r.detach().numpy() for r in result)
        return result.detach().numpy() if isinstance(result, torch.Tensor) else result

    return called


def in_heads(function: Callable) -> Callable:
    """``function`` of tensors (B, H, …, …) as one of arrays with any leading axes, all the same."""

    def called(*arrays: np.ndarray) -> np.ndarray:
        lead = arrays[0].shape[:-2]
        four = [a.reshape(1, int(np.prod(lead, initial=1)), *a.shape[-2:]) for a in arrays]
        result = with_tensors(function)(*four)
        return result.reshape(*lead, *result.shape[-2:])

    return called
