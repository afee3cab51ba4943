"""The view of the ladder: losses by step, where the rungs part from FP32, and their errors by module."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from engine.protocol.numerics.nonfinite import module_title
from engine.protocol.numerics.numerics import Ladder, Rung
from engine.words.numbers import NONE
from gui.numerics.ladder.errors import ErrorTable
from gui.widgets import ElidedLabel, label, set_text
from gui.widgets.boxes import Placed, Stretch, in_column, in_row, wide
from gui.widgets.labels import breakable
from gui.widgets.messages import OfferedView
from gui.widgets.shortcuts import tab_after
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import FAINT, GROWS, PLAIN, number_column

if TYPE_CHECKING:
    from gui.numerics.ladder.plot import LadderPlot


_ABOUT = (
    "Each rung trains the same model from the same weights on the same batches; only its precision differs."
)
_NARROW_SIDE, _WIDE_SIDE, _NARROW = 264, 372, 860


class LadderView(OfferedView):
    """`wanted` asks for the ladder."""

    def __init__(self) -> None:
        super().__init__(
            "From which step on does a precision part from FP32?",
            "FP32 several times, FP16 without and with loss scaler, and BF16, from the same weights and on "
            "the same batches: where the losses part, and at which module.",
            "Run the ladder",
            "Trains the form's experiment for some steps in each precision",
        )
        self.sentence, self.notes, self.rung_sentence = (
            label("", role, wraps=True) for role in ("strong", "hint", "body")
        )
        self.errors, self.rungs = ErrorTable(), RungTable()
        self.rungs.chosen.connect(self._show_rung)
        self._errors_of = ElidedLabel("", "unit")
        self._side = self._make_side()
        self.addWidget(self._body())
        self.show_ladder(None)

    @cached_property
    def plot(self) -> LadderPlot:
        """Made with the first ladder: it would slow the window's start."""
        from gui.numerics.ladder.plot import LadderPlot

        plot = LadderPlot()
        self._left.insertWidget(0, plot, 1)
        tab_after(self.empty, plot)
        return plot

    def show_ladder(self, ladder: Ladder | None) -> None:
        """Shows the ladder; None says what there would be to see."""
        self.show_page(is_known=ladder is not None)
        if ladder is None:
            return
        set_text(self.sentence, ladder.sentence)
        set_text(self.notes, breakable("\n".join(ladder.notes)))
        self.notes.setVisible(bool(ladder.notes))
        self._side.setVisible(bool(ladder.rungs))
        self.plot.show_ladder(ladder)
        self.rungs.show_ladder(ladder)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._side.setFixedWidth(_NARROW_SIDE if event.size().width() < _NARROW else _WIDE_SIDE)

    def _body(self) -> QWidget:
        body = QWidget()
        rungs = QFrame()
        rungs.setProperty("surface", "panel")
        in_column(self.rungs, parent=rungs, margins=1)
        self._left = in_column(rungs, spacing=8)
        head = in_column(self.sentence, ElidedLabel(_ABOUT, "hint"), spacing=2)
        in_column(
            head,
            wide(in_row(wide(self._left), self._side, spacing=8)),
            parent=body,
            margins=(0, 8, 0, 0),
            spacing=8,
        )
        return body

    def _make_side(self) -> QWidget:
        side = QFrame()
        side.setProperty("surface", "panel")
        head = in_row(
            label("Errors by module", "panelTitle"), wide(self._errors_of), margins=(11, 10, 11, 0), spacing=8
        )
        inner, words = QWidget(), QScrollArea()
        in_column(self.rung_sentence, self.notes, Stretch(1), parent=inner, margins=(11, 0, 11, 8), spacing=6)
        words.setWidgetResizable(True)
        words.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        words.setAccessibleName("The chosen rung in words")
        words.setWidget(inner)
        in_column(head, Placed(self.errors, 3), Placed(words, 2), parent=side, margins=1, spacing=8)
        return side

    def _show_rung(self, rung: Rung) -> None:
        self._errors_of.set_whole_text(f"{rung.label}, first step")
        set_text(self.rung_sentence, breakable(rung.sentence))
        self.errors.show_rung(rung)
        self.plot.show_band(rung)


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
