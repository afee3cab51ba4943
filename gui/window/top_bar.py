"""The top bar: the program's name, the workspaces, the device with its memory in use, theme and help."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QIcon, QPixmap, QResizeEvent
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
from gui.widgets.labels import ElidedLabel, divider, label, plain_tip, set_text
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


_NAME = 112
"""Pixels that the device's name keeps at least."""


class DeviceChip(QFrame):
    """The device's name in bold, facts about it, and its memory in use if known."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "chip")
        self.setFixedHeight(32)
        self._icon = QLabel()
        self._title = ElidedLabel("", "strong")
        self._facts = ElidedLabel("", "body")
        self._divider = divider(vertical=True)
        self._bar = ProgressLine("Memory in use")
        self._bar.setFixedWidth(48)
        self._usage = label("", "body")
        self._has_facts_room = self._has_bar_room = True
        parts = (self._icon, self._title, self._facts, self._divider, self._bar, self._usage)
        in_row(*parts, parent=self, margins=(11, 0, 11, 0), spacing=8)
        self._divider.setFixedHeight(16)
        self.look()
        self.set_usage(None, "")
        theme().changed.connect(self._recolor)
        self._recolor()

    def look(self) -> None:
        """Says that the device is not known yet."""
        self.set_device("Looking at this machine", ())

    def set_device(self, title: str, facts: Sequence[str], tooltip: str = "") -> None:
        """Shows a device, such as "NVIDIA H200" with ("139.8 GiB", "Tensor Cores", "BF16")."""
        self._title.set_whole_text(title)
        # the facts give way first
        self._title.setMinimumWidth(min(_NAME, self._title.sizeHint().width()))
        self._facts.set_whole_text("".join(f"·  {fact}  " for fact in facts).rstrip())
        self._facts.setVisible(self._has_facts_room and bool(facts))
        device = ", ".join((title, *facts))
        self.setAccessibleName(f"Device: {device}")
        self.setToolTip(plain_tip(tooltip or f"Experiments train on: {device}."))

    def set_usage(self, fraction: float | None, text: str) -> None:
        """Shows the memory in use as a fraction and as text ("4.1 GiB in use"); None hides it."""
        known = fraction is not None
        for part in (self._divider, self._usage):
            part.setVisible(known)
        self._bar.setVisible(known and self._has_bar_room)
        if fraction is not None:
            self._bar.set_progress(fraction)
            set_text(self._usage, text)

    def set_room(self, *, for_facts: bool, for_bar: bool) -> None:
        """Leaves out the facts, or the bar, to give the name room."""
        self._has_facts_room, self._has_bar_room = for_facts, for_bar
        self._facts.setVisible(for_facts and bool(self._facts.whole_text()))
        self._bar.setVisible(for_bar and not self._usage.isHidden())

    def _recolor(self) -> None:
        picture: QPixmap = pixmap("chip", theme().palette.text2, 16, self.devicePixelRatioF())
        self._icon.setPixmap(picture)


WORKSPACES = (
    ("train", "Train", "Train, and watch the curves live (Ctrl+1)"),
    ("memory", "Memory limit", "Find the largest batch that fits, on this card or a smaller one (Ctrl+2)"),
    ("compare", "Results", "Everything saved, and what came out of it (Ctrl+3)"),
    ("show", "Show", "Play two runs side by side, for people who do not code (Ctrl+4)"),
    (
        "numerics",
        "Numerics",
        "See which module computes in which precision, and where numbers are lost (Ctrl+5)",
    ),
    ("timing", "Timing", "See where a step's time goes, and what limits it (Ctrl+6)"),
    ("sweep", "Sweep", "Train every combination of several values, or find the fastest settings (Ctrl+7)"),
)
SIDE_WIDTH = 320
_ROOM_FOR_FACTS, _ROOM_FOR_BAR, _ROOM_FOR_NAME = 1_180, 1_200, 1_080
_NARROW_NAME, _LOGO = 136, 40
_PROGRAM = " Ammeter"


class _SideWide(QWidget):
    """As wide as the side column below it where there is room; a fixed width would keep the window wide."""

    def sizeHint(self) -> QSize:
        return QSize(SIDE_WIDTH, super().sizeHint().height())


class TopBar(QFrame):
    """`workspace_chosen` carries the key of a workspace, `help_chosen` that of an entry of Help."""

    workspace_chosen = Signal(str)
    welcome_requested = Signal()
    theme_toggled = Signal()
    help_chosen = Signal(str)

    def __init__(self, workspaces: Sequence[tuple[str, str, str]], parent: QWidget | None = None) -> None:
        """`workspaces` are triples of key, name and tooltip; the first is chosen."""
        super().__init__(parent)
        self.setProperty("surface", "bar")
        self.setFixedHeight(52)
        self._tabs: dict[str, QPushButton] = {}
        self._busy: set[str] = set()
        self.device = DeviceChip()
        self._theme_button = IconButton("moon", "Theme", "Switch between dark and light (Ctrl+T)")
        self._theme_button.clicked.connect(self.theme_toggled)
        self._help_button = IconButton("help", "Help", "Guide (F1), doctor, and versions")
        self._help_button.clicked.connect(self._open_help)
        self.help_menu = HelpMenu(self)
        self.help_menu.chosen.connect(self.help_chosen)
        self._row = in_row(
            self._name(),
            self._make_tabs(workspaces),
            24,
            Stretch(1),
            self.device,
            16,
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
        """Puts a chip to the left of the device's."""
        place = self._row.indexOf(self.device)
        self._row.insertWidget(place, chip)
        self._row.insertSpacing(place + 1, 8)

    def set_workspace(self, key: str) -> None:
        """Shows a workspace's tab as the current one, without emitting `workspace_chosen`."""
        self._tabs[key].setChecked(True)

    def set_busy(self, key: str, is_busy: bool) -> None:
        """Marks a workspace's tab while something is running in it."""
        tab = self._tabs[key]
        self._busy = self._busy | {key} if is_busy else self._busy - {key}
        self._show_busy()
        tab.setAccessibleName(f"Workspace {tab.text()}{', at work' if is_busy else ''}")

    def set_device(self, device: DeviceEntry) -> None:
        """Shows the device that experiments train on."""
        facts = [memory_text(device.memory_mib)]
        if device.tensor_cores:
            facts.append("Tensor Cores")
        bf16 = device.precision(Precision.BF16)
        if bf16.available and bf16.note is None:
            facts.append("BF16")
        self.device.set_device(device.title, facts)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        width = event.size().width()
        is_wide = width >= _ROOM_FOR_FACTS
        # beside the column's edge where there is room for that
        has_name = width >= _ROOM_FOR_NAME
        self._logo.setText(_PROGRAM if has_name else "")
        self._holder.setMinimumWidth(_NARROW_NAME if has_name else _LOGO)
        self._holder.setMaximumWidth(SIDE_WIDTH if is_wide else _NARROW_NAME if has_name else _LOGO)
        self._tab_row.setSpacing(32 if is_wide else 16)
        self.device.set_room(for_facts=is_wide, for_bar=width >= _ROOM_FOR_BAR)

    def _name(self) -> QWidget:
        self._logo = QPushButton(_PROGRAM)
        self._logo.setProperty("kind", "app")
        self._logo.setAccessibleName("Welcome")
        self._logo.setToolTip("Welcome: what Ammeter does, and three ways to begin")
        self._logo.setIconSize(QSize(24, 24))
        self._logo.setCursor(Qt.CursorShape.PointingHandCursor)
        self._logo.clicked.connect(self.welcome_requested)
        self._holder = _SideWide()
        self._holder.setMinimumWidth(_NARROW_NAME)
        in_row(self._logo, Stretch(1), parent=self._holder)
        return self._holder

    def _make_tabs(self, workspaces: Sequence[tuple[str, str, str]]) -> QHBoxLayout:
        group = QButtonGroup(self)
        self._tab_row = row = in_row()
        for key, name, tooltip in workspaces:
            tab = QPushButton(name)
            tab.setProperty("kind", "tab")
            tab.setCheckable(True)
            tab.setToolTip(tooltip)
            tab.setAccessibleName(f"Workspace {name}")
            tab.setCursor(Qt.CursorShape.PointingHandCursor)
            tab.clicked.connect(lambda _checked=False, key=key: self.workspace_chosen.emit(key))
            group.addButton(tab)
            row.addWidget(tab)
            self._tabs[key] = tab
        self._tabs[workspaces[0][0]].setChecked(True)
        return row

    def _open_help(self) -> None:
        button, width = self._help_button, self.help_menu.sizeHint().width()
        self.help_menu.popup(button.mapToGlobal(QPoint(button.width() - width, button.height())))

    def _show_busy(self) -> None:
        for key, tab in self._tabs.items():
            tab.setIcon(icon("ring", theme().palette.text, 12) if key in self._busy else QIcon())

    def _recolor(self) -> None:
        palette = theme().palette
        self._show_busy()
        self._theme_button.set_icon("moon" if palette.is_dark else "sun")
        self._logo.setIcon(icon("logo", palette.text, 24))
