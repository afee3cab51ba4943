"""The row below the headline: where the gain comes from, and what was trained."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QWidget

from engine.compare.comparison import Comparison, SideReport
from engine.compare.split import Factor, Split
from engine.experiment.experiment import Experiment
from engine.words.names import recipe_words
from engine.words.numbers import times
from gui.theme.theme import theme
from gui.widgets import Button, ElidedLabel
from gui.widgets.boxes import Placed, in_column, in_row
from gui.widgets.labels import plain_tip

_QUEUE_ONE = "Queue the missing run"
_GAPS, _STRONGER = 140, 1.05
"""Pixels between the parts of the row, and how much wider its bold text is."""


class OriginRow(QWidget):
    """`missing_wanted` carries a tuple of experiments that would show where the gain comes from."""

    missing_wanted = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown: tuple[SideReport, Split] | None = None
        self._awaited: frozenset[Experiment] = frozenset()
        self._is_elsewhere = False
        self._origin = QLabel()
        self._origin.setTextFormat(Qt.TextFormat.RichText)
        self._origin.setProperty("role", "body")
        self._origin.setWordWrap(True)
        self._queue = Button(_QUEUE_ONE, "inline", "Train what is missing to see where the gain comes from")
        self._queue.clicked.connect(self._ask_missing)
        self._beside, self._below = ElidedLabel("", "body"), ElidedLabel("", "body")
        self._beside.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row = in_row(Placed(self._origin, 3), self._queue, Placed(self._beside, 2), spacing=12)
        in_column(row, self._below, parent=self, spacing=4)
        theme().changed.connect(self._refresh)

    def show_side(self, comparison: Comparison, report: SideReport, subject: str) -> None:
        """Shows where a side's gain comes from; `subject` is what was trained."""
        split = None if report.is_baseline else report.split
        self._shown = None if split is None else (report, split)
        self._beside.set_whole_text(subject)
        self._below.set_whole_text(subject)
        self._refresh()

    def text(self) -> str:
        """The text about the gain, without markup."""
        return self._origin.accessibleName() if self._shown is not None else ""

    @property
    def has_split(self) -> bool:
        """Whether it shows more than what was trained."""
        return self._shown is not None

    def set_awaited(self, experiments: frozenset[Experiment]) -> None:
        """Sets which experiments are queued or running already: they are not offered again."""
        self._awaited = experiments
        self._refresh()

    def set_subject_elsewhere(self, is_elsewhere: bool) -> None:
        """Sets whether another row shows what was trained."""
        self._is_elsewhere = is_elsewhere
        self._place_subject()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # deferred: a row that comes or goes during its parents' layout would get no height
        QTimer.singleShot(0, self, self._place_subject)

    def _refresh(self) -> None:
        self._origin.setVisible(self._shown is not None)
        self._queue.setVisible(self._shown is not None and bool(self._shown[1].missing))
        self._write()
        self._place_subject()

    def _write(self) -> None:
        if self._shown is None:
            return
        report, split = self._shown
        words = _words(report, split)
        strong = f"<span style='font-weight:600;color:{theme().palette.text}'>"
        self._origin.setText(
            "&nbsp; ".join(
                f"{strong}{escape(text)}</span>" if is_strong else escape(text) for text, is_strong in words
            )
        )
        self._origin.setAccessibleName(" ".join(text for text, _ in words))
        sentence = split.sentence
        self._origin.setToolTip(plain_tip(f"{sentence[:1].upper()}{sentence[1:]}."))
        count = len(self._missing())
        self._queue.setEnabled(count > 0)
        self._queue.setText(
            "Queued" if not count else _QUEUE_ONE if count == 1 else f"Queue the {count} missing runs"
        )
        self._queue.setAccessibleName(self._queue.text())

    def _place_subject(self) -> None:
        texts = [self.text(), *([self._queue.text()] if self._queue.isVisibleTo(self) else [])]
        words = self._origin.fontMetrics().horizontalAdvance("".join(texts))
        needed = words * _STRONGER + _GAPS + self._beside.sizeHint().width()
        # with nothing to its left, it is aligned with the headline
        is_beside = self._shown is not None and self.width() >= needed
        self._beside.setVisible(is_beside)
        self._below.setVisible(not is_beside and not self._is_elsewhere)

    def _ask_missing(self) -> None:
        if missing := self._missing():
            self.missing_wanted.emit(missing)

    def _missing(self) -> tuple[Experiment, ...]:
        if self._shown is None:
            return ()
        return tuple(experiment for experiment in self._shown[1].missing if experiment not in self._awaited)


def _words(report: SideReport, split: Split) -> list[tuple[str, bool]]:
    """The row's text in pieces, each with whether it is bold."""
    words = [("Where it comes from", False)]
    factors = split.factors or split.other_order
    if not factors:
        words.append(("not known yet: that takes runs in between", False))
    elif len(factors) == 1:
        words.append((f"all of it from the {_cause(factors[0], report)}", False))
    else:
        for place, factor in enumerate(factors):
            if place:
                words.append(("times", False))
            words.append((f"{times(factor.ratio)}×", True))
            words.append((f"{_cause(factor, report)} {'on top' if place else 'alone'}", False))
        words += [("gives", False), (f"{times(split.total)}×", True)]
    if split.versus_default is not None:
        words += [("·", False), (f"{times(split.versus_default)}×", True), ("PyTorch's default", False)]
    return words


def _cause(factor: Factor, report: SideReport) -> str:
    experiment = report.side.runs[0].experiment
    if factor.name == "recipe":
        return f"{recipe_words(experiment.step.recipe)} recipe"
    return "precision" if factor.name == "precision" else f"batch of {experiment.batch_size:,}"
