"""The header of a plot: title, unit, the toggles Log and Follow, and the smoothing."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from gui.plots.smooth_button import SmoothButton
from gui.widgets.buttons import Button
from gui.widgets.labels import ElidedLabel, label, set_text

_HIGH, _LOW = 42, 28


class PlotHeader(QWidget):
    """44 px high. `changed` is emitted when Log is switched, `follow_switched` for Follow."""

    changed = Signal()
    follow_switched = Signal(bool)

    def __init__(
        self, title: str, unit: str, smooths: bool, can_log: bool, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._title = label(title, "panelTitle")
        self._unit = ElidedLabel(unit, "unit")
        row = QHBoxLayout(self)
        row.setContentsMargins(11, 0, 11, 0)
        row.setSpacing(4)
        row.addWidget(self._title)
        row.addSpacing(4)
        row.addWidget(self._unit, 1)
        self.set_compact(False)
        self.log = Button("Log", "toggle", "Show the values on a logarithmic axis")
        self.follow = Button(
            "Follow",
            "toggle",
            "Keep the whole run in view. Drag a plot, or turn the wheel over it (with Ctrl where the page "
            "scrolls), to look closer; double-click to return",
        )
        for button in (self.log, self.follow):
            button.setAccessibleName(f"{title}: {button.text()}")
        row.addWidget(self.log)
        if smooths:
            row.addWidget(SmoothButton())
        row.addWidget(self.follow)
        self.log.setVisible(can_log)
        self.follow.setChecked(True)
        self.log.toggled.connect(self.changed)
        self.follow.toggled.connect(self.follow_switched)

    def set_title(self, title: str, unit: str) -> None:
        set_text(self._title, title)
        self._unit.set_whole_text(unit)

    def set_compact(self, compact: bool) -> None:
        """Gives up height where the plot is low."""
        self.setFixedHeight(_LOW if compact else _HIGH)

    def set_follow(self, follow: bool) -> None:
        """Sets the toggle without emitting `follow_switched`."""
        self.follow.blockSignals(True)
        self.follow.setChecked(follow)
        self.follow.blockSignals(False)
