r"""A reader's function, called with care: copies of the arguments, a limit of time and of memory.

Whatever it does – raise, loop, return nothing, write into its arguments, fill the memory – ends in
an :class:`Outcome`, and never in a traceback.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import io
import linecache
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..derivations.limit import time_limit
from .values import TooLarge, alike, plain, precision

SECONDS = 10.0  # for one call
MEMORY = 3 * 2**30  # bytes that an answer may take on top of what there is (Linux)
STILL_GAPS = ("ellipsis",)
EMPTY = ("LOAD_CONST", "RETURN_CONST", "RETURN_VALUE")


@dataclass(frozen=True)
class Outcome:
    """What came of one call.

    value      what was returned, plain (`values.plain`)
    trouble    one sentence if nothing came back: an error with its line, no return, too long
    kind       the name of the exception's class, or "" if there was none
    changed    the number (from 1) of the first argument that was changed in place; 0: none
    coarse     the least tolerance that the answer's precision deserves
    """

    value: object = None
    trouble: str = ""
    kind: str = ""
    changed: int = 0
    coarse: float = 0.0


class Gap(Exception):
    """The template is still there, or a part of it."""


def untouched(function: Callable) -> bool:
    """Whether a function has no statement but ``...``, ``pass`` or a docstring."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("RESUME", "NOP")]
    constants = [s.argval for s in steps if s.opname in ("LOAD_CONST", "RETURN_CONST")]
    nothing_else = all(s.opname in EMPTY for s in steps)
    return nothing_else and all(c is None or c is ... for c in constants)


def call(
    function: Callable,
    arguments: tuple,
    through: Callable | None = None,
    seconds: float = SECONDS,
) -> Outcome:
    """Call ``function`` with copies of ``arguments``; ``through(function, *arguments)`` if given.

    Raises ``Gap`` if the function says that it is not written yet (``NotImplementedError``, or an
    ``...`` that met a number). What it prints is not shown, its warnings are not heard.
    """
    mine = copy.deepcopy(arguments)
    before = plain(mine)
    try:
        with _quiet(), _memory(), time_limit(seconds):
            returned = through(function, *mine) if through else function(*mine)
            if isinstance(returned, types.GeneratorType | map | zip | filter | range):
                returned = list(_at_most(returned))
            value, coarse = plain(returned), precision(returned)
    except NotImplementedError:
        raise Gap("It says itself that it is not implemented.") from None
    except TimeoutError:
        return Outcome(trouble=f"It was stopped after {seconds:g} s: no end was in sight.")
    except TooLarge as error:
        return Outcome(trouble=f"{error} That is far more than was asked for.", kind="TooLarge")
    except MemoryError:
        return Outcome(trouble="It was stopped: it asked for gigabytes.", kind="MemoryError")
    except (Exception, SystemExit) as error:
        if any(word in str(error).lower() for word in STILL_GAPS):
            raise Gap(f"There is still a gap (...){_line(error, function)}.") from None
        if "can't allocate memory" in str(error) or "not enough memory" in str(error):
            return Outcome(trouble="It was stopped: it asked for gigabytes.", kind="MemoryError")
        return Outcome(trouble=_sentence(error, function), kind=type(error).__name__)
    if returned is ...:
        raise Gap("It returns `...`, the gap of the template.")
    if returned is None:
        said = "It returns nothing: end it with `return` and the result."
        return Outcome(None, said, "None", _changed(before, plain(mine)))
    return Outcome(value, changed=_changed(before, plain(mine)), coarse=coarse)


def in_torch(arguments: tuple) -> tuple:
    """The same arguments as torch tensors, for an answer that is written in torch."""
    import torch

    def turned(value: object) -> object:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value.copy())
        if isinstance(value, list):
            return [turned(v) for v in value]
        return value

    return tuple(turned(a) for a in arguments)


def _at_most(values: Iterator) -> Iterator:
    for count, value in enumerate(values):
        if count > 100_000:
            raise TooLarge("A sequence that does not end.")
        yield value


def _changed(before: object, after: object) -> int:
    pairs = zip(before, after, strict=True) if isinstance(before, tuple) else [(before, after)]
    return next((k for k, (b, a) in enumerate(pairs, 1) if not alike(b, a)), 0)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No output, no warnings: the verdict is the only thing to read."""
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _memory() -> Iterator[None]:
    """A limit on what is allocated, where the system can set one (Linux)."""
    if sys.platform != "linux":
        yield
        return
    import resource

    old = resource.getrlimit(resource.RLIMIT_AS)
    limit = _address_space() + MEMORY
    if old[0] != resource.RLIM_INFINITY:
        limit = min(limit, old[0])
    resource.setrlimit(resource.RLIMIT_AS, (limit, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, old)


def _address_space() -> int:
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


# ---- One friendly line about an error ---------------------------------------------------


def _sentence(error: BaseException, function: Callable) -> str:
    said = " ".join(str(error).split())
    said = said if len(said) <= 160 else said[:159] + "…"
    name = type(error).__name__
    if isinstance(error, SystemExit):
        return f"It ended Python{_line(error, function)}; return the result instead."
    if isinstance(error, RecursionError):
        return f"It calls itself without end{_line(error, function)}."
    return f"It stopped with {name}{_line(error, function)}{': ' + said if said else ''}."


def _line(error: BaseException, function: Callable) -> str:
    """The last line of the reader's own code on the way to the error, with its text."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == code.co_filename:
            found = trace
        trace = trace.tb_next
    if found is None:
        return f" when it was called, in line {code.co_firstlineno}" if _signature(error) else ""
    text = linecache.getline(code.co_filename, found.tb_lineno).strip()
    return f" in line {found.tb_lineno}" + (f", `{text}`" if text else "")


def _signature(error: BaseException) -> bool:
    return isinstance(error, TypeError) and "argument" in str(error)
