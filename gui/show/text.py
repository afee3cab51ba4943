"""Text of Show, repainted many times a second without a new layout."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QToolTip, QWidget

from engine.experiment.experiment import Precision
from gui.show.scale import Scale, Span, explained
from gui.theme.theme import theme
from gui.widgets import draw_marker
from gui.widgets.labels import plain_tip
from resources.looks import MarkFill

_MARKER, _MARKER_GAP = 16, 12
_LEAST_PART = 0.75
"""The least part of its width that wrapped text fills."""


class TextRow(QLabel):
    """Spans at the left and the right on one baseline, after a precision's marker if it has one.

    The last span at the left is elided if need be. `set_spoken` sets what screen readers read.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._left: tuple[Span, ...] = ()
        self._right: tuple[Span, ...] = ()
        self._marker: tuple[Precision, MarkFill] | None = None
        self._scale = Scale()
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._fit()
        theme().changed.connect(self.update)

    def set_scale(self, scale: Scale) -> None:
        self._scale = scale
        self._fit()

    def set_marker(self, precision: Precision, fill: MarkFill = "full") -> None:
        """Sets the precision's marker before the first span."""
        self._marker = (precision, fill)
        self.update()

    def set_spans(self, left: Sequence[Span], right: Sequence[Span] = ()) -> None:
        """Sets the text, and repaints only if it changed."""
        if (tuple(left), tuple(right)) == (self._left, self._right):
            return
        sizes = self._sizes()
        self._left, self._right = tuple(left), tuple(right)
        if self._sizes() != sizes:
            self._fit()
        elif self.sizePolicy().horizontalPolicy() is not QSizePolicy.Policy.Ignored:
            self.updateGeometry()
        self.update()

    def set_spoken(self, text: str) -> None:
        """Sets the accessible name: if it were set at each repaint, a screen reader would never finish."""
        if self.accessibleName() != text:
            self.setAccessibleName(text)

    def keep_width(self) -> None:
        """Fixes the width at what its text needs now."""
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setFixedWidth(max(self.needed_width(), 1))

    def words(self) -> str:
        """The whole text, elided or not."""
        return " ".join(span.text for span in (*self._left, *self._right) if span.text)

    def needed_width(self) -> int:
        """The width that shows all of it."""
        return round(self._lead() + self._width(self._left) + self._width(self._right)) + 2

    def least_width(self) -> int:
        """The width that shows all but the last spans at the left, which are then in the tooltip."""
        first = self._left[:1] if len(self._left) > 1 else ()
        return round(self._lead() + self._width(first) + self._width(self._right))

    def sizeHint(self) -> QSize:
        return QSize(self.needed_width(), self.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.height())

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self._tip(event.pos().x()), self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        baseline = self._baseline()
        x = self._draw_marker(painter)
        right = self.width() - self._width(self._right)
        room = right - (self._scale.px(16) if self._right else 0)
        for span in self._left:
            x = self._draw(painter, span, x, baseline, room)
        for span in self._right:
            right = self._draw(painter, span, right, baseline, self.width() + 1.0)
        painter.end()

    def _draw(self, painter: QPainter, span: Span, x: float, baseline: float, end: float) -> float:
        face = span.face(self._scale)
        metrics = QFontMetricsF(face)
        x += self._scale.px(span.gap)
        text = span.text
        if x + metrics.horizontalAdvance(text) > end:
            text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, end - x)
            # an ellipsis alone says nothing
            text = "" if text == "…" else text
        painter.setFont(face)
        painter.setPen(span.color)
        painter.drawText(QPointF(x, baseline), text)
        return x + metrics.horizontalAdvance(span.text)

    def _draw_marker(self, painter: QPainter) -> float:
        if self._marker is None:
            return 0.0
        size = self._scale.px(_MARKER)
        draw_marker(
            painter, QPointF(size / 2, self.height() / 2), self._marker[0], size, fill=self._marker[1]
        )
        return self._lead()

    def _lead(self) -> float:
        return float(self._scale.px(_MARKER + _MARKER_GAP)) if self._marker is not None else 0.0

    def _width(self, spans: Sequence[Span]) -> float:
        return sum(
            QFontMetricsF(span.face(self._scale)).horizontalAdvance(span.text) + self._scale.px(span.gap)
            for span in spans
        )

    def _sizes(self) -> set[tuple[int, int]]:
        return {(span.size, span.weight) for span in (*self._left, *self._right)}

    def _largest(self) -> QFontMetricsF | None:
        faces = [QFontMetricsF(span.face(self._scale)) for span in (*self._left, *self._right)]
        return max(faces, key=QFontMetricsF.height, default=None)

    def _baseline(self) -> float:
        metrics = self._largest()
        return (self.height() + metrics.ascent() - metrics.descent()) / 2 if metrics else 0.0

    def _fit(self) -> None:
        metrics = self._largest()
        self.setFixedHeight(max(1, round(metrics.height())) if metrics else 1)
        self.updateGeometry()
        self.update()

    def _tip(self, x: int) -> str:
        """The whole text if it is elided, and the meaning of the terms under the pointer."""
        is_cut = self.needed_width() > self.width()
        at, pieces = self._lead(), [self.words()] if is_cut else []
        for span in self._left:
            end = at + self._width([span])
            if at <= x < end:
                pieces.append(explained(span.text))
            at = end
        if x >= self.width() - self._width(self._right):
            pieces.append(explained(" ".join(span.text for span in self._right)))
        return plain_tip("\n".join(piece for piece in pieces if piece))


