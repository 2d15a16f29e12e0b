"""Decoding: from a model's distribution to a target; one file for each strategy."""

from .base import Hypothesis, next_log_probabilities
from .beam import beam
from .generate import generate
from .greedy import greedy
from .sampling import GREEDY, Strategy

__all__ = [
    "GREEDY",
    "Hypothesis",
    "Strategy",
    "beam",
    "generate",
    "greedy",
    "next_log_probabilities",
]
