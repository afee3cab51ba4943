"""The headers of a plot and of an overlay: title, unit, toggles, and the smoothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QIcon, QResizeEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QMenu,
    QSizePolicy,
    QSlider,
    QWidget,
    QWidgetAction,
)

from engine.drawing.looks import By
from gui.charts.lines import Quantity
from gui.charts.smoothing import WINDOWS, smoothing
from gui.theme.icons import icon
from gui.theme.theme import theme
from gui.widgets.boxes import Part, in_row, wide
from gui.widgets.buttons import Button, ComboBox
from gui.widgets.labels import ElidedLabel, describe, label, plain_tip, set_property, set_text

_TIP = "Smooth noisy curves over this many steps, in all plots. Raw values stay visible."
_ICON = 14


class SmoothButton(Button):
    """A button to choose how strongly curves are smoothed, in all plots at once."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", "toggle", _TIP, parent=parent)
        self.setIconSize(QSize(_ICON, _ICON))
        self._is_brief = False
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setProperty("kind", "plain")
        self.slider.setRange(0, len(WINDOWS) - 1)
        self.slider.setPageStep(1)
        self.slider.setFixedSize(QSize(150, 20))
        describe(self.slider, "Smoothing", _TIP)
        self._steps = label("", "value")
        self._steps.setMinimumWidth(58)
        self.menu_of_slider = QMenu(self)
        self.menu_of_slider.setAccessibleName("Smoothing")
        action, inside = QWidgetAction(self.menu_of_slider), QWidget()
        in_row(
            label("Raw", "label"), self.slider, self._steps, parent=inside, margins=(10, 6, 10, 6), spacing=10
        )
        action.setDefaultWidget(inside)
        self.menu_of_slider.addAction(action)
        self.menu_of_slider.aboutToShow.connect(self.slider.setFocus)
        self.slider.valueChanged.connect(lambda place: smoothing().set_steps(WINDOWS[place]))
        self.clicked.connect(self._open)
        smoothing().changed.connect(self._show)
        theme().changed.connect(self._show)
        self._show()

    def set_brief(self, is_brief: bool) -> None:
        """Set whether an icon replaces the text, where there is little room."""
        if is_brief != self._is_brief:
            self._is_brief = is_brief
            self._show()

    def _open(self) -> None:
        # the press switched it over, which only the slider does
        self._show()
        self.menu_of_slider.popup(self.mapToGlobal(self.rect().bottomLeft()))

    def _show(self) -> None:
        steps = smoothing().steps
        has_sign = self._is_brief and steps > 0
        self.slider.setValue(WINDOWS.index(steps))
        set_text(self._steps, f"{steps} steps" if steps else "raw")
        self.setText(str(steps) if has_sign else f"Smooth {steps}" if steps else "Raw")
        self.setIcon(icon("smooth", theme().palette.text, _ICON) if has_sign else QIcon())
        self.setAccessibleName(f"Smoothing: {self._steps.text()}")
        self.setChecked(steps > 0)


_QUANTITIES: Mapping[Quantity, str] = {
    "loss": "Training loss",
    "accuracy": "Validation accuracy",
    "throughput": "Throughput",
    "memory": "Memory in use",
}
_BYS = (
    ("step", "Steps", "Plot the curves by training step"),
    ("seconds", "Time", "Plot the curves by seconds since each run started"),
    ("samples", "Samples", "Plot the curves by number of training samples"),
)
_NARROW = 520
_LEAST_MENU, _AROUND_CHOICE = 104, 60