class TextBlock(QLabel):
    """Wrapped text of one size and colour."""

    def __init__(self, size: int, weight: int = 400, ink: str = "text2") -> None:
        super().__init__()
        self._span = Span("", size, weight, ink)
        self._scale = Scale()
        policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        theme().changed.connect(self.update)

    def set_scale(self, scale: Scale) -> None:
        self._scale = scale
        self.updateGeometry()
        self.update()

    def set_words(self, text: str) -> None:
        """Sets the text; its tooltip explains the terms in it."""
        if text == self._span.text:
            return
        self._span = Span(text, self._span.size, self._span.weight, self._span.ink)
        self.setAccessibleName(text)
        self.setToolTip(explained(text))
        self.updateGeometry()
        self.update()

    def words(self) -> str:
        return self._span.text

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return _height(self._span, self._scale, width)

    def sizeHint(self) -> QSize:
        width = self.width()
        return QSize(width, self.heightForWidth(width))

    def minimumSizeHint(self) -> QSize:
        # one line: the layout asks `heightForWidth` for more
        return QSize(0, round(QFontMetricsF(self._span.face(self._scale)).height()))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setFont(self._span.face(self._scale))
        painter.setPen(self._span.color)
        room = QRectF(0, 0, _even_width(self._span, self._scale, self.width()), self.height())
        painter.drawText(room, Qt.TextFlag.TextWordWrap, _unbroken(self._span.text))
        painter.end()


def _unbroken(text: str) -> str:
    """A sign of per cent stays with its number."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


@lru_cache(maxsize=64)
def _height(span: Span, scale: Scale, width: int) -> int:
    room = QRectF(0, 0, max(width, 1), 1e5)
    shown = QFontMetricsF(span.face(scale)).boundingRect(room, Qt.TextFlag.TextWordWrap, _unbroken(span.text))
    return round(shown.height() + 0.5)


@lru_cache(maxsize=64)
def _even_width(span: Span, scale: Scale, width: int) -> int:
    """The least width that needs no more lines, so that no word is alone on the last."""
    height, least, most = _height(span, scale, width), round(_LEAST_PART * width), width
    while most - least > 2:
        middle = (least + most) // 2
        if _height(span, scale, middle) > height:
            least = middle
        else:
            most = middle
    return most
