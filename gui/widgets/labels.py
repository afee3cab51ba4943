"""Labels: one with a role of the style sheet, and one that shortens its text to its room."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QSizePolicy, QWidget

from engine.experiment import Precision
from gui.tips import plain_tip


def label(text: str, role: str, parent: QWidget | None = None) -> QLabel:
    """A plain-text label whose look is the style sheet's `role`."""
    result = QLabel(text, parent)
    result.setTextFormat(Qt.TextFormat.PlainText)
    result.setProperty("role", role)
    return result


def set_text(target: QLabel, text: str) -> None:
    """Sets the text only where it changed: setting it lays the window out anew."""
    if target.text() != text:
        target.setText(text)


def set_property(target: QWidget, name: str, value: object) -> None:
    """Sets a dynamic property that the style sheet reads, and applies it."""
    if target.property(name) != value:
        target.setProperty(name, value)
        target.style().unpolish(target)
        target.style().polish(target)


def set_precision(target: QLabel, precision: Precision | None) -> None:
    """Gives the text the colour of a precision, or takes it away."""
    set_property(target, "precision", precision.value if precision is not None else "")


def divider(vertical: bool = False, parent: QWidget | None = None) -> QFrame:
    """A hairline across, or down."""
    line = QFrame(parent)
    line.setProperty("surface", "vdivider" if vertical else "divider")
    return line


class ElidedLabel(QLabel):
    """A label that shortens its text with an ellipsis and then tells the whole of it in a tooltip."""

    def __init__(
        self,
        text: str = "",
        role: str = "body",
        parent: QWidget | None = None,
        *,
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        super().__init__(parent)
        self._mode = mode
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", role)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self._whole = ""
        self._shorter: tuple[str, ...] = ()
        self.set_whole_text(text)

    def whole_text(self) -> str:
        return self._whole

    def set_whole_text(self, text: str, *shorter: str) -> None:
        """Sets the text; what fits of it is shown, or the first of its `shorter` forms that fits whole."""
        if (text, shorter) == (self._whole, self._shorter):
            return
        self._whole, self._shorter = text, shorter
        self.setAccessibleName(text)
        self.updateGeometry()
        self._shorten()

    def sizeHint(self) -> QSize:
        # what has shorter forms gives way before its neighbours do
        form = self._shorter[-1] if self._shorter else self._whole
        width = QFontMetrics(self.font()).horizontalAdvance(form) + 2
        return QSize(width, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(16, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._shorten()

    def _shorten(self) -> None:
        metrics = QFontMetrics(self.font())
        forms = (self._whole, *self._shorter)
        fitting = (form for form in forms if metrics.horizontalAdvance(form) <= self.width())
        shown = metrics.elidedText(next(fitting, forms[-1]), self._mode, self.width())
        if shown == "…" != self._whole:
            # alone it says nothing
            shown = ""
        if shown != self.text():
            self.setText(shown)
            self.setToolTip(plain_tip(self._whole) if shown != self._whole else "")
