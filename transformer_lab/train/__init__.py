r"""Training: one loop, for every model.

A run is a folder: ``config.json`` (what was asked), ``metrics.jsonl`` (what happened, a line
each), ``checkpoint.safetensors`` (all that is needed to go on), and at the end
``weights.safetensors``. A run that is stopped and resumed gives, on the CPU, bit for bit the
run that was never stopped.
"""

from .config import TrainConfig
from .diagnosis import Diagnosis, NotFinite
from .finder import find_lr, suggest_lr
from .folder import FILES, alone, check_new, read_metrics, start_run
from .loop import train
from .stopping import Stopped

__all__ = [
    "FILES",
    "Diagnosis",
    "NotFinite",
    "Stopped",
    "TrainConfig",
    "alone",
    "check_new",
    "find_lr",
    "read_metrics",
    "start_run",
    "suggest_lr",
    "train",
]
