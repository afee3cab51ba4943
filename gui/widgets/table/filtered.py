"""A table below a filter, which says how many of its rows are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from PySide6.QtWidgets import QWidget

from engine.words.numbers import counted
from gui.widgets.boxes import Part, Stretch, in_column, in_row, wide
from gui.widgets.filter_edit import FilterEdit
from gui.widgets.labels import label, set_text
from gui.widgets.table.columns import Row
from gui.widgets.table.result_table import ResultTable


class FilteredTable(QWidget, Generic[Row]):
    """`before` and `after` stand beside the filter of the `table`, whose rows are each a `noun`."""

    def __init__(
        self,
        table: ResultTable[Row],
        noun: str,
        tip: str,
        *,
        before: tuple[Part, ...] = (),
        after: tuple[Part, ...] = (),
    ) -> None:
        super().__init__()
        self.table = table
        self._noun, self._none, self._nothing_passes = noun, "", ""
        self._keeps: Callable[[Row], bool] | None = None
        self.filter = FilterEdit(f"Filter {noun}s", tip)
        self._count = label("", "legend")
        self.filter.textChanged.connect(self._filter)
        head = in_row(*before, self.filter, *after, Stretch(1), self._count, spacing=12)
        in_column(head, wide(table), parent=self, margins=(0, 8, 0, 0), spacing=8)

    def keep(self, keeps: Callable[[Row], bool] | None, nothing_passes: str = "") -> None:
        """Shows only the rows that `keeps` says; `nothing_passes` is said where there are none of them."""
        self._keeps, self._nothing_passes = keeps, nothing_passes
        self._filter()

    def tell(self, none: str, noun: str = "") -> None:
        """Says how many rows there are, and `none` where there is not one; `noun` is that of other rows."""
        self._none, self._noun = none, noun or self._noun
        shown, count = len(self.table.rows()), len(self.table.row_model.given)
        of_all = counted(count, self._noun)
        set_text(self._count, of_all if shown == count else f"{shown:,} of {of_all}")
        nothing_passes = self._nothing_passes or f"No {self._noun} passes the filter."
        self.table.set_empty(nothing_passes if count else none)

    def count_text(self) -> str:
        """The number of rows, and of those shown."""
        return self._count.text()

    def _filter(self) -> None:
        self.table.set_filter(self.filter.text(), self._keeps)
        self.tell(self._none)
