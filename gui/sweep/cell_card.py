"""The card of a cell that was clicked: its figures, why it has none, and what can be done with it."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QWidget

from engine.sweep.results import CellResult, Results
from gui.sweep.words import facts_of, status_of
from gui.widgets import Button, ElidedLabel, IconButton, set_text
from gui.widgets.answers.answer_page import wrapped
from gui.widgets.boxes import in_column, in_row, wide

_HOLD = ("Hold", "Trains nothing more of this cell until it is released")
_RELEASE = ("Release", "Lets this cell take its turns again")
_HELD = ("held", "failed", "stopped")
_LEAVE_OUT = ("Leave out", "Trains nothing of this cell")
_TAKE_IN = ("Take in", "Trains this cell after all")

_COMPARE = ("Compare with its baseline", "Ticks the runs of both; a click with Ctrl chooses further cells")
_COMPARE_ALL = "Ticks the runs of the chosen cells and opens Results"


class CellCard(QFrame):
    """Hidden until a cell is shown. The signals are the buttons'; the page knows which cell is shown."""

    runs_wanted = Signal()
    comparison_wanted = Signal()
    use_wanted = Signal()
    hold_wanted = Signal(bool)
    leave_out_wanted = Signal(bool)
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "chip")
        self._cell: CellResult | None = None
        self.name = ElidedLabel("", "strong")
        self.status = ElidedLabel("", "hint")
        self.figures = wrapped("", "body")
        self.show_runs = Button("Show its runs", "strip", "Opens the curves of the cell's runs")
        self.compare = Button(_COMPARE[0], "strip", _COMPARE[1])
        self.use = Button("Use these settings", "strip", "Puts the cell's settings into the form")
        self.hold = Button(_HOLD[0], "strip", _HOLD[1])
        self.leave_out = Button(_LEAVE_OUT[0], "strip", _LEAVE_OUT[1])
        close = IconButton("cross", "Close this card", "Close this card")
        buttons = (self.show_runs, self.compare, self.use, self.hold, self.leave_out)
        top = in_row(self.name, wide(self.status), close, spacing=12)
        below = in_row(*buttons, spacing=8)
        below.addStretch(1)
        in_column(top, self.figures, below, parent=self, margins=(12, 6, 6, 10), spacing=6)
        close.clicked.connect(self.closed)
        self.show_runs.clicked.connect(self.runs_wanted)
        self.compare.clicked.connect(self.comparison_wanted)
        self.use.clicked.connect(self.use_wanted)
        self.hold.clicked.connect(lambda: self.hold_wanted.emit(self.hold.text() == _HOLD[0]))
        self.leave_out.clicked.connect(
            lambda: self.leave_out_wanted.emit(self.leave_out.text() == _LEAVE_OUT[0])
        )
        self.hide()

    def show_cell(self, cell: CellResult | None, results: Results | None, chosen: int) -> None:
        """Shows a cell of these results, the last of so many chosen; None hides the card."""
        self._cell = cell
        self.setVisible(cell is not None)
        if cell is None or results is None:
            return
        self.name.set_whole_text(cell.name)
        self.status.set_whole_text(status_of(cell))
        set_text(self.figures, facts_of(cell, results))
        self.figures.setVisible(bool(self.figures.text()))
        self.show_runs.setEnabled(bool(cell.run_ids))
        self.compare.setEnabled(bool(cell.run_ids))
        self._offer(self.compare, _COMPARE if chosen == 1 else (f"Compare {chosen:,} cells", _COMPARE_ALL))
        self._offer(self.hold, _RELEASE if cell.status in _HELD else _HOLD)
        self._offer(self.leave_out, _TAKE_IN if cell.status == "left out" else _LEAVE_OUT)
        self.hold.setEnabled(cell.status not in ("left out", "done"))

    def cell(self) -> CellResult | None:
        return self._cell

    def _offer(self, button: Button, words: tuple[str, str]) -> None:
        text, tip = words
        button.setText(text)
        button.setAccessibleName(text)
        button.setToolTip(tip)
