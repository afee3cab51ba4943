"""The result of runs: the answer of a comparison, or the card of a run that failed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QRect, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QResizeEvent
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QWidget

from engine.compare.sides import Side
from engine.compare.verdict import Pieces
from engine.experiment.experiment import Experiment
from engine.experiment.own.code import AFTER, BEFORE, Code, CodeLocation, place_of
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import Kind, Problem
from gui.theme.fonts import font
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import Button, label, set_property, set_text
from gui.widgets.boxes import Placed, Stretch, Surface, in_column, in_row, wide
from gui.widgets.labels import describe, plain_tip
from gui.widgets.verdict_label import LARGE, VerdictLabel

_MESSAGE_HEIGHT = 220
Offer = tuple[str, Callable[[], object]]
"""The text of a button, and its action."""


def open_file(path: Path) -> None:
    """Open a code file for reading. On Windows, which would run it, open its folder."""
    shown = path.parent if sys.platform == "win32" else path
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(shown)))


class FailureCard(Surface):
    """Shows why a run failed and what to do. `open_wanted` carries the path of the file to fix.

    `check_wanted` asks for a check of the model, and `again_wanted` for another run.
    """

    open_wanted = Signal(object)  # Path
    check_wanted = Signal()
    again_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("panel", parent=parent)
        self._place: CodeLocation | None = None
        self._sign = QLabel()
        self._message, self._remedy = label("", "pageTitle"), label("", "body")
        for words in (self._message, self._remedy):
            words.setTextFormat(Qt.TextFormat.PlainText)
            words.setWordWrap(True)
            words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._where, self._code = label("", "strong"), _CodeBlock()
        self.whole = Button("Full message", "link", "Show or hide the full error message")
        self.whole.setCheckable(True)
        self.detail = QPlainTextEdit()
        self.detail.setReadOnly(True)
        self.detail.setProperty("role", "code")
        self.detail.setFont(font(12, mono=True))
        self.detail.setAccessibleName("Full message")
        self.detail.setFixedHeight(_MESSAGE_HEIGHT)
        self.detail.hide()
        self.whole.toggled.connect(self.detail.setVisible)
        self.open = Button("Open the file", "primary", "Open the file to fix it")
        self.check = Button("Check", "strip", "Send one batch through the model (takes seconds)", "check")
        self.again = Button("Try again", "strip", "Train again with the file as it is now")
        for button in (self.open, self.again):
            button.setProperty("low", "true")
        self.open.clicked.connect(lambda: self._place and self.open_wanted.emit(self._place.path))
        self.check.clicked.connect(self.check_wanted)
        self.again.clicked.connect(self.again_wanted)
        self.remedies: list[Button] = []
        """The buttons that train it again in another way."""
        self._lay_out()
        theme().changed.connect(self._recolor)
        self._recolor()

    def _offer(self, offers: Sequence[Offer], *, is_memory: bool) -> None:
        for button in self.remedies:
            button.hide()
            button.deleteLater()
        self.remedies = []
        for place, (words, do) in enumerate(offers):
            tip = "Train all of it again with this change"
            button = Button(words, "strip" if place else "primary", tip, do=do)
            button.setProperty("low", "true")
            self._offers.insertWidget(place, button)
            self.remedies.append(button)
        # the same again would run out of memory again
        self.check.setVisible(not is_memory)
        self.again.setVisible(not (is_memory and offers))

    def show_problem(
        self, problem: Problem, detail: str = "", code: Code | None = None, offers: Sequence[Offer] = ()
    ) -> None:
        """Show a problem and its fix. `detail` is the full message, `code` the model's own code.

        The `offers` are buttons that train it in another way.
        """
        set_text(self._message, problem.message)
        set_text(self._remedy, problem.remedy)
        self._remedy.setVisible(bool(problem.remedy))
        self._place = place = place_of(detail, code)
        function = f"  in {place.function}" if place is not None and place.function else ""
        set_text(self._where, "" if place is None else f"{place.short}{function}")
        self._where.setVisible(place is not None)
        self._code.show_place(place)
        if self.detail.toPlainText() != detail:
            self.detail.setPlainText(detail)
        self.whole.setVisible(bool(detail))
        may_look = code is not None and TrustedCode().may_look(code.place)
        can_open = place is not None and may_look and place.path.is_file()
        self.open.setVisible(can_open)
        set_property(self.open, "kind", "strip" if offers else "primary")
        set_property(self.again, "kind", "strip" if offers or can_open else "primary")
        self._offer(offers, is_memory=problem.kind is Kind.OUT_OF_MEMORY)
        self.setAccessibleName(f"{problem.message} {problem.remedy}")
        self.setAccessibleDescription(self._where.text())

    def place(self) -> CodeLocation | None:
        """Return the place in the user's code that failed, as shown."""
        return self._place

    def _lay_out(self) -> None:
        head = in_row(Placed(self._sign, 0, Qt.AlignmentFlag.AlignTop), wide(self._message), spacing=12)
        where = in_row(self._where, Stretch(1), self.whole)
        self._offers = in_row(self.open, self.check, self.again, Stretch(1), spacing=8)
        parts = (self._remedy, where, self._code, self.detail, self._offers)
        inner = in_column(*parts, margins=(32, 0, 0, 0), spacing=12)
        in_column(head, inner, parent=self, margins=24, spacing=10)

    def _recolor(self) -> None:
        self._sign.setPixmap(pixmap("cross-outline", theme().palette.text2, 20, self.devicePixelRatioF()))