class OverlayHeader(QWidget):
    """The header of a plot of saved runs: choosers of the quantity and of the x axis.

    `changed` is emitted when the user chooses another one.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._known: tuple[Quantity, ...] = ("loss",)
        self.quantities = ComboBox()
        self.quantities.setProperty("small", "true")
        self.quantities.addItem(_QUANTITIES["loss"])
        describe(self.quantities, "Quantity", "Choose what to plot")
        self.quantities.activated.connect(lambda _place: self.changed.emit())
        self._unit = ElidedLabel("", "unit")
        self._unit.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.smooth = SmoothButton()
        parts = (self.quantities, 4, wide(self._unit), self.smooth, 8)
        row = in_row(*parts, parent=self, margins=(12, 10, 12, 6), spacing=4)
        self._bys = QButtonGroup(self)
        for number, (_key, text, tip) in enumerate(_BYS):
            button = Button(text, "toggle", tip)
            button.setChecked(number == 0)
            self._bys.addButton(button, number)
            row.addWidget(button)
        self._bys.idToggled.connect(lambda _number, is_chosen: self.changed.emit() if is_chosen else None)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.smooth.set_brief(event.size().width() < _NARROW)

    @property
    def quantity(self) -> Quantity:
        return self._known[self.quantities.currentIndex()]

    @property
    def by(self) -> By:
        return cast(By, _BYS[self._bys.checkedId()][0])

    def choose(self, *, quantity: Quantity | None = None, by: By | None = None) -> None:
        """Choose a quantity and an axis, like a click. Raises ValueError for a quantity that no run has."""
        if quantity is not None:
            self.quantities.setCurrentIndex(self._known.index(quantity))
            self.changed.emit()
        if by is not None:
            self._bys.button([key for key, *_ in _BYS].index(by)).click()

    def set_unit(self, unit: str) -> None:
        self._unit.set_whole_text(unit)

    def set_known(self, quantities: Iterable[Quantity]) -> None:
        """Set the quantities that any run has. The loss is always offered, and replaces a missing one."""
        found = {"loss", *quantities}
        known = tuple(name for name in _QUANTITIES if name in found)
        if known == self._known:
            return
        chosen, self._known = self.quantity, known
        self.quantities.clear()
        self.quantities.addItems([_QUANTITIES[name] for name in known])
        self.quantities.setCurrentIndex(known.index(chosen) if chosen in known else 0)


_HIGH, _LOW = 42, 28
_FOLLOW = (
    "Keep the whole run in view. Drag a plot or turn the wheel over it (with Ctrl on a scrolling page) to "
    "zoom. Double-click to reset."
)


class PlotHeader(QWidget):
    """The header of a live plot: title, unit and toggles. `changed` is emitted when Log is switched.

    `follow_switched` is emitted when Follow is switched. If the title is a menu of plots, `other_chosen`
    carries the index of the plot that the user chose.
    """

    changed = Signal()
    follow_switched = Signal(bool)
    other_chosen = Signal(int)

    def __init__(self, title: str, unit: str, can_log: bool) -> None:
        super().__init__()
        self._title, self._unit = label(title, "panelTitle"), ElidedLabel(unit, "unit")
        self.others = ComboBox()
        self.others.setAccessibleName("Plot")
        self.others.setProperty("small", "true")
        self.others.setToolTip("Show another plot here")
        self.others.hide()
        self.others.activated.connect(self.other_chosen)
        self.log = Button("Log", "toggle", "Use a logarithmic axis")
        self.follow = Button("Follow", "toggle", _FOLLOW)
        for button in (self.log, self.follow):
            button.setAccessibleName(f"{title}: {button.text()}")
        self._note = label("", "note")
        self._note.hide()
        self._is_plain = False
        parts: tuple[Part, ...] = (
            self._title,
            self.others,
            4,
            wide(self._unit),
            self._note,
            self.log,
            self.follow,
        )
        in_row(*parts, parent=self, margins=(11, 0, 11, 0), spacing=4)
        self.set_compact(False)
        self.log.setVisible(can_log)
        self.follow.setChecked(True)
        self.log.toggled.connect(self.changed)
        self.follow.toggled.connect(self.follow_switched)

    def set_plain(self) -> None:
        """Hide the toggles, for pages with a single set of toggles for all plots."""
        self._is_plain = True
        self.log.hide()
        self.follow.hide()

    def show_follow(self, is_shown: bool) -> None:
        self.follow.setVisible(is_shown and not self._is_plain)

    def set_note(self, words: str, tip: str, is_strong: bool) -> None:
        """Show words at the right: a ratio, which is strong, or a remark."""
        set_text(self._note, words)
        set_property(self._note, "role", "ratio" if is_strong else "note")
        self._note.setToolTip(plain_tip(tip))
        self._note.setVisible(bool(words))

    def note(self) -> str:
        return self._note.text()

    def offer_others(self, titles: Sequence[str], place: int) -> None:
        """Make the title a menu of plots, with the plot at `place` chosen. Without any it is a title."""
        self._title.setVisible(not titles)
        self.others.setVisible(bool(titles))
        if [self.others.itemText(row) for row in range(self.others.count())] != list(titles):
            self.others.clear()
            self.others.addItems(titles)
        self.others.setCurrentIndex(place)
        words = self.others.fontMetrics().horizontalAdvance(self.others.currentText())
        self.others.setMinimumWidth(max(_LEAST_MENU, words + _AROUND_CHOICE))

    def title(self) -> str:
        return self._title.text()

    def set_title(self, title: str, unit: str, *briefly: str) -> None:
        """Set the title and the unit, with shorter forms of the unit."""
        set_text(self._title, title)
        self._unit.set_whole_text(unit, *briefly)

    def set_compact(self, compact: bool) -> None:
        """Set whether the header is lower, for a low plot."""
        self.setFixedHeight(_LOW if compact else _HIGH)

    def set_follow(self, follow: bool) -> None:
        """Set the toggle without emitting `follow_switched`."""
        with QSignalBlocker(self.follow):
            self.follow.setChecked(follow)
