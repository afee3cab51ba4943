"""The rows of a timing's table as Qt's model, sorted and filtered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import Qt

from engine.protocol.timing.bar import StepPart
from engine.protocol.timing.timing import Timing
from engine.timing.columns import NAME, Column, columns_of, count_text, ms_text
from engine.timing.names import part_phrase, side_names
from engine.timing.tables import SideRow, Table, side_rows
from engine.words.numbers import share_text
from gui.widgets.labels import plain_tip
from gui.widgets.tables import Index, TableModel, in_order

_NO_COLUMN = -1


class RowsModel(TableModel):
    """The kernels, operations or modules of a timing. It sorts by itself: a proxy asks for pairs of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.timing = Timing()
        self.columns: tuple[Column, ...] = ()
        self._given: tuple[SideRow, ...] = ()
        self._rows: Sequence[SideRow] = ()
        self._text = ""
        self._part: StepPart | None = None
        self._sorted_by: tuple[str, int | None] | None = None
        self._order = Qt.SortOrder.AscendingOrder

    def rows(self) -> Sequence[SideRow]:
        return self._rows

    @property
    def count(self) -> int:
        """How many rows there are, shown or not."""
        return len(self._given)

    def show_table(self, timing: Timing, table: Table) -> None:
        """Shows a table of a timing, filtered as before, and sorted as before where its columns allow."""
        self.beginResetModel()
        self.timing = timing
        self._given = side_rows(timing, table)
        self.columns = columns_of(timing, table, self._given)
        self.headings = tuple(column.heading for column in self.columns)
        self.tips = {place: plain_tip(column.tip) for place, column in enumerate(self.columns)}
        self.right = range(NAME + 1, len(self.columns))
        self._rows = self._in_order()
        self.endResetModel()

    def set_filter(self, text: str, part: StepPart | None) -> None:
        """Keeps the rows whose name, or launching operation, has the text, and those of the part."""
        if (text, part) != (self._text, self._part):
            self.beginResetModel()
            self._text, self._part = text, part
            self._rows = self._in_order()
            self.endResetModel()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sorts by a column; -1 brings the longest to the top."""
        self.layoutAboutToBeChanged.emit()
        self._sorted_by = self._key(column) if 0 <= column < len(self.columns) else None
        self._order = order
        self._rows = self._in_order()
        self.layoutChanged.emit()

    def sorted_column(self) -> int:
        """The column that the rows are sorted by; -1 for none."""
        places = (place for place in range(len(self.columns)) if self._key(place) == self._sorted_by)
        return next(places, _NO_COLUMN)

    def line(self, row: int) -> tuple[str, ...]:
        """A row as text."""
        return tuple(column.text(self._rows[row]) for column in self.columns)

    def titles(self) -> tuple[str, ...]:
        """The headings with the names of their sides: "FP32 ms"."""
        names = side_names(self.timing) if len(self.timing.sides) > 1 else ()
        return tuple(
            f"{names[column.side]} {column.heading}" if names and column.side is not None else column.heading
            for column in self.columns
        )

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, column = self._rows[index.row()], index.column()
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return self.columns[column].text(row)
            case Qt.ItemDataRole.TextAlignmentRole:
                return self.alignment(column)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self._tip(row))
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        match role:
            case Qt.ItemDataRole.TextAlignmentRole:
                return self.alignment(section) | Qt.AlignmentFlag.AlignBottom
            case Qt.ItemDataRole.AccessibleTextRole:
                return self.titles()[section]
            case Qt.ItemDataRole.InitialSortOrderRole if section != NAME:
                return Qt.SortOrder.DescendingOrder
        return super().headerData(section, orientation, role)

    def _key(self, column: int) -> tuple[str, int | None]:
        return self.columns[column].heading, self.columns[column].side

    def _in_order(self) -> Sequence[SideRow]:
        rows: Sequence[SideRow] = self._given
        if self._part is not None:
            rows = [row for row in rows if any(cell.part is self._part for cell in row.known)]
        if self._text:
            text = self._text.lower()
            rows = [row for row in rows if _has(row, text)]
        column = self.sorted_column()
        if column == _NO_COLUMN:
            return rows
        return in_order(rows, self.columns[column].value, self._order)

    def _tip(self, row: SideRow) -> str:
        lines = [row.name]
        names = side_names(self.timing)
        for name, side, cell in zip(names, self.timing.sides, row.cells, strict=True):
            if cell is None or side.profile is None:
                continue
            calls = f"{count_text(cell.calls)} call{'' if cell.calls == 1 else 's'}"
            share = side.profile.share_of_step(cell)
            facts = [f"{ms_text(cell.ms)} ms", calls]
            if share is not None:
                facts.insert(1, f"{share_text(share)} of the step")
            facts.append(part_phrase(cell.part, side.profile))
            if cell.format is not None:
                facts.append(f"in {cell.format.upper()}")
            if cell.operation is not None:
                facts.append(f"launched by {cell.operation}")
            if cell.backward_ms is not None:
                facts.append(f"{ms_text(cell.backward_ms)} ms of it backward")
            words = ", ".join(facts)
            lines.append(f"{name}: {words}" if len(names) > 1 else words)
        return "\n".join(lines)


def _has(row: SideRow, text: str) -> bool:
    return text in row.name.lower() or any(text in (cell.operation or "").lower() for cell in row.known)