def code_shown(experiment: Experiment | None) -> Code | None:
    """Return the user's code that an experiment keeps, or None."""
    try:
        return None if experiment is None else experiment.own_code
    except ValueError:
        # kept by another version; the message is shown without it
        return None


class _CodeBlock(Surface):
    """Lines of code with their numbers, of which one is marked."""

    def __init__(self) -> None:
        super().__init__("chip", "The code around the error")
        self._rows = [label("", "code") for _ in range(BEFORE + AFTER + 1)]
        for row in self._rows:
            row.setTextFormat(Qt.TextFormat.PlainText)
        in_column(*self._rows, parent=self, margins=(0, 8, 0, 8), spacing=0)

    def show_place(self, place: CodeLocation | None) -> None:
        self.setVisible(place is not None)
        if place is None:
            return
        for number, row in enumerate(self._rows, start=place.first):
            line = number - place.first
            row.setVisible(line < len(place.lines))
            if line < len(place.lines):
                set_text(row, f"{number:>6}   {place.lines[line].expandtabs(4)}")
                set_property(row, "marked", "true" if number == place.line else "false")


_QUIET_LINES = 2


@dataclass(frozen=True)
class ComparisonOutcome:
    """The result of a comparison: large `lines` about `side`, and small text with interval and cautions.

    `quiet` has the parts of the small text. `run_ids` are all runs of the comparison. `alike` names the
    metrics whose difference is within the spread of repeats. `when` says when the comparison ended and how
    long it took.
    """

    run_ids: tuple[str, ...]
    lines: tuple[Pieces, ...]
    side: Side | None
    quiet: tuple[str, ...]
    when: str
    alike: frozenset[str] = frozenset()


class AnswerView(QWidget):
    """Shows the result of a comparison above its live plots. Hidden until there is a result."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._large = VerdictLabel()
        self._large.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._quiet = label("", "body", wraps=True)
        self._quiet.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._clauses: tuple[str, ...] = ()
        in_column(self._large, self._quiet, parent=self, margins=(0, 0, 0, 6), spacing=6)
        self.hide()

    def show_answer(self, answer: ComparisonOutcome | None) -> None:
        """Show an answer. None hides it."""
        self.setVisible(answer is not None)
        if answer is not None:
            self._large.show_lines(answer.lines, answer.side)
            self._clauses = answer.quiet
            describe(self._quiet, _line(answer.quiet), plain_tip("\n".join(answer.quiet)))
            self._quiet.setVisible(bool(answer.quiet))
            self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        metrics, room = self._quiet.fontMetrics(), QRect(0, 0, self.width(), 1_000)
        for count in range(len(self._clauses), 0, -1):
            more = len(self._clauses) - count
            words = _line((*self._clauses[:count], *([f"{more} more"] if more else [])))
            height = metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, words).height()
            if height <= _QUIET_LINES * metrics.lineSpacing() or count == 1:
                set_text(self._quiet, words)
                return

    def set_compact(self, is_compact: bool) -> None:
        """Use smaller text in a low window."""
        self._large.set_sizes(tuple(size for size in LARGE if size[0] < 29) if is_compact else LARGE)

    def text(self) -> str:
        """Return the sentence and all clauses of the quiet line."""
        return f"{self._large.accessibleName()} {_line(self._clauses)}".strip()


def _line(clauses: Sequence[str]) -> str:
    return " · ".join(clauses)
