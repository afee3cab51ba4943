"""A piece of Show's text with its size and ink, and what the terms in a text mean."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtGui import QColor, QFont, QFontMetricsF

from engine.experiment import Precision
from engine.records.race_words import GLOSSARY
from gui.fonts import font
from gui.panels.show_scale import Scale
from gui.theme import theme

_DISPLAY_FROM = 18


@dataclass(frozen=True)
class Span:
    """A piece of text: `size` as at scale 1, `ink` a token of the palette, `gap` the space before it."""

    text: str
    size: int
    weight: int = 400
    ink: str = "text"
    precision: Precision | None = None
    gap: int = 0

    def face(self, scale: Scale) -> QFont:
        return _face(scale.text(self.size), self.weight, self.size >= _DISPLAY_FROM)

    def width(self, scale: Scale) -> int:
        """The pixels that it takes, without the space before it."""
        return math.ceil(QFontMetricsF(self.face(scale)).horizontalAdvance(self.text))

    @property
    def color(self) -> QColor:
        palette = theme().palette
        if self.precision is not None:
            return QColor(palette.look(self.precision).color)
        return QColor(str(getattr(palette, self.ink)))


def explained(text: str) -> str:
    """What the terms in `text` mean, a line each; "" where there are none."""
    found: list[str] = []
    for term in sorted(GLOSSARY, key=len, reverse=True):
        pattern = rf"(?<![\w-]){re.escape(term)}(?![\w-])"
        if re.search(pattern, text, re.IGNORECASE):
            # so that "mixed precision" does not also explain "precision"
            text = re.sub(pattern, " ", text, flags=re.IGNORECASE)
            found.append(f"{term[:1].upper()}{term[1:]}: {GLOSSARY[term]}")
    return "\n".join(reversed(found))


@lru_cache(maxsize=64)
def _face(size: int, weight: int, display: bool) -> QFont:
    return font(size, weight, display=display)
