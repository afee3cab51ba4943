"""Where the two tanks of memory stand and how high they are filled, and the pictures they are made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from PySide6.QtCore import QLineF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen, QPixmap

from engine.experiment.experiment import Precision
from engine.words.numbers import memory_apart_text
from resources.looks import MarkFill, Palette

_RADIUS = 10.0
_PITCH = 8.0


@dataclass(frozen=True)
class TankLayers:
    """One tank of one size in three states; a level is shown by joining two of them."""

    empty: QPixmap
    hatched: QPixmap
    filled: QPixmap


def tank_layers(
    size: QSizeF, scale: float, ratio: float, palette: Palette, precision: Precision, fill: MarkFill
) -> TankLayers:
    """Paints a tank of `size` pixels for a screen of `ratio` device pixels to one."""
    body = QRectF(0.5, 0.5, size.width() - 1, size.height() - 1)
    shape = QPainterPath()
    shape.addRoundedRect(body, _RADIUS * scale, _RADIUS * scale)
    look = palette.look(precision)
    pages = [_page(size, ratio) for _ in range(3)]
    for page, color in zip(pages, (palette.bg2, palette.bg2, look.color), strict=True):
        painter = QPainter(page)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillPath(shape, QColor(color))
        if page is pages[1]:
            _hatch(painter, shape, palette.hatch if palette.is_dark else palette.line2, scale)
        if page is pages[2] and fill != "full":
            # two lanes of one precision: this one is not as solid
            _hatch(painter, shape, look.dim, scale)
        painter.setPen(QPen(QColor(palette.line2), 1))
        painter.drawPath(shape)
        painter.end()
    return TankLayers(*pages)


def _page(size: QSizeF, ratio: float) -> QPixmap:
    page = QPixmap(max(math.ceil(size.width() * ratio), 1), max(math.ceil(size.height() * ratio), 1))
    page.setDevicePixelRatio(ratio)
    page.fill(Qt.GlobalColor.transparent)
    return page


def _hatch(painter: QPainter, shape: QPainterPath, color: str, scale: float) -> None:
    room, pitch = shape.boundingRect(), _PITCH * max(scale, 0.75)
    painter.save()
    painter.setClipPath(shape)
    painter.setPen(QPen(QColor(color), max(scale, 1.0)))
    count = int((room.width() + room.height()) / pitch) + 1
    bottom, reach = room.bottom(), room.height()
    painter.drawLines(
        [
            QLineF(x, bottom, x + reach, bottom - reach)
            for x in (room.left() - reach + number * pitch for number in range(count))
        ]
    )
    painter.restore()


DESIGN = QSizeF(216, 500)
"""The size for which lengths and sizes of type are given."""

_HIGHEST = 0.894
_SMALLEST_TEXT = 13


@dataclass(frozen=True)
class TankPlan:
    """Both tanks within `size` pixels; `peaks_mib` are full's and mixed's, None where not measured.

    `fill` is the part of the peaks that is reached, 0 to 1; `snap` moves a height onto a pixel of the screen.
    Peaks that are not final may yet grow: what one spares is not told.
    """

    size: QSizeF
    peaks_mib: tuple[float | None, float | None]
    fill: float = 1.0
    snap: Callable[[float], float] = round
    is_final: bool = True

    @property
    def scale(self) -> float:
        """How large it is beside `DESIGN`."""
        return min(self.size.width() / DESIGN.width(), self.size.height() / DESIGN.height())

    def length(self, design: float) -> float:
        """A length in pixels, given as it is in `DESIGN`."""
        return design * self.scale

    def text_px(self, design: int) -> int:
        """The size of type, which shrinks less than all else."""
        return max(round(design * self.scale), min(design, _SMALLEST_TEXT))

    @cached_property
    def label_height(self) -> float:
        """What an amount takes of the height, in pixels."""
        return 1.55 * self.text_px(18)

    @cached_property
    def names_height(self) -> float:
        """What is left below the tanks, in pixels."""
        return max(self.length(40), 2.2 * self.text_px(14))

    @cached_property
    def tanks(self) -> tuple[QRectF, QRectF]:
        """Full's and mixed's."""
        gap = max(self.size.width() / 9, 8.0)
        width = self.snap((self.size.width() - gap) / 2)
        height = self.snap(max(self.size.height() - self.names_height, 1.0))
        return QRectF(0, 0, width, height), QRectF(self.snap(self.size.width() - width), 0, width, height)

    @property
    def lower(self) -> int | None:
        """Which of the two needs less, 0 or 1; None where that is not known, or they need the same."""
        full, mixed = self.peaks_mib
        if full is None or mixed is None or abs(self.level(0) - self.level(1)) < 1:
            return None
        return 0 if full < mixed else 1

    def reached_mib(self, which: int) -> float | None:
        """How much of the peak is reached by now; None where it was not measured."""
        peak = self.peaks_mib[which]
        return None if peak is None else peak * self.fill

    def level(self, which: int) -> float:
        """The y of the surface."""
        tank, reached = self.tanks[which], self.reached_mib(which)
        most = max((peak for peak in self.peaks_mib if peak), default=0.0)
        if not reached or not most:
            return tank.bottom()
        headroom = max((1 - _HIGHEST) * tank.height(), self.label_height + 2 * self.length(6))
        room = max(tank.height() - headroom, 0.0)
        return float(self.snap(tank.bottom() - room * reached / most))

    def label_rect(self, which: int) -> QRectF:
        """Where the amount stands, above the surface."""
        tank, aside = self.tanks[which], self.length(6)
        bottom = self.level(which) - aside
        return QRectF(
            tank.left() + aside, bottom - self.label_height, tank.width() - 2 * aside, self.label_height
        )

    def spared_rect(self) -> QRectF | None:
        """The hatched part: what the tank that needs less leaves of the other's."""
        lower = self.lower
        if lower is None:
            return None
        tank, top, bottom = self.tanks[lower], self.level(1 - lower), self.level(lower)
        return QRectF(tank.left(), top, tank.width(), bottom - top)

    @property
    def spared_text(self) -> str:
        """How far the peaks are apart; "" where that is nothing, or not known."""
        full, mixed = self.peaks_mib
        return "" if full is None or mixed is None else memory_apart_text(full, mixed)

    def note_rect(self) -> QRectF | None:
        """Where the spared amount is told; None before all is reached, and where there is no room."""
        spared, lower = self.spared_rect(), self.lower
        if spared is None or lower is None or not (self.is_final and self.fill >= 1 and self.spared_text):
            return None
        height, aside = 3.25 * self.text_px(16), self.length(10)
        top, bottom = spared.top(), self.label_rect(lower).top()
        if bottom - top < height + 2 * self.length(8):
            return None
        middle = (top + bottom) / 2
        return QRectF(spared.left() + aside, middle - height / 2, spared.width() - 2 * aside, height)

    def name_rect(self, which: int) -> QRectF:
        """Where the name stands, below the tank."""
        tank = self.tanks[which]
        top = tank.bottom() + self.length(8)
        return QRectF(tank.left(), top, tank.width(), max(self.size.height() - top, 1.0))


def measured(mib: float | None) -> float | None:
    """The amount where it is one; None for what cannot be drawn."""
    return mib if mib is not None and math.isfinite(mib) and mib >= 0 else None
