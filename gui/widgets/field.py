"""A field of a form: label, control, and under it the reason when its value is wrong."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from gui.widgets.labels import label, set_property, set_text


class Field(QWidget):
    """A labelled control on the form's pitch of 64: label 16, gap 4, control 32, gap 12.

    The problem line takes room only while there is a problem; the same sentence goes to the control's
    accessible description.
    """

    def __init__(self, text: str, control: QWidget, note: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.control = control
        self._tooltip: str | None = None
        self._label = label(text, "label")
        self._note = label(note, "note")
        self._hint = label("", "hint")
        self._hint.setWordWrap(True)
        self._hint.hide()
        self._problem = label("", "problem")
        self._problem.setWordWrap(True)
        self._problem.hide()
        head = QHBoxLayout()
        head.setContentsMargins(0, 0, 0, 0)
        head.addWidget(self._label)
        head.addStretch(1)
        head.addWidget(self._note)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 12)
        column.setSpacing(4)
        column.addLayout(head)
        column.addWidget(control)
        column.addWidget(self._hint)
        column.addWidget(self._problem)
        self._label.setFixedHeight(16)
        self._label.setBuddy(control)
        if not control.accessibleName():
            control.setAccessibleName(text)

    def set_label(self, text: str) -> None:
        set_text(self._label, text)

    def set_note(self, text: str) -> None:
        """The small text at the right of the label."""
        set_text(self._note, text)

    def set_hint(self, text: str) -> None:
        """A sentence under the control; empty for none."""
        set_text(self._hint, text)
        self._hint.setVisible(bool(text))

    def hint(self) -> str:
        return self._hint.text()

    def set_problem(self, sentence: str | None) -> None:
        """Shows why the value is wrong, or clears it."""
        set_text(self._problem, sentence or "")
        self._problem.setVisible(bool(sentence))
        self.control.setAccessibleDescription(sentence or "")
        set_property(self.control, "problem", "true" if sentence else "false")

    def problem(self) -> str | None:
        return self._problem.text() or None
