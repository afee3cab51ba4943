"""The headline of a comparison: the answer in large type above one line of small print."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from engine.compare.comparison import Comparison, SideReport
from engine.compare.ranking import MANY, headline, quiet_clauses
from engine.compare.requirement import judge_saved
from engine.compare.sides import Side
from engine.compare.verdict import VerdictKind, join_pieces
from engine.experiment.experiment import Experiment
from engine.experiment.value import printable
from engine.export.report.report import subject_of
from gui.compare.requirements import MOST_OUTCOMES
from gui.widgets import Button
from gui.widgets.boxes import in_column
from gui.widgets.quiet_line import QuietLine
from gui.widgets.verdict_label import LARGE, VerdictLabel

_SIZES = ((28, 16), (26, 15), (24, 14), (22, 14))
_ALONE = "Select another run, or drag it here, to compare the two"
_AGAIN, _QUEUE_ONE = "Measure again", "Queue the missing run"
_NO_ANSWER: tuple[VerdictKind, ...] = ("alone", "baseline", "no-speed")


class Headline(QWidget):
    """The result of a comparison in large text, such as "1.4× as fast as FP32", above one quiet line.

    `missing_wanted` carries a tuple of experiments that would show where the gain comes from. `again_wanted`
    carries a tuple of the sides to measure again.
    """

    missing_wanted = Signal(object)
    again_wanted = Signal(object)
    guide_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._large = VerdictLabel(_SIZES)
        self.again = Button(_AGAIN, "inline", "Queue the same runs again to replace these results")
        self.again.clicked.connect(lambda: self.again_wanted.emit(self._disturbed))
        self._disturbed: tuple[Side, ...] = ()
        self._awaited: frozenset[Experiment] = frozenset()
        self._lacking: tuple[Experiment, ...] = ()
        self._queue = Button(
            _QUEUE_ONE, "inline", "Run missing combinations to see where the gain comes from"
        )
        self._queue.clicked.connect(lambda: self.missing_wanted.emit(self._missing()))
        about = Button("What this means", "link", "Open the guide at cautions and unreliable results")
        self.quiet = QuietLine(self._queue, about, beside=(self.again,))
        about.clicked.connect(self.quiet.details.dismiss)
        about.clicked.connect(lambda: self.guide_wanted.emit("not-reliable"))
        in_column(self._large, self.quiet, parent=self, margins=(0, 4, 0, 8), spacing=6)
        self.show_hint("")

    def show_hint(self, text: str, small: str = "") -> None:
        """Show a hint while there is nothing to compare."""
        self._large.show_hint(text)
        self.quiet.show_clauses([small] if small else [])
        self.quiet.info.hide()
        self._lacking = ()
        self._offer_again(())

    def show_side(self, comparison: Comparison, side_id: str) -> None:
        """Show the verdict on a side. For the baseline, show only its own metrics."""
        report = comparison.report(side_id)
        is_ranking = len(comparison.sides) >= MANY
        if report.verdict.kind in _NO_ANSWER:
            self._large.show_hint(". ".join(map(join_pieces, report.verdict.lines)))
        else:
            self._large.set_sizes(LARGE if is_ranking else _SIZES)
            self._large.show_lines(headline(report), report.side)
        cautions = [printable(sentence) for sentence in _cautions(comparison, report)]
        clauses = [*quiet_clauses(comparison, report), *([_ALONE] if report.is_baseline else [])]
        if cautions and not is_ranking:
            clauses.append(f"Caution: {cautions[0].rstrip('.')}")
        split = None if report.is_baseline else report.split
        origin = "" if split is None else f"{split.sentence[:1].upper()}{split.sentence[1:]}."
        outcomes = judge_saved(comparison).outcomes
        # the card below has room for few
        left_out = outcomes if len(outcomes) > MOST_OUTCOMES else ()
        details = (
            ("Only if", "\n".join(printable(outcome.sentence) for outcome in left_out)),
            ("Where the gain comes from", origin),
            ("Caution", "\n".join(cautions)),
            ("Conditions", f"{subject_of(comparison)}."),
        )
        self.quiet.show_clauses(clauses, details)
        self._lacking = () if split is None else split.missing
        disturbed = [one.side for one in comparison.reports if one.is_disturbed and not one.is_baseline]
        sides = disturbed if is_ranking and disturbed else [] if report.is_baseline else [report.side]
        is_offered = report.verdict.kind == "spoiled" or (is_ranking and bool(disturbed))
        self._offer_again((comparison.baseline, *sides) if is_offered else ())
        self._offer_missing()

    def set_awaited(self, experiments: frozenset[Experiment]) -> None:
        """Set the experiments that are already queued or running, which are not offered again."""
        self._awaited = experiments
        self._offer_missing()
        self._offer_again(self._disturbed)

    def text(self) -> str:
        """Return the full text, without markup."""
        return f"{self._large.accessibleName()} {self.quiet.text()}".strip()

    def _offer_again(self, sides: tuple[Side, ...]) -> None:
        self._disturbed = sides
        is_awaited = any(run.experiment in self._awaited for side in sides for run in side.runs)
        self.again.setVisible(bool(sides))
        self.again.setEnabled(not is_awaited)
        self.again.set_words("Queued" if is_awaited else _AGAIN)

    def _offer_missing(self) -> None:
        count = len(self._missing())
        several = _QUEUE_ONE if count == 1 else f"Queue the {count} missing runs"
        self._queue.setVisible(bool(self._lacking))
        self._queue.setEnabled(count > 0)
        self._queue.set_words(several if count else "Queued")

    def _missing(self) -> tuple[Experiment, ...]:
        return tuple(experiment for experiment in self._lacking if experiment not in self._awaited)


def _cautions(comparison: Comparison, report: SideReport) -> Sequence[str]:
    """Return the doubts that the small print does not mention, in a ranking those about all sides."""
    reported = {doubt.sentence for doubt in report.verdict.reported_doubts}
    reports = comparison.reports if len(comparison.sides) >= MANY else (report,)
    sentences = dict.fromkeys(doubt.sentence for one in reports for doubt in one.doubts)
    return [sentence for sentence in sentences if sentence not in reported]
