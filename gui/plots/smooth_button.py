"""The button of a plot that says how much it is smoothed, with the slider that changes it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QMenu, QSlider, QToolButton, QWidget, QWidgetAction

from gui.plots.smoothing import WINDOWS, smoothing
from gui.widgets import label, set_text

_TIP = "Over how many steps the noisy curves are smoothed, in all plots; the raw values stay behind"


class SmoothButton(QToolButton):
    """All of these show and change the one smoothing of the program."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "toggle")
        self.setToolTip(_TIP)
        self.setCheckable(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setProperty("kind", "plain")
        self.slider.setRange(0, len(WINDOWS) - 1)
        self.slider.setPageStep(1)
        self.slider.setFixedSize(QSize(150, 20))
        self.slider.setAccessibleName("Smoothing")
        self.slider.setToolTip(_TIP)
        self._steps = label("", "value")
        self._steps.setMinimumWidth(58)
        menu = QMenu(self)
        menu.setAccessibleName("Smoothing")
        action = QWidgetAction(menu)
        action.setDefaultWidget(self._inside())
        menu.addAction(action)
        menu.aboutToShow.connect(self.slider.setFocus)
        self.setMenu(menu)
        self.slider.valueChanged.connect(lambda place: smoothing().set_steps(WINDOWS[place]))
        smoothing().changed.connect(self._show)
        self._show()

    def _inside(self) -> QWidget:
        inside = QWidget()
        row = QHBoxLayout(inside)
        row.setContentsMargins(10, 6, 10, 6)
        row.setSpacing(10)
        row.addWidget(label("Raw", "label"))
        row.addWidget(self.slider)
        row.addWidget(self._steps)
        return inside

    def _show(self) -> None:
        chosen = smoothing()
        self.slider.setValue(WINDOWS.index(chosen.steps))
        set_text(self._steps, f"{chosen.steps} steps" if chosen.steps else "raw")
        self.setText(chosen.words())
        self.setAccessibleName(f"Smoothing: {self._steps.text()}")
        self.setChecked(chosen.steps > 0)
