"""Labels: styled and elided text, plain tooltips, and a form field with its label and error."""

from __future__ import annotations

import html
import re

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QSizePolicy, QWidget

from engine.experiment.experiment import Precision
from gui.widgets.boxes import Stretch, Surface, in_column, in_row

_WIDEST = 100


def plain_tip(text: str) -> str:
    """Return a tooltip that shows `text` literally, wrapped. Qt would read a name such as "<h1>" as markup.

    Use it for every tooltip with a name in it. Applying it twice is harmless.
    """
    is_plain = not re.search("<|&lt;", text) and max(map(len, text.split("\n"))) <= _WIDEST
    return text if is_plain or _OWN_TIP.fullmatch(text) else f"{_OWN_START}{html.escape(text)}</p>"


_OWN_START = '<p style="white-space: pre-wrap">'
_OWN_TIP = re.compile(rf"{_OWN_START}[^<]*</p>")


def describe(widget: QWidget, name: str, tooltip: str) -> None:
    """Set a widget's name for screen readers, and its tooltip."""
    widget.setAccessibleName(name)
    widget.setToolTip(tooltip)


def center(page: QWidget, inner: QWidget) -> None:
    """Lay out `page` with `inner` alone in its optical center."""
    # the optical center is a little above the middle
    in_column(Stretch(2), in_row(Stretch(1), inner, Stretch(1)), Stretch(3), parent=page, margins=None)


def label(text: str, role: str, parent: QWidget | None = None, *, wraps: bool = False) -> QLabel:
    """Return a plain-text label whose look is the style sheet's `role`."""
    result = QLabel(text, parent)
    result.setTextFormat(Qt.TextFormat.PlainText)
    result.setWordWrap(wraps)
    result.setProperty("role", role)
    return result


def wrapped(text: str, role: str) -> QLabel:
    """Return a label whose text wraps and can be copied."""
    line = label(text, role, wraps=True)
    line.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return line


def set_text(target: QLabel, text: str) -> None:
    """Set the text only if it changed: setting it would redo the window's layout."""
    if target.text() != text:
        target.setText(text)


def set_property(target: QWidget, name: str, value: object) -> None:
    """Set a dynamic property and apply the style sheet's rules for it."""
    if target.property(name) != value:
        target.setProperty(name, value)
        target.style().unpolish(target)
        target.style().polish(target)


def set_precision(target: QLabel, precision: Precision | None) -> None:
    """Color the text of a widget in the color of a precision. None restores the default color."""
    set_property(target, "precision", "" if precision is None else precision.value)


def divider() -> QFrame:
    """Return a horizontal hairline."""
    return Surface("divider")


_LEAST_SHOWN = 3
"""The letters of an elided text, below which none is shown."""


class ElidedLabel(QLabel):
    """A label that shortens text that does not fit with "…" and shows the full text in a tooltip."""

    def __init__(
        self, text: str = "", role: str = "body", *, mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight
    ) -> None:
        super().__init__()
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
        """Show `text`, or the first of its `shorter` forms that fits, or the last form elided."""
        if (text, shorter) == (self._whole, self._shorter):
            return
        self._whole, self._shorter = text, shorter
        self.setAccessibleName(text)
        self.updateGeometry()
        self._shorten()

    def sizeHint(self) -> QSize:
        # a label with shorter forms gives way before its neighbors do
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
        if shown != self._whole and len(shown.strip("…· ")) < _LEAST_SHOWN:
            # an ellipsis says nothing, alone or behind a letter
            shown = ""
        if shown != self.text():
            self.setText(shown)
            self.setToolTip(plain_tip(self._whole) if shown != self._whole else "")


class Field(QWidget):
    """A control with a label above it, in rows of 64 px: label 16, gap 4, control 32, gap 12.

    A problem is shown as a sentence below the control, or in the label `problem` elsewhere. It is the
    control's description for screen readers.
    """

    def __init__(
        self,
        text: str,
        control: QWidget,
        parent: QWidget | None = None,
        below: QWidget | None = None,
        link: QWidget | None = None,
        problem: QLabel | None = None,
    ) -> None:
        super().__init__(parent)
        self.control = control
        self._label = ElidedLabel(text, "label")
        self._note = label("", "note")
        self._hint = label("", "hint", wraps=True)
        self._hint.hide()
        self._problem = problem or label("", "problem", wraps=True)
        self._problem.hide()
        head = in_row(self._label, Stretch(1), self._note)
        if link is not None:
            head.addWidget(link)
        column = self._column = in_column(head, control, parent=self, spacing=4)
        for line in (below, self._hint, self._problem if problem is None else None):
            if line is not None:
                column.addWidget(line)
        self._label.setFixedHeight(16)
        self._label.setBuddy(control)
        self._head_parts = [part for part in (self._label, self._note, link) if part is not None]
        self._hint_text, self._is_compact = "", False
        column.setContentsMargins(0, 0, 0, 12)
        if not control.accessibleName():
            control.setAccessibleName(text)

    def set_compact(self, is_compact: bool) -> None:
        """Hide the label in a low window, where it is inside the control. A note is then below it."""
        self._is_compact = is_compact
        self._column.setContentsMargins(0, 0, 0, 8 if is_compact else 12)
        for part in self._head_parts:
            part.setHidden(is_compact)
        self._show_hint()

    def set_note(self, text: str) -> None:
        """Set the small text to the right of the label."""
        set_text(self._note, text)
        self._show_hint()

    def note(self) -> str:
        return self._note.text()

    def set_hint(self, text: str) -> None:
        """Set the sentence below the control. "" removes it."""
        self._hint_text = text
        self._show_hint()

    def hint(self) -> str:
        return self._hint_text

    def _show_hint(self) -> None:
        words = [self._note.text()] if self._is_compact else []
        set_text(self._hint, " · ".join(filter(None, (self._hint_text, *words))))
        self._hint.setVisible(bool(self._hint.text()))

    def set_problem(self, sentence: str | None) -> None:
        """Show why the value is wrong. None clears it."""
        if sentence == self.problem():
            return
        set_text(self._problem, sentence or "")
        self._problem.setVisible(bool(sentence))
        self.control.setAccessibleDescription(sentence or "")
        set_property(self.control, "problem", "true" if sentence else "false")

    def problem(self) -> str | None:
        return self._problem.text() or None
