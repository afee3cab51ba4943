"""The largest batches of a search: the ratio, a bar for each precision, and the verification."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QWidget

from engine.experiment.experiment import Precision
from engine.limit.driver import DEFAULT_MARGIN
from engine.limit.result import recommended_batch
from engine.protocol.trials import Limit, LimitSide
from engine.words.numbers import NONE, times
from gui.limit.trials import device_title, recommendation, short_verification, verification
from gui.theme.theme import theme
from gui.widgets import Button, ComboBox, ElidedLabel, Marker, label, set_precision, set_text
from gui.widgets.boxes import Stretch, Surface, grid_of, in_column, in_row, wide
from gui.widgets.labels import describe, plain_tip

_MARGINS = (0, 5, 10, 15, 20, 30)
_NOTHING_YET = "The largest batch in each precision will appear here, with the trials that verify it."


class AnswerBar(QWidget):
    """A bar for a precision's largest batch, as a `fraction` of the largest of all precisions."""

    def __init__(self, precision: Precision, fraction: float) -> None:
        super().__init__()
        self._precision, self._fraction = precision, fraction
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(12)

    def sizeHint(self) -> QSize:
        return QSize(80, 12)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme().palette.look(self._precision).color))
        painter.drawRoundedRect(QRectF(0, 0, self.width() * self._fraction, self.height()), 2, 2)
        painter.end()


class ResultPanel(Surface):
    """The largest batch of each precision and whether it was verified by training.

    `use_requested` carries a batch size to put into the form.
    """

    use_requested = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("panel", parent=parent)
        self._view: Limit | None = None
        self._multiple = 1
        self._on_gpu = True
        self._title = label("Result", "panelTitle")
        self.margin = ComboBox()
        self.margin.setProperty("small", "true")
        describe(self.margin, "Margin", "Choose how much memory the recommended batch leaves free")
        for percent in _MARGINS:
            self.margin.addItem(f"{percent}% margin" if percent else "no margin", percent / 100)
        self.set_margin(DEFAULT_MARGIN)
        self.margin.currentIndexChanged.connect(lambda _index: self._refresh())
        self._ratio = label("", "answer")
        self._what = label("", "strong")
        self._against = label("", "legend")
        self.words = label("", "body", wraps=True)
        self._short = ElidedLabel("", "body")
        self._is_dense = False
        self._rows = QWidget()
        self._lay_out()
        self._refresh()

    def show_view(self, view: Limit | None, *, on_gpu: bool) -> None:
        """Show the result so far."""
        self._view, self._on_gpu = view, on_gpu
        self._refresh()

    def set_dense(self, is_dense: bool) -> None:
        """Show the verification in one line, and in full in the tooltip, where height is scarce."""
        if is_dense != self._is_dense:
            self._is_dense = is_dense
            self._refresh()

    def set_multiple(self, multiple: int) -> None:
        """Set the divisor of the recommended batch."""
        if multiple != self._multiple:
            self._multiple = multiple
            self._refresh()

    def margin_fraction(self) -> float:
        return float(self.margin.currentData())

    def set_margin(self, fraction: float) -> None:
        """Choose the margin if it is offered."""
        row = self.margin.findData(fraction)
        if row >= 0:
            self.margin.setCurrentIndex(row)

    def stops(self) -> list[QWidget]:
        """The focusable widgets, in tab order."""
        return [self.margin, *self._rows.findChildren(Button)]

    def _refresh(self) -> None:
        view = self._view
        title = "Result" if view is None else f"Result on {device_title(view, self._on_gpu)}"
        set_text(self._title, title)
        has_trials = view is not None and view.trial_count > 0
        self._large.setVisible(view is not None and view.ratio is not None)
        if view is not None and view.ratio is not None and view.best is not None:
            set_text(self._ratio, f"{times(view.ratio)}×")
            set_text(self._what, "the batch size")
            set_text(self._against, f"{view.best.label} vs. {view.baseline.label}")
        self._replace_rows(view if has_trials else None)
        self.margin.setVisible(has_trials)
        set_text(self.words, _text(view) or _NOTHING_YET)
        short = short_verification(view) if self._is_dense and view is not None else ""
        self._short.set_whole_text(short)
        self._short.setToolTip(plain_tip(self.words.text()))
        self._short.setVisible(bool(short))
        self.words.setVisible(not short)

    def _replace_rows(self, view: Limit | None) -> None:
        old, self._rows = self._rows, QWidget()
        self._column.replaceWidget(old, self._rows)
        old.hide()
        old.deleteLater()
        self._rows.setVisible(view is not None)
        if view is None:
            return
        grid = grid_of(self._rows, spacing=(8, 2), grows=(2,))
        largest = max((side.largest_batch for side in view.sides), default=0) or 1
        for place, side in enumerate(view.sides):
            self._add_row(grid, 2 * place, side, side.largest_batch / largest)

    def _add_row(self, grid: QGridLayout, row: int, side: LimitSide, fraction: float) -> None:
        grid.addWidget(Marker(side.precision), row, 0)
        grid.addWidget(label(side.label, "value"), row, 1)
        grid.addWidget(AnswerBar(side.precision, fraction), row, 2)
        # an unverified answer may still grow
        least = "≥ " if side.at_least else ""
        number = label(f"{least}{side.largest_batch:,}" if side.trials else NONE, "stat")
        number.setToolTip(plain_tip(side.words))
        set_precision(number, side.precision)
        grid.addWidget(number, row, 3, Qt.AlignmentFlag.AlignRight)
        if not side.is_over or not side.largest_batch:
            return
        batch = recommended_batch(side, self.margin_fraction(), self._multiple)
        words = recommendation(side, batch, self.margin_fraction(), self._multiple)
        if batch:
            button = Button(f"Use {batch:,}", "inline", f"Set the form's batch size to {batch:,} ({words})")
            button.setAccessibleName(f"Use batch {batch:,}, {side.label}")
            button.clicked.connect(lambda: self.use_requested.emit(batch))
            grid.addWidget(button, row, 4)
        if batch != side.largest_batch:
            grid.addWidget(label(words, "legend"), row + 1, 2, 1, 3, Qt.AlignmentFlag.AlignRight)

    def _lay_out(self) -> None:
        head = in_row(wide(self._title), self.margin)
        self._large = QWidget()
        beside = in_column(Stretch(1), self._what, self._against, Stretch(1), spacing=2)
        in_row(self._ratio, wide(beside), parent=self._large, spacing=14)
        parts = (self._large, self._rows, self.words, self._short)
        self._column = in_column(head, *parts, parent=self, margins=(12, 8, 12, 12), spacing=8)
        self._title.setMinimumHeight(28)


def _text(view: Limit | None) -> str:
    if view is None:
        return ""
    proofs = [(side, verification(side)) for side in view.sides]
    if len({words for _, words in proofs}) == 1:
        # a single side, or the same proof for all
        sentences = [words for _, words in proofs[:1] if words]
    else:
        sentences = [f"{side.label}: {words}" for side, words in proofs if words]
    return " ".join([part for part in (view.digest, *sentences) if part])
