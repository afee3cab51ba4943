"""The page Numerics: the most serious finding, the known parts, and the choice of parts to examine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QWidget

from engine.experiment.experiment import Precision
from engine.export.document import Action, Document
from engine.export.formats import NUMERICS
from engine.export.kinds import numerics
from engine.export.kinds.numerics import SHOW_MODULE, TITLES
from engine.protocol.numerics import USUAL_PARTS, Numerics, Part
from engine.words.names import dataset_words
from gui.answer.page import PageTexts, StudyPage, state_words
from gui.answer.sections import Offer
from gui.numerics.map_view import MapView
from gui.numerics.range_view import RangeView
from gui.session.views import StudyView
from gui.widgets import EmptyState, label
from gui.widgets.boxes import in_column


class _Choice(NamedTuple):
    """Parts that are selected together."""

    parts: tuple[Part, ...]
    text: str
    tip: str


_CHOICES = (
    _Choice(
        USUAL_PARTS, "Map, ranges, first NaN (seconds)", "Record the first steps, operation by operation"
    ),
    _Choice(
        ("ladder",),
        "Divergence (minutes)",
        "Find the step at which each precision's loss diverges from FP32",
    ),
    _Choice(
        ("islands",),
        "FP32 modules (longest)",
        "Find the fewest modules that need FP32, in many short runs",
    ),
)
_OFFERS: Mapping[str, tuple[str, Offer]] = {
    "nan": (
        "Searching for the first NaN or Inf.",
        Offer(
            "Which operation produces the first NaN or Inf?",
            "Trains until the loss, a weight or the gradients are NaN or infinite, then repeats the last "
            "steps and records every operation. An operation is named only if both repeats agree.",
            "Search",
            "Search the first steps of the form's experiment",
        ),
    ),
    "map": (
        "Recording the precision map.",
        Offer(
            "Which module computes in which dtype?",
            "AMP computes some operations in 16 bits and leaves others in FP32. The map records one step and "
            "shows each module's dtypes, forward and backward, their cost, and the casts between them.",
            "Record the map",
            "Record one step with the form's settings",
        ),
    ),
    "range": (
        "Measuring the ranges.",
        Offer(
            "Which values would a lower-precision dtype lose?",
            "Compares the exponents of activations, gradients and weights with the ranges of FP16, BF16 and "
            "FP8, module by module. Also finds the loss scale with the least underflow and overflow.",
            "Measure ranges",
            "Train one step with the form's settings and count exponents",
        ),
    ),
    "ladder": (
        "Training in each precision.",
        Offer(
            "At which step does a precision diverge from FP32?",
            "Trains FP32 several times, FP16 with and without a loss scaler, BF16 and pure BF16. All use the "
            "same weights and batches. Shows where the losses diverge, and at which module.",
            "Run the divergence test",
            "Train some steps of the form's experiment in each precision",
        ),
    ),
    "islands": (
        "Searching for the fewest FP32 modules.",
        Offer(
            "Which modules need FP32?",
            "Short runs with different modules in FP32 find the smallest set that trains as well as FP32. "
            "This takes minutes.",
            "Find them",
            "Find the FP32 modules of the form's experiment",
        ),
    ),
    "advice": (
        "Advice comes with the other parts.",
        Offer(
            "What would make this training faster, smaller or safer?",
            "Every part of Numerics comes with advice and the measurements behind it.",
            "Examine",
            "Examine the numerics of the form's experiment",
        ),
    ),
}
"""What the tab of a part shows while the part is awaited, and what it offers otherwise."""


class NumericsPanel(StudyPage[StudyView[Numerics]]):
    """The page of a numerics study of one experiment. `study_wanted` asks to study the form's experiment."""

    study_wanted = Signal()
    kind = PageTexts("Numerics", "pulse", "numerics study", "parts", NUMERICS.formats)
    guides: ClassVar[Mapping[str, str]] = {
        TITLES["nan"]: "first-nan",
        TITLES["map"]: "check-numerics",
        TITLES["range"]: "check-numerics",
        TITLES["scaling"]: "fp8",
        TITLES["ladder"]: "divergence",
        TITLES["islands"]: "divergence",
        TITLES["advice"]: "check-numerics",
    }

    def __init__(self, parent: QWidget | None = None) -> None:
        empty = EmptyState(
            "Where does this model lose precision, and what causes a NaN?",
            "Trains a few steps and records every operation: its dtype, which values overflow or underflow, "
            "and which module produces the first NaN or Inf.",
        )
        super().__init__(empty, widgets={"map": self._make_map, "ranges": self._make_ranges}, parent=parent)
        self._kept: Sequence[str] = ()
        self.boxes = [_check_box(choice) for choice in _CHOICES]
        self.boxes[0].setChecked(True)
        self.parts_choice = QWidget()
        in_column(
            label("Parts", "label"), *self.boxes, parent=self.parts_choice, margins=(0, 0, 0, 14), spacing=8
        )
        self.offer_taken.connect(self._want)
        self.asked.connect(self._act)
        self.show_view(None)

    def show_view(self, view: StudyView[Numerics] | None) -> None:
        before = self._view
        super().show_view(view)
        if view is not None and (before is None or before.key != view.key):
            self._open_known(view)

    def document(self, view: StudyView[Numerics]) -> Document:
        return numerics.document(view.study)

    def title(self, view: StudyView[Numerics]) -> str:
        return f"Numerics of {view.answer.experiment.precision.label}"

    def note(self, view: StudyView[Numerics]) -> str:
        experiment = view.answer.experiment
        return state_words(
            view, f"{experiment.model} on {dataset_words(experiment.dataset)}", experiment.model
        )

    def progress(self, view: StudyView[Numerics]) -> tuple[float, Precision | None]:
        return view.fraction or 0.0, view.answer.experiment.precision

    def answer_of(self, view: StudyView[Numerics]) -> Numerics:
        return view.answer

    def offers(self, view: StudyView[Numerics]) -> Mapping[str, Offer]:
        coming = _pending_parts(view)
        return {
            TITLES[part]: Offer(awaited) if part in coming else offer
            for part, (awaited, offer) in _OFFERS.items()
            if not view.answer.has(part)
        }

    def parts(self) -> tuple[Part, ...]:
        """Return the parts selected for the next study."""
        chosen = zip(_CHOICES, self.boxes, strict=True)
        return tuple(part for choice, box in chosen if box.isChecked() for part in choice.parts)

    def choose(self, parts: Sequence[str], *, only: bool = False) -> None:
        """Select the check boxes of these parts. With `only`, clear all others."""
        for choice, box in zip(_CHOICES, self.boxes, strict=True):
            is_wanted = any(part in parts for part in choice.parts)
            box.setChecked(is_wanted or (box.isChecked() and not only))

    def state(self) -> dict[str, Any]:
        """Return the state to remember, as plain JSON values."""
        tab = next((part for part, title in TITLES.items() if title == self.tabs.name()), "nan")
        return {"parts": list(self.parts()), "tab": tab}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raise KeyError or TypeError for a broken one."""
        if state:
            self.choose(state["parts"], only=True)
            self.tabs.open(TITLES[state["tab"]])

    def show_kept(self, patterns: Sequence[str]) -> None:
        """Set the modules and patterns that the form keeps in FP32."""
        self._kept = patterns
        if (view := self.map) is not None:
            view.show_kept(patterns)

    @property
    def map(self) -> MapView | None:
        """The precision map, once it is shown."""
        view = self.section_widget(TITLES["map"], TITLES["map"])
        return view if isinstance(view, MapView) else None

    def _open_known(self, view: StudyView[Numerics]) -> None:
        # a search that found nothing is not what a study is opened for
        found = view.answer.results.nan is not None and view.answer.results.nan.first is not None
        order = sorted(_OFFERS, key=lambda part: part == "nan" and not found)
        known = [TITLES[part] for part in order if view.answer.has(part) or part in _pending_parts(view)]
        if known and self.tabs.name() not in known:
            self.tabs.open(known[0])

    def _want(self, title: str) -> None:
        part = next(part for part in _OFFERS if TITLES[part] == title)
        # advice comes with any part
        self.choose([part] if part != "advice" else self.parts() or USUAL_PARTS)
        self.tabs.open(title)
        self.study_wanted.emit()

    def _act(self, action: Action) -> None:
        if action.name == SHOW_MODULE:
            self.tabs.open(TITLES["map"])
            if (view := self.map) is not None:
                view.show_module(action.value)

    def _make_map(self) -> MapView:
        view = MapView()
        view.show_kept(self._kept)
        view.changes_wanted.connect(self.changes_wanted)
        return view

    def _make_ranges(self) -> RangeView:
        view = RangeView()
        view.changes_wanted.connect(self.changes_wanted)
        return view


def _pending_parts(view: StudyView[Numerics]) -> Sequence[str]:
    return (*view.answer.parts, "advice") if view.is_unfinished else ()


def _check_box(choice: _Choice) -> QCheckBox:
    box = QCheckBox(choice.text)
    box.setAccessibleName(f"Examine: {choice.text}")
    box.setToolTip(choice.tip)
    return box
