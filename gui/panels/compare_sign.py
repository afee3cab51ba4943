"""Small signs beside the name of a side: that it has the fast recipe, or that something speaks against it."""

from __future__ import annotations

from typing import Literal

from PySide6.QtWidgets import QLabel

from engine.records.sides import Side
from gui.icons import pixmap
from gui.theme import theme

_NAMES = {"info": "With caution", "bolt": "Fast recipe"}


class Sign(QLabel):
    """An icon that stands beside the words for it; "info" for a doubt, "bolt" for the fast recipe."""

    def __init__(self, icon: Literal["info", "bolt"]) -> None:
        super().__init__()
        self._icon = icon
        self.setAccessibleName(_NAMES[icon])
        theme().changed.connect(self._recolor)
        self._recolor()

    def _recolor(self) -> None:
        palette = theme().palette
        ink = palette.text3 if self._icon == "info" else palette.text2
        self.setPixmap(pixmap(self._icon, ink, 14, self.devicePixelRatioF()))


def is_named_fast(side: Side) -> bool:
    """Whether its title says that it has the fast recipe, as it does where the sides differ in that."""
    return "fast" in side.title.split(", ")
