"""Derivations that run: data in `core.py`, and what prints, checks and turns them into torch.

``DERIVATIONS`` holds them all by label. A new topic is one file with a tuple ``DERIVATIONS`` and
one name in the list below; the tests, the pages and the ledger run over it.
"""

from . import attention, score_variance, softmax
from .attempt import try_step
from .core import EVALUATED, PROVED, Assumption, Definition, Derivation, Grade, Step, proved_to
from .show import show
from .verify import (
    Checked,
    Counterexample,
    FalseStep,
    GradeNotReached,
    verify,
    weakest,
)

TOPICS = (score_variance, softmax, attention)
DERIVATIONS = {d.label: d for topic in TOPICS for d in topic.DERIVATIONS}

__all__ = [
    "DERIVATIONS",
    "EVALUATED",
    "PROVED",
    "Assumption",
    "Checked",
    "Counterexample",
    "Definition",
    "Derivation",
    "FalseStep",
    "Grade",
    "GradeNotReached",
    "Step",
    "proved_to",
    "show",
    "try_step",
    "verify",
    "weakest",
]
