"""The page Numerics: the parts that are known, and the choice of those to examine next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QFrame,
    QLabel,
    QStackedLayout,
    QStackedWidget,
    QWidget,
)

from engine.experiment.experiment import Experiment
from engine.export.formats import NUMERICS
from engine.protocol.advice import Advices
from engine.protocol.numerics.numerics import USUAL_PARTS, Numerics, Part
from engine.store.record import RunRecord
from engine.words.names import dataset_words
from engine.words.numbers import date_text, share_text
from gui.numerics.answers.islands_view import IslandsView
from gui.numerics.answers.nonfinite_view import NonfiniteView
from gui.numerics.ladder.view import LadderView
from gui.numerics.map.view import MapView
from gui.numerics.ranges.view import RangeView, ReadSample
from gui.session.studies import StudyView
from gui.session.study_page import StudyHead
from gui.widgets import EmptyState, label
from gui.widgets.answer_page import AdviceView, AdviceWords, AnswerPage, ViewTab, ViewTabs
from gui.widgets.boxes import in_column, wide

_NOTHING_YET = (
    "Where does this model lose precision, and what makes a NaN?",
    "A few steps of what the form describes are trained with every operation watched: which number format it "
    "computes in, which numbers do not fit into it, and which module makes the first NaN or Inf.",
    "Examine",
    "Examines the form's first half-precision run",
)


class _Choice(NamedTuple):
    """Parts that are chosen together."""

    parts: tuple[Part, ...]
    text: str
    tip: str


_CHOICES = (
    _Choice(
        USUAL_PARTS, "Map, ranges, first NaN (seconds)", "Watches the first steps, operation by operation"
    ),
    _Choice(
        ("ladder",),
        "Ladder (minutes)",
        "Trains the same steps several times in FP32, and in other precisions: where do the losses part?",
    ),
    _Choice(
        ("islands",),
        "FP32 modules (longest)",
        "Finds the fewest modules that must stay in FP32, by a short run for every trial",
    ),
)


_TITLES = {
    "map": ("Precision map", "precision-map"),
    "range": ("Ranges", "ranges"),
    "nan": ("First NaN", "first-nan"),
    "ladder": ("Ladder", "ladder"),
    "islands": ("FP32 modules", "fp32-modules"),
    "advice": ("Advice", "advice"),
}
"""The title of each view, and its page of the guide."""


class _PartView(NamedTuple):
    """A view, and the method that shows its part."""

    view: MapView | RangeView | LadderView | AnswerPage
    show: Callable[[Any], object]


class NumericsPanel(QFrame):
    """Shows the numerics of an experiment.

    `study_wanted` asks for those of what the form describes; `changes_wanted` carries Changes for the form,
    `guide_wanted` the page on the view in front.
    """

    study_wanted = Signal()
    changes_wanted = Signal(object)
    guide_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "page")
        self._view: StudyView[Numerics] | None = None
        self._shown: dict[str, object] = {}
        self.head = StudyHead("Numerics", "numerics study", "parts", NUMERICS.formats)
        self.boxes = [_check_box(choice) for choice in _CHOICES]
        self.boxes[0].setChecked(True)
        self.parts_choice = QWidget()
        in_column(
            label("Parts", "label"), *self.boxes, parent=self.parts_choice, margins=(0, 0, 0, 14), spacing=8
        )
        self.empty = EmptyState(*_NOTHING_YET, is_solid=True)
        self.map = MapView()
        self.ranges, self.ladder = RangeView(), LadderView()
        self.nonfinite, self.islands, self.advice = NonfiniteView(), IslandsView(), NumericsAdvice()
        self._views: Mapping[str, _PartView] = {
            "map": _PartView(self.map, self.map.show_map),
            "range": _PartView(self.ranges, self.ranges.show_ranges),
            "nan": _PartView(self.nonfinite, self.nonfinite.show_search),
            "ladder": _PartView(self.ladder, self.ladder.show_ladder),
            "islands": _PartView(self.islands, self.islands.show_islands),
            "advice": _PartView(self.advice, self.advice.show_advices),
        }
        self._tab_pages = {name: _page(name, part.view) for name, part in self._views.items()}
        self.tabs = ViewTabs(
            "Parts of the numerics",
            [ViewTab(name, *_TITLES[name], page) for name, page in self._tab_pages.items()],
        )
        self._connect()
        self._lay_out()
        self.show_view(None)

    def show_view(self, view: StudyView[Numerics] | None) -> None:
        """Shows the parts known so far; None for the empty state."""
        is_other = view is None or self._view is None or view.key != self._view.key
        self._view = view
        if view is None:
            self.head.show_view(None, "", 0.0, None, is_known=False)
        else:
            note = progress(view) if view.is_unfinished else facts(view)
            experiment, is_known = view.answer.experiment, view.answer.is_known
            self.head.show_view(view, note, view.fraction or 0.0, experiment.precision, is_known=is_known)
            self.ranges.set_uses_scaler(experiment.uses_scaler)
        self._pages.setCurrentWidget(self.empty if view is None else self.tabs)
        self._show_parts(is_other)

    def show_samples(self, run: RunRecord, count: int, read: ReadSample) -> None:
        """Shows the `count` ranges that were sampled while a run trained, which `read` gives by number."""
        self.show_view(None)
        self.head.note.set_whole_text(f"Ranges sampled during “{run.name}”")
        self.ranges.set_uses_scaler(run.experiment.uses_scaler)
        self.ranges.show_samples(count, read)
        self._pages.setCurrentWidget(self.tabs)
        self.tabs.open("range")

    def view(self) -> StudyView[Numerics] | None:
        return self._view

    def parts(self) -> tuple[Part, ...]:
        """The parts chosen for the next study."""
        chosen = zip(_CHOICES, self.boxes, strict=True)
        return tuple(part for choice, box in chosen if box.isChecked() for part in choice.parts)

    def choose(self, parts: Sequence[Part], *, only: bool = False) -> None:
        """Ticks the boxes of these parts, and with `only` unticks the others."""
        for choice, box in zip(_CHOICES, self.boxes, strict=True):
            is_wanted = any(part in parts for part in choice.parts)
            box.setChecked(is_wanted or (box.isChecked() and not only))

    def state(self) -> dict[str, Any]:
        """The remembered state, as plain JSON values."""
        return {"parts": list(self.parts()), "tab": self.tabs.name()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a `state`. Raises KeyError or TypeError for a broken one."""
        if state:
            self.choose(
                [part for choice in _CHOICES for part in choice.parts if part in state["parts"]], only=True
            )
            self.tabs.open(state["tab"])

    def _show_parts(self, is_other: bool) -> None:
        view = self._view
        for name, shown in self._views.items():
            part = None if view is None else getattr(view.answer.results, name)
            if is_other or part is not self._shown.get(name):
                # the worker's phase changes often: a view is not filled again for it
                shown.show(part)
                self._shown[name] = part
            awaited = view is not None and part is None and is_awaited(view, name)
            self._tab_pages[name].setCurrentIndex(1 if awaited else 0)
        if is_other and view is not None:
            known = [name for name in self._views if view.answer.has(name) or is_awaited(view, name)]
            if known and self.tabs.name() not in known:
                self.tabs.open(known[0])

    def _want(self, name: str) -> None:
        # advice comes with any part
        wanted = [part for choice in _CHOICES for part in choice.parts if part == name] or self.parts()
        self.choose(wanted or USUAL_PARTS)
        self.tabs.open(name)
        self.study_wanted.emit()

    def _show_module(self, name: str) -> None:
        self.map.show_module(name)
        self.tabs.open("map")

    def _connect(self) -> None:
        self.empty.pressed.connect(self.study_wanted)
        self.tabs.guide_wanted.connect(self.guide_wanted)
        self.nonfinite.module_chosen.connect(self._show_module)
        for name, part in self._views.items():
            part.view.wanted.connect(lambda name=name: self._want(name))
        for view in (self.map, self.ranges, self.nonfinite, self.islands, self.advice):
            view.changes_wanted.connect(self.changes_wanted)

    def _lay_out(self) -> None:
        panel = QFrame()
        panel.setProperty("surface", "panel")
        self._pages = QStackedLayout()
        in_column(self.head.problem, wide(self._pages), parent=panel, margins=(12, 10, 12, 8), spacing=8)
        # its first page is shown at once, and would be a window of its own before it has its place
        self._pages.addWidget(self.empty)
        self._pages.addWidget(self.tabs)
        in_column(self.head, wide(panel), parent=self, margins=16, spacing=8)


