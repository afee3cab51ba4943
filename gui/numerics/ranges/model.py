"""The ranges of a model's modules as the rows of a table, with the share that each format would lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, Qt

from engine.protocol.numerics.formats import SMALL_FORMATS, Exponents, NumberFormat
from engine.words.numbers import NONE, share_text
from gui.numerics.ranges.words import fate_sentence
from gui.widgets.labels import plain_tip
from gui.widgets.tables import LEFT, RIGHT, Index

MODULE, PICTURE, FIRST_FORMAT = range(3)


@dataclass(frozen=True, eq=False)
class RangeRow:
    """A module's histogram, and what its precision has lost. The row of all modules together stays on top."""

    name: str
    exponents: Exponents
    own_loss: str = ""
    is_all: bool = False


def lost_share(exponents: Exponents, form: NumberFormat, exponent: int) -> float:
    """The share that a format would round to 0 or make infinite of the numbers times 2**exponent."""
    return exponents.underflow_fraction(form, exponent) + exponents.overflow_fraction(form, exponent)


class RangeModel(QAbstractTableModel):
    """The rows, their numbers taken times 2**`exponent`."""

    def __init__(self) -> None:
        super().__init__()
        self._given: tuple[RangeRow, ...] = ()
        self._rows: list[RangeRow] = []
        self._sorted: tuple[int, Qt.SortOrder] = (-1, Qt.SortOrder.AscendingOrder)
        self.exponent = 0
        self.form = SMALL_FORMATS[0]

    def show_rows(self, rows: Sequence[RangeRow], exponent: int) -> None:
        """Shows these rows in the order that is chosen."""
        self._given, self.exponent = tuple(rows), exponent
        self.sort(*self._sorted)

    def set_exponent(self, exponent: int) -> None:
        """Takes the numbers times another power of two; the order stays, so that no row jumps away."""
        self.exponent = exponent
        self._tell_changed()

    def set_form(self, form: NumberFormat) -> None:
        """Emphasises another format."""
        self.form = form
        self._tell_changed()

    def row(self, number: int) -> RangeRow:
        return self._rows[number]

    def number_of(self, name: str, *, is_all: bool) -> int:
        """The place of a module; 0 without it."""
        rows = (place for place, row in enumerate(self._rows) if (row.name, row.is_all) == (name, is_all))
        return next(rows, 0)

    def exponents(self, number: int) -> Exponents:
        """A row's histogram at the chosen scale."""
        return self._rows[number].exponents.shifted(self.exponent)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self._sorted = (column, order)
        self.beginResetModel()
        modules = [row for row in self._given if not row.is_all]
        if column >= 0:
            modules.sort(key=lambda row: self._key(row, column), reverse=order != Qt.SortOrder.AscendingOrder)
        self._rows = [row for row in self._given if row.is_all] + modules
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - as Qt declares it
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else FIRST_FORMAT + len(SMALL_FORMATS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return ("Module", "", *(form.label for form in SMALL_FORMATS))[section]
            case Qt.ItemDataRole.TextAlignmentRole:
                return (LEFT if section < FIRST_FORMAT else RIGHT) | Qt.AlignmentFlag.AlignBottom
            case Qt.ItemDataRole.ToolTipRole:
                return _heading_tip(section)
            case Qt.ItemDataRole.InitialSortOrderRole if section >= FIRST_FORMAT:
                return Qt.SortOrder.DescendingOrder
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, column = self._rows[index.row()], index.column()
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return self.text(index.row(), column)
            case Qt.ItemDataRole.ToolTipRole if column == MODULE:
                return plain_tip(row.name)
            case Qt.ItemDataRole.ToolTipRole if column >= FIRST_FORMAT:
                form = SMALL_FORMATS[column - FIRST_FORMAT]
                return f"{form.label}: {fate_sentence(self.exponents(index.row()), form)}"
        return None

    def text(self, number: int, column: int) -> str:
        """What stands in a cell; empty for a histogram."""
        row = self._rows[number]
        if column == MODULE:
            return row.name
        if column == PICTURE:
            return ""
        if not row.exponents.finite:
            return NONE
        return share_text(lost_share(row.exponents, SMALL_FORMATS[column - FIRST_FORMAT], self.exponent))

    def _key(self, row: RangeRow, column: int) -> Any:
        if column == MODULE:
            return row.name
        exponents = row.exponents
        if column == PICTURE:
            weighted = sum(place * count for place, count in enumerate(exponents.counts, exponents.first))
            return weighted / (exponents.finite or 1)
        return lost_share(exponents, SMALL_FORMATS[column - FIRST_FORMAT], self.exponent)

    def _tell_changed(self) -> None:
        if self._rows:
            last = self.index(len(self._rows) - 1, self.columnCount() - 1)
            self.dataChanged.emit(self.index(0, PICTURE), last)


def _heading_tip(section: int) -> str:
    if section == MODULE:
        return "Sort by name; a third click returns to the model's order"
    if section == PICTURE:
        return "Sort by the mean exponent; a third click returns to the model's order"
    label = SMALL_FORMATS[section - FIRST_FORMAT].label
    return f"The share of a module's numbers that {label} would round to 0 or make infinite"
