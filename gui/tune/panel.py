"""The page Tune: the choices, the progress and the result of a tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QCheckBox, QGridLayout, QWidget

from engine.drawing.shapes import Drawing
from engine.export.formats import TUNE
from engine.protocol.tune import CHANGE_KINDS, ChangeKind, Tuning, TuningPlan
from engine.tune.halving import Ranked, ranking
from engine.tune.result import answers, not_tried, waterfall_drawing, waterfall_steps
from engine.tune.verification import known_speed
from engine.words.numbers import date_text, number, times
from gui.charts.painter import DrawingView
from gui.session.studies import StudyView
from gui.session.study_page import StudyHead, StudyPage
from gui.widgets import Button, ComboBox, Field, label
from gui.widgets.answer_page import AnswerPage, wrapped
from gui.widgets.boxes import Part, Stretch, in_column, in_row
from gui.widgets.table import Column, ResultTable
from gui.widgets.table.columns import GROWS, number_column

_PHASES = {
    "candidates": "examining the candidates",
    "halving": "short runs of the candidates",
    "proof": "verifying the fastest settings against plain FP32",
    "gains": "measuring the gain of each change",
    "over": "finished",
}
_MOST_SHOWN = 20


def _state_text(view: StudyView[Tuning]) -> str:
    """Return the tuning's state in words."""
    if view.is_waiting:
        return "waiting in the queue"
    if not view.is_live:
        when = date_text(view.created)
        how = "finished" if view.is_complete else "unfinished"
        return ", ".join(part for part in (how, view.device_name, when) if part)
    return view.study.doing or _PHASES[view.answer.phase]


_PARTS = {"candidates": 0.0, "halving": 0.1, "proof": 0.6, "gains": 0.85, "over": 1.0}
"""The approximate share of the work that is done when a phase starts."""


def _fraction_done(tuning: Tuning) -> float:
    """Return the approximate share of a tuning that is done, 0 to 1."""
    begun = _PARTS[tuning.phase]
    if tuning.phase != "halving":
        return begun
    rounds = max((trial.round for trial in tuning.trials), default=0)
    return begun + (_PARTS["proof"] - begun) * (1 - 0.5**rounds)


class Candidate(NamedTuple):
    """A combination of settings that a tuning has tried, as a row of its table.

    `speed` is in samples per second, and `ratio` relative to plain FP32. Both are None if it failed.
    """

    words: str
    last_round: int
    speed: float | None
    ratio: float | None
    state: str


def candidates(tuning: Tuning) -> tuple[Candidate, ...]:
    """Return the tried candidates, the fastest first and the failed last."""
    plain = known_speed(tuning.trials, {})
    ranked = ranking(tuning.trials)
    last = max((known.last_round for known in ranked), default=0)

    def state_of(known: Ranked) -> str:
        if tuning.winner is not None and known.changes == tuning.winner_changes:
            return "fastest"
        is_in = tuning.winner is None and known.last_round == last
        return "still in" if is_in else f"eliminated in round {known.last_round}"

    tried = [
        Candidate(
            known.words,
            known.last_round,
            known.speed,
            None if plain is None else known.speed / plain,
            state_of(known),
        )
        for known in ranked[:_MOST_SHOWN]
    ]
    failed = {
        trial.words: (trial.round, trial.problem) for trial in tuning.trials if trial.problem is not None
    }
    return *tried, *(
        Candidate(words, place, None, None, problem.message) for words, (place, problem) in failed.items()
    )


