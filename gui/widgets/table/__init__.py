"""The table widget that all pages use, sorted, filtered and painted as its columns define."""

from gui.widgets.table.columns import Column, ColumnGroup, Look
from gui.widgets.table.result_table import FilteredTable, ResultTable

__all__ = ["Column", "ColumnGroup", "FilteredTable", "Look", "ResultTable"]
