"""The tabs of a comparison that show studies of the same runs, or offer to make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtWidgets import QStackedLayout, QWidget

from engine.compare.comparison import Comparison
from engine.experiment.command import refusal
from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.protocol.numerics import FIRST_STEPS, Numerics
from engine.protocol.profile import profiles_of
from engine.protocol.trials import Limit, LimitSide
from gui.answer.controller import StudyController
from gui.compare.head import ItemHead
from gui.compare.panel import ComparePanel
from gui.results.studies import StudyMaker
from gui.runs.table.rows import StudyKind, StudyRow
from gui.session.experiments import Experiments
from gui.widgets import EmptyState
from gui.widgets.boxes import Surface, in_column


@dataclass(frozen=True)
class Pair:
    """The sides of a comparison that a tab shows, the baseline first, with one run of each.

    `headline` is the experiment of the side in the headline.
    """

    run_ids: tuple[str, ...]
    experiments: tuple[Experiment, ...]
    labels: tuple[str, ...]
    headline: Experiment

    @property
    def sides(self) -> str:
        """Return the name of the sides in a button."""
        return {1: self.labels[0], 2: "both"}.get(len(self.labels), f"all {len(self.labels)}")


def pair_of(comparison: Comparison, head: ItemHead) -> Pair:
    """Return the sides of the comparison in view."""
    by_id = {side.id: side for side in comparison.sides}
    sides = [by_id[side_id] for side_id in head.side_run_ids()]
    telling = by_id.get(head.headline() or "", comparison.baseline)
    return Pair(
        tuple(side.id for side in sides),
        tuple(side.runs[0].experiment for side in sides),
        tuple(side.title for side in sides),
        telling.runs[0].experiment,
    )


@dataclass(frozen=True)
class _Offer:
    title: str
    question: str
    hint: str
    button: Callable[[Pair], str]
    tip: str
    find: Callable[[Pair], str | None]
    make: Callable[[Pair], str]
    against: Callable[[Pair], str | None]


class StudyTab(QWidget):
    """A tab of a comparison with the newest study of its runs, such as their profile.

    Without one, it offers to make it.
    """

    def __init__(self, kind: StudyKind, offer: _Offer, maker: StudyMaker) -> None:
        super().__init__()
        self._kind, self._offer, self._maker = kind, offer, maker
        self._controller: StudyController[Any] | None = None
        self._pair: Pair | None = None
        self._made: dict[tuple[str, ...], str] = {}
        self.empty = EmptyState(offer.question, offer.hint, "", offer.tip)
        self.empty.pressed.connect(self._make)
        self._pages = QStackedLayout(self)
        panel = Surface("panel")
        in_column(self.empty, parent=panel)
        self._pages.addWidget(panel)

    def show_pair(self, pair: Pair) -> None:
        """Show the newest study of these runs."""
        self._pair = pair
        made = self._made.get(pair.run_ids)
        # it may have been deleted, or stopped before anything was known
        is_left = made is not None and self._maker.experiments.works.view(made) is not None
        key = made if is_left else self._offer.find(pair)
        if key is not None:
            self._open(key)
            return
        against = self._offer.against(pair)
        hint, button = (self._offer.hint, self._offer.button(pair)) if against is None else (against, "")
        self.empty.show_text(self._offer.question, hint, button, self._offer.tip)
        self._pages.setCurrentIndex(0)

    def _open(self, key: str) -> None:
        if self._controller is None:
            panel, self._controller = self._maker.make(self._kind, self)
            self._pages.addWidget(panel)
            panel.show_in_tab()
        self._pages.setCurrentIndex(1)
        self._controller.open(key)

    def _make(self) -> None:
        if self._pair is None:
            return
        try:
            self._maker.experiments.trust.check(self._pair.experiments)
            key = self._offer.make(self._pair)
        except ProblemError as error:
            self._maker.reported.emit(f"{error.problem.message} {error.problem.remedy}")
            return
        self._made[self._pair.run_ids] = key
        self._open(key)


def add_tabs(
    panel: ComparePanel, head: ItemHead, maker: StudyMaker, studies: Callable[[], Sequence[StudyRow]]
) -> Callable[[], None]:
    """Add a tab for each kind of study to the comparison's page.

    Return a function that fills the front tab.
    """
    offers = _offers(maker.experiments, studies)
    tabs = {kind: StudyTab(kind, offer, maker) for kind, offer in offers.items()}
    for kind, tab in tabs.items():
        panel.tabs.addTab(tab, offers[kind].title)

    def fill() -> None:
        comparison, front = panel.comparison, panel.tabs.currentWidget()
        if comparison is not None and isinstance(front, StudyTab):
            front.show_pair(pair_of(comparison, head))

    panel.tabs.currentChanged.connect(lambda _place: fill())
    return fill


def _offers(experiments: Experiments, studies: Callable[[], Sequence[StudyRow]]) -> dict[StudyKind, _Offer]:
    def newest(kind: StudyKind, wanted: Sequence[Experiment]) -> str | None:
        keys = {_but_length(experiment) for experiment in wanted}
        found = [
            study
            for study in studies()
            if study.kind == kind and study.experiment is not None and _but_length(study.experiment) in keys
        ]
        return max(found, key=lambda study: study.when).id if found else None

    return {
        "profile": _Offer(
            "Profile",
            "Where does a step's time go?",
            "Records a few steps after warm-up and splits their time into matrix work, memory, casts and"
            " waiting, side by side.",
            lambda pair: f"Profile {pair.sides}",
            "Profile a few steps of the compared runs",
            lambda pair: experiments.find_profile(pair.run_ids),
            lambda pair: experiments.submit_study(profiles_of(pair.experiments, pair.run_ids)),
            lambda pair: experiments.why_not_profiled(pair.run_ids),
        ),
        "numerics": _Offer(
            "Numerics",
            "Where do values underflow or overflow in this precision?",
            "Trains a few steps and records every operation: its dtype, and which values overflow or"
            " underflow.",
            lambda pair: f"Check numerics of {pair.headline.precision.label}",
            "Check the numerics of the precision in the headline",
            lambda pair: newest("numerics", [pair.headline]),
            lambda pair: experiments.submit_study(Numerics(experiment=pair.headline, steps=FIRST_STEPS)),
            lambda pair: _why_not("numerics", [pair.headline], experiments),
        ),
        "limit": _Offer(
            "Memory",
            "How large a batch fits in memory?",
            "Trials of at least three steps find the largest batch that fits, in each precision.",
            lambda pair: f"Find the largest batch of {pair.sides}",
            "Search with the settings of the compared runs",
            lambda pair: newest("limit", pair.experiments[:1]),
            lambda pair: experiments.submit_study(_limit_of(pair)),
            lambda pair: _why_not("limit", pair.experiments, experiments),
        ),
    }


def _limit_of(pair: Pair) -> Limit:
    sides = zip(pair.labels, pair.experiments, strict=True)
    return Limit(sides=tuple(LimitSide(label=label, experiment=experiment) for label, experiment in sides))


def _but_length(experiment: Experiment) -> str:
    changes = {"batch_size": 1, "epochs": None, "steps": 20}
    return experiment.model_copy(update=changes).to_json()


def _why_not(action: str, wanted: Sequence[Experiment], experiments: Experiments) -> str | None:
    if against := refusal(action, (experiment.command for experiment in wanted)):
        return against.message
    return "Ammeter is still examining this machine." if experiments.catalog is None else None
