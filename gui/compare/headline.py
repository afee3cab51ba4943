"""The headline of Compare: the verdict in large type, its origin, and the reasons for caution."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Literal

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QWidget

from engine.compare.comparison import Comparison, SideReport
from engine.compare.sides import Side
from engine.compare.split import Factor, Split
from engine.compare.verdict import Outcome, Pieces, joined
from engine.experiment.experiment import Experiment
from engine.experiment.value import printable
from engine.export.report.report import subject_of
from engine.words.names import recipe_words
from engine.words.numbers import times
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import Button, ElidedLabel, label
from gui.widgets.boxes import Placed, Stretch, in_column, in_row, wide
from gui.widgets.labels import plain_tip
from gui.widgets.stat_card import VerdictLabel

_GAP = 24


class DoubtLine(QWidget):
    """The doubts about the figures, hidden if there are none; the subject may stand at the right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._doubts: tuple[str, ...] = ()
        self._first, self._rest = label("", "body"), label("", "body")
        for text in (self._first, self._rest):
            text.setWordWrap(True)
            text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._more = Button("Show more", "link", "Show or hide the other reasons")
        self._more.setCheckable(True)
        self._more.toggled.connect(self._unfold)
        self._beside = label("", "body")
        self._beside.hide()
        row = in_row(
            wide(self._first),
            Placed(self._more, 0, Qt.AlignmentFlag.AlignTop),
            Placed(self._beside, 0, Qt.AlignmentFlag.AlignTop),
            spacing=12,
        )
        in_column(row, self._rest, parent=self, spacing=2)
        self.hide()

    def show_doubts(self, doubts: Sequence[str]) -> None:
        """Shows the first of these sentences, and how many more there are."""
        self._doubts = tuple(dict.fromkeys(map(printable, doubts)))
        self.setVisible(bool(self._doubts))
        if not self._doubts:
            return
        self._first.setText(f"With caution: {self._doubts[0]}")
        self._rest.setText("\n".join(self._doubts[1:]))
        self._more.setVisible(len(self._doubts) > 1)
        self._more.setChecked(False)
        self._unfold(False)

    def stand_beside(self, words: str) -> bool:
        """Shows `words` to the right of the first doubt, if both fit in a line; whether they do."""
        parts = [self._first.text(), words, *([self._more.text()] if len(self._doubts) > 1 else [])]
        wide = sum(self._first.fontMetrics().horizontalAdvance(part) + _GAP for part in parts)
        fits = bool(words and self._doubts) and wide <= self.width()
        self._beside.setText(words if fits else "")
        self._beside.setVisible(fits)
        return fits

    def doubts(self) -> tuple[str, ...]:
        return self._doubts

    def _unfold(self, is_open: bool) -> None:
        self._rest.setVisible(is_open)
        self._more.setText("Show less" if is_open else f"and {len(self._doubts) - 1} more")
        self._more.setAccessibleName(self._more.text())


_NAMES = {"info": "With caution", "bolt": "Fast recipe"}


class Sign(QLabel):
    """An icon beside the text it belongs to: "info" for a doubt, "bolt" for the fast recipe."""

    def __init__(self, icon: Literal["info", "bolt"]) -> None:
        super().__init__()
        self._icon = icon
        self.setAccessibleName(_NAMES[icon])
        theme().changed.connect(self._recolor)
        self._recolor()

    def _recolor(self) -> None:
        palette = theme().palette
        ink = palette.text3 if self._icon == "info" else palette.text2
        self.setPixmap(pixmap(self._icon, ink, 14, self.devicePixelRatioF()))


_SIZES = ((28, 16), (26, 15), (24, 14), (22, 14))


def _without_asides(line: Pieces) -> Pieces:
    return tuple(piece for piece in line if piece.role != "aside")


_ALONE = "Tick another run too to compare the two, or drag it here."
_AGAIN = "Measure again"
_NO_ANSWER: tuple[Outcome, ...] = ("alone", "baseline", "no-speed")


class Headline(QWidget):
    """One or two large lines, the gain's origin, and the doubts.

    `missing_wanted` carries a tuple of experiments that would show where the gain comes from, `again_wanted`
    a tuple of sides to measure again.
    """

    missing_wanted = Signal(object)
    again_wanted = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._large, self._small = VerdictLabel(_SIZES), label("", "body")
        self._small.setWordWrap(True)
        self.again = Button(_AGAIN, "secondary", "Queue the same runs again, to replace these")
        self.again.clicked.connect(lambda: self.again_wanted.emit(self._disturbed))
        self._disturbed: tuple[Side, ...] = ()
        self._awaited: frozenset[Experiment] = frozenset()
        self._origin, self._doubts = OriginRow(), DoubtLine()
        self._subject = ""
        self._origin.missing_wanted.connect(self.missing_wanted)
        again = Placed(self.again, alignment=Qt.AlignmentFlag.AlignLeft)
        parts = (self._large, self._small, again, self._origin, self._doubts, Stretch(1))
        in_column(*parts, parent=self, margins=(0, 4, 0, 8), spacing=6)

    def show_hint(self, text: str, small: str = "") -> None:
        """Shows what to do while there is nothing to compare."""
        self._origin.hide()
        self._doubts.show_doubts(())
        self._large.show_hint(text)
        self._say_small(small)
        self._offer_again(())

    def show_side(self, comparison: Comparison, side_id: str) -> None:
        """Shows the verdict on a side; for the baseline, only what it is."""
        report = comparison.report(side_id)
        verdict = report.verdict
        if verdict.outcome in _NO_ANSWER:
            self._large.show_hint(". ".join(map(joined, verdict.lines)))
        else:
            lines = tuple(_without_asides(line) for line in verdict.lines)
            self._large.show_lines(lines, report.side)
        asides = (piece.bare for line in verdict.lines for piece in line if piece.role == "aside")
        quiet = (*asides, *verdict.notes, *([_ALONE] if report.is_baseline else []))
        words = " · ".join(dict.fromkeys(quiet))
        self._say_small(f"{words[:1].upper()}{words[1:]}")
        sides = (comparison.baseline,) if report.is_baseline else (comparison.baseline, report.side)
        self._offer_again(sides if verdict.outcome == "spoiled" else ())
        self._subject = subject_of(comparison)
        self._origin.show_side(comparison, report, self._subject)
        self._origin.show()
        self._doubts.show_doubts([doubt.sentence for doubt in report.uncited])
        self._place_subject()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # deferred: a row that comes or goes during its parents' layout would get no height
        QTimer.singleShot(0, self, self._place_subject)

    def set_awaited(self, experiments: frozenset[Experiment]) -> None:
        """Sets which experiments are queued or running already."""
        self._origin.set_awaited(experiments)
        self._awaited = experiments
        self._offer_again(self._disturbed)

    def text(self) -> str:
        """The whole text, without markup."""
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
        """Puts the subject to the right of another row if it fits there."""
        wanted = "" if self._origin.has_split else self._subject
        self._origin.set_subject_elsewhere(self._doubts.stand_beside(wanted))

    def _say_small(self, text: str) -> None:
        self._small.setText(text)
        self._small.setVisible(bool(text))


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
