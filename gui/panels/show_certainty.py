"""How sure the ratio is, one click away: its interval, and all that speaks against the comparison."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QRect, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QVBoxLayout, QWidget

from gui.panels.show_buttons import ShowButton
from gui.panels.show_scale import Scale
from gui.panels.show_span import explained
from gui.widgets import label, set_text

_CLOSING = (Qt.Key.Key_Escape, Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter)
_WIDTH = 420
_MARGIN = 8


class CertaintyPopover(QFrame):
    """Closes at a click elsewhere, and at Escape, Space or Return, unless its one link has the focus.

    `compare_wanted` when all the figures are asked for.
    """

    compare_wanted = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setProperty("surface", "popover")
        self.setAccessibleName("How sure the ratio is")
        self._sure, self._doubts = _paragraph(), _Points()
        self._doubts_title = label("What speaks against it", "showPopTitle")
        self.compare = ShowButton("All figures in Compare", "showLink", "Open these runs in Compare")
        self.compare.clicked.connect(self._leave)
        self._column = QVBoxLayout(self)
        self._title = label("", "showPopTitle")
        self._column.addWidget(self._title)
        for one in (self._sure, self._doubts_title, self._doubts):
            self._column.addWidget(one)
        self._column.addWidget(self.compare, 0, Qt.AlignmentFlag.AlignLeft)

    def set_scale(self, scale: Scale) -> None:
        side = max(scale.px(20), 14)
        self._column.setContentsMargins(side, side, side, side)
        self._column.setSpacing(max(scale.px(10), 7))
        self.setFixedWidth(max(scale.px(_WIDTH), 340))
        self.compare.set_scale(scale)

    def show_words(self, title: str, certainty: str, doubts: Sequence[str]) -> None:
        """The interval in words, and each doubt on a line of its own."""
        set_text(self._title, title)
        set_text(self._sure, certainty)
        self._sure.setToolTip(explained(certainty))
        self._doubts.set_points(doubts)
        self._doubts_title.setVisible(bool(doubts))
        self._doubts.setVisible(bool(doubts))
        self.setAccessibleDescription(self.words())

    def words(self) -> str:
        """All it says."""
        return "\n".join([self._sure.text(), *self._doubts.words()])

    def open_at(self, corner: QPoint) -> None:
        """Opens with its upper left corner there, or as near as the screen allows."""
        self.ensurePolished()
        width = self.width()
        height = self._column.heightForWidth(width)
        self.resize(width, height if height > 0 else self.sizeHint().height())
        screen = QGuiApplication.screenAt(corner) or self.screen()
        self.move(_kept_inside(QRect(corner, self.size()), screen.availableGeometry()))
        self.show()
        # not the link: the next press of a presenter's remote would leave Show by it
        self.setFocus(Qt.FocusReason.PopupFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in _CLOSING:
            self.hide()
        else:
            super().keyPressEvent(event)

    def _leave(self) -> None:
        self.hide()
        self.compare_wanted.emit()


class _Points(QWidget):
    """Sentences with a point before each, aside of which its lines stand."""

    def __init__(self) -> None:
        super().__init__()
        self._points: tuple[str, ...] = ()
        self._rows = QGridLayout(self)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._rows.setColumnStretch(1, 1)

    def set_points(self, points: Sequence[str]) -> None:
        self._points = tuple(points)
        while (item := self._rows.takeAt(0)) is not None:
            if (shown := item.widget()) is not None:
                shown.hide()
                shown.deleteLater()
        for row, point in enumerate(points):
            text = _paragraph()
            set_text(text, point)
            self._rows.addWidget(label("•", "showPopText"), row, 0, Qt.AlignmentFlag.AlignTop)
            self._rows.addWidget(text, row, 1)

    def words(self) -> list[str]:
        return [f"•  {point}" for point in self._points]


def _kept_inside(rect: QRect, room: QRect) -> QPoint:
    inner = room.adjusted(_MARGIN, _MARGIN, -_MARGIN, -_MARGIN)
    x = max(inner.left(), min(rect.x(), inner.right() - rect.width()))
    return QPoint(x, max(inner.top(), min(rect.y(), inner.bottom() - rect.height())))


def _paragraph() -> QLabel:
    result = label("", "showPopText")
    result.setWordWrap(True)
    return result
