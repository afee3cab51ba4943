"""The chip in the top bar that names the device, its facts and how much of its memory is in use."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QWidget

from gui.icons import pixmap
from gui.theme import theme
from gui.tips import plain_tip
from gui.widgets.labels import ElidedLabel, divider, label, set_text
from gui.widgets.progress_line import ProgressLine

_NAME = 112
"""Pixels that the device's name keeps where there is little room."""


class DeviceChip(QFrame):
    """Device title in bold, facts separated by dots, and a usage bar where the usage is known."""

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
        row = QHBoxLayout(self)
        row.setContentsMargins(11, 0, 11, 0)
        row.setSpacing(8)
        for part in (self._icon, self._title, self._facts, self._divider, self._bar, self._usage):
            row.addWidget(part)
        self._divider.setFixedHeight(16)
        self.set_device("Looking at this machine", ())
        self.set_usage(None, "")
        theme().changed.connect(self._recolor)
        self._recolor()

    def set_device(self, title: str, facts: Sequence[str], tooltip: str = "") -> None:
        """Names the device, such as "NVIDIA H200" with ("139.8 GiB", "Tensor Cores", "BF16")."""
        self._title.set_whole_text(title)
        # the facts give way first
        self._title.setMinimumWidth(min(_NAME, self._title.sizeHint().width()))
        self._facts.set_whole_text("".join(f"·  {fact}  " for fact in facts).rstrip())
        self._facts.setVisible(self._has_facts_room and bool(facts))
        spoken = ", ".join((title, *facts))
        self.setAccessibleName(f"Device: {spoken}")
        self.setToolTip(tooltip or plain_tip(f"Where experiments train: {spoken}."))

    def set_usage(self, fraction: float | None, text: str) -> None:
        """How full the device's memory is (0 to 1) and in words, such as "4.1 GiB in use"; None hides it."""
        known = fraction is not None
        for part in (self._divider, self._usage):
            part.setVisible(known)
        self._bar.setVisible(known and self._has_bar_room)
        if fraction is not None:
            self._bar.set_progress(fraction)
            set_text(self._usage, text)

    def set_room(self, *, for_facts: bool, for_bar: bool) -> None:
        """Leaves the facts out, or the bar whose words stand beside it, so that the name has room."""
        self._has_facts_room, self._has_bar_room = for_facts, for_bar
        self._facts.setVisible(for_facts and bool(self._facts.whole_text()))
        self._bar.setVisible(for_bar and not self._usage.isHidden())

    def _recolor(self) -> None:
        picture: QPixmap = pixmap("chip", theme().palette.text2, 16, self.devicePixelRatioF())
        self._icon.setPixmap(picture)
