"""The looks of number formats: a precision's colour, and bars of the formats that a module computed in."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from engine.protocol.numerics.formats import BF16, FP16, FP32, dtype_label
from engine.words.numbers import share_text
from gui.setup.model.tree import Index
from gui.theme.fonts import font
from gui.theme.theme import theme

Share = tuple[str, float]
"""A number format by torch's name, and its share of a time."""

SHARES = 0x0200
"""The role under which a cell has its shares; Qt leaves numbers from 0x0100 on to programs."""
TIME_TIP = "While watched, which is slower than training: compare modules, not with the time of a step"
MOVED_TIP = "What the operations read and wrote"
_PRECISIONS = {FP32.name: "fp32", BF16.name: "bf16", FP16.name: "fp16"}
_BAR, _HEIGHT, _GAP, _PADDING = 36, 8, 6, 8


def format_color(dtype: str) -> str:
    """The colour of a number format: that of the precision of its name, or a neutral one."""
    precision = _PRECISIONS.get(dtype)
    return theme().palette.text3 if precision is None else theme().palette.look(precision).color


def shares_text(shares: Sequence[Share]) -> str:
    """The format with the largest share, and how many others there are: "FP16 +1"."""
    if not shares:
        return ""
    return dtype_label(shares[0][0]) + (f" +{len(shares) - 1}" if len(shares) > 1 else "")


def shares_tip(shares: Sequence[Share]) -> str:
    """All formats with their shares."""
    return ", ".join(f"{dtype_label(dtype)} {share_text(share)} of the time" for dtype, share in shares)


class SharesDelegate(QStyledItemDelegate):
    """Paints a bar of shares with the name of the largest."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        palette = theme().palette
        if QStyle.StateFlag.State_Selected in option.state:
            painter.fillRect(option.rect, QColor(palette.bg2))
        shares = index.data(SHARES) or ()
        if not shares:
            return
        room = QRectF(option.rect)
        left, top = room.left() + 4, room.center().y() - _HEIGHT / 2
        for dtype, share in shares:
            painter.fillRect(QRectF(left, top, max(share * _BAR, 2), _HEIGHT), QColor(format_color(dtype)))
            left += max(share * _BAR, 2)
        painter.setFont(font(12))
        painter.setPen(QColor(palette.text))
        words = room.adjusted(4 + _BAR + _GAP, 0, 0, 0)
        painter.drawText(words, option.displayAlignment, shares_text(shares))

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(_BAR + _GAP + 60, 28)


class FormatLegend(QWidget):
    """The colours of number formats with their names."""

    def __init__(self) -> None:
        super().__init__()
        self._dtypes: tuple[str, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setToolTip("The number formats that the operations computed in")
        theme().changed.connect(self.update)

    def show_formats(self, dtypes: Sequence[str]) -> None:
        """Shows these formats, by torch's names."""
        self._dtypes = tuple(dtypes)
        self.setAccessibleName("Colours: " + ", ".join(map(dtype_label, dtypes)))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        metrics = QFontMetricsF(font(12))
        widths = (_HEIGHT + _GAP + metrics.horizontalAdvance(dtype_label(dtype)) for dtype in self._dtypes)
        return QSize(round(sum(widths)) + 2 * _PADDING * max(0, len(self._dtypes) - 1) + 2, 20)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, metrics, left = QPainter(self), QFontMetricsF(font(12)), 0.0
        painter.setFont(font(12))
        middle = self.height() / 2
        for dtype in self._dtypes:
            painter.fillRect(
                QRectF(left, middle - _HEIGHT / 2, _HEIGHT, _HEIGHT), QColor(format_color(dtype))
            )
            painter.setPen(QColor(theme().palette.text2))
            left += _HEIGHT + _GAP
            painter.drawText(QPointF(left, middle + 4), dtype_label(dtype))
            left += metrics.horizontalAdvance(dtype_label(dtype)) + 2 * _PADDING
        painter.end()
