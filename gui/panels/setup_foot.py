"""The foot of the setup panel: what the button will do, the one big button, and the queue's."""

from __future__ import annotations

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from gui.panels.setup_need import NeedLine
from gui.widgets import Button, IconButton, label, set_text


class SetupFoot(QFrame):
    """Two buttons that follow the panel's actions; a disabled one tells its reason in line and tip."""

    def __init__(self, run: QAction, queue: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "foot")
        self._run, self._queue = run, queue
        self.need = NeedLine()
        self.line = label("", "label")
        self.line.setWordWrap(True)
        self.run_button = Button("Train", "primary", "")
        self.queue_button = Button("Add to queue", "secondary", "")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 16, 16, 16)
        layout.setSpacing(8)
        layout.addWidget(self.need)
        layout.addWidget(self.line)
        layout.addSpacing(4)
        layout.addWidget(self.run_button)
        layout.addWidget(self.queue_button)
        for button, action in ((self.run_button, run), (self.queue_button, queue)):
            button.clicked.connect(action.trigger)
            action.changed.connect(self._follow)
        self._follow()

    def show_line(self, text: str) -> None:
        """What pressing the button will do, or why it cannot be pressed."""
        set_text(self.line, text)

    def _follow(self) -> None:
        for button, action in ((self.run_button, self._run), (self.queue_button, self._queue)):
            button.setText(action.text())
            button.setAccessibleName(action.text())
            button.setToolTip(action.toolTip())
            button.setEnabled(action.isEnabled())


def button_for(action: QAction, icon: str, name: str, parent: QWidget) -> IconButton:
    """An icon that triggers an action and follows it."""
    # without a parent it would be shown as a window of its own for a moment
    button = IconButton(icon, name, parent=parent)

    def follow() -> None:
        button.setEnabled(action.isEnabled())
        button.setToolTip(action.toolTip())
        button.setVisible(action.isVisible())

    button.clicked.connect(action.trigger)
    action.changed.connect(follow)
    follow()
    return button
