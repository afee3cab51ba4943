"""The table widget of the window. Columns define the text, order, tooltip and painting of rows."""

from gui.widgets.table.columns import Column, Group, Look
from gui.widgets.table.result_table import FilteredTable, ResultTable

__all__ = ["Column", "FilteredTable", "Group", "Look", "ResultTable"]
