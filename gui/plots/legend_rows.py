"""A legend of as many rows as its entries need, so that many sides of a comparison can be told apart."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from gui.plots.legend import Entry, LegendRow

_MOST_ROWS = 5


class LegendRows(QWidget):
    """Rows of `LegendRow`; the first also says where the values were read off."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._entries: tuple[Entry, ...] = ()
        self._place = ""
        self._rows: list[LegendRow] = []
        self._need: tuple[tuple[str, ...], int] = ((), 0)
        self._count = 1
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(12, 0, 12, 4)
        self._column.setSpacing(0)
        self._add_row()

    def show_values(self, entries: Sequence[Entry], place: str) -> None:
        """Shows the entries, and at the right of the first row where they were read off ("step 96")."""
        self._entries, self._place = tuple(entries), place
        self._share_out()

    def entries(self) -> tuple[Entry, ...]:
        return self._entries

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_out()

    def _share_out(self) -> None:
        need = (tuple(entry.name for entry in self._entries), self.width())
        if need != self._need:
            # not at every move of the pointer: rows that come and go would make the plot jump
            self._need = need
            self._count = next((rows for rows in range(1, _MOST_ROWS) if self._fits(rows)), _MOST_ROWS)
        count = self._count
        each = -(-len(self._entries) // count)
        while len(self._rows) < count:
            self._add_row()
        for number, row in enumerate(self._rows):
            row.setVisible(number < count)
            part = self._entries[number * each : (number + 1) * each]
            row.show_values(part, self._place if number == 0 else "")

    def _fits(self, rows: int) -> bool:
        each = -(-len(self._entries) // rows)
        parts = (self._entries[first : first + each] for first in range(0, len(self._entries), each or 1))
        room = self.width() - 24
        return all(LegendRow.room_for(part, self._place) <= room for part in parts)

    def _add_row(self) -> None:
        row = LegendRow()
        self._rows.append(row)
        self._column.addWidget(row)
