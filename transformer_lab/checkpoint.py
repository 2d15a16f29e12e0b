r"""Weights and training states on disk: safetensors only, written atomically.

A file is written under another name in the same folder, flushed to the disk, and renamed. The
rename is atomic, so whenever a process is killed the file is either the old one or the new
one, whole. A file carries a hash of what it holds, so one changed bit is noticed. No pickle is
ever loaded: a checkpoint from elsewhere can hold numbers, not code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from .devices import random_state, set_random_state

FORMAT = "transformer-lab 1"


class CheckpointError(ValueError):
    """A file that is not a checkpoint of this package, or is damaged."""


def write_atomically(path: Path, content: bytes) -> None:
    """Put ``content`` under ``path``, or leave what was there: never a half of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # the system does not say which file a full disk hit
        raise
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Make a rename lasting (POSIX only: elsewhere a folder cannot be opened)."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sweep(folder: Path, names: Iterable[str]) -> None:
    """Remove what a killed process left behind while it wrote the files ``names``.

    Only files that :func:`write_atomically` can have made: ``.NAME.`` and eight characters.
    """
    one_of = "|".join(re.escape(name) for name in names)
    left_behind = re.compile(rf"\.({one_of})\.[a-z0-9_]{{8}}")
    for path in Path(folder).iterdir():
        if left_behind.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def _digest(tensors: dict[str, Tensor], about: str) -> str:
    """SHA-256 of the description and of names, types, shapes and bytes of the tensors."""
    sha = hashlib.sha256(about.encode())
    for name, tensor in sorted(tensors.items()):
        sha.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return sha.hexdigest()


def save_tensors(path: Path, tensors: dict[str, Tensor], about: dict) -> None:
    """Write named tensors and a JSON-able description as one safetensors file, atomically.

    The same tensors and description give the same bytes.
    """
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    text = json.dumps(about)
    metadata = {"format": FORMAT, "about": text, "sha256": _digest(plain, text)}
    write_atomically(path, _in_order(save(plain, metadata)))


def _in_order(file: bytes) -> bytes:
    """The same file with its description sorted: safetensors writes it in a random order."""
    end = 8 + int.from_bytes(file[:8], "little")
    header = json.loads(file[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + file[end:]


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict]:
    """The tensors and the description of a file that :func:`save_tensors` wrote.

    Raises :class:`CheckpointError` in one sentence for a missing, truncated, damaged or foreign
    file.
    """
    path = Path(path)
    if path.is_dir():
        raise CheckpointError(f"A checkpoint is a file, but {path} is a folder; check the path.")
    if not path.is_file():
        raise CheckpointError(f"There is no checkpoint at {path}; check the path.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise CheckpointError(
                    f"{path} is a safetensors file of another program (its format is "
                    f"{metadata.get('format')!r}, expected {FORMAT!r}); give a file that "
                    f"transformer-lab wrote."
                )
            # copies: what get_tensor gives changes with the file, should someone overwrite it
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}
        if metadata["sha256"] != _digest(tensors, metadata["about"]):
            raise SafetensorError("its content does not match its own SHA-256")
        return tensors, json.loads(metadata["about"])
    except (SafetensorError, KeyError, json.JSONDecodeError, OSError) as error:
        raise CheckpointError(
            f"{path} cannot be read as a checkpoint ({_reason(error)}): it is damaged, cut "
            f"off or not a safetensors file; use an intact copy or train again."
        ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it has no {error}"
    return str(error).splitlines()[0][:160] if str(error) else type(error).__name__


def load_into(model: nn.Module, tensors: dict[str, Tensor], where: str) -> None:
    """Copy ``tensors`` into ``model``; all names and shapes must agree exactly."""
    own = model.state_dict()
    missing, foreign = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    if missing or foreign:
        raise CheckpointError(
            f"The weights in {where} must have exactly the model's names, but "
            f"{len(missing)} are missing (first: {missing[:1] or 'none'}) and {len(foreign)} are "
            f"unknown (first: {foreign[:1] or 'none'}); is it another kind of model?"
        )
    for name, tensor in own.items():
        if tensor.shape != tensors[name].shape:
            raise CheckpointError(
                f"{name} must have shape {tuple(tensor.shape)} by the configuration, but in "
                f"{where} it has {tuple(tensors[name].shape)}; configuration and weights do "
                f"not belong together."
            )
    model.load_state_dict({name: t.to(own[name].dtype) for name, t in tensors.items()})


def training_state(
    model: nn.Module, optimiser: torch.optim.Optimizer, device: torch.device
) -> dict[str, Tensor]:
    """Everything a run needs to go on: weights, both moments of Adam, random states."""
    tensors = {f"model.{name}": t for name, t in model.state_dict().items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{name}": t for name, t in state.items()}
    return tensors | {f"random.{name}": t for name, t in random_state(device).items()}


def restore_training_state(
    tensors: dict[str, Tensor],
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    device: torch.device,
    where: str,
) -> None:
    """The inverse of :func:`training_state`."""
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimiser": {}, "random": {}}
    for name, tensor in tensors.items():
        room, _, rest = name.partition(".")
        parts.setdefault(room, {})[rest] = tensor
    load_into(model, parts["model"], where)
    shapes = {
        f"{i}.{moment}": () if moment == "step" else tuple(p.shape)
        for i, p in enumerate(p for group in optimiser.param_groups for p in group["params"])
        for moment in ("exp_avg", "exp_avg_sq", "step")
    }
    found = {name: tuple(t.shape) for name, t in parts["optimiser"].items()}
    if found not in ({}, shapes) or "cpu" not in parts["random"]:  # {}: before the first step
        raise CheckpointError(
            f"{where} must hold a random state and {len(shapes)} tensors of the optimiser with "
            f"the shapes of this model, but it holds {len(found)} that are none or others; it "
            f"is no training state of this run. Train anew."
        )
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in parts["optimiser"].items():
        index, _, moment = name.partition(".")
        state.setdefault(int(index), {})[moment] = tensor
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})
    set_random_state(parts["random"], device)