class TunePanel(StudyPage[StudyView[Tuning]]):
    """The page of a tuning. `options`, the choices of a tuning, are shown in the setup form."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.resume = Button("Resume", "strip", "Resume the tuning", "play")
        super().__init__(StudyHead("Tune", "tuning", "trials", TUNE.formats, self.resume), parent)
        self.options, self.page = TuneOptions(), TunePage()
        self.options.guide_wanted.connect(self.guide_wanted)
        self.lay_out(self.page)
        self.show_view(None)

    def show_view(self, view: StudyView[Tuning] | None) -> None:
        """Show a tuning's progress. None shows the empty state."""
        self._view = view
        self.resume.setVisible(view is not None and not view.is_unfinished and not view.is_complete)
        if view is None:
            self.head.show_view(None)
            self.page.show_empty()
            return
        self.page.show_view(view)
        tuning = view.answer
        self.head.show_view(
            view, _state_text(view), _fraction_done(tuning), None, is_known=bool(tuning.trials)
        )

    def state(self) -> dict[str, Any]:
        """Return the choices to remember, as plain JSON values."""
        return self.options.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raises KeyError or TypeError for a broken one."""
        if state:
            self.options.restore(state)


_WORDS: Mapping[ChangeKind, tuple[str, str]] = {
    "precision": ("Precision", "Try FP32, TF32, FP16 AMP and BF16 AMP where available"),
    "recipe": ("Optimizations", "Try channels_last, fused optimizer, CUDA graphs and torch.compile"),
    "checkpointing": ("Checkpointing", "Try activation checkpointing, which allows larger batches"),
    "batch": ("Batch", "Try other splits of an optimizer step into batches"),
    "exchange": ("Gradient sync", "Try BF16 gradients, larger buckets and a static graph"),
    "loader": ("Loader", "Try other loader workers, pinned memory and data on the device"),
}
_GUIDE = "tune"
_CAPS_GIB = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 48.0, 80.0)


class TuneOptions(QWidget):
    """The part of the form that chooses which settings a tuning tries.

    `guide_wanted` carries a guide page.
    """

    guide_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.boxes = {kind: _box(*_WORDS[kind]) for kind in CHANGE_KINDS}
        self.boxes["exchange"].hide()
        self.changes_batch = _box(
            "Other batch sizes", "Allow a different number of samples per step (this changes the training)"
        )
        self.coarse = _box(
            "Lower precisions", "Try FP8 and pure BF16, which change the training more than AMP"
        )
        self.guard = ComboBox()
        self.guard.setAccessibleName("Accuracy check")
        self.guard.setToolTip("How close to FP32 the losses of the fastest settings must stay")
        self.guard.addItem("like FP32", "alike")
        self.guard.addItem("any", "none")
        self.cap = ComboBox()
        self.cap.setAccessibleName("Memory cap")
        self.cap.setToolTip("Settings that need more memory are excluded")
        self.cap.addItem("all", None)
        for size in _CAPS_GIB:
            self.cap.addItem(f"{size:g} GiB", size)
        guide = Button("How it works", "link", "Open the guide on Tune")
        guide.clicked.connect(lambda: self.guide_wanted.emit(_GUIDE))
        grid = QGridLayout()
        grid.setContentsMargins(0, 2, 0, 14)
        grid.setVerticalSpacing(8)
        of_several = self.boxes["exchange"]
        always = [box for box in self.boxes.values() if box is not of_several]
        for place, box in enumerate((*always, self.changes_batch, self.coarse, of_several)):
            grid.addWidget(box, place // 2, place % 2)
        head = in_row(label("Settings to try", "label"), Stretch(1), guide)
        row = in_row(Field("Memory cap", self.cap), Field("Accuracy check", self.guard), spacing=12)
        in_column(head, grid, row, parent=self, spacing=4)

    def show_devices(self, has_several: bool) -> None:
        """Show the choices that only apply to multiple devices."""
        self.boxes["exchange"].setVisible(has_several)

    def plan(self) -> TuningPlan:
        kinds = tuple(kind for kind, box in self.boxes.items() if box.isChecked())
        return TuningPlan(
            kinds=kinds,
            changes_batch=self.changes_batch.isChecked(),
            coarse_formats=self.coarse.isChecked(),
            guard=self.guard.currentData(),
        )

    def memory_cap_gib(self) -> float | None:
        """Return the memory cap. None means all memory."""
        size: float | None = self.cap.currentData()
        return size

    def state(self) -> dict[str, Any]:
        """Return the choices to remember, as plain JSON values."""
        return {**self.plan().model_dump(mode="json"), "cap": self.memory_cap_gib()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raises KeyError or TypeError for a broken one."""
        for kind, box in self.boxes.items():
            box.setChecked(kind in state["kinds"])
        self.changes_batch.setChecked(bool(state["changes_batch"]))
        self.coarse.setChecked(state.get("coarse_formats", False))
        self.guard.setCurrentIndex(max(0, self.guard.findData(state["guard"])))
        self.cap.setCurrentIndex(max(0, self.cap.findData(state["cap"])))


