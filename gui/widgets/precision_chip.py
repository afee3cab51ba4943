"""The chip that ticks a precision: marker, name and tick."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from engine.experiment import Precision
from gui.fonts import font
from gui.icons import draw_icon
from gui.theme import theme
from gui.tips import plain_tip
from gui.widgets.markers import draw_marker
from resources.looks import MarkFill

_HEIGHT, _LOW = 36, 28


class PrecisionChip(QAbstractButton):
    """A checkable chip, 36 px high, or 28. One that cannot be ticked says why in its tooltip."""

    def __init__(self, precision: Precision, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.precision = precision
        self._small = False
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
        """Enables the chip, or disables it with the reason; `note` says what to expect where it works."""
        self.setEnabled(available)
        if available:
            usual = f"Train in {self.text()}; tick several to compare them"
            self.setToolTip(plain_tip(f"{usual}. {note}" if note else f"{usual}."))
        else:
            why = reason or "this device does not support it"
            self.setToolTip(plain_tip(f"{self.text()} cannot be used: {why}."))

    def set_small(self) -> None:
        """Stands back behind the others."""
        self.setFixedHeight(_LOW)
        self._small = True

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
        left, tick = (14, 22) if self._small else (18, 28)
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
