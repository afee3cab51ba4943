"""The table widget that all pages use, sorted, filtered and painted as its columns define."""

from gui.widgets.table.columns import Column, Group, Look
from gui.widgets.table.result_table import FilteredTable, ResultTable

__all__ = ["Column", "FilteredTable", "Group", "Look", "ResultTable"]
