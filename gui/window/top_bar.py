"""The top bar: the program's name, the places, what runs, the device with its memory in use, theme, help."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QPixmap, QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QFrame, QHBoxLayout, QLabel, QPushButton, QWidget

from engine import Later
from engine.experiment.checks import DeviceEntry
from engine.experiment.experiment import Precision
from engine.experiment.value import BYTES_PER_MIB
from engine.words.numbers import memory_text
from gui.theme.icons import icon, pixmap
from gui.theme.theme import theme
from gui.widgets import IconButton
from gui.widgets.bars import ProgressLine
from gui.widgets.boxes import Stretch, in_row
from gui.widgets.labels import ElidedLabel, label, plain_tip
from gui.window.activity import ActivityChip
from gui.window.help_menu import HelpMenu

if TYPE_CHECKING:
    import psutil
else:
    psutil = Later("psutil")

_log = logging.getLogger(__name__)
_EVERY_MS = 2_000


class DeviceMemory(QObject):
    """Reads every other second how much of the device's memory all programs use.

    `read` carries the fraction (0 to 1; None if unknown) and its text.
    """

    read = Signal(object, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._device: DeviceEntry | None = None
        self._timer = QTimer(self, interval=_EVERY_MS)
        self._timer.timeout.connect(self._read)

    def start(self, device: DeviceEntry) -> None:
        """Starts reading the memory of this device."""
        self._device = device
        self._read()
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()

    def _read(self) -> None:
        assert self._device is not None
        used = _gpu_used_bytes(self._device.name) if self._device.is_gpu else _system_used_bytes()
        if used is None:
            self._timer.stop()
            self.read.emit(None, "")
            return
        fraction = used / (self._device.memory_mib * BYTES_PER_MIB)
        self.read.emit(min(fraction, 1.0), f"{memory_text(used / BYTES_PER_MIB)} in use")


def _system_used_bytes() -> int:
    memory = psutil.virtual_memory()
    return int(memory.total - memory.available)


def _gpu_used_bytes(name: str) -> int | None:
    kind, _, number = name.partition(":")
    if kind != "cuda":
        return None
    # imported only with a card: it would be a twentieth of the window's start
    import pynvml

    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(int(number or 0))
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    except pynvml.NVMLError as error:
        _log.info("The driver does not say how much memory is in use: %s", error)
        return None


_NAME = 72
"""Pixels that the device's name keeps at least."""
_MAKERS = ("NVIDIA ", "GeForce ", "AMD ", "Radeon ", "Intel(R) ", "Intel ")


