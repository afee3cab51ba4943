"""A pair of the race's tanks, side by side, filled as far as the race has come."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.drawing.chart_parts import Rect
from engine.drawing.shapes import Drawing
from engine.race.tanks import DESIGN, NOT_MEASURED, Tank, TankPair
from engine.words.numbers import memory_text
from gui.charts.painter import paint, words_width
from gui.theme.theme import theme


class TanksView(QWidget):
    """Full precision at the left, mixed at the right, as the engine lays them out."""

    def __init__(
        self,
        name: str,
        whole: float | None = None,
        text: Callable[[float], str] = memory_text,
        design: tuple[float, float] = DESIGN,
    ) -> None:
        """`whole` and `text` are those of a `TankPair`; `design` is the size at scale 1."""
        super().__init__()
        self._whole, self._text, self._design = whole, text, design
        self._tanks: tuple[Tank, Tank] | None = None
        self._absent, self._is_final, self._fill = NOT_MEASURED, True, 1.0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(name)
        theme().changed.connect(self.update)

    @property
    def fill(self) -> float:
        return self._fill

    def set_tanks(self, full: Tank, mixed: Tank) -> None:
        """What the two hold."""
        if (full, mixed) != self._tanks:
            self._tanks = full, mixed
            self._describe()
            self.update()

    def set_growing(self, absent: str) -> None:
        """The peaks may still grow, and `absent` stands where there is none yet."""
        self._absent, self._is_final = absent, False
        self._describe()
        self.update()

    def set_fill(self, fraction: float) -> None:
        """Fills both as far as this part of their peaks, 0 to 1."""
        fraction = min(max(fraction, 0.0), 1.0)
        if fraction != self._fill:
            self._fill = fraction
            self.update()

    def sizeHint(self) -> QSize:
        return QSize(*map(round, self._design))

    def minimumSizeHint(self) -> QSize:
        return QSize(110, round(0.28 * self._design[1]))

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._tanks is None:
            return
        width, height, ratio = self.width(), self.height(), self.devicePixelRatioF()
        pair = TankPair(
            self._tanks,
            Rect(0.0, 0.0, width, height),
            min(width / self._design[0], height / self._design[1]),
            self._fill,
            self._is_final,
            self._absent,
            self._whole,
            self._text,
            width_of=words_width,
            snap=lambda place: round(place * ratio) / ratio,
        )
        painter = QPainter(self)
        paint(painter, Drawing(width, height, (*pair.names(), *pair.shapes())))
        painter.end()

    def _describe(self) -> None:
        tanks = [(", ".join(tank.name), tank.known) for tank in self._tanks or ()]
        words = (f"{name}: {self._absent if held is None else self._text(held)}" for name, held in tanks)
        self.setAccessibleDescription("; ".join(words))
