"""The controller of Results: it compares, exports and imports the opened or selected runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from engine.compare.sides import Side
from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.store.record import RunRecord, Status
from engine.words.names import recipe_words
from gui.compare.head import ItemHead
from gui.compare.panel import ComparePanel
from gui.compare.reading import ComparedRuns, ReadRun, read_and_compare
from gui.runs import importing
from gui.runs.exporting import Exporting, ExportRequest
from gui.runs.importing import Importing
from gui.runs.panel import RunsPanel
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.session.reader import Reader
from gui.session.saved_runs import SavedRuns
from gui.widgets.notice import Notice

_TITLE, _AGAIN = "Where the gain comes from", "Measured again"


class CompareController(QObject):
    """Reads, shows and exports the comparison of the runs that are selected in the results table.

    It also queues runs that are missing or must be measured again. `page_wanted` asks the window to show the
    comparison. `problem` carries a Problem if runs cannot be read or queued.
    """

    page_wanted = Signal()
    problem = Signal(object)

    def __init__(
        self,
        store_path: Path,
        experiments: Experiments,
        runs: RunsPanel,
        head: ItemHead,
        panel: ComparePanel,
        notice: Notice,
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._experiments, self._runs, self._head, self._notice = experiments, runs, head, notice
        self._window = window
        # a slow report must not delay a comparison
        self._writing, saved = Background(self), experiments.runs
        self.reader = CompareReader(store_path, saved, head, panel, self)
        self.exporting = Exporting(store_path, saved, self._writing, notice, window)
        self.importing = Importing(store_path, self._writing, notice, window)
        self._awaited, self._panel = AwaitedRuns(saved, self), panel
        self._titles: dict[frozenset[str], str] = {}
        self._connect(panel)
        self._count()
        self.reader.set_runs(runs.checked())

    def export(self, form: str = "any") -> None:
        """Export the compared runs, after asking for a path."""
        self.exporting.ask(form, self._request(form))

    def export_runs(self, run_ids: Iterable[str]) -> None:
        """Export these runs, after asking for a path."""
        self.exporting.ask("any", ExportRequest(tuple(run_ids)))

    def stop(self) -> None:
        """Wait until reading and writing have finished."""
        self.reader.stop()
        self._writing.stop()

    def _connect(self, panel: ComparePanel) -> None:
        self.reader.problem.connect(self.problem)
        panel.headline.missing_wanted.connect(self._queue_missing)
        panel.headline.again_wanted.connect(self.measure_again)
        panel.newest_wanted.connect(self._select_newest)
        panel.runs_dropped.connect(lambda run_ids: self._select((*self._runs.checked(), *run_ids)))
        self._head.export.wanted.connect(self.export)
        self._head.export.drag_wanted.connect(
            lambda: self.exporting.drag_report(self._request("html"), self._head.export)
        )
        self._head.export.title_wanted.connect(self._ask_title)
        self._runs.import_wanted.connect(self.importing.ask)
        self._runs.export_asked.connect(self.export_runs)
        self._experiments.runs.run_changed.connect(self._count)
        self._experiments.runs.list_changed.connect(self._count)
        self._awaited.changed.connect(lambda: panel.headline.set_awaited(self._awaited.experiments()))
        self._awaited.arrived.connect(self._take_in)
        self.importing.imported.connect(self._experiments.runs.reload)
        self.importing.compare_wanted.connect(self.compare)

    def _request(self, form: str) -> ExportRequest:
        run_ids, headline = self.reader.run_ids(), self._head.headline()
        baseline = self._head.baseline()
        if form == "script":
            # a script is of one run: that in the headline
            chosen = headline or baseline
            return ExportRequest((chosen,) if chosen in run_ids and chosen is not None else run_ids[:1])
        against, leading = (run_id if run_id in run_ids else None for run_id in (baseline, headline))
        title = self._titles.get(frozenset(run_ids), "")
        return ExportRequest(run_ids, against, leading, title)

    def _ask_title(self) -> None:
        runs = frozenset(self.reader.run_ids())
        title = importing.ask_title(self._window, self._titles.get(runs, ""))
        if title is not None:
            self._titles[runs] = title

    def _select(self, run_ids: Iterable[str]) -> None:
        self._runs.set_checked(tuple(dict.fromkeys(run_ids)))

    def _count(self) -> None:
        self._panel.set_saved_count(len(self._trained()))

    def _trained(self) -> list[RunRecord]:
        return [run for run in self._experiments.runs.records() if run.status is not Status.QUEUED]

    def _select_newest(self) -> None:
        trained = self._trained()
        groups = (self._experiments.runs.group(run.id) for run in trained if run.comparison is not None)
        newest = next((group for group in groups if len(group) > 1), ())
        self._select(newest or [run.id for run in trained[:2]])

    def compare(self, run_ids: tuple[str, ...]) -> None:
        """Select only these runs, and request the page."""
        self._select(run_ids)
        self.page_wanted.emit()

    def _queue_missing(self, missing: Sequence[Experiment]) -> None:
        sides = [
            (f"{experiment.precision.label}, {recipe_words(experiment.step.recipe)}", experiment)
            for experiment in missing
        ]
        beside = frozenset(self.reader.run_ids())
        added = self._queue(_TITLE, sides, 1, "joins this comparison", "join this comparison")
        self._awaited.add(*(Awaited((run_id,), beside) for run_id in added))

    def measure_again(self, sides: Sequence[Side]) -> None:
        """Queue both sides again with as many repeats, starting at the first run's seed.

        Once trained they replace the old runs in the comparison. Does nothing if they are already queued.
        """
        if self._awaited.experiments() & {run.experiment for side in sides for run in side.runs}:
            return
        firsts = [
            min((run.experiment for run in side.runs), key=lambda experiment: experiment.seed)
            for side in sides
        ]
        repeats = max(len(side.runs) for side in sides)
        old = frozenset(run.id for side in sides for run in side.runs)
        labels = [side.runs[0].label or side.title for side in sides]
        labelled = list(zip(labels, firsts, strict=True))
        added = self._queue(_AGAIN, labelled, repeats, "replaces this one", "replace these")
        if added:
            self._awaited.add(Awaited(added, frozenset(self.reader.run_ids()), old))

    def _queue(
        self, title: str, sides: Sequence[tuple[str, Experiment]], repeats: int, singular: str, plural: str
    ) -> tuple[str, ...]:
        try:
            added = self._experiments.submit(title, sides, repeats=repeats)
        except ProblemError as error:
            self.problem.emit(error.problem)
            return ()
        is_single = len(added) == 1
        labels = " and ".join(label for label, _ in sides)
        self._notice.notify(
            f"{len(added)} {'run' if is_single else 'runs'} queued: {labels}.",
            f"{'It' if is_single else 'They'} {singular if is_single else plural} once trained.",
        )
        return added

    def _take_in(self, awaited: Awaited) -> None:
        if awaited.joins <= set(self.reader.run_ids()):
            kept = [run_id for run_id in self._runs.checked() if run_id not in awaited.instead]
            self._select((*kept, *awaited.run_ids))


class CompareReader(QObject):
    """Reads the runs of a comparison while its page is visible, and shows them in head and panel.

    `shown` is emitted when the comparison is shown, and `problem` carries a Problem if it cannot be read.
    """

    shown = Signal()
    problem = Signal(object)

    def __init__(
        self,
        store_path: Path,
        runs: SavedRuns,
        head: ItemHead,
        panel: ComparePanel,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store_path, self._runs = store_path, runs
        self._head, self._panel = head, panel
        self._run_ids: tuple[str, ...] = ()
        self._known: dict[str, ReadRun] = {}
        self._reader = Reader(self._next_work, self, is_in_sight=False)
        self.set_in_sight, self.refresh = self._reader.set_in_sight, self._reader.refresh
        self.stop = self._reader.stop
        self._reader.read.connect(self._show)
        self._reader.failed.connect(self.problem)
        head.baseline_chosen.connect(self.refresh)
        head.headline_chosen.connect(lambda: panel.set_headline(head.headline()))
        panel.table.target.changed.connect(self.refresh)
        self.refresh()

    def _records(self, run_ids: Iterable[str]) -> list[RunRecord]:
        return [run for run_id in run_ids if (run := self._runs.record(run_id)) is not None]

    @property
    def is_busy(self) -> bool:
        return self._reader.is_busy

    def set_runs(self, run_ids: Iterable[str]) -> None:
        """Compare these runs, in the order in which they were created."""
        runs = self._records(run_ids)
        self._run_ids = tuple(run.id for run in sorted(runs, key=lambda run: run.number))
        self.refresh()

    def follow(self, run_ids: Iterable[str]) -> None:
        """Compare these runs, unless their present state is already shown."""
        runs = {run.id: run for run in self._records(run_ids)}
        if runs != {run_id: read.evidence.run for run_id, read in self._known.items()}:
            self.set_runs(runs)

    def run_ids(self) -> tuple[str, ...]:
        """Return the ids of the compared runs, oldest first."""
        return self._run_ids

    def _next_work(self) -> Callable[[], ComparedRuns] | None:
        runs = self._records(self._run_ids)
        self._forget_but(runs)
        if not runs:
            self._head.clear()
            self._panel.clear()
            self.shown.emit()
            return None
        self._panel.show_reading(len(runs))
        baseline, target = self._head.chosen_baseline(runs), self._panel.table.target.accuracy()
        known, others = dict(self._known), self._runs.records()
        return partial(read_and_compare, self._store_path, baseline, target, runs, known, others)

    def _forget_but(self, runs: list[RunRecord]) -> None:
        known, self._known = self._known, {}
        for run in runs:
            read = known.get(run.id)
            if read is not None and run.status.is_over and read.evidence.run.ended == run.ended:
                # it may have been renamed
                self._known[run.id] = replace(read, evidence=replace(read.evidence, run=run))

    def _show(self, compared: ComparedRuns) -> None:
        self._known = dict(compared.runs)
        self._head.show_comparison(compared.comparison)
        self._panel.show_comparison(compared, self._head.headline())
        self.shown.emit()


@dataclass(frozen=True)
class Awaited:
    """Queued runs that are to be added to a comparison once all of them have finished.

    `joins` are the ids of the runs in the comparison, and `instead` those that the new runs replace.
    """

    run_ids: tuple[str, ...]
    joins: frozenset[str]
    instead: frozenset[str] = frozenset()


class AwaitedRuns(QObject):
    """The queued runs that open comparisons still wait for.

    `arrived` carries an `Awaited` once all of its runs have finished. `changed` is emitted when `experiments`
    may have changed.
    """

    arrived = Signal(object)
    changed = Signal()

    def __init__(self, runs: SavedRuns, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs = runs
        self._awaited: list[Awaited] = []
        runs.run_changed.connect(lambda _run_id: self._look())
        runs.list_changed.connect(self._look)

    def add(self, *awaited: Awaited) -> None:
        self._awaited += awaited
        self.changed.emit()

    def experiments(self) -> frozenset[Experiment]:
        runs = (self._runs.record(run_id) for awaited in self._awaited for run_id in awaited.run_ids)
        return frozenset(run.experiment for run in runs if run is not None and not run.status.is_over)

    def _look(self) -> None:
        over = [awaited for awaited in self._awaited if self._is_over(awaited)]
        self._awaited = [awaited for awaited in self._awaited if awaited not in over]
        for awaited in over:
            runs = [self._runs.record(run_id) for run_id in awaited.run_ids]
            if all(run is not None and run.status is Status.FINISHED for run in runs):
                self.arrived.emit(awaited)
        if over:
            self.changed.emit()

    def _is_over(self, awaited: Awaited) -> bool:
        runs = (self._runs.record(run_id) for run_id in awaited.run_ids)
        return all(run is None or run.status.is_over for run in runs)
