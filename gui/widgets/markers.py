"""The precisions' markers (circle, square, triangle, ...): alone, on a line and in a chip."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent, QPen, QPixmap, QPolygonF
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from engine.drawing.shapes import DOT, mark_outline
from engine.experiment.experiment import Precision
from gui.theme.fonts import font
from gui.theme.icons import draw_icon
from gui.theme.theme import theme
from gui.widgets.labels import plain_tip
from resources.looks import MarkFill


def _marker_path(symbol: str, size: float) -> QPainterPath:
    path = QPainterPath()
    if symbol == "o":
        path.addEllipse(QPointF(0, 0), size / 2, size / 2)
    else:
        path.addPolygon(QPolygonF([QPointF(x, y) for x, y in mark_outline(symbol, size)]))
        path.closeSubpath()
    return path


def draw_marker(
    painter: QPainter,
    center: QPointF,
    precision: Precision,
    size: float = 8.0,
    *,
    fill: MarkFill = "full",
    color: str | None = None,
) -> None:
    """Draw the marker of a precision at `center`. Its color is the precision's unless `color` is given."""
    look = theme().palette.look(precision)
    ink = QColor(color or look.color)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.translate(center)
    if fill != "full":
        painter.setPen(QPen(ink, 1.3))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPath(_marker_path(look.symbol, size - 1.0))
    if fill != "hollow":
        painter.fillPath(_marker_path(look.symbol, DOT * size if fill == "dotted" else size), ink)
    painter.restore()


def marker_pixmap(
    precision: Precision, size: int = 8, fill: MarkFill = "full", ratio: float = 1.0
) -> QPixmap:
    """Return the marker on a transparent square 4 px wider than itself."""
    side = size + 4
    picture = QPixmap(QSize(round(side * ratio), round(side * ratio)))
    picture.setDevicePixelRatio(ratio)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    draw_marker(painter, QPointF(side / 2, side / 2), precision, size, fill=fill)
    painter.end()
    return picture


def precision_pen(precision: Precision, width: float = 1.0) -> QPen:
    """The precision's cosmetic pen, with its dash pattern scaled to `width`."""
    look = theme().palette.look(precision)
    pen = QPen(QColor(look.color), width)
    pen.setCosmetic(True)
    if look.dash:
        pen.setDashPattern([length / width for length in look.dash])
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    return pen


_SIZE = 8


class Marker(QWidget):
    """The colored symbol of a precision, shown next to its name as in the plots."""

    def __init__(self, precision: Precision) -> None:
        super().__init__()
        self._precision = precision
        self._fill: MarkFill = "full"
        self.setFixedSize(_SIZE + 4, _SIZE + 4)
        theme().changed.connect(self.update)

    def set_precision(self, precision: Precision, hollow: bool = False) -> None:
        """Show the marker of another precision."""
        fill: MarkFill = "hollow" if hollow else "full"
        if (precision, fill) != (self._precision, self._fill):
            self._precision, self._fill = precision, fill
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        center = QPointF(self.width() / 2, self.height() / 2)
        draw_marker(painter, center, self._precision, _SIZE, fill=self._fill)
        painter.end()


_HEIGHT, _LOW = 36, 32


class PrecisionChip(QAbstractButton):
    """A toggle button for a precision. If it is disabled, its tooltip gives the reason."""

    def __init__(self, precision: Precision, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.precision = precision
        self._small = self._is_low = False
        self.takes_one = False
        self.setText(precision.label)
        self.setCheckable(True)
        self.setFixedHeight(_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setAccessibleName(f"Train in {precision.label}")
        self.set_available(True)
        theme().changed.connect(self.update)

    def set_available(self, available: bool, reason: str | None = None, note: str | None = None) -> None:
        """Enable the chip with an optional `note`, or disable it with a reason."""
        self.setEnabled(available)
        if available:
            usual = f"Select {self.text()}{'' if self.takes_one else ', or several to compare them'}."
            more = f" {note[:1].upper()}{note[1:].rstrip('.')}." if note else ""
            self.setToolTip(plain_tip(f"{usual}{more}"))
        else:
            why = reason or "this device does not support it"
            self.setToolTip(plain_tip(f"{self.text()} cannot be used: {why}."))

    def set_small(self) -> None:
        """Make the chip less prominent than the others: 32 px high, in smaller text."""
        self._small = True
        self.set_low(True)

    def set_low(self, is_low: bool) -> None:
        """Make the chip 32 px high, for a low window."""
        self._is_low = is_low or self._small
        self.setFixedHeight(_LOW if self._is_low else _HEIGHT)

    def sizeHint(self) -> QSize:
        return QSize(140, self.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        palette = theme().palette
        look = palette.look(self.precision)
        ticked = self.isChecked() and self.isEnabled()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        outline = palette.text3 if self.underMouse() and self.isEnabled() else palette.line2
        painter.setPen(
            QPen(QColor(look.color if ticked else outline if self.isEnabled() else palette.line), 1)
        )
        painter.setBrush(QColor(look.tint if ticked else palette.field if self.isEnabled() else palette.bg1))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
        middle = self.height() / 2
        ink = None if ticked else palette.text2 if self.isEnabled() else palette.off
        left, tick = (16, 24) if self._is_low else (18, 27)
        fill: MarkFill = "full" if ticked else "hollow"
        draw_marker(painter, QPointF(left, middle), self.precision, 8, fill=fill, color=ink)
        painter.setFont(font(12 if self._small else 13, 600 if ticked else 500))
        name_ink = palette.text if ticked else palette.text2
        painter.setPen(QColor(name_ink if self.isEnabled() else palette.off))
        painter.drawText(
            QRectF(left + 13, 0, self.width(), self.height()), Qt.AlignmentFlag.AlignVCenter, self.text()
        )
        if ticked:
            draw_icon(painter, QRectF(self.width() - tick, middle - 8, 16, 16), "check", look.color)
        painter.end()
