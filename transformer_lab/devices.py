r"""Where a model runs: CUDA, MPS (Apple) or the CPU, and in which precision."""

from __future__ import annotations

import contextlib

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""In which type matrix products are computed; weights are always float32."""


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
    """``"fp32"``, ``"bf16"`` or ``"fp16"``; ``"auto"`` takes bf16 on a CUDA device that has it.

    Raises ``ValueError`` for another name, and for fp16 anywhere but on CUDA.
    """
    if name not in ("auto", *DTYPES):
        raise ValueError(
            f"precision must be auto, {', '.join(list(DTYPES)[:-1])} or {list(DTYPES)[-1]}, but "
            f"got {name!r}; choose one of these."
        )
    if name == "fp16" and device.type != "cuda":
        raise ValueError(
            f"precision fp16 needs a CUDA device, but this run computes on {device.type}; choose "
            f"fp32 or bf16, or leave it at auto."
        )
    if name != "auto":
        return name
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager:
    """Run matrix products in half precision, if ``precision`` names one; else change nothing."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=DTYPES[precision])


def grad_scaler(device: torch.device, precision: str) -> torch.amp.GradScaler:
    r"""Keeps small gradients of fp16 from becoming 0: the loss is scaled up, the gradient down.

    The gradient of :math:`s \cdot \ell` is :math:`s` times that of the loss ℓ; s is halved
    whenever that overflows and doubled after 2,000 steps in which it did not. fp16 holds numbers
    from 6e-8 to 65,504; bf16 and fp32 reach far enough, so for them the scaler does nothing.
    Source: Micikevicius et al. 2018.
    """
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")


def random_state(device: torch.device) -> dict[str, torch.Tensor]:
    """Where the random numbers of the CPU, and of a CUDA device, stand."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: dict[str, torch.Tensor], device: torch.device) -> None:
    """The inverse of :func:`random_state`."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