def _box(text: str, tip: str) -> QCheckBox:
    box = QCheckBox(text)
    box.setAccessibleName(text)
    box.setToolTip(tip)
    box.setChecked(text in [words for words, _ in _WORDS.values()])
    return box


_LEAST_WIDTH = 360


class Waterfall(DrawingView):
    """A waterfall chart of how much each change of settings adds to the speedup, as wide as the page."""

    def __init__(self, tuning: Tuning) -> None:
        super().__init__()
        self._tuning = tuning
        self.setMinimumWidth(_LEAST_WIDTH)
        drawing = waterfall_drawing(tuning, _LEAST_WIDTH)
        self.setFixedHeight(round(drawing.height))
        self.setAccessibleName(f"Gain of each change: {drawing.description}")

    def sizeHint(self) -> QSize:
        return QSize(_LEAST_WIDTH, self.height())

    def drawing(self) -> Drawing:
        return waterfall_drawing(self._tuning, self.width())


_COLUMNS: tuple[Column[Candidate], ...] = (
    Column("Candidate", lambda candidate: candidate.words, width=160, widest=GROWS),
    number_column("Rounds", lambda candidate: candidate.last_round, "{}".format),
    number_column(
        "Throughput", lambda candidate: candidate.speed, lambda speed: f"{number(speed)} samples/s", width=120
    ),
    number_column(
        "vs. plain FP32", lambda candidate: candidate.ratio, lambda ratio: f"{times(ratio)}×", width=126
    ),
    Column("State", lambda candidate: candidate.state, width=110, widest=GROWS),
)


class TunePage(AnswerPage):
    """Shows the result of a tuning. Its buttons emit the signals.

    `use_wanted` asks to put the fastest settings into the form, `comparison_wanted` to compare the
    verification runs, and `script_wanted` to save the settings as a script.
    """

    use_wanted = Signal()
    comparison_wanted = Signal()
    script_wanted = Signal()

    def __init__(self) -> None:
        super().__init__(
            "Tune",
            "Which settings train this model fastest on this machine?",
            "Short runs screen precisions, optimizations, batch sizes and loader settings. Longer runs "
            "verify the fastest.",
            "Tune",
            "Start with the choices in the form",
            is_solid=True,
        )
        self._shown: Tuning | None = None

    def show_view(self, view: StudyView[Tuning]) -> None:
        """Show a tuning's results so far."""
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
        parts: list[Part] = [] if tuning.winner is None else [self._buttons(tuning)]
        if waterfall_steps(tuning):
            parts += [label("Gain of each change", "heading"), Waterfall(tuning)]
        if tuning.trials:
            table = ResultTable("Candidates", _COLUMNS, whole=True)
            table.show_rows(candidates(tuning))
            parts += [label("Candidates", "heading"), table]
        if left := not_tried(tuning):
            parts += [label("Not tried", "heading"), wrapped("\n".join(left), "body")]
        return parts

    def _buttons(self, tuning: Tuning) -> Part:
        use = Button("Use these settings", "strip", "Put the fastest settings into the form")
        script = Button(
            "Write the script…", "strip", "Save the fastest settings as a script that needs only PyTorch"
        )
        compare = Button("Compare the runs", "strip", "Select the verification runs and open Results")
        compare.setEnabled(tuning.proof is not None and bool(tuning.proof.winner_ids))
        use.clicked.connect(self.use_wanted)
        script.clicked.connect(self.script_wanted)
        compare.clicked.connect(self.comparison_wanted)
        return in_row(use, compare, script, Stretch(1), spacing=8)
