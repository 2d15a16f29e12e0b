r"""A loss curve that grows in a notebook while a run trains."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from .curves import loss_curve
from .inline import inline_svg

SHARE = 20
"""Drawing takes at most one part in so many of the time."""


class LiveCurve:
    """A loss curve that is drawn anew, in one place, as the records of a run come in.

    Give it to a run as ``on_record``. It is drawn at most every ``every`` seconds, and less
    often if drawing is slow, but always at a judgement, so that the last figure shows the whole
    run; that figure stays as the output of the cell. Outside a notebook nothing is drawn.

    ``earlier`` are the records of a run that goes on; ``baselines`` and ``unit`` are those of
    :func:`loss_curve`.
    """

    def __init__(
        self,
        earlier: Sequence[Mapping[str, int | float]] = (),
        baselines: Mapping[str, int | float] | None = None,
        unit: str = "token",
        every: float = 1.0,
    ):
        self.records = list(earlier)
        self.baselines, self.unit, self.every = baselines, unit, every
        self._display = _display()
        self._handle = None
        self._next = 0.0

    def __call__(self, record: Mapping[str, int | float]) -> None:
        """Hear one more record, and draw if it is time."""
        self.records.append(record)
        if "dev_loss" in record or time.perf_counter() >= self._next:
            self.draw()

    def draw(self) -> None:
        """Draw all records there are, now."""
        if self._display is None or not self.records:
            return
        began = time.perf_counter()
        picture = self._picture()
        if self._handle is None:
            self._handle = self._display(picture, display_id=True)
        else:
            self._handle.update(picture)
        ended = time.perf_counter()
        self._next = ended + max(self.every, SHARE * (ended - began))

    def _picture(self):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 3.4), layout="constrained")
        loss_curve(self.records, figure.subplots(), self.baselines, unit=self.unit)
        last = self.records[-1]
        loss, step = last["loss"], last["step"]
        words = f"Loss against steps: {loss:.3f} nats a {self.unit} at step {step:,}"
        held_out = [r["dev_loss"] for r in self.records if "dev_loss" in r]
        if held_out:
            words += f", {held_out[-1]:.3f} on what is held out"
        return inline_svg(figure, f"{words}.")


def _display():
    """IPython's ``display``, if this is a notebook; else ``None``."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return None
    return display if getattr(get_ipython(), "kernel", None) is not None else None
