"""How a Transformer learns where a token stands: one file for each scheme."""

from .base import Positions
from .learned import Learned
from .sinusoidal import Sinusoidal, sinusoidal_table

SCHEMES: dict[str, type[Positions]] = {"sinusoidal": Sinusoidal, "learned": Learned}
"""Every scheme a configuration can name. Each is built as ``scheme(d_model, max_length)``."""

__all__ = ["SCHEMES", "Learned", "Positions", "Sinusoidal", "sinusoidal_table"]
