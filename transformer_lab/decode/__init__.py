"""Decoding: from a model's distribution to a target; one file for each strategy."""

from .base import Hypothesis, next_log_probabilities
from .beam import beam
from .greedy import greedy

__all__ = ["Hypothesis", "beam", "greedy", "next_log_probabilities"]
