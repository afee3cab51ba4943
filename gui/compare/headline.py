"""The headline of Compare: the verdict in large type, how sure it is, and what speaks against it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Literal

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFontMetricsF, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from engine.compare.comparison import Comparison
from engine.compare.sides import Side
from engine.compare.verdict import Outcome, Piece, Pieces, plain
from engine.experiment.experiment import Experiment
from engine.experiment.text import printable
from engine.export.report.report import subject_of
from gui.compare.origin import OriginRow
from gui.theme.fonts import font
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import Button, label

_GAP = 24


class DoubtLine(QWidget):
    """Hidden while nothing speaks against the figures; what was trained may stand at its right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._doubts: tuple[str, ...] = ()
        self._first, self._rest = label("", "body"), label("", "body")
        for one in (self._first, self._rest):
            one.setWordWrap(True)
            one.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._more = Button("Show more", "link", "Show or hide the other reasons")
        self._more.setCheckable(True)
        self._more.toggled.connect(self._unfold)
        self._beside = label("", "body")
        self._beside.hide()
        row = QHBoxLayout()
        row.setSpacing(12)
        row.addWidget(self._first, 1)
        row.addWidget(self._more, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._beside, 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(row)
        column.addWidget(self._rest)
        self.hide()

    def show_doubts(self, doubts: Sequence[str]) -> None:
        """Says the first of these sentences, and that there are more."""
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
        """Shows `words` at the right of the first doubt, if there is one and both fit in one line."""
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
    """An icon that stands beside the words for it; "info" for a doubt, "bolt" for the fast recipe."""

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


_SIZES = ((36, 20), (33, 19), (30, 18), (27, 17), (24, 16))
"""Pixels of the facts and of the asides, largest first."""
_HINT_SIZE = 22
_BELOW = 3


class VerdictLabel(QLabel):
    """Rich text whose pieces differ in weight, size and colour; the last size wraps where nothing fits."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setWordWrap(True)
        # lines as high as their letters leave none of it below the last one's descenders
        self.setContentsMargins(0, 0, 0, _BELOW)
        # the sizes of the pieces are their own; a larger one here would make their lines higher
        self.setProperty("role", "title")
        self._lines: tuple[Pieces, ...] = ()
        self._hint = ""
        theme().changed.connect(self._refresh)

    def show_lines(self, lines: tuple[Pieces, ...]) -> None:
        """Says these, a line each."""
        self._lines, self._hint = lines, ""
        self.setAccessibleName(" ".join(map(plain, lines)))
        self._refresh()

    def show_hint(self, text: str) -> None:
        """Says one sentence in a size that is no answer's."""
        self._lines, self._hint = (), text
        self.setAccessibleName(text)
        self._refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._refresh()

    def _refresh(self) -> None:
        if self._hint:
            self._write(f"<span style='font-size:{_HINT_SIZE}px'>{escape(self._hint)}</span>")
            return
        fitting = (size for size in _SIZES if self._needed(size) <= self.width())
        size = next(fitting, _SIZES[-1])
        self._write("<br>".join("".join(_markup(piece, size) for piece in line) for line in self._lines))

    def _write(self, markup: str) -> None:
        text = f"<div style='line-height:100%'>{markup}</div>"
        if text != self.text():
            self.setText(text)

    def _needed(self, size: tuple[int, int]) -> float:
        return max((sum(_width(piece, size) for piece in line) for line in self._lines), default=0.0)


def _shown(piece: Piece) -> str:
    return piece.text.replace(" %", "\N{NO-BREAK SPACE}%")


def _width(piece: Piece, size: tuple[int, int]) -> float:
    is_aside, is_joining = piece.role == "aside", piece.role == "plain"
    face = font(size[is_aside], 400 if is_aside else 500 if is_joining else 600, display=True)
    return QFontMetricsF(face).horizontalAdvance(_shown(piece))


def _markup(piece: Piece, size: tuple[int, int]) -> str:
    palette, text = theme().palette, escape(_shown(piece))
    if piece.role == "aside":
        # whole on one line, so that no bracket stands alone
        text = text.replace(" ", "&nbsp;").replace("&nbsp;", " ", 1)
        return f"<span style='font-size:{size[1]}px;font-weight:400;color:{palette.text2}'>{text}</span>"
    style = f"font-size:{size[0]}px"
    if piece.side is not None:
        style += f";color:{palette.look(piece.side.precision).color}"
    elif piece.role == "plain":
        style += ";font-weight:500"
    return f"<span style='{style}'>{text}</span>"


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
