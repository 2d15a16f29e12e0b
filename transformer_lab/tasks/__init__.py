"""What a run learns: a task makes batches, tells the loss, and judges the model."""

from .base import Task
from .g2p import G2P, sample, score_words, transcribe
from .lm import LM

__all__ = ["G2P", "LM", "Task", "sample", "score_words", "transcribe"]
