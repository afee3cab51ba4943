"""The window with all cells of the form's sweep: their values, their memory, and why some are left out."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QWidget

from engine.experiment.sweep import Axis
from engine.words.numbers import NONE, memory_text
from gui.setup.grid.survey import Survey
from gui.setup.grid.words import left_out_words, plan_words
from gui.widgets import Button, label
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import GROWS

_SIZE = (720, 520)


class GridDialog(QDialog):
    """All cells of a sweep in a table; those left out are struck out."""

    def __init__(self, survey: Survey, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Cells of the sweep")
        self.resize(*_SIZE)
        self.table = ResultTable("Cells of the sweep", _columns(survey))
        assert survey.grid is not None
        self.table.show_rows(range(len(survey.grid.cells)))
        about = label("\n".join(filter(None, (plan_words(survey), left_out_words(survey)))), "hint")
        about.setWordWrap(True)
        close = Button("Close", "secondary", "Close this window (Escape)")
        close.clicked.connect(self.close)
        in_column(about, wide(self.table), in_row(Stretch(), close), parent=self, margins=16, spacing=12)


def _columns(survey: Survey) -> list[Column[int]]:
    """The columns for the numbers of the cells."""
    grid, fit = survey.grid, survey.fit
    assert grid is not None
    cells = grid.cells

    def of_axis(place: int, axis: Axis) -> Column[int]:
        return Column(
            axis.title,
            lambda cell: axis.text(cells[cell].places[place]),
            lambda cell: cells[cell].places[place],
            width=70,
            widest=240,
            look=lambda cell: Look(ink="text3", is_struck=True) if cell in fit.why else Look(),
        )

    def memory(cell: int) -> str:
        needed = fit.needed_mib.get(cell)
        return NONE if needed is None else memory_text(needed)

    def faint(cell: int) -> Look:
        return Look(ink="text3") if cell in fit.why else Look()

    return [
        *(of_axis(place, axis) for place, axis in enumerate(grid.axes)),
        Column("Memory", memory, fit.needed_mib.get, width=84, is_number=True, look=faint),
        Column("Left out because", lambda cell: fit.why.get(cell, ""), width=120, widest=GROWS, look=faint),
    ]
