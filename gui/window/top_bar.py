"""The top bar: the program's name, places, current job, device with memory in use, theme and help."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QMenu, QPushButton, QWidget

from engine.experiment.checks import DeviceEntry
from engine.experiment.experiment import Precision
from engine.words.numbers import memory_text
from gui.theme.icons import icon
from gui.theme.theme import theme
from gui.widgets import IconButton
from gui.widgets.actions import PLACES, connect_button, keys_of
from gui.widgets.boxes import Stretch, Surface, in_row
from gui.window.chips import Activity, ActivityChip, DeviceChip

_HELPS = ("help", "log", "engine", "doctor", "about")
SIDE_WIDTH = 320
_ROOM_FOR_NAMES, _ROOM_FOR_LOGO = 1_280, 1_000
_NARROW_SIDE, _LOGO = 304, 40
_PROGRAM = " Ammeter"


class _SideWide(QWidget):
    """A widget as wide as the side column below it, if there is room."""

    def sizeHint(self) -> QSize:
        return QSize(SIDE_WIDTH, super().sizeHint().height())


class TopBar(Surface):
    """The bar at the top of the window, 52 px high: pages, current job, device and menus."""

    def __init__(self, actions: Mapping[str, QAction], parent: QWidget | None = None) -> None:
        super().__init__("bar", parent=parent)
        self._actions = actions
        self.setFixedHeight(52)
        self._tabs: dict[str, QPushButton] = {}
        self.device, self.activity = DeviceChip(), ActivityChip()
        self._theme_button = IconButton("moon", actions["theme"].text())
        connect_button(self._theme_button, actions["theme"])
        tip = f"Guide ({keys_of('help')}), doctor and versions"
        self._help_button = IconButton("help", "Help", tip, do=self._open_help)
        self.help_menu = QMenu(self)
        self.help_menu.setAccessibleName("Help")
        self.help_menu.addActions([actions[name] for name in _HELPS])
        chips = (self.activity, 8, self.device, 12, self._theme_button, 4, self._help_button)
        parts = (self._name(), self._make_tabs(), 16, Stretch(1), *chips)
        self._row = in_row(*parts, parent=self, margins=(16, 0, 16, 0), spacing=0)
        theme().changed.connect(self._recolor)
        self._recolor()

    def add_chip(self, chip: QWidget) -> None:
        """Put a chip to the left of the others."""
        place = self._row.indexOf(self.activity)
        self._row.insertWidget(place, chip)
        self._row.insertSpacing(place + 1, 8)

    def show_activity(self, activity: Activity) -> None:
        """Show the current job."""
        self.activity.show_activity(activity)
        self._shorten()

    def set_place(self, key: str) -> None:
        """Show a place's tab as the current one."""
        self._tabs[key].setChecked(True)

    def set_device(self, device: DeviceEntry) -> None:
        """Show the device of the current machine that experiments train on."""
        facts = [memory_text(device.memory_mib)]
        bf16 = device.precision(Precision.BF16)
        able = [
            *(["Tensor Cores"] if device.tensor_cores else []),
            *(["BF16"] if bf16.available and bf16.note is None else []),
        ]
        whole = ", ".join((device.title, *facts, *able))
        self.device.set_device(device.title, facts, f"Experiments train on: {whole}.")
        self._shorten()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        width = event.size().width()
        is_wide = width >= _ROOM_FOR_NAMES
        # beside the column's edge where there is room for that
        side = SIDE_WIDTH if is_wide else _NARROW_SIDE if width >= _ROOM_FOR_LOGO else _LOGO
        self._logo.setText(_PROGRAM if side > _LOGO else "")
        self._holder.setMinimumWidth(_LOGO)
        self._holder.setMaximumWidth(side)
        self._tab_row.setSpacing(32 if is_wide else 24)
        self._shorten()

    def _shorten(self) -> None:
        # a bar without room for all would take it from the places too, which would move with every job
        chips = (self.device, self.activity)
        for chip in chips:
            chip.set_brief(self.width() < _ROOM_FOR_NAMES)
        for chip in chips:
            if self._row.sizeHint().width() > self.width():
                chip.set_brief(True)

    def _name(self) -> QWidget:
        self._logo = QPushButton(_PROGRAM)
        self._logo.setProperty("kind", "app")
        self._logo.setAccessibleName(self._actions["welcome"].text())
        self._logo.setIconSize(QSize(24, 24))
        self._logo.setCursor(Qt.CursorShape.PointingHandCursor)
        connect_button(self._logo, self._actions["welcome"])
        self._holder = _SideWide()
        in_row(self._logo, Stretch(1), parent=self._holder)
        return self._holder

    def _make_tabs(self) -> QHBoxLayout:
        group = QButtonGroup(self)
        self._tab_row = row = in_row()
        for place in PLACES:
            tab = QPushButton()
            tab.setProperty("kind", "tab")
            tab.setCheckable(True)
            connect_button(tab, self._actions[place.name], shows_text=True)
            tab.setCursor(Qt.CursorShape.PointingHandCursor)
            group.addButton(tab)
            row.addWidget(tab)
            self._tabs[place.name] = tab
        self._tabs[PLACES[0].name].setChecked(True)
        return row

    def _open_help(self) -> None:
        button, width = self._help_button, self.help_menu.sizeHint().width()
        self.help_menu.popup(button.mapToGlobal(QPoint(button.width() - width, button.height())))

    def _recolor(self) -> None:
        palette = theme().palette
        self._theme_button.set_icon("moon" if palette.is_dark else "sun")
        self._logo.setIcon(icon("logo", palette.text, 24))
