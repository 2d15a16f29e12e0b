"""Pictures: arrays in; axes, SVG or HTML out. Nothing here knows a model."""

from .bars import Query, temperature_bars
from .curves import loss_curve, lr_curve
from .explorer import Case, Explorer, attention_explorer
from .hull import hull_figure
from .inline import InlineSVG, inline_svg
from .live import LiveCurve
from .maps import attention_map, check_picture, map_in_words, save_map
from .picture import blank_figure, png
from .plotly_page import PlotlyPage, View, plotly_page
from .ribbon import ribbon
from .score_growth import score_growth
from .turn import turn
from .widgets import LiveFigure

__all__ = [
    "Case",
    "Explorer",
    "InlineSVG",
    "LiveCurve",
    "LiveFigure",
    "PlotlyPage",
    "Query",
    "View",
    "attention_explorer",
    "attention_map",
    "blank_figure",
    "check_picture",
    "hull_figure",
    "inline_svg",
    "loss_curve",
    "lr_curve",
    "map_in_words",
    "plotly_page",
    "png",
    "ribbon",
    "save_map",
    "score_growth",
    "temperature_bars",
    "turn",
]
