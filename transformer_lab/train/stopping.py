r"""How a run is asked to stop."""

from __future__ import annotations

import signal
import threading


class StopFlag:
    """Turns Ctrl-C and SIGTERM into a flag that the loop reads between two steps."""

    def __init__(self) -> None:
        self.raised: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> StopFlag:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: object) -> None:
        if self.raised is not None:  # a second Ctrl-C is meant at once
            raise KeyboardInterrupt
        self.raised = number

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Stopped(Exception):
    """The run was asked to stop; its state is on disk and ``--resume`` goes on."""
