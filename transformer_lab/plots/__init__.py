"""Pictures: arrays in; axes, SVG or HTML out. Nothing here knows a model."""

from .curves import loss_curve, lr_curve
from .explorer import Case, Explorer, attention_explorer
from .inline import InlineSVG, inline_svg
from .live import LiveCurve
from .maps import attention_map, check_picture, map_in_words, save_map
from .picture import blank_figure, png
from .ribbon import ribbon

__all__ = [
    "Case",
    "Explorer",
    "InlineSVG",
    "LiveCurve",
    "attention_explorer",
    "attention_map",
    "blank_figure",
    "check_picture",
    "inline_svg",
    "loss_curve",
    "lr_curve",
    "map_in_words",
    "png",
    "ribbon",
    "save_map",
]