class DeviceChip(QFrame):
    """The device's name in bold, facts about it, and a bar of its memory in use if known."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "chip")
        self.setFixedHeight(32)
        self._icon = QLabel()
        self._title = ElidedLabel("", "strong")
        self._facts = label("", "legend")
        self._bar = ProgressLine("Memory in use")
        self._bar.setFixedWidth(48)
        self._about, self._device, self._is_brief = "", "", False
        parts = (self._icon, self._title, self._facts, self._bar)
        in_row(*parts, parent=self, margins=(11, 0, 11, 0), spacing=8)
        self.look()
        self.set_usage(None, "")
        theme().changed.connect(self._recolor)
        self._recolor()

    def look(self) -> None:
        """Says that the device is not known yet."""
        self.set_device("Looking at this machine", ())

    def set_device(self, title: str, facts: Sequence[str], tooltip: str = "") -> None:
        """Shows a device, such as "NVIDIA H200" with ("139.8 GiB",)."""
        self._device = title
        self._show_title()
        self._facts.setText("  ".join(f"· {fact}" for fact in facts))
        self._facts.setVisible(bool(facts))
        device = ", ".join((title, *facts))
        self._about = tooltip or f"Experiments train on: {device}."
        self.setAccessibleName(f"Device: {device}")
        self.setToolTip(plain_tip(self._about))

    def set_brief(self, is_brief: bool) -> None:
        """Leaves out the maker, in a narrow window."""
        self._is_brief = is_brief
        self._show_title()

    def _show_title(self) -> None:
        shown = self._device
        for maker in _MAKERS if self._is_brief else ():
            shown = shown.removeprefix(maker)
        self._title.set_whole_text(shown)
        self._title.setMinimumWidth(min(_NAME, self._title.sizeHint().width()))

    def set_usage(self, fraction: float | None, text: str) -> None:
        """Shows the memory in use as a fraction and as text ("4.1 GiB in use"); None hides it."""
        self._bar.setVisible(fraction is not None)
        self._bar.set_progress(fraction or 0.0)
        self.setAccessibleDescription(text)
        self.setToolTip(plain_tip(f"{self._about} {text}".strip()))

    def _recolor(self) -> None:
        picture: QPixmap = pixmap("chip", theme().palette.text2, 16, self.devicePixelRatioF())
        self._icon.setPixmap(picture)


PLACES = (
    ("experiment", "Experiment", "Ask something of this machine, and watch the answer come (Ctrl+1)"),
    ("results", "Results", "Everything that was measured, to compare, export and use again (Ctrl+2)"),
    ("show", "Show", "Play two runs side by side, for people who do not code (Ctrl+3)"),
)
SIDE_WIDTH = 320
_ROOM_FOR_NAMES, _ROOM_FOR_LOGO = 1_280, 1_000
_NARROW_SIDE, _LOGO = 304, 40
_PROGRAM = " Ammeter"


class _SideWide(QWidget):
    """As wide as the side column below it where there is room; a fixed width would keep the window wide."""

    def sizeHint(self) -> QSize:
        return QSize(SIDE_WIDTH, super().sizeHint().height())


class TopBar(QFrame):
    """`place_chosen` carries the key of a place, `help_chosen` that of an entry of Help."""

    place_chosen = Signal(str)
    welcome_requested = Signal()
    theme_toggled = Signal()
    help_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "bar")
        self.setFixedHeight(52)
        self._tabs: dict[str, QPushButton] = {}
        self.device, self.activity = DeviceChip(), ActivityChip()
        self._theme_button = IconButton("moon", "Theme", "Switch between dark and light (Ctrl+T)")
        self._theme_button.clicked.connect(self.theme_toggled)
        self._help_button = IconButton("help", "Help", "Guide (F1), doctor, and versions")
        self._help_button.clicked.connect(self._open_help)
        self.help_menu = HelpMenu(self)
        self.help_menu.chosen.connect(self.help_chosen)
        self._row = in_row(
            self._name(),
            self._make_tabs(),
            16,
            Stretch(1),
            self.activity,
            8,
            self.device,
            12,
            self._theme_button,
            4,
            self._help_button,
            parent=self,
            margins=(16, 0, 16, 0),
            spacing=0,
        )
        theme().changed.connect(self._recolor)
        self._recolor()

    def add_chip(self, chip: QWidget) -> None:
        """Puts a chip to the left of the others."""
        place = self._row.indexOf(self.activity)
        self._row.insertWidget(place, chip)
        self._row.insertSpacing(place + 1, 8)

    def set_place(self, key: str) -> None:
        """Shows a place's tab as the current one, without emitting `place_chosen`."""
        self._tabs[key].setChecked(True)

    def set_device(self, device: DeviceEntry) -> None:
        """Shows the device that experiments train on."""
        facts = [memory_text(device.memory_mib)]
        bf16 = device.precision(Precision.BF16)
        able = [
            *(["Tensor Cores"] if device.tensor_cores else []),
            *(["BF16"] if bf16.available and bf16.note is None else []),
        ]
        whole = ", ".join((device.title, *facts, *able))
        self.device.set_device(device.title, facts, f"Experiments train on: {whole}.")

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
        self.activity.set_brief(not is_wide)
        self.device.set_brief(not is_wide)

    def _name(self) -> QWidget:
        self._logo = QPushButton(_PROGRAM)
        self._logo.setProperty("kind", "app")
        self._logo.setAccessibleName("Welcome")
        self._logo.setToolTip("Welcome: what Ammeter does, and three ways to begin")
        self._logo.setIconSize(QSize(24, 24))
        self._logo.setCursor(Qt.CursorShape.PointingHandCursor)
        self._logo.clicked.connect(self.welcome_requested)
        self._holder = _SideWide()
        in_row(self._logo, Stretch(1), parent=self._holder)
        return self._holder

    def _make_tabs(self) -> QHBoxLayout:
        group = QButtonGroup(self)
        self._tab_row = row = in_row()
        for key, name, tooltip in PLACES:
            tab = QPushButton(name)
            tab.setProperty("kind", "tab")
            tab.setCheckable(True)
            tab.setToolTip(tooltip)
            tab.setAccessibleName(name)
            tab.setCursor(Qt.CursorShape.PointingHandCursor)
            tab.clicked.connect(lambda _checked=False, key=key: self.place_chosen.emit(key))
            group.addButton(tab)
            row.addWidget(tab)
            self._tabs[key] = tab
        self._tabs[PLACES[0][0]].setChecked(True)
        return row

    def _open_help(self) -> None:
        button, width = self._help_button, self.help_menu.sizeHint().width()
        self.help_menu.popup(button.mapToGlobal(QPoint(button.width() - width, button.height())))

    def _recolor(self) -> None:
        palette = theme().palette
        self._theme_button.set_icon("moon" if palette.is_dark else "sun")
        self._logo.setIcon(icon("logo", palette.text, 24))
