"""The bar along the top: the program's name, its workspaces, the device, the theme and help."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon, QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QFrame, QHBoxLayout, QPushButton, QWidget

from engine.catalog import DeviceEntry
from engine.experiment import Precision
from gui.icons import icon
from gui.theme import theme
from gui.widgets import IconButton
from gui.widgets.device_chip import DeviceChip

SIDE_WIDTH = 320
_ROOM_FOR_FACTS, _ROOM_FOR_BAR = 1_080, 1_200
_AT_WORK = ", at work"


class TopBar(QFrame):
    """`workspace_chosen` carries the key of a workspace; the other signals are the buttons'."""

    workspace_chosen = Signal(str)
    welcome_requested = Signal()
    theme_toggled = Signal()
    help_requested = Signal()

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
        help_button = IconButton("help", "Help", "Shortcuts, and where your data lives (F1)")
        help_button.clicked.connect(self.help_requested)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 0, 16, 0)
        row.setSpacing(0)
        row.addWidget(self._name())
        row.addLayout(self._make_tabs(workspaces))
        row.addSpacing(24)
        row.addStretch(1)
        row.addWidget(self.device)
        row.addSpacing(16)
        row.addWidget(self._theme_button)
        row.addSpacing(4)
        row.addWidget(help_button)
        theme().changed.connect(self._recolor)
        self._recolor()

    def set_workspace(self, key: str) -> None:
        """Shows a workspace's tab as the current one, without emitting `workspace_chosen`."""
        self._tabs[key].setChecked(True)

    def set_busy(self, key: str, is_busy: bool) -> None:
        """Marks a workspace's tab while something goes on in it."""
        tab = self._tabs[key]
        self._busy = self._busy | {key} if is_busy else self._busy - {key}
        self._show_busy()
        name = tab.accessibleName().removesuffix(_AT_WORK)
        tab.setAccessibleName(name + _AT_WORK if is_busy else name)

    def set_device(self, device: DeviceEntry) -> None:
        """Shows the device that experiments train on."""
        facts = [f"{device.memory_mib / 1024:.1f} GiB"]
        if device.tensor_cores:
            facts.append("Tensor Cores")
        bf16 = device.precision(Precision.BF16)
        if bf16.available and bf16.note is None:
            facts.append("BF16")
        self.device.set_device(device.title, facts)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        width = event.size().width()
        self.device.set_room(for_facts=width >= _ROOM_FOR_FACTS, for_bar=width >= _ROOM_FOR_BAR)

    def _name(self) -> QWidget:
        self._logo = QPushButton(" Ammeter")
        self._logo.setProperty("kind", "app")
        self._logo.setAccessibleName("Welcome")
        self._logo.setToolTip("Welcome: what Ammeter does, and three ways to begin")
        self._logo.setIconSize(QSize(24, 24))
        self._logo.setCursor(Qt.CursorShape.PointingHandCursor)
        self._logo.clicked.connect(self.welcome_requested)
        holder = QWidget()
        holder.setFixedWidth(SIDE_WIDTH)
        row = QHBoxLayout(holder)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._logo)
        row.addStretch(1)
        return holder

    def _make_tabs(self, workspaces: Sequence[tuple[str, str, str]]) -> QHBoxLayout:
        group = QButtonGroup(self)
        row = QHBoxLayout()
        row.setSpacing(32)
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

    def _show_busy(self) -> None:
        for key, tab in self._tabs.items():
            tab.setIcon(icon("ring", theme().palette.text, 12) if key in self._busy else QIcon())

    def _recolor(self) -> None:
        palette = theme().palette
        self._show_busy()
        self._theme_button.set_icon("moon" if palette.is_dark else "sun")
        self._logo.setIcon(icon("logo", palette.text, 24))
