"""The table of rungs: where each parts from FP32, and its sentence."""

from __future__ import annotations

from PySide6.QtCore import Signal

from engine.protocol.numerics.ladder import Ladder, Rung
from engine.protocol.numerics.precision_map import module_title
from engine.words.numbers import NONE
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import FAINT, GROWS, PLAIN, number_column

_COLUMNS: tuple[Column[Rung], ...] = (
    Column(
        "Rung",
        lambda rung: rung.label,
        tip="One precision, from the same weights and on the same batches as FP32",
        width=140,
        look=lambda rung: Look(mark=rung.precision),
    ),
    number_column(
        "Parts at step",
        lambda rung: rung.parts_at,
        "{:,}".format,
        "The first step whose loss, and those after it, lie outside of FP32's band",
        width=92,
        absent="never",
        look=lambda rung: FAINT if rung.parts_at is None else Look(600),
    ),
    Column(
        "First module",
        lambda rung: NONE if rung.first_module is None else module_title(rung.first_module),
        tip="The first module of the forward pass whose output parts from FP32's, in one step from equal "
        "weights",
        widest=GROWS,
        look=lambda rung: FAINT if rung.first_module is None else PLAIN,
    ),
    number_column(
        "Skipped",
        lambda rung: rung.skipped,
        "{:,}".format,
        "How often the loss scaler skipped a step, which is then made again at the lower scale",
        width=66,
    ),
)


class RungTable(ResultTable[Rung]):
    """`chosen` carries a rung when another is chosen."""

    chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__(
            "Rungs",
            _COLUMNS,
            key=lambda rung: rung.label,
            about=lambda rung: rung.sentence or rung.label,
            selects_one=True,
            whole=True,
        )
        self.selected.connect(self._tell)

    def show_ladder(self, ladder: Ladder) -> None:
        """Shows the rungs, the first of those that part chosen."""
        self.show_rows(ladder.rungs)
        parted = (place for place, rung in enumerate(self.rows()) if rung.parts_at is not None)
        if ladder.rungs:
            self.clearSelection()
            self.selectRow(next(parted, 0))

    def _tell(self, rungs: tuple[Rung, ...]) -> None:
        for rung in rungs:
            self.chosen.emit(rung)
