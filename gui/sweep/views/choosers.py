"""Rows of combo boxes: which axes, figures and values a picture shows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from gui.widgets import ComboBox, label
from gui.widgets.boxes import in_row

_LEAST_WIDTH = 84


class Chooser(QWidget):
    """A titled combo box; `changed` is emitted when the user chooses another entry."""

    changed = Signal()

    def __init__(self, title: str, tooltip: str) -> None:
        super().__init__()
        self.box = ComboBox()
        self.box.setProperty("small", "true")
        self.box.setFixedHeight(28)
        self.box.setMinimumWidth(_LEAST_WIDTH)
        self.box.setSizeAdjustPolicy(ComboBox.SizeAdjustPolicy.AdjustToContents)
        self.box.setAccessibleName(title)
        self.box.setToolTip(tooltip)
        self.box.activated.connect(self.changed)
        self._keys: list[Hashable] = []
        in_row(label(title, "legend"), self.box, parent=self, spacing=6)

    def offer(self, entries: Sequence[tuple[Hashable, str]], usual: Hashable) -> None:
        """Offers these keys with their texts; what was chosen stays, or else `usual` is chosen."""
        keys, texts = [key for key, _ in entries], [text for _, text in entries]
        if keys == self._keys and texts == [self.box.itemText(place) for place in range(self.box.count())]:
            # its list may be open
            return
        wanted = self.key() if self._keys and self.key() in keys else usual
        self._keys = keys
        self.box.clear()
        self.box.addItems(texts)
        self.choose(wanted)

    def choose(self, key: Hashable) -> None:
        """Chooses an entry, without `changed`; an unknown one changes nothing."""
        if key in self._keys:
            self.box.setCurrentIndex(self._keys.index(key))

    def key(self) -> Hashable:
        """The chosen key; None without entries."""
        place = self.box.currentIndex()
        return self._keys[place] if 0 <= place < len(self._keys) else None


def chooser_row(*choosers: QWidget) -> QHBoxLayout:
    """Choosers side by side, from the left."""
    row = in_row(*choosers, spacing=12)
    row.addStretch(1)
    return row
