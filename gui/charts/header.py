"""The headers of a plot and of an overlay: title, unit, toggles, and the smoothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon, QResizeEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QMenu,
    QSizePolicy,
    QSlider,
    QSpacerItem,
    QWidget,
    QWidgetAction,
)

from engine.drawing.looks import By
from gui.charts.lines import Quantity
from gui.charts.smoothing import WINDOWS, smoothing
from gui.theme.icons import icon
from gui.theme.theme import theme
from gui.widgets.buttons import Button, ComboBox
from gui.widgets.labels import ElidedLabel, label, set_text

_TIP = "Over how many steps the noisy curves are smoothed, in all plots; the raw values stay behind"
_ICON = 14


class SmoothButton(Button):
    """Shows and changes the smoothing, which all plots share."""

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


_QUANTITIES = (
    ("loss", "Loss", "Show the training loss"),
    ("accuracy", "Accuracy", "Show the accuracy of validation"),
)
_BRIEF_TITLES: Mapping[Quantity, str] = {"loss": "Loss", "accuracy": "Acc."}
_BYS = (
    ("step", "Steps", "Lay the curves by training step"),
    ("seconds", "Time", "Lay the curves by seconds since each run began"),
    ("samples", "Samples", "Lay the curves by the samples trained on"),
)


_NARROW = 520


class OverlayHeader(QWidget):
    """`changed` says that another quantity or another axis was chosen."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title, self._unit = ElidedLabel("", "panelTitle"), ElidedLabel("", "unit")
        self._unit.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._whole_title = ""
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 10, 12, 6)
        row.setSpacing(4)
        row.addWidget(self._title)
        row.addSpacing(4)
        row.addWidget(self._unit, 1)
        self.smooth = SmoothButton()
        self._gaps = QSpacerItem(12, 0), QSpacerItem(12, 0)
        row.addWidget(self.smooth)
        row.addItem(self._gaps[0])
        self._quantities = self._toggles(row, _QUANTITIES)
        row.addItem(self._gaps[1])
        self._bys = self._toggles(row, _BYS)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = event.size().width() < _NARROW
        self.smooth.set_brief(is_narrow)
        self._show_title()
        for gap in self._gaps:
            gap.changeSize(4 if is_narrow else 12, 0)

    @property
    def quantity(self) -> Quantity:
        return cast(Quantity, _QUANTITIES[self._quantities.checkedId()][0])

    @property
    def by(self) -> By:
        return cast(By, _BYS[self._bys.checkedId()][0])

    def choose(self, *, quantity: Quantity | None = None, by: By | None = None) -> None:
        """Chooses as a click does."""
        for group, choices, wanted in ((self._quantities, _QUANTITIES, quantity), (self._bys, _BYS, by)):
            if wanted is not None:
                group.button([key for key, *_ in choices].index(wanted)).click()

    def set_words(self, title: str, unit: str) -> None:
        self._whole_title = title
        self._show_title()
        self._unit.set_whole_text(unit)

    def _show_title(self) -> None:
        is_narrow = self.width() < _NARROW
        self._title.set_whole_text(_BRIEF_TITLES[self.quantity] if is_narrow else self._whole_title)

    def set_quantity_known(self, quantity: Quantity, is_known: bool) -> None:
        """True if any of the runs has it."""
        self._quantities.button([key for key, *_ in _QUANTITIES].index(quantity)).setEnabled(is_known)

    def _toggles(self, row: QHBoxLayout, choices: Sequence[tuple[str, str, str]]) -> QButtonGroup:
        group = QButtonGroup(self)
        for number, (_key, text, tip) in enumerate(choices):
            button = Button(text, "toggle", tip)
            button.setChecked(number == 0)
            group.addButton(button, number)
            row.addWidget(button)
        group.idToggled.connect(self._tell)
        return group

    def _tell(self, _number: int, is_chosen: bool) -> None:
        if is_chosen:
            self.changed.emit()


_HIGH, _LOW = 42, 28


class PlotHeader(QWidget):
    """44 px high. `changed` is emitted when Log is switched, `follow_switched` for Follow.

    Where its title is a menu of plots, `other_chosen` carries the place of another one.
    """

    changed = Signal()
    follow_switched = Signal(bool)
    other_chosen = Signal(int)

    def __init__(
        self, title: str, unit: str, smooths: bool, can_log: bool, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._title = label(title, "panelTitle")
        self._unit = ElidedLabel(unit, "unit")
        self._row = row = QHBoxLayout(self)
        row.setContentsMargins(11, 0, 11, 0)
        row.setSpacing(4)
        self.others = ComboBox()
        self.others.setAccessibleName("Plot")
        self.others.setProperty("small", "true")
        self.others.setToolTip("Show another plot in this place")
        self.others.hide()
        self.others.activated.connect(self.other_chosen)
        row.addWidget(self._title)
        row.addWidget(self.others)
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

    def add_toggle(self, toggle: Button) -> None:
        """Puts another toggle before Log."""
        self._row.insertWidget(self._row.indexOf(self.log), toggle)
        # the order of Tab follows that of the children
        toggle.stackUnder(self.log)

    def offer_others(self, titles: Sequence[str], place: int) -> None:
        """Makes the title a menu of plots, of which that at `place` is shown; a title again without any."""
        self._title.setVisible(not titles)
        self.others.setVisible(bool(titles))
        if [self.others.itemText(row) for row in range(self.others.count())] != list(titles):
            self.others.clear()
            self.others.addItems(titles)
        self.others.setCurrentIndex(place)

    def title(self) -> str:
        return self._title.text()

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
