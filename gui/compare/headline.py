"""The headline of a comparison: the verdict in large type, where the gain comes from, and cautions."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QWidget

from engine.compare.comparison import Comparison, SideReport
from engine.compare.sides import Side
from engine.compare.split import Factor, Split
from engine.compare.verdict import VerdictKind, join_pieces
from engine.experiment.experiment import Experiment
from engine.experiment.value import printable
from engine.export.report.report import subject_of
from engine.words.names import recipe_words
from engine.words.numbers import times
from gui.theme.theme import theme
from gui.widgets import Button, ElidedLabel, label
from gui.widgets.answer_page import wrapped
from gui.widgets.boxes import Placed, Stretch, in_column, in_row, wide
from gui.widgets.labels import plain_tip
from gui.widgets.verdict_label import VerdictLabel

_SIZES = ((28, 16), (26, 15), (24, 14), (22, 14))
_ALONE = "Select another run, or drag it here, to compare the two."
_AGAIN, _QUEUE_ONE = "Measure again", "Queue the missing run"
_NO_ANSWER: tuple[VerdictKind, ...] = ("alone", "baseline", "no-speed")


class Headline(QWidget):
    """The result of a comparison in large text, such as "1.4× as fast as FP32", above details and doubts.

    `missing_wanted` carries a tuple of experiments that would show where the gain comes from. `again_wanted`
    carries a tuple of the sides to measure again.
    """

    missing_wanted = Signal(object)
    again_wanted = Signal(object)
    guide_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._large, self._small = VerdictLabel(_SIZES), label("", "body", wraps=True)
        self.again = Button(_AGAIN, "secondary", "Queue the same runs again to replace these results")
        self.again.clicked.connect(lambda: self.again_wanted.emit(self._disturbed))
        self._disturbed: tuple[Side, ...] = ()
        self._awaited: frozenset[Experiment] = frozenset()
        self._split: tuple[SideReport, Split] | None = None
        self._origin = QLabel()
        self._origin.setTextFormat(Qt.TextFormat.RichText)
        self._origin.setProperty("role", "body")
        self._origin.setWordWrap(True)
        self._queue = Button(
            _QUEUE_ONE, "inline", "Run missing combinations to see where the gain comes from"
        )
        self._queue.clicked.connect(lambda: self.missing_wanted.emit(self._missing()))
        self._subject, self._doubts = ElidedLabel("", "body"), _DoubtLine()
        self._origin_row = QWidget()
        in_row(wide(self._origin), self._queue, parent=self._origin_row, spacing=12)
        self._about = _about()
        for about in (self._about, self._doubts.about):
            about.clicked.connect(lambda: self.guide_wanted.emit("not-reliable"))
        again = in_row(self.again, self._about, Stretch(1), spacing=12)
        lines = (self._origin_row, self._subject, self._doubts, Stretch(1))
        parts = (self._large, self._small, again, *lines)
        in_column(*parts, parent=self, margins=(0, 4, 0, 8), spacing=6)
        theme().changed.connect(self._show_origin)

    def show_hint(self, text: str, small: str = "") -> None:
        """Show a hint while there is nothing to compare."""
        self._split = None
        self._show_origin()
        self._subject.hide()
        self._doubts.show_doubts(())
        self._large.show_hint(text)
        self._say_small(small)
        self._offer_again(())

    def show_side(self, comparison: Comparison, side_id: str) -> None:
        """Show the verdict on a side. For the baseline, show only its own metrics."""
        report = comparison.report(side_id)
        verdict = report.verdict
        if verdict.kind in _NO_ANSWER:
            self._large.show_hint(". ".join(map(join_pieces, verdict.lines)))
        else:
            facts = (tuple(piece for piece in line if piece.role != "aside") for line in verdict.lines)
            self._large.show_lines(tuple(facts), report.side)
        asides = (piece.bare for line in verdict.lines for piece in line if piece.role == "aside")
        quiet = (*asides, *verdict.notes, *([_ALONE] if report.is_baseline else []))
        clauses = tuple(dict.fromkeys(quiet))
        words = " · ".join((*(clause.rstrip(".") for clause in clauses[:-1]), *clauses[-1:]))
        self._say_small(f"{words[:1].upper()}{words[1:]}")
        sides = (comparison.baseline,) if report.is_baseline else (comparison.baseline, report.side)
        self._offer_again(sides if verdict.kind == "spoiled" else ())
        self._split = None if report.is_baseline or report.split is None else (report, report.split)
        self._show_origin()
        self._subject.set_whole_text(subject_of(comparison))
        self._subject.show()
        self._doubts.show_doubts([doubt.sentence for doubt in report.unreported_doubts])

    def set_awaited(self, experiments: frozenset[Experiment]) -> None:
        """Set the experiments that are already queued or running, which are not offered again."""
        self._awaited = experiments
        self._show_origin()
        self._offer_again(self._disturbed)

    def text(self) -> str:
        """Return the full text, without markup."""
        doubts = self._doubts.doubts
        caution = f"Caution: {' '.join(doubts)}" if doubts else ""
        origin = self._origin.accessibleName() if self._split is not None else ""
        parts = (self._large.accessibleName(), self._small.text(), origin, caution)
        return " ".join(filter(None, parts))

    def _offer_again(self, sides: tuple[Side, ...]) -> None:
        self._disturbed = sides
        is_awaited = any(run.experiment in self._awaited for side in sides for run in side.runs)
        self.again.setVisible(bool(sides))
        self._about.setVisible(bool(sides))
        self.again.setEnabled(not is_awaited)
        self.again.set_words("Queued" if is_awaited else _AGAIN)

    def _say_small(self, text: str) -> None:
        self._small.setText(text)
        self._small.setVisible(bool(text))

    def _show_origin(self) -> None:
        self._origin_row.setVisible(self._split is not None)
        if self._split is None:
            return
        report, split = self._split
        words = _words(report, split)
        strong = f"<span style='font-weight:600;color:{theme().palette.text}'>"
        pieces = (
            f"{strong}{escape(text)}</span>" if is_strong else escape(text) for text, is_strong in words
        )
        self._origin.setText("&nbsp; ".join(pieces))
        self._origin.setAccessibleName(" ".join(text for text, _ in words))
        self._origin.setToolTip(plain_tip(f"{split.sentence[:1].upper()}{split.sentence[1:]}."))
        count = len(self._missing())
        several = _QUEUE_ONE if count == 1 else f"Queue the {count} missing runs"
        self._queue.setVisible(bool(split.missing))
        self._queue.setEnabled(count > 0)
        self._queue.set_words(several if count else "Queued")

    def _missing(self) -> tuple[Experiment, ...]:
        missing = self._split[1].missing if self._split is not None else ()
        return tuple(experiment for experiment in missing if experiment not in self._awaited)


def _about() -> Button:
    return Button("What this means", "link", "Open the guide at cautions and unreliable results")


class _DoubtLine(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.doubts: tuple[str, ...] = ()
        self._first, self._rest = wrapped("", "body"), wrapped("", "body")
        self._more = Button("Show more", "link", "Show or hide the other reasons for caution")
        self._more.setCheckable(True)
        self._more.toggled.connect(self._unfold)
        self.about = _about()
        links = (Placed(link, 0, Qt.AlignmentFlag.AlignTop) for link in (self._more, self.about))
        row = in_row(wide(self._first), *links, spacing=12)
        in_column(row, self._rest, parent=self, spacing=2)
        self.hide()

    def show_doubts(self, doubts: Sequence[str]) -> None:
        """Show the first of these sentences and the number of others."""
        shown, self.doubts = self.doubts, tuple(dict.fromkeys(map(printable, doubts)))
        self.setVisible(bool(self.doubts))
        if self.doubts and self.doubts != shown:
            self._first.setText(f"Caution: {self.doubts[0]}")
            self._rest.setText("\n".join(self.doubts[1:]))
            self._more.setVisible(len(self.doubts) > 1)
            self._more.setChecked(False)
            self._unfold(False)

    def _unfold(self, is_open: bool) -> None:
        self._rest.setVisible(is_open)
        self._more.set_words("Show less" if is_open else f"and {len(self.doubts) - 1} more")


def _words(report: SideReport, split: Split) -> list[tuple[str, bool]]:
    words = [("Where it comes from", False)]
    factors = split.factors or split.other_order
    if not factors:
        words.append(("unknown until the missing combinations are run", False))
    elif len(factors) == 1:
        words.append((f"all of it from {_cause(factors[0], report)}", False))
    else:
        for place, factor in enumerate(factors):
            words += [("times", False)] if place else []
            words.append((f"{times(factor.ratio)}×", True))
            words.append((f"{_cause(factor, report)} {'on top' if place else 'alone'}", False))
        words += [("gives", False), (f"{times(split.total)}×", True)]
    if split.versus_default is not None:
        words += [("·", False), (f"{times(split.versus_default)}×", True), ("vs. PyTorch's default", False)]
    return words


def _cause(factor: Factor, report: SideReport) -> str:
    experiment = report.side.runs[0].experiment
    if factor.name == "recipe":
        return f"optimizations ({recipe_words(experiment.step.recipe)})"
    return "precision" if factor.name == "precision" else f"batch size of {experiment.batch_size:,}"
