"""Sizes, text and buttons of Demo, which scale with the panel."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from string import Template
from typing import Any

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeyEvent

from engine.race.parts import Sizes
from engine.words.names import GLOSSARY
from gui.widgets.buttons import ICON, Button

DESIGN = QSize(1440, 848)
"""The panel that the sizes are given for: a window of 1440 x 900 without its top bar."""

SMALLEST_TEXT = 15
"""Text does not shrink below this, or below its own size if that is less."""

COLUMN_GAP = 35
"""Between the page's main part and the panel to its right."""

_STEPS = 64
_LEAST, _MOST = 0.5, 6.0


@dataclass(frozen=True)
class Scale:
    """Converts the lengths and text sizes of Demo's design to pixels for the size of its panel.

    `factor` is 1.0 for a panel of the size `DESIGN`.
    """

    factor: float = 1.0

    def px(self, design: float) -> int:
        """Return a length in pixels, at least 1 unless `length` is 0."""
        return max(round(design * self.factor), 1 if design > 0 else 0)

    def text(self, design: int) -> int:
        """Return a text size in pixels, which stays legible."""
        return max(round(design * self.factor), min(design, SMALLEST_TEXT))


def scale_for(size: QSize) -> Scale:
    """Return the scale at which everything fits into a panel of this size.

    The scale changes in steps, because restyling all widgets at each pixel of a resize would be slow.
    """
    factor = min(size.width() / DESIGN.width(), size.height() / DESIGN.height())
    stepped = math.floor(factor * _STEPS) / _STEPS
    return Scale(min(max(stepped, _LEAST), _MOST))


_STAGE = Sizes(
    width=1440,
    height=784,
    margin=48,
    top=24,
    bottom=33,
    gap=COLUMN_GAP,
    panel=272,
    lane=127,
    number=208,
    title=30,
    sentence=17,
    name=26,
    detail=15,
    caption=38,
    small=14,
    is_live=True,
)
_LEAST_PANEL = 192


def memory_width(scale: Scale) -> int:
    """Return the width of the memory panel, in pixels."""
    return max(scale.px(_STAGE.panel), _LEAST_PANEL)


def stage_sizes(size: QSize, scale: Scale) -> Sizes:
    """Return the lengths and text sizes of the replay for a widget of this size."""
    lengths = ("margin", "top", "bottom", "gap", "lane", "number")
    texts = ("title", "sentence", "name", "detail", "caption", "small")
    scaled: dict[str, Any] = {name: scale.px(getattr(_STAGE, name)) for name in lengths}
    scaled |= {name: scale.text(getattr(_STAGE, name)) for name in texts}
    return replace(_STAGE, width=size.width(), height=size.height(), panel=memory_width(scale), **scaled)


def sizes(scale: Scale) -> str:
    """Return a style sheet with the sizes of Demo's buttons, slider and popover, without colors."""
    values = {f"px{size}": scale.px(size) for size in (4, 5, 6, 8, 12, 14, 16, 28, 30, 32)}
    values |= {f"text{size}": scale.text(size) for size in (13, 14, 15, 17, 30)}
    values["button"] = max(scale.px(30), 26)
    values["segment"] = max(scale.px(26), 22)
    values["groove"], values["handle"] = _groove_px(scale), handle_px(scale)
    values["over"] = (values["handle"] - values["groove"]) // 2
    values["round"] = values["handle"] // 2
    return Template(_SIZES).substitute(values)


def handle_px(scale: Scale) -> int:
    """Return the size of the slider's handle in pixels, which centers it on its groove."""
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
QLabel[role="showTitle"] { font-size: ${text30}px; }
QLabel[role="showText"] { font-size: ${text17}px; }
QLabel[role="showNow"], QLabel[role="showFoot"] { font-size: ${text14}px; }
QLabel[role="showSubject"] { font-size: ${text13}px; }
QMenu { font-size: ${text13}px; }
QMenu::item { font-size: ${text13}px; padding: ${px6}px ${px28}px ${px6}px ${px12}px; }
"""


_ARROWS = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down)


class DemoButton(Button):
    """A button on the page Demo, which grows with the page. Arrow keys move the replay instead of the focus.

    Its `kind`, the name of its style, begins with "show".
    """

    def set_scale(self, scale: Scale) -> None:
        self.set_icon_side(max(ICON, scale.px(ICON)))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in _ARROWS:
            # else they would move the focus and not the replay
            event.ignore()
            return
        super().keyPressEvent(event)


def explained(text: str) -> str:
    """Return the meaning of each glossary term in `text`, a line each, or ""."""
    meanings: list[str] = []
    for term in sorted(GLOSSARY, key=len, reverse=True):
        pattern = rf"(?<![\w-]){re.escape(term)}(?![\w-])"
        if re.search(pattern, text, re.IGNORECASE):
            # "mixed precision" must not explain "precision" as well
            text = re.sub(pattern, " ", text, flags=re.IGNORECASE)
            meanings.append(f"{term[:1].upper()}{term[1:]}: {GLOSSARY[term]}")
    return "\n".join(reversed(meanings))
