"""Exercises whose checkers are tested: data in one file for each topic, and what a reader types.

``EXERCISES`` holds them all by id. A new topic is one file with a tuple ``EXERCISES`` and one name
in the list below; the tests, the tables and the progress of readers run over it.
"""

from . import (
    attention,
    attention_gradient,
    attention_guesses,
    causal,
    decoding,
    first_guesses,
    heads,
    losses,
    masks,
    norms,
    positions,
    schedules,
    scores,
    softmax,
)
from .check import check, examine, find, guess, hint, reveal, task
from .core import NOT_STARTED, PASSED, REFUSED, Exercise, Misconception, Verdict
from .tables import my_progress

TOPICS = (
    first_guesses,
    positions,
    attention,
    softmax,
    scores,
    attention_gradient,
    attention_guesses,
    heads,
    causal,
    masks,
    norms,
    losses,
    schedules,
    decoding,
)
EXERCISES: dict[str, Exercise] = {e.id: e for topic in TOPICS for e in topic.EXERCISES}

__all__ = [
    "EXERCISES",
    "NOT_STARTED",
    "PASSED",
    "REFUSED",
    "Exercise",
    "Misconception",
    "Verdict",
    "check",
    "examine",
    "find",
    "guess",
    "hint",
    "my_progress",
    "reveal",
    "task",
]