def _check_box(choice: _Choice) -> QCheckBox:
    box = QCheckBox(choice.text)
    box.setAccessibleName(f"Examine: {choice.text}")
    box.setToolTip(choice.tip)
    return box


def _page(name: str, view: QWidget) -> QStackedWidget:
    """The view, and what is shown while its part is awaited."""
    page = QStackedWidget()
    page.addWidget(view)
    page.addWidget(_awaited(name))
    return page


def _awaited(name: str) -> QLabel:
    words = label(AWAITED[name], "empty")
    words.setAlignment(Qt.AlignmentFlag.AlignCenter)
    return words


_WORDS = AdviceWords(
    question="What would make this training faster, smaller or safer?",
    hint="Advice comes with every part of the numerics, together with the figures that it rests on.",
    action="Examine",
    tooltip="Examine the numerics of the form's experiment",
    none=("Advice is given only where figures support it, and none do here. Other parts may find more."),
)


class NumericsAdvice(AdviceView):
    """Shows the advice on numerics."""

    def __init__(self) -> None:
        super().__init__(_WORDS)

    def show_advices(self, advices: Advices | None) -> None:
        """Shows the advice; None for the empty state."""
        self.show_advice(None if advices is None else [("", advice) for advice in advices.items])


AWAITED = {
    "map": "The precision map is being made.",
    "range": "The ranges are being measured.",
    "nan": "The first NaN or Inf is being looked for.",
    "ladder": "The ladder's runs are being trained.",
    "islands": "The fewest FP32 modules are being looked for.",
    "advice": "Advice comes with the other parts.",
}
"""The text of a view whose part is still to come."""


def facts(view: StudyView[Numerics]) -> str:
    """The experiment, the device and the date."""
    when = date_text(view.created)
    return ", ".join(part for part in (_what(view.answer.experiment), view.device_name, when) if part)


def progress(view: StudyView[Numerics]) -> str:
    """The progress, in words."""
    if view.is_waiting:
        return "waiting for its turn"
    what = f"{view.answer.experiment.model}, {view.answer.experiment.precision.label}"
    share = f", {share_text(view.fraction)}" if view.fraction is not None else ""
    return f"{what}: {view.doing or 'starting a process'}{share}"


def is_awaited(view: StudyView[Numerics], part: str) -> bool:
    """True if a part is still to come; advice comes with the others."""
    return view.is_unfinished and part in (*view.answer.parts, "advice") and not view.answer.has(part)


def _what(experiment: Experiment) -> str:
    return f"{experiment.model} on {dataset_words(experiment.dataset)}, {experiment.precision.label}"
