"""The answer of a timing in words: what a precision gains, what bounds each side, and what would help."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QWidget

from engine.experiment.text import in_sentence
from engine.profile.gain import Gain, gains, verdicts
from engine.profile.names import side_names
from engine.profile.verdict import Verdict
from engine.protocol.profile.profiles import Timing, TimingSide
from gui.profile.words import figures, figures_tip
from gui.widgets import Button, Marker, label
from gui.widgets.answers.answer_page import changes_words, wrapped
from gui.widgets.boxes import Placed, in_column, in_row
from gui.widgets.labels import plain_tip
from gui.widgets.shortcuts import tab_after

ENERGY_PAGE = "energy"
_GAP = 4


class TimingAnswer(QWidget):
    """What each side gains, what bounds it, and what would help; `large`, which the workspace places, is the
    largest gain.

    `changes_wanted` carries Changes for the form.
    """

    changes_wanted = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.large = wrapped("", "stat")
        self.guide = Button("About energy", "link", "What the joules count, and how to compare them")
        self._sides = QWidget()
        self._texts: list[str] = []
        below = Placed(self.guide, alignment=Qt.AlignmentFlag.AlignRight)
        self._column = in_column(self._sides, below, parent=self, margins=(2, 8, 2, 0), spacing=8)

    def show_timing(self, timing: Timing | None) -> None:
        """Shows the answer of a timing as far as it is known."""
        profiles = () if timing is None else timing.profiles()
        for part in (self, self.large):
            part.setVisible(bool(profiles))
        if timing is None or not profiles:
            return
        known, gained = verdicts(timing), gains(timing)
        best = max(filter(None, gained), key=lambda gain: gain.ratio or 0.0, default=None)
        if best is not None:
            told = large = best.sentence
        else:
            names = zip(side_names(timing), known, strict=True)
            name, told = next((name, verdict.sentence) for name, verdict in names if verdict is not None)
            large = f"{name}: {told}" if len(timing.sides) > 1 else told
        # Qt would break a line within "TFLOP/s"
        self.large.setText(large.replace("/", "/\N{WORD JOINER}"))
        self._show_sides(timing, known, gained, told)
        self.guide.setVisible(any(profile.energy is not None for profile in profiles))

    def text(self) -> str:
        """All that it says."""
        return "\n".join([self.large.text(), *self._texts])

    def _show_sides(
        self,
        timing: Timing,
        verdicts: Sequence[Verdict | None],
        gains: Sequence[Gain | None],
        told: str,
    ) -> None:
        """Shows what each side gains, what bounds it, unless that is `told` above, and what would help."""
        sides, self._texts = QWidget(), []
        grid = QGridLayout(sides)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(2)
        grid.setColumnStretch(1, 1)
        top = Qt.AlignmentFlag.AlignTop
        rows = zip(side_names(timing), timing.sides, verdicts, gains, strict=True)
        for place, (name, side, verdict, gain) in enumerate(rows):
            if verdict is None or side.profile is None:
                continue
            helps = not _is_beside(verdict, timing)
            gained = gain.sentence if gain is not None else ""
            sentences = (gained, verdict.sentence, verdict.next_step if helps else "")
            words = " ".join(sentence for sentence in sentences if sentence and sentence != told)
            self._texts.append(f"{name}: {words}")
            row = 3 * place
            grid.addWidget(_name(name, side), row, 0, top)
            beside = wrapped(words, "body")
            beside.setAlignment(top)
            grid.addWidget(beside, row, 1)
            if helps and verdict.changes:
                grid.addWidget(self._button(verdict), row, 2, top)
            if shown := figures(side.profile):
                below = wrapped(shown, "hint")
                below.setToolTip(plain_tip(figures_tip(side.profile)))
                grid.addWidget(below, row + 1, 1, 1, 2)
            grid.setRowMinimumHeight(row + 2, _GAP)
        self._column.replaceWidget(self._sides, sides)
        # they may hold the button whose press led here
        self._sides.hide()
        self._sides.deleteLater()
        self._sides = sides
        tab_after(self.guide, sides)

    def _button(self, verdict: Verdict) -> Button:
        words = changes_words(verdict.changes)
        button = Button(verdict.action, "inline", f"Put into the form: {in_sentence(words)}")
        button.setAccessibleDescription(words)
        button.clicked.connect(lambda: self.changes_wanted.emit(verdict.changes))
        return button


def _is_beside(verdict: Verdict, timing: Timing) -> bool:
    """Whether what would help is a precision that another side has already."""
    precisions = {side.experiment.precision.value for side in timing.sides}
    return bool(verdict.changes) and all(
        key == "precision" and text in precisions for key, text in verdict.changes
    )


def _name(name: str, side: TimingSide) -> QWidget:
    holder = QWidget()
    in_row(Marker(side.experiment.precision), label(name, "strong"), parent=holder, spacing=6)
    return holder
