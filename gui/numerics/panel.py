"""The page Numerics: the most serious finding, the known parts, and the choice of parts to examine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QStackedWidget, QWidget

from engine.export.formats import NUMERICS
from engine.protocol.advice import Advices
from engine.protocol.numerics import USUAL_PARTS, Numerics, Part
from engine.words.names import dataset_words
from gui.numerics.answers import Fp32ModulesView, NonfiniteView
from gui.numerics.divergence import DivergenceView
from gui.numerics.map_view import MapView
from gui.numerics.range_view import RangeView
from gui.session.studies import StudyView
from gui.session.study_page import StudyHead, StudyPage, state_words
from gui.widgets import EmptyState, label, set_text
from gui.widgets.answer_page import AdviceView, AdviceWords, AnswerPage, ViewTab, ViewTabs
from gui.widgets.boxes import in_column, wide
from gui.widgets.labels import wrapped


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


_TABS = {
    "advice": ("Advice", "check-numerics", "Advice comes with the other parts."),
    "map": ("Precision map", "check-numerics", "Recording the precision map."),
    "range": ("Ranges", "check-numerics", "Measuring the ranges."),
    "nan": ("First NaN", "first-nan", "Searching for the first NaN or Inf."),
    "ladder": ("Divergence", "divergence", "Training in each precision."),
    "islands": ("FP32 modules", "divergence", "Searching for the fewest FP32 modules."),
}
"""The views in order, the most urgent first: title, guide page, and the message while the part is awaited."""


class _PartView(NamedTuple):
    """A view with the method that shows its part."""

    view: MapView | RangeView | DivergenceView | AnswerPage
    show: Callable[[Any], object]


class NumericsPanel(StudyPage[StudyView[Numerics]]):
    """The page of a numerics study of one experiment.

    `study_wanted` asks to study the form's experiment. `changes_wanted` carries Changes for the form.
    """

    study_wanted = Signal()
    changes_wanted = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(StudyHead("Numerics", "numerics study", "parts", NUMERICS.formats), parent)
        self._shown: dict[str, object] = {}
        self._finding = ("", "")
        self.boxes = [_check_box(choice) for choice in _CHOICES]
        self.boxes[0].setChecked(True)
        self.parts_choice = QWidget()
        in_column(
            label("Parts", "label"), *self.boxes, parent=self.parts_choice, margins=(0, 0, 0, 14), spacing=8
        )
        self.empty = EmptyState(
            "Where does this model lose precision, and what causes a NaN?",
            "Trains a few steps and records every operation: its dtype, which values overflow or underflow, "
            "and which module produces the first NaN or Inf.",
            "Examine",
            "Examine the form's first half-precision run",
            is_solid=True,
        )
        self.answer = wrapped("", "stat")
        self.map, self.ranges, self.divergence = MapView(), RangeView(), DivergenceView()
        self.nonfinite, self.fp32_modules, self.advice = NonfiniteView(), Fp32ModulesView(), NumericsAdvice()
        self._views: Mapping[str, _PartView] = {
            "advice": _PartView(self.advice, self.advice.show_advices),
            "map": _PartView(self.map, self.map.show_map),
            "range": _PartView(self.ranges, self.ranges.show_ranges),
            "nan": _PartView(self.nonfinite, self.nonfinite.show_search),
            "ladder": _PartView(self.divergence, self.divergence.show_divergence),
            "islands": _PartView(self.fp32_modules, self.fp32_modules.show_modules),
        }
        self._tab_pages = {name: _page(part.view, _TABS[name][2]) for name, part in self._views.items()}
        tabs = [ViewTab(name, title, page, self._tab_pages[name]) for name, (title, page, _) in _TABS.items()]
        self.tabs = ViewTabs("Numerics views", tabs)
        self._content = QWidget()
        in_column(self.answer, wide(self.tabs), parent=self._content, spacing=8)
        self.lay_out(self.empty, self._content)
        self._connect()
        self.show_view(None)

    def show_view(self, view: StudyView[Numerics] | None) -> None:
        """Show the parts known so far. For None, show the empty state."""
        is_other = view is None or self._view is None or view.key != self._view.key
        self._view = view
        if view is None:
            self.head.show_view(None)
        else:
            experiment = view.answer.experiment
            precision, fraction, is_known = experiment.precision, view.fraction or 0.0, view.answer.is_known
            what = f"{experiment.model} on {dataset_words(experiment.dataset)}, {precision.label}"
            note = state_words(view, what, f"{experiment.model}, {precision.label}")
            self.head.show_view(view, note, fraction, precision, is_known=is_known)
            self.ranges.loss_scale.set_uses_scaler(experiment.uses_scaler)
        self._pages.setCurrentWidget(self.empty if view is None else self._content)
        self._show_parts(is_other)

    def parts(self) -> tuple[Part, ...]:
        """Return the parts selected for the next study."""
        chosen = zip(_CHOICES, self.boxes, strict=True)
        return tuple(part for choice, box in chosen if box.isChecked() for part in choice.parts)

    def choose(self, parts: Sequence[str], *, only: bool = False) -> None:
        """Select the boxes of these parts. With `only`, clear the others."""
        for choice, box in zip(_CHOICES, self.boxes, strict=True):
            is_wanted = any(part in parts for part in choice.parts)
            box.setChecked(is_wanted or (box.isChecked() and not only))

    def state(self) -> dict[str, Any]:
        """Return the state to remember, as plain JSON values."""
        return {"parts": list(self.parts()), "tab": self.tabs.name()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raise KeyError or TypeError for a broken one."""
        if state:
            self.choose(state["parts"], only=True)
            self.tabs.open(state["tab"])

    def _show_parts(self, is_other: bool) -> None:
        view = self._view
        for name, shown in self._views.items():
            part = None if view is None else getattr(view.answer.results, name)
            if is_other or part is not self._shown.get(name):
                # the worker's phase changes often: a view is not filled again for it
                shown.show(part)
                self._shown[name] = part
            is_awaited = view is not None and view.is_unfinished and name in (*view.answer.parts, "advice")
            self._tab_pages[name].setCurrentIndex(1 if is_awaited and part is None else 0)
        if is_other and view is not None:
            coming = view.answer.parts if view.is_unfinished else ()
            known = [name for name in self._views if view.answer.has(name) or name in coming]
            if known and self.tabs.name() not in known:
                self.tabs.open(known[0])
        self._finding = ("", "") if view is None else finding(view.answer)
        set_text(self.answer, self._finding[1])
        self._show_answer()

    def _show_answer(self) -> None:
        # not above the view that starts with the same sentence
        part, sentence = self._finding
        policy = self.answer.sizePolicy()
        # its room stays, or the tabs would move under the mouse
        policy.setRetainSizeWhenHidden(bool(sentence))
        self.answer.setSizePolicy(policy)
        self.answer.setVisible(bool(sentence) and self.tabs.name() != part)

    def _want(self, name: str) -> None:
        # advice comes with any part
        self.choose([name] if name != "advice" else self.parts() or USUAL_PARTS)
        self.tabs.open(name)
        self.study_wanted.emit()

    def _show_module(self, name: str) -> None:
        self.map.show_module(name)
        self.tabs.open("map")

    def _connect(self) -> None:
        self.empty.pressed.connect(self.study_wanted)
        self.tabs.guide_wanted.connect(self.guide_wanted)
        self.tabs.currentChanged.connect(self._show_answer)
        self.nonfinite.module_chosen.connect(self._show_module)
        for name, part in self._views.items():
            part.view.wanted.connect(lambda name=name: self._want(name))
        for view in (self.map, self.ranges, self.nonfinite, self.fp32_modules, self.advice):
            view.changes_wanted.connect(self.changes_wanted)


