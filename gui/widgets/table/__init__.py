"""The one table of the window: columns that say how a row is written, sorted, explained and painted."""

from gui.widgets.table.columns import Column, Group, Look
from gui.widgets.table.result_table import FilteredTable, ResultTable

__all__ = ["Column", "FilteredTable", "Group", "Look", "ResultTable"]
