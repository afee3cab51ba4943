"""Widgets that several pages use: buttons, labels, tables, messages and layout helpers."""

from gui.widgets.bars import Share, ShareBar, ThinProgressBar, draw_bar
from gui.widgets.buttons import Button, ComboBox, IconButton, Segmented
from gui.widgets.focus_ring import FocusRing
from gui.widgets.labels import (
    ElidedLabel,
    Field,
    center,
    divider,
    label,
    set_precision,
    set_property,
    set_text,
)
from gui.widgets.markers import Marker, PrecisionChip, draw_marker, marker_pixmap, precision_pen
from gui.widgets.messages import EmptyState

__all__ = [
    "Button",
    "ComboBox",
    "ElidedLabel",
    "EmptyState",
    "Field",
    "FocusRing",
    "IconButton",
    "Marker",
    "PrecisionChip",
    "Segmented",
    "Share",
    "ShareBar",
    "ThinProgressBar",
    "center",
    "divider",
    "draw_bar",
    "draw_marker",
    "label",
    "marker_pixmap",
    "precision_pen",
    "set_precision",
    "set_property",
    "set_text",
]
