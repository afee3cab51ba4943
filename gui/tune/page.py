"""The page of a tuning: what is fastest, how that is known, what each change gained; the candidates."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Signal

from engine.drawing.shapes import Drawing
from engine.protocol.tune import Tuning
from engine.tune.waterfall import waterfall_drawing, waterfall_steps
from engine.tune.words import answers, not_tried
from engine.words.numbers import number, times
from gui.charts.painter import Painted
from gui.session.orders.studies import StudyView
from gui.tune.words import Candidate, candidates
from gui.widgets import Button, label
from gui.widgets.answers.answer_page import AnswerPage, wrapped
from gui.widgets.boxes import Part, in_row
from gui.widgets.table import Column, ResultTable
from gui.widgets.table.columns import GROWS, number_column

_LEAST_WIDTH = 360


class Waterfall(Painted):
    """What each change gained, as wide as the page."""

    def __init__(self, tuning: Tuning) -> None:
        super().__init__()
        self._tuning = tuning
        self.setMinimumWidth(_LEAST_WIDTH)
        drawing = waterfall_drawing(tuning, _LEAST_WIDTH)
        self.setFixedHeight(round(drawing.height))
        self.setAccessibleName(f"What each change gained: {drawing.description}")

    def sizeHint(self) -> QSize:
        return QSize(_LEAST_WIDTH, self.height())

    def drawing(self) -> Drawing:
        return waterfall_drawing(self._tuning, self.width())


_NOTHING_YET = (
    "Which settings train the form's model fastest here?",
    "Short runs of precisions, recipes, batches and loader settings tell, and longer ones prove it.",
    "Find the fastest",
    "Searches with the choices above",
)


_COLUMNS: tuple[Column[Candidate], ...] = (
    Column("Candidate", lambda candidate: candidate.words, width=160, widest=GROWS),
    number_column("Rounds", lambda candidate: candidate.last_round, "{}".format),
    number_column(
        "Speed", lambda candidate: candidate.speed, lambda speed: f"{number(speed)} samples/s", width=120
    ),
    number_column(
        "Against plain FP32", lambda candidate: candidate.ratio, lambda ratio: f"{times(ratio)}×", width=126
    ),
    Column("State", lambda candidate: candidate.state, width=110, widest=GROWS),
)


class FastestPage(AnswerPage):
    """Shows a tuning. The signals are the buttons'."""

    use_wanted = Signal()
    comparison_wanted = Signal()
    script_wanted = Signal()

    def __init__(self) -> None:
        super().__init__("Tune", *_NOTHING_YET, is_solid=True)
        self._shown: Tuning | None = None

    def show_view(self, view: StudyView[Tuning]) -> None:
        """Shows a tuning as far as it has come."""
        tuning = view.answer
        if tuning == self._shown:
            return
        self._shown = tuning
        answer, *more = answers(tuning)
        bar = self._area.verticalScrollBar()
        place = bar.value()
        self.show_answer(answer, *(wrapped(sentence, "body") for sentence in more), *self._parts(tuning))
        bar.setValue(place)

    def _parts(self, tuning: Tuning) -> Sequence[Part]:
        parts: list[Part] = []
        if tuning.winner is not None:
            parts.append(self._buttons(tuning))
        if waterfall_steps(tuning):
            parts += [label("What each change gained", "heading"), Waterfall(tuning)]
        if tuning.trials:
            table = ResultTable("Candidates", _COLUMNS, whole=True)
            table.show_rows(candidates(tuning))
            parts += [label("Candidates", "heading"), table]
        if left := not_tried(tuning):
            parts += [label("What was not tried", "heading"), wrapped("\n".join(left), "body")]
        return parts

    def _buttons(self, tuning: Tuning) -> Part:
        use = Button("Use these settings", "strip", "Puts the fastest settings into the form")
        script = Button("Write the script…", "strip", "Saves the winner as a script that needs only PyTorch")
        compare = Button("Compare the runs", "strip", "Ticks the runs of the proof and opens Results")
        compare.setEnabled(tuning.proof is not None and bool(tuning.proof.winner_ids))
        use.clicked.connect(self.use_wanted)
        script.clicked.connect(self.script_wanted)
        compare.clicked.connect(self.comparison_wanted)
        row = in_row(use, compare, script, spacing=8)
        row.addStretch(1)
        return row
