"""The widgets that panels are made of."""

from gui.widgets.buttons import Button, IconButton, Segmented
from gui.widgets.combo_box import ComboBox
from gui.widgets.empty_state import EmptyState
from gui.widgets.field import Field
from gui.widgets.focus_ring import FocusRing
from gui.widgets.labels import ElidedLabel, divider, label, set_precision, set_property, set_text
from gui.widgets.markers import LineSample, Marker, draw_marker, marker_pixmap, precision_pen
from gui.widgets.optical_middle import put_in_the_middle
from gui.widgets.precision_chip import PrecisionChip
from gui.widgets.progress_line import ProgressLine, draw_bar
from gui.widgets.share_bar import Share, ShareBar
from gui.widgets.stat_card import StatCard, StatRow

__all__ = [
    "Button",
    "ComboBox",
    "ElidedLabel",
    "EmptyState",
    "Field",
    "FocusRing",
    "IconButton",
    "LineSample",
    "Marker",
    "PrecisionChip",
    "ProgressLine",
    "Segmented",
    "Share",
    "ShareBar",
    "StatCard",
    "StatRow",
    "divider",
    "draw_bar",
    "draw_marker",
    "label",
    "marker_pixmap",
    "precision_pen",
    "put_in_the_middle",
    "set_precision",
    "set_property",
    "set_text",
]