def _check_box(choice: _Choice) -> QCheckBox:
    box = QCheckBox(choice.text)
    box.setAccessibleName(f"Examine: {choice.text}")
    box.setToolTip(choice.tip)
    return box


def _page(view: QWidget, awaited: str) -> QStackedWidget:
    page, words = QStackedWidget(), label(awaited, "empty")
    words.setAlignment(Qt.AlignmentFlag.AlignCenter)
    for shown in (view, words):
        page.addWidget(shown)
    return page


def finding(numerics: Numerics) -> tuple[str, str]:
    """Return the view and the sentence of the most serious finding on the examined precision."""
    known, precision = numerics.results, numerics.experiment.precision
    runs = () if known.ladder is None else known.ladder.runs
    divergence = "" if known.ladder is None else known.ladder.sentence
    found = (
        ("nan", known.nan.first.sentence if known.nan is not None and known.nan.first is not None else ""),
        ("islands", known.islands.sentence if known.islands is not None else ""),
        ("ladder", next((run.sentence for run in runs if run.precision == precision), divergence)),
        ("range", "" if known.range is None else known.range.finding(precision)),
        ("nan", known.nan.sentence if known.nan is not None else ""),
    )
    return next(((part, sentence) for part, sentence in found if sentence), ("", ""))


class NumericsAdvice(AdviceView):
    """Shows advice on the form's settings, derived from a numerics study."""

    def __init__(self) -> None:
        super().__init__(
            AdviceWords(
                question="What would make this training faster, smaller or safer?",
                hint="Every part of Numerics comes with advice and the measurements behind it.",
                action="Examine",
                tooltip="Examine the numerics of the form's experiment",
                none="The measurements here do not support any advice. Other parts may find more.",
            )
        )

    def show_advices(self, advices: Advices | None) -> None:
        """Show the advice. For None, show the empty state."""
        self.show_advice(None if advices is None else [("", advice) for advice in advices.items])
