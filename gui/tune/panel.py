"""The page Tune: the choices, the progress and the result of a tuning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QGridLayout, QWidget

from engine.experiment.experiment import Precision
from engine.export.document import Document
from engine.export.formats import TUNE
from engine.export.kinds import tune
from engine.protocol.tune import CHANGE_KINDS, ChangeKind, Tuning, TuningPlan
from engine.words.names import dataset_words
from gui.answer.page import PageTexts, StudyPage, state_words
from gui.session.views import StudyView
from gui.widgets import Button, ComboBox, EmptyState, Field, label
from gui.widgets.boxes import Stretch, in_column, in_row

_PHASES = {
    "candidates": "examining the candidates",
    "halving": "short runs of the candidates",
    "proof": "verifying the fastest settings against plain FP32",
    "gains": "measuring the gain of each change",
    "over": "finished",
}
_PARTS = {"candidates": 0.0, "halving": 0.1, "proof": 0.6, "gains": 0.85, "over": 1.0}
"""The approximate share of the work that is done when a phase starts."""


def _fraction_done(tuning: Tuning) -> float:
    """Return the approximate share of a tuning that is done, 0 to 1."""
    begun = _PARTS[tuning.phase]
    if tuning.phase != "halving":
        return begun
    rounds = max((trial.round for trial in tuning.trials), default=0)
    return begun + (_PARTS["proof"] - begun) * (1 - 0.5**rounds)


class TunePanel(StudyPage[StudyView[Tuning]]):
    """The page of a tuning. `options`, the choices of a tuning, are shown in the setup form."""

    kind = PageTexts("Tune", "tune", "tuning", "trials", TUNE.formats)
    guides: ClassVar[Mapping[str, str]] = {tune.RESULT: "tune", tune.TRIALS: "tune"}

    def __init__(self, parent: QWidget | None = None) -> None:
        self.resume = Button("Resume", "strip", "Resume the tuning", "play")
        empty = EmptyState(
            "Which settings train this model fastest on this machine?",
            "Short runs screen precisions, optimizations, batch sizes and loader settings. Longer runs "
            "verify the fastest.",
        )
        super().__init__(empty, (self.resume,), parent=parent)
        self.options = TuneOptions()
        self.options.guide_wanted.connect(self.guide_wanted)
        self.show_view(None)

    def show_view(self, view: StudyView[Tuning] | None) -> None:
        super().show_view(view)
        # in Results they are those to start from, as long as nothing faster is known
        has_settings = view is not None and (view.answer.winner is not None or self.is_in_results)
        self.head.settings.setVisible(has_settings)
        self.resume.setVisible(view is not None and not view.is_unfinished and not view.is_complete)

    def document(self, view: StudyView[Tuning]) -> Document:
        return tune.document(view.study)

    def note(self, view: StudyView[Tuning]) -> str:
        if view.is_live and not view.is_waiting:
            return view.study.doing or _PHASES[view.answer.phase]
        experiment, how = view.answer.experiment, "finished" if view.is_complete else "unfinished"
        return state_words(view, f"{experiment.model} on {dataset_words(experiment.dataset)}, {how}", "")

    def progress(self, view: StudyView[Tuning]) -> tuple[float, Precision | None]:
        return _fraction_done(view.answer), None

    def answer_of(self, view: StudyView[Tuning]) -> Tuning:
        return view.answer

    def state(self) -> dict[str, Any]:
        """Return the choices to remember, as plain JSON values."""
        return self.options.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raises KeyError or TypeError for a broken one."""
        if state:
            self.options.restore(state)


_WORDS: Mapping[ChangeKind, tuple[str, str]] = {
    "precision": ("Precision", "Try FP32, TF32, FP16 AMP and BF16 AMP where available"),
    "recipe": (
        "Optimizations",
        "Try channels_last, fused optimizer, compiling, CUDA graphs and BatchNorm counters",
    ),
    "attention": ("Attention", "Try each kernel of scaled_dot_product_attention"),
    "checkpointing": ("Checkpointing", "Try activation checkpointing, which allows larger batches"),
    "batch": ("Batch", "Try other splits of an optimizer step into batches"),
    "exchange": ("Gradient sync", "Try BF16 gradients, larger buckets and a static graph"),
    "loader": ("Loader", "Try other loader workers, pinned memory and data on the device"),
    "compile": ("Compile mode", "Try other modes of torch.compile"),
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
