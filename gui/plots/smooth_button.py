"""The button of a plot that says how much it is smoothed, with the slider that changes it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QHBoxLayout, QMenu, QSlider, QWidget, QWidgetAction

from gui.icons import icon
from gui.plots.smoothing import WINDOWS, smoothing
from gui.theme import theme
from gui.widgets import Button, label, set_text

_TIP = "Over how many steps the noisy curves are smoothed, in all plots; the raw values stay behind"
_ICON = 14


class SmoothButton(Button):
    """All of these show and change the one smoothing of the program."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", "toggle", _TIP, parent=parent)
        self.setIconSize(QSize(_ICON, _ICON))
        self._is_brief = False
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setProperty("kind", "plain")
        self.slider.setRange(0, len(WINDOWS) - 1)
        self.slider.setPageStep(1)
        self.slider.setFixedSize(QSize(150, 20))
        self.slider.setAccessibleName("Smoothing")
        self.slider.setToolTip(_TIP)
        self._steps = label("", "value")
        self._steps.setMinimumWidth(58)
        self.menu_of_slider = QMenu(self)
        self.menu_of_slider.setAccessibleName("Smoothing")
        action = QWidgetAction(self.menu_of_slider)
        action.setDefaultWidget(self._inside())
        self.menu_of_slider.addAction(action)
        self.menu_of_slider.aboutToShow.connect(self.slider.setFocus)
        self.slider.valueChanged.connect(lambda place: smoothing().set_steps(WINDOWS[place]))
        self.clicked.connect(self._open)
        smoothing().changed.connect(self._show)
        theme().changed.connect(self._show)
        self._show()

    def set_brief(self, is_brief: bool) -> None:
        """Where there is no room for its word, a sign stands for it."""
        if is_brief != self._is_brief:
            self._is_brief = is_brief
            self._show()

    def _open(self) -> None:
        # the press switched it over, which only the slider does
        self._show()
        self.menu_of_slider.popup(self.mapToGlobal(self.rect().bottomLeft()))

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
        has_sign = self._is_brief and chosen.steps > 0
        self.slider.setValue(WINDOWS.index(chosen.steps))
        set_text(self._steps, f"{chosen.steps} steps" if chosen.steps else "raw")
        self.setText(str(chosen.steps) if has_sign else chosen.words())
        self.setIcon(icon("smooth", theme().palette.text, _ICON) if has_sign else QIcon())
        self.setAccessibleName(f"Smoothing: {self._steps.text()}")
        self.setChecked(chosen.steps > 0)
