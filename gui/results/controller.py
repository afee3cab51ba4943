"""Open comparisons, studies and failed runs on the page Results."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QStackedLayout, QWidget

from engine.store.record import RunRecord, Status
from engine.words.numbers import date_text
from gui.answer.controller import StudyController
from gui.compare.controller import CompareController
from gui.compare.head import ItemHead
from gui.compare.panel import ComparePanel
from gui.results.place import MIDDLE, NARROW, STUDY, WIDE, ResultsPlace
from gui.results.studies import StudyMaker, StudyPages, StudyPanel, read_studies
from gui.results.tabs import add_tabs
from gui.runs.table.rows import Item, RunRow, StudyKind, StudyRow
from gui.session.experiments import Experiments
from gui.session.reader import Reader
from gui.setup.panel import SetupPanel
from gui.sweep.controller import SweepController
from gui.train.failure import FailureView, failure_in
from gui.tune.controller import TuneController
from gui.widgets.boxes import Stretch, Surface, in_column, scrolled, wide
from gui.widgets.messages import may_delete
from gui.widgets.notice import Notice

_WIDTHS: dict[StudyKind, int] = {
    "limit": MIDDLE,
    "numerics": NARROW,
    "profile": NARROW,
    "sweep": MIDDLE,
    "tune": MIDDLE,
}
"""The width of the list beside each; one width for all tabs, so that these stay under the mouse."""


class ResultsController(QObject):
    """Opens the results that are clicked or selected in the table, and keeps its studies up to date.

    `wanted` asks the window to show the page Results, and `form_wanted` to show the form with settings that
    were just put into it. `problem` carries a Problem, `remedy_wanted` the Remedy of a failure,
    `guide_wanted` a page of the guide, and `runs_wanted` the ids of runs to show live.
    """

    wanted = Signal()
    problem = Signal(object)
    form_wanted = Signal()
    remedy_wanted = Signal(object)
    guide_wanted = Signal(str)
    runs_wanted = Signal(object)

    def __init__(
        self,
        store_path: Path,
        setup: SetupPanel,
        place: ResultsPlace,
        experiments: Experiments,
        notice: Notice,
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._setup, self._experiments = setup, experiments
        self._place, self._runs, self._notice = place, place.runs, notice
        self.maker = StudyMaker(store_path, setup, experiments, self)
        self.studies = StudyPages(self.maker, place)
        self.page = ItemPage(self.studies, place)
        place.set_item(self.page)
        self.comparisons = CompareController(
            store_path, experiments, self._runs, self.page.head, self.page.comparison, notice, window
        )
        self._studies: tuple[StudyRow, ...] = ()
        panel, head = self.page.comparison, self.page.head
        self._fill_tab = add_tabs(panel, head, self.maker, lambda: self._studies)
        self._opened: Item | RunRow | None = None
        self._ticked: frozenset[str] = frozenset()
        self._is_in_sight = False
        self._reader = Reader(lambda: partial(read_studies, store_path), self)
        self._connect()
        self._reader.refresh()

    def open_study(self, kind: StudyKind, key: str) -> None:
        """Open a study, which may still run, and ask for the place."""
        item = self._runs.model.item(f"{kind} {key}")
        if item is not None and item.study is not None:
            self._open(item)
        self.wanted.emit()

    def set_in_sight(self, is_in_sight: bool) -> None:
        """Set whether the place is visible. Otherwise nothing is read."""
        if is_in_sight and not self._is_in_sight:
            # a command line may have saved a study
            self._reader.refresh()
        self._is_in_sight = is_in_sight
        self._update_sight()

    def stop(self) -> None:
        """Wait for reading and writing in progress, before the window closes."""
        self._reader.stop()
        self.comparisons.stop()
        self.maker.stop()

    def _connect(self) -> None:
        runs, head = self._runs, self.page.head
        self._reader.read.connect(self._set_studies)
        self._reader.failed.connect(self.problem)
        runs.opened.connect(self._open)
        runs.checked_changed.connect(self._take_ticks)
        runs.study_deleted.connect(self._delete)
        runs.sweep_requested.connect(partial(self.open_study, "sweep"))
        for wanted in (head.settings.clicked, self.studies.settings_wanted):
            wanted.connect(self._use_settings)
        self.comparisons.problem.connect(self.problem)
        self.comparisons.reader.shown.connect(self._fill_tab)
        self._experiments.catalog_known.connect(lambda _catalog: self._fill_tab())
        self.comparisons.page_wanted.connect(self.wanted)
        self.page.failure.remedy_wanted.connect(self.remedy_wanted)
        self.maker.made.connect(self._connect_study)
        self.maker.reported.connect(self._notice.notify)
        works = self._experiments.works
        for signal in (works.began, works.ended):
            signal.connect(self._on_work)
        self._experiments.runs.list_changed.connect(self._follow_runs)
        self._experiments.runs.run_changed.connect(lambda _run_id: self._follow_runs())

    def _connect_study(self, panel: StudyPanel, controller: StudyController[Any]) -> None:
        controller.reported.connect(self._notice.notify)
        controller.written.connect(lambda path: self._notice.notify_written(f"Wrote {path.name}.", path))
        panel.guide_wanted.connect(self.guide_wanted)
        if isinstance(controller, SweepController | TuneController):
            controller.comparison_wanted.connect(self.comparisons.compare)
        if isinstance(controller, SweepController):
            controller.runs_wanted.connect(self.runs_wanted)

    def _on_work(self, key: str) -> None:
        if not self._experiments.runs.contains(key):
            self._reader.refresh()

    def _set_studies(self, studies: tuple[StudyRow, ...]) -> None:
        self._studies = studies
        self._runs.set_studies(studies)
        self._fill_tab()
        if isinstance(self._opened, Item) and self._opened.study is not None:
            item = self._runs.model.item(self._opened.key)
            if item is None:
                self._compare_ticked()
            elif item != self._opened:
                self._open(item)

    def _take_ticks(self, run_ids: Iterable[str]) -> None:
        changed, self._ticked = self._ticked.symmetric_difference(run_ids), frozenset(run_ids)
        # a deleted run loses its tick: that alone must not close what is opened
        if self._opened is None or any(map(self._experiments.runs.record, changed)):
            self._compare_ticked()

    def _follow_runs(self) -> None:
        """Update the opened result after its runs have changed."""
        opened, model = self._opened, self._runs.model
        if opened is None:
            self.comparisons.reader.follow(self._runs.checked())
            return
        if isinstance(opened, Item) and opened.study is not None:
            return
        keys = opened.run_ids if isinstance(opened, Item) else (opened.key,)
        left = next((model.lines[key] for key in keys if key in model.lines), None)
        row = (model.item(opened.key) if isinstance(opened, Item) else None) or left
        if row is None:
            self._compare_ticked()
        elif self.page.is_comparison:
            self._opened, run_ids = row, self._runs_of(row)
            self._mark(run_ids)
            self.comparisons.reader.follow(run_ids)
        elif row != opened:
            self._open(row)

    def _runs_of(self, row: Item | RunRow) -> tuple[str, ...]:
        """Return the started runs to compare when a row is opened."""
        lines = row.lines if isinstance(row, Item) else (row,)
        owner = self._runs.model.owner(row.key) if isinstance(row, RunRow) else None
        if owner is not None and owner.kind == "comparison":
            lines = owner.lines
        return tuple(line.key for line in lines if line.run.status is not Status.QUEUED)

    def _open(self, row: Item | RunRow) -> None:
        self._opened = row
        if isinstance(row, Item) and row.study is not None:
            self._open_study(row, row.study)
            return
        if isinstance(row, RunRow):
            self._mark([row.key])
            if row.run.status is Status.FAILED and row.overview.samples_per_second is None:
                self._show_failure(row.run)
                return
            self.page.head.prefer_side(row.key)
        elif row.is_failed:
            self._show_failure(row.lines[0].run, row)
            return
        self._compare(self._runs_of(row))

    def _compare(self, run_ids: Iterable[str]) -> None:
        ids = tuple(run_ids)
        self._mark(ids)
        self.page.bring_up(self.page.comparison)
        self._place.want_width(MIDDLE)
        self._update_sight()
        self.comparisons.reader.set_runs(ids)

    def _compare_ticked(self) -> None:
        self._opened = None
        self._compare(self._runs.checked())

    def _open_study(self, item: Item, study: StudyRow) -> None:
        self._mark([])
        self._runs.table.mark([item.key])
        self.studies.open(study.kind, study.id)
        self.page.bring_up(self.studies)
        self._place.want_width(_WIDTHS[study.kind], STUDY)
        self._update_sight()

    def _show_failure(self, run: RunRecord, item: Item | None = None) -> None:
        if run.problem is None:
            return
        self._mark([run.id] if item is None else item.run_ids)
        title = run.title if item is None else item.title
        about = f"{run.overview.model}, {date_text(run.started or run.created)}"
        self.page.head.show_failure(title, about)
        failure = failure_in(self._experiments, [run.id])
        if failure is not None:
            self.page.failure.show_failure(failure)
        self.page.bring_up(self.page.failed)
        self._place.want_width(WIDE)
        self._update_sight()

    def _mark(self, run_ids: Iterable[str]) -> None:
        ids = set(run_ids)
        owners = (self._runs.model.owner(run_id) for run_id in ids)
        whole = {owner.key for owner in owners if owner is not None and ids.issuperset(owner.run_ids)}
        self._runs.table.mark(ids | whole)

    def _update_sight(self) -> None:
        self.comparisons.reader.set_in_sight(self._is_in_sight and self.page.is_comparison)
        self.studies.set_in_sight(self._is_in_sight and not self.page.is_comparison)

    def _use_settings(self) -> None:
        opened, head, record = self._opened, self.page.head, self._experiments.runs.record
        experiment, run_ids = None, tuple[str, ...]()
        if isinstance(opened, Item) and opened.study is not None:
            experiment = opened.study.experiment
        elif self.page.is_comparison:
            run, run_ids = record(head.headline() or head.baseline() or ""), head.side_run_ids()
            experiment = None if run is None else run.experiment
        elif opened is not None:
            run_ids = self._runs_of(opened)
            experiment = (opened if isinstance(opened, RunRow) else opened.lines[0]).run.experiment
        if experiment is not None:
            sides = [run.experiment for run in map(record, run_ids) if run is not None]
            self._setup.use_settings(experiment, sides=sides)
            self.form_wanted.emit()

    def _delete(self, row: StudyRow) -> None:
        works = self._experiments.works
        if row.kind == "sweep" and not may_delete(
            self._runs, "this sweep and its pilots (its runs are kept)"
        ):
            return
        if (undo := works.delete(row.id)) is not None:
            self._notice.notify(f"Deleted “{row.title}”.", action="Undo", do=undo, asks=False)


class ItemPage(Surface):
    """The right side of Results: title and buttons above a comparison, a study, or a run's failure."""

    def __init__(self, studies: StudyPages, parent: QWidget | None = None) -> None:
        super().__init__("page", parent=parent)
        self.head, self.comparison, self.studies = ItemHead(), ComparePanel(self), studies
        self.failure, page = FailureView(), QWidget()
        in_column(self.failure, Stretch(1), parent=page, margins=16)
        self.failed = scrolled("Why it failed", page)
        pages, self._head = QWidget(), QWidget()
        self._pages = QStackedLayout(pages)
        for page in (self.comparison, studies, self.failed):
            self._pages.addWidget(page)
        in_column(self.head, parent=self._head, margins=(16, 12, 16, 0))
        in_column(self._head, wide(pages), parent=self, spacing=0)

    def bring_up(self, page: QWidget) -> None:
        """Bring the comparison, the opened study or the failure to the front."""
        self._pages.setCurrentWidget(page)
        self._head.setVisible(page is not self.studies)

    @property
    def is_comparison(self) -> bool:
        return self._pages.currentWidget() is self.comparison
