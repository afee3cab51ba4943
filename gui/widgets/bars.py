"""Bars: a progress bar, and a bar of shares with a legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.experiment.experiment import Precision
from gui.theme.fonts import font
from gui.theme.theme import theme


def draw_bar(painter: QPainter, rect: QRectF, fraction: float, color: str, track: str) -> None:
    """Draw a bar with round ends, filled to `fraction` (0 to 1)."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    radius = rect.height() / 2
    painter.setBrush(QColor(track))
    painter.drawRoundedRect(rect, radius, radius)
    filled = QRectF(rect.left(), rect.top(), rect.width() * min(max(fraction, 0.0), 1.0), rect.height())
    if filled.width() > 0:
        painter.setBrush(QColor(color))
        painter.drawRoundedRect(filled, radius, radius)
    painter.restore()


class ThinProgressBar(QWidget):
    """A thin progress bar (4 px), in the color of a precision or in a neutral color."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self._fraction = 0.0
        self._precision: Precision | None = None
        self.setFixedHeight(4)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_progress(0.0)
        theme().changed.connect(self.update)

    def set_progress(self, fraction: float, precision: Precision | None = None) -> None:
        """Fill the bar to `fraction` (0 to 1)."""
        self.setAccessibleName(f"{self._name}: {fraction:.0%}")
        if (fraction, precision) != (self._fraction, self._precision):
            self._fraction, self._precision = fraction, precision
            self.update()

    def fraction(self) -> float:
        return self._fraction

    def sizeHint(self) -> QSize:
        return QSize(120, 4)

    def paintEvent(self, event: QPaintEvent) -> None:
        palette = theme().palette
        precision = self._precision
        color = palette.text2 if precision is None else palette.look(precision).color
        painter = QPainter(self)
        draw_bar(painter, QRectF(self.rect()), self._fraction, color, palette.bg3)
        painter.end()


_ABOVE, _BAR, _GAP, _LINE, _SQUARE = 5, 8, 6, 18, 8
_SHADES = (1.0, 0.75, 0.54, 0.38, 0.2)


@dataclass(frozen=True)
class Share:
    """One part of a `ShareBar`. `amount` sets its width, and `words` is its text in the legend."""

    amount: float
    words: str


class ShareBar(QWidget):
    """A bar divided into the parts of a whole, with a legend below. In a narrow bar, the legend wraps."""

    def __init__(self, precision: Precision) -> None:
        super().__init__()
        self._precision = precision
        self._shares: tuple[Share, ...] = ()
        policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        theme().changed.connect(self.update)

    def set_shares(self, shares: Sequence[Share]) -> None:
        """Show at most five shares."""
        self._shares = tuple(shares[: len(_SHADES)])
        self.setAccessibleName(", ".join(share.words for share in self._shares))
        self.updateGeometry()
        self.update()

    def shares(self) -> tuple[Share, ...]:
        return self._shares

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        rows = max((row for _, row in self._places(width)), default=0) + 1
        return _ABOVE + _BAR + _GAP + rows * _LINE

    def sizeHint(self) -> QSize:
        return QSize(240, self.heightForWidth(max(self.width(), 240)))

    def paintEvent(self, event: QPaintEvent) -> None:
        palette, painter = theme().palette, QPainter(self)
        total = sum(share.amount for share in self._shares) or 1.0
        painter.setFont(font(12))
        left = 0.0
        for share, shade, (place, row) in zip(
            self._shares, _SHADES, self._places(self.width()), strict=False
        ):
            ink = mixed(palette.look(self._precision).color, palette.bg1, shade)
            width = share.amount / total * self.width()
            painter.fillRect(QRectF(left, _ABOVE, max(width - 1, 1), _BAR), ink)
            left += width
            top = _ABOVE + _BAR + _GAP + row * _LINE
            painter.fillRect(QRectF(place, top + 4, _SQUARE, _SQUARE), ink)
            painter.setPen(QColor(palette.text2))
            painter.drawText(QPointF(place + _SQUARE + 6, top + 12), share.words)
        painter.end()

    def _places(self, width: int) -> list[tuple[float, int]]:
        metrics = QFontMetricsF(font(12))
        places: list[tuple[float, int]] = []
        left, row = 0.0, 0
        for share in self._shares:
            needed = _SQUARE + 6 + metrics.horizontalAdvance(share.words)
            if left and left + needed > width:
                left, row = 0.0, row + 1
            places.append((left, row))
            left += needed + 14
        return places


def mixed(color: str, ground: str, share: float) -> QColor:
    """Return a color with opacity `share` over an opaque ground."""
    over, under = QColor(color), QColor(ground)
    pairs = ((over.red(), under.red()), (over.green(), under.green()), (over.blue(), under.blue()))
    red, green, blue = (round(low + (high - low) * share) for high, low in pairs)
    return QColor(red, green, blue)
