r"""Where a model runs: CUDA, MPS (Apple) or the CPU, and in which precision."""

from __future__ import annotations

import contextlib

import torch


def available_devices() -> list[str]:
    """Names of the devices torch can use here, the fastest kind first; ``"cpu"`` is last."""
    found = []
    if torch.cuda.is_available():
        found.append("cuda")
    if torch.backends.mps.is_available():
        found.append("mps")
    return [*found, "cpu"]


def choose_device(name: str = "auto") -> torch.device:
    """The device called ``name``; ``"auto"`` takes the first of :func:`available_devices`.

    Raises ``ValueError`` if the device is not here, and says which are.
    """
    found = available_devices()
    if name == "auto":
        return torch.device(found[0])
    numbered = [f"{kind}:{i}" for kind in found for i in range(_count(kind))]
    if name not in found + numbered:
        raise ValueError(
            f"The device must be one that torch can use here ({', '.join(found)}), but got "
            f"{name!r}; choose one of these or leave it at auto."
        )
    return torch.device(name)


def _count(kind: str) -> int:
    """How many devices of a kind there are: only CUDA numbers them."""
    return torch.cuda.device_count() if kind == "cuda" else 1


def describe_device(device: torch.device) -> str:
    """The device in words, e.g. the name of the graphics card."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return {"mps": "Apple GPU (MPS)", "cpu": "CPU"}[device.type]


def choose_precision(name: str, device: torch.device) -> str:
    """``"fp32"`` or ``"bf16"``; ``"auto"`` takes bf16 on a CUDA device that has it."""
    if name not in ("auto", "fp32", "bf16"):
        raise ValueError(
            f"precision must be auto, fp32 or bf16, but got {name!r}; choose one of these."
        )
    if name != "auto":
        return name
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager:
    """Run matrix products in bfloat16 if ``precision`` is ``"bf16"``; else change nothing."""
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()
