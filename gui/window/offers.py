"""The solid button: in the page while that is empty, else in the foot of the form."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QPushButton, QWidget

from gui.setup.panel import SetupPanel


class Offers(QObject):
    """Has the buttons of empty pages say and do what the form's button does.

    They are hidden while that is disabled; while one of them is in sight, the form's is no solid one.
    """

    def __init__(self, setup: SetupPanel, parent: QObject) -> None:
        super().__init__(parent)
        self._setup = setup
        self._buttons: list[QPushButton] = []
        self._watched: list[QWidget] = []
        setup.run_action.changed.connect(self._follow)

    def take(self, buttons: Iterable[QPushButton]) -> None:
        """Takes over buttons of empty pages."""
        for button in buttons:
            self._buttons.append(button)
            self.watch(button)
        self._follow()

    def watch(self, solid: QWidget) -> None:
        """Takes note of what has, or is, a solid button of its own."""
        self._watched.append(solid)
        solid.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Show, QEvent.Type.Hide):
            self._setup.foot.set_page_offers(any(solid.isVisible() for solid in self._watched))
        return super().eventFilter(watched, event)

    def _follow(self) -> None:
        action = self._setup.run_action
        for button in self._buttons:
            button.setText(action.text())
            button.setAccessibleName(action.text())
            button.setToolTip(action.toolTip())
            button.setVisible(action.isEnabled())
