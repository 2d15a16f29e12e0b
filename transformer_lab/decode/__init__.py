"""Decoding: from a model's distribution to a target; one file for each strategy."""

from .base import Hypothesis, next_log_probabilities
from .beam import beam
from .generate import generate, stream
from .greedy import greedy
from .sampling import GREEDY, Greedy, Strategy, pick, sampling
from .truncations import TRUNCATIONS, Temperature, TopK, TopP

__all__ = [
    "GREEDY",
    "TRUNCATIONS",
    "Greedy",
    "Hypothesis",
    "Strategy",
    "Temperature",
    "TopK",
    "TopP",
    "beam",
    "generate",
    "greedy",
    "next_log_probabilities",
    "pick",
    "sampling",
    "stream",
]
