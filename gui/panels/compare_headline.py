"""The answer in large type: how the chosen side stands against the baseline, and how sure that is."""

from __future__ import annotations

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from engine.experiment import Experiment
from engine.exports.report import subject_of
from engine.records.comparison import Comparison, SideReport
from gui.panels.compare_doubts import DoubtLine
from gui.panels.compare_origin import OriginRow
from gui.panels.compare_verdict import VerdictLabel
from gui.panels.compare_words import headline_lines, small_print
from gui.widgets import label

_ALONE = "Tick another run to compare with this one, or drag it here."


class Headline(QWidget):
    """One or two large lines, where the gain comes from, and what speaks against the figures.

    `missing_wanted` carries the experiments (a tuple) that would tell where the gain comes from.
    """

    missing_wanted = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._large, self._small = VerdictLabel(), label("", "body")
        self._small.setWordWrap(True)
        self._origin, self._doubts = OriginRow(), DoubtLine()
        self._subject = ""
        self._origin.missing_wanted.connect(self.missing_wanted)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 8, 0, 8)
        column.setSpacing(8)
        for one in (self._large, self._small, self._origin, self._doubts):
            column.addWidget(one)
        column.addStretch(1)

    def show_hint(self, text: str, small: str = "") -> None:
        """Says what to do where there is nothing to compare."""
        self._origin.hide()
        self._doubts.show_doubts(())
        self._large.show_hint(text)
        self._say_small(small)

    def show_side(self, comparison: Comparison, side_id: str) -> None:
        """Speaks of a side against the baseline; of the baseline itself only what it is."""
        report = comparison.report(side_id)
        said = self._show_verdict(comparison, report)
        self._subject = subject_of(comparison)
        self._origin.show_side(comparison, report, self._subject)
        self._origin.show()
        self._doubts.show_doubts([one.sentence for one in report.doubts if one.sentence not in said])
        self._place_subject()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # not now: a row that comes or goes while its parents are laid out would be given no height
        QTimer.singleShot(0, self, self._place_subject)

    def set_awaited(self, experiments: frozenset[Experiment]) -> None:
        """Which experiments are queued or train already."""
        self._origin.set_awaited(experiments)

    def text(self) -> str:
        """All it says, without markup."""
        doubts = self._doubts.doubts()
        clean = f"Not clean: {' '.join(doubts)}" if doubts else ""
        parts = (self._large.accessibleName(), self._small.text(), self._origin.text(), clean)
        return " ".join(part for part in parts if part)

    def _show_verdict(self, comparison: Comparison, report: SideReport) -> str:
        """Says the verdict; what was said in the small line."""
        lines = () if report.is_baseline else headline_lines(comparison, report)
        if lines:
            self._large.show_lines(lines)
            return self._say_small(small_print(report))
        first, colon, rest = report.verdict.sentence.partition(": ")
        small = rest[:1].upper() + rest[1:] if colon else ""
        self._large.show_hint(first.rstrip("."))
        return self._say_small(f"{small} {_ALONE}".strip() if report.is_baseline else small)

    def _place_subject(self) -> None:
        """What was trained needs no row of its own where it fits at the right of another."""
        wanted = "" if self._origin.has_split else self._subject
        self._origin.set_subject_elsewhere(self._doubts.stand_beside(wanted))

    def _say_small(self, text: str) -> str:
        self._small.setText(text)
        self._small.setVisible(bool(text))
        return text
