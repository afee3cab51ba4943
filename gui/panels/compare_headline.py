"""The answer in large type: how the chosen side stands against the baseline, and how sure that is."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from engine.experiment import Experiment
from engine.exports.report import subject_of
from engine.records.comparison import Comparison
from engine.records.sides import Side
from engine.records.verdict import Outcome, plain
from gui.panels.compare_doubts import DoubtLine
from gui.panels.compare_origin import OriginRow
from gui.panels.compare_verdict import VerdictLabel
from gui.widgets import Button, label

_ALONE = "Tick another run to compare with this one, or drag it here."
_AGAIN = "Measure again"
_NO_ANSWER: tuple[Outcome, ...] = ("alone", "baseline", "no-speed")


class Headline(QWidget):
    """One or two large lines, where the gain comes from, and what speaks against the figures.

    `missing_wanted` carries the experiments (a tuple) that would tell where the gain comes from,
    `again_wanted` the sides (a tuple) whose measurement was disturbed.
    """

    missing_wanted = Signal(object)
    again_wanted = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._large, self._small = VerdictLabel(), label("", "body")
        self._small.setWordWrap(True)
        self.again = Button(_AGAIN, "secondary", "Queue the same runs again, to take the place of these")
        self.again.clicked.connect(lambda: self.again_wanted.emit(self._disturbed))
        self._disturbed: tuple[Side, ...] = ()
        self._awaited: frozenset[Experiment] = frozenset()
        self._origin, self._doubts = OriginRow(), DoubtLine()
        self._subject = ""
        self._origin.missing_wanted.connect(self.missing_wanted)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 8, 0, 8)
        column.setSpacing(8)
        column.addWidget(self._large)
        column.addWidget(self._small)
        column.addWidget(self.again, alignment=Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self._origin)
        column.addWidget(self._doubts)
        column.addStretch(1)

    def show_hint(self, text: str, small: str = "") -> None:
        """Says what to do where there is nothing to compare."""
        self._origin.hide()
        self._doubts.show_doubts(())
        self._large.show_hint(text)
        self._say_small(small)
        self._offer_again(())

    def show_side(self, comparison: Comparison, side_id: str) -> None:
        """Speaks of a side against the baseline; of the baseline itself only what it is."""
        report = comparison.report(side_id)
        verdict = report.verdict
        if verdict.outcome in _NO_ANSWER:
            self._large.show_hint(". ".join(map(plain, verdict.lines)))
        else:
            self._large.show_lines(verdict.lines)
        self._say_small(" ".join([*verdict.notes, *([_ALONE] if report.is_baseline else [])]))
        sides = (comparison.baseline,) if report.is_baseline else (comparison.baseline, report.side)
        self._offer_again(sides if verdict.outcome == "spoiled" else ())
        self._subject = subject_of(comparison)
        self._origin.show_side(comparison, report, self._subject)
        self._origin.show()
        self._doubts.show_doubts([one.sentence for one in report.untold])
        self._place_subject()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # not now: a row that comes or goes while its parents are laid out would be given no height
        QTimer.singleShot(0, self, self._place_subject)

    def set_awaited(self, experiments: frozenset[Experiment]) -> None:
        """Which experiments are queued or train already."""
        self._origin.set_awaited(experiments)
        self._awaited = experiments
        self._offer_again(self._disturbed)

    def text(self) -> str:
        """All it says, without markup."""
        doubts = self._doubts.doubts()
        clean = f"With caution: {' '.join(doubts)}" if doubts else ""
        parts = (self._large.accessibleName(), self._small.text(), self._origin.text(), clean)
        return " ".join(part for part in parts if part)

    def _offer_again(self, sides: tuple[Side, ...]) -> None:
        self._disturbed = sides
        is_awaited = any(run.experiment in self._awaited for side in sides for run in side.runs)
        self.again.setVisible(bool(sides))
        self.again.setEnabled(not is_awaited)
        self.again.setText("Queued" if is_awaited else _AGAIN)
        self.again.setAccessibleName(self.again.text())

    def _place_subject(self) -> None:
        """What was trained needs no row of its own where it fits at the right of another."""
        wanted = "" if self._origin.has_split else self._subject
        self._origin.set_subject_elsewhere(self._doubts.stand_beside(wanted))

    def _say_small(self, text: str) -> None:
        self._small.setText(text)
        self._small.setVisible(bool(text))
