"""How large everything in Show is: it grows and shrinks with the panel, as a picture on a screen does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from string import Template

from PySide6.QtCore import QSize

DESIGN = QSize(1440, 848)
"""The panel for which sizes are given: a window of 1440 x 900 less its top bar."""

SMALLEST_TEXT = 15
"""Text that would become smaller than this stays at it, or at its own size where that is less."""

COLUMN_GAP = 35
"""Between what fills the page and the panel at its right."""

_STEPS = 64
_LEAST, _MOST = 0.5, 6.0


@dataclass(frozen=True)
class Scale:
    """`factor` is 1.0 for a panel of the `DESIGN`'s size."""

    factor: float = 1.0

    def px(self, design: float) -> int:
        """A length in pixels; at least 1 where the design has any."""
        return max(round(design * self.factor), 1 if design > 0 else 0)

    def text(self, design: int) -> int:
        """The pixel size of text, which stays legible where all else shrinks."""
        return max(round(design * self.factor), min(design, SMALLEST_TEXT))


def scale_for(size: QSize) -> Scale:
    """The scale at which everything fits into a panel of this size.

    In steps, so that dragging the window's edge does not restyle every widget at each pixel.
    """
    factor = min(size.width() / DESIGN.width(), size.height() / DESIGN.height())
    stepped = math.floor(factor * _STEPS) / _STEPS
    return Scale(min(max(stepped, _LEAST), _MOST))


def sizes(scale: Scale) -> str:
    """The style sheet of the sizes of what Show does not paint itself: buttons, the slider, the popover.

    Its colours are in `gui.stylesheet`.
    """
    values = {f"px{size}": scale.px(size) for size in (4, 5, 6, 8, 12, 14, 16, 28, 30, 32)}
    values |= {f"text{size}": scale.text(size) for size in (13, 14, 15, 17, 20)}
    values["button"] = max(scale.px(30), 26)
    values["segment"] = max(scale.px(26), 22)
    values["groove"], values["handle"] = _groove_px(scale), handle_px(scale)
    values["over"] = (values["handle"] - values["groove"]) // 2
    values["round"] = values["handle"] // 2
    return Template(_SIZES).substitute(values)


def handle_px(scale: Scale) -> int:
    """How large the slider's handle is, in pixels: so that it stands evenly over its groove."""
    handle = max(scale.px(14), 11)
    return handle + (handle - _groove_px(scale)) % 2


def _groove_px(scale: Scale) -> int:
    return max(scale.px(4), 3)


_SIZES = """
QPushButton[kind="show"], QPushButton[kind="showPrimary"] {
    min-height: ${button}px; padding: 0 ${px16}px; border-radius: ${px6}px; font-size: ${text13}px;
}
QPushButton[kind="showIcon"] {
    min-height: ${button}px; min-width: ${button}px; padding: 0; border-radius: ${px6}px;
}
QPushButton[kind="showLink"] { font-size: ${text14}px; }
QPushButton[kind="segment"] {
    font-size: ${text13}px; min-height: ${segment}px; max-height: ${segment}px; padding: 0 ${px12}px;
    border-radius: ${px4}px;
}
QSlider::groove:horizontal { height: ${groove}px; }
QSlider::handle:horizontal {
    width: ${handle}px; height: ${handle}px; margin: -${over}px 0; border-radius: ${round}px;
}
QLabel[role="showPopTitle"] { font-size: ${text17}px; }
QLabel[role="showPopText"] { font-size: ${text15}px; }
QFrame[surface="showPanel"] { border-radius: ${px12}px; }
QMenu { font-size: ${text13}px; }
QMenu::item { font-size: ${text13}px; padding: ${px6}px ${px28}px ${px6}px ${px12}px; }
"""
