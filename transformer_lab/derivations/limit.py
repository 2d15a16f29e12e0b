"""A limit in seconds for algebra that a reader typed: sympy can take forever, a page cannot."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

AGAIN = 0.1  # seconds after which a block that swallowed the interruption is interrupted again


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``TimeoutError`` in the calling thread if the block takes longer.

    Works on every system and in every thread, since the exception is handed to the thread by the
    interpreter; it arrives between two Python instructions, so one long call into C (a power with
    millions of digits) delays it. It is no ``Exception`` on its way, so that a library's own
    ``except Exception`` does not hold it up, and it is sent again if something else does. Limits
    may stand inside each other. Raises ``ValueError`` if ``seconds`` is not above 0.
    """
    if not seconds > 0:
        raise ValueError(f"A time limit must be above 0 s, but it is {seconds} s; allow some time.")
    watch = _Watch(seconds)
    try:
        try:
            yield
        finally:
            watch.end()
    except watch.signal:
        watch.end()
        raise TimeoutError(f"This took longer than {seconds:g} s and was stopped.") from None


class _Watch:
    """Interrupts the thread that made it, from ``seconds`` on until ``end`` is called."""

    def __init__(self, seconds: float) -> None:
        self.signal = type("Interrupted", (BaseException,), {})  # its own, for limits in limits
        self.target = threading.get_ident()
        self.lock, self.ended = threading.RLock(), threading.Event()
        threading.Thread(target=self._watch, args=(seconds,), daemon=True).start()

    def _watch(self, seconds: float) -> None:
        wait = seconds
        while not self.ended.wait(wait):
            with self.lock:
                if not self.ended.is_set():
                    _send(self.target, self.signal)
            wait = AGAIN

    def end(self) -> None:
        """No interruption is sent from here on; one that is under way is taken back."""
        with self.lock:
            if not self.ended.is_set():
                self.ended.set()
                _send(self.target, None)


def _send(thread: int, signal: type[BaseException] | None) -> None:
    raised = None if signal is None else ctypes.py_object(signal)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
