"""All pages except that of a comparison. They are made after the window's first paint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMainWindow, QWidget

from engine.compare.comparison import Comparison
from engine.compare.ranking import headline, quiet_clauses
from engine.experiment.command import script_line
from engine.store.record import RunRecord, Status
from engine.words.numbers import clock_text, duration
from gui.answer.controller import StudyController
from gui.compare.reading import ComparedRuns, read_and_compare
from gui.compare.scripts import PrintedLines, RequiredMetrics
from gui.demo.controller import DemoController
from gui.demo.panel import DemoPanel
from gui.limit.controller import LimitController
from gui.limit.panel import LimitPanel
from gui.numerics.controller import NumericsController
from gui.numerics.panel import NumericsPanel
from gui.profile.controller import ProfileController
from gui.profile.panel import TRACE_WRITTEN, ProfilePanel
from gui.results.controller import ResultsController
from gui.results.place import ResultsPlace
from gui.session.experiments import Experiments
from gui.session.reader import Reader
from gui.setup.model.choices import short_folder
from gui.setup.panel import SetupPanel
from gui.sweep.controller import SweepController
from gui.sweep.panel import SweepPanel
from gui.train.outcome import ComparisonOutcome
from gui.train.panel import LivePanel
from gui.tune.controller import TuneController
from gui.tune.panel import TunePanel
from gui.widgets.notice import Notice
from gui.window.body import Body
from gui.window.remembered import HasState, Key
from gui.window.top_bar import TopBar


class OtherPages(QObject):
    """Creates and connects the pages of Demo, Largest batch, Numerics, Profile, Sweep and Tune.

    `page_wanted` carries the key of a page to show, `guide_wanted` a page of the guide, `problem` a Problem,
    `runs_wanted` the ids of runs to show live, and `remedy_wanted` a Remedy to apply. `form_wanted` asks for
    the form, and `engine_wanted` for the page that installs PyTorch.
    """

    page_wanted = Signal(str)
    guide_wanted = Signal(str)
    problem = Signal(object)
    runs_wanted = Signal(object)
    remedy_wanted = Signal(object)
    form_wanted = Signal()
    engine_wanted = Signal()

    def __init__(
        self,
        store_path: Path,
        experiments: Experiments,
        setup: SetupPanel,
        body: Body,
        live: LivePanel,
        results: ResultsPlace,
        top_bar: TopBar,
        window: QMainWindow,
    ) -> None:
        super().__init__(window)
        self._experiments, self._runs, self._notice = experiments, results.runs, body.notice
        pages = body.pages
        # the order of Tab is that in which they are made
        self.limit_panel = LimitPanel(pages)
        self.demo_panel = DemoPanel(pages)
        self.numerics_panel = NumericsPanel(pages)
        self.profile_panel = ProfilePanel(pages)
        self.sweep_panel = SweepPanel(pages)
        self.tune_panel = TunePanel(pages)
        body.add("show", self.demo_panel, None)
        panels: dict[str, QWidget] = {
            "limit": self.limit_panel,
            "numerics": self.numerics_panel,
            "profile": self.profile_panel,
            "sweep": self.sweep_panel,
            "tune": self.tune_panel,
        }
        for key, panel in panels.items():
            body.add(key, panel, setup)
        setup.form.put("limit", self.limit_panel.options)
        setup.form.put("numerics", self.numerics_panel.parts_choice)
        setup.form.put("tune", self.tune_panel.options)
        self.limits = LimitController(setup, self.limit_panel, experiments, self)
        self.numerics = NumericsController(setup, self.numerics_panel, experiments, self)
        self.profiles = ProfileController(setup, self.profile_panel, experiments, self)
        self.sweeps = SweepController(store_path, setup, self.sweep_panel, experiments, self)
        self.fastest = TuneController(setup, self.tune_panel, experiments, self)
        self.answers = AnswerController(store_path, experiments, live, self._notice, self)
        self.results = ResultsController(store_path, setup, results, experiments, self._notice, window)
        self.comparisons = self.results.comparisons
        self.compare, self.head = self.results.page.comparison, self.results.page.head
        parts, show = (top_bar, self._notice), self.demo_panel
        self.demo = DemoController(
            store_path, experiments, show, self.comparisons, self._notice, window, parts
        )
        self._controllers: Mapping[str, StudyController[Any]] = {
            "limit": self.limits,
            "numerics": self.numerics,
            "profile": self.profiles,
            "sweep": self.sweeps,
            "tune": self.fastest,
        }
        self.welcome, self.present, self.tells_of = self.demo.welcome, self.demo.present, self.demo.tells_of
        self.export = self.comparisons.export
        self.read_answer, self.profile_runs = self.answers.read, self.profiles.profile_runs
        self.replay, self.export_runs = self.demo.show_runs, self.comparisons.export_runs
        importing = self.comparisons.importing
        self.ask_for_archive, self.import_archive = importing.ask, importing.import_archive
        self._connect()

    @property
    def is_measuring(self) -> bool:
        """True if the run in progress belongs to the demo."""
        return self.demo.is_measuring

    def parts(self) -> dict[Key, HasState]:
        """Return the parts of the pages that are remembered."""
        return {
            Key.LIMIT: self.limit_panel,
            Key.NUMERICS: self.numerics_panel,
            Key.PROFILE: self.profile_panel,
            Key.SWEEP: self.sweep_panel,
            Key.TUNE: self.tune_panel,
            Key.EXPORT: self.comparisons.exporting,
            Key.SHOW: self.demo,
        }

    def set_in_sight(self, key: str) -> None:
        self.results.set_in_sight(key == "results")
        self.demo.set_in_sight(key == "show")
        self.limits.refresh()
        self.sweeps.set_in_sight(key == "sweep")
        if key in self._controllers:
            self._controllers[key].open_newest()

    def open(self, kind: str, key: str) -> None:
        """Show work of a kind on the page of its question."""
        self._controllers[kind].open(key)

    def polish(self) -> None:
        """Make the curves of a comparison, which are otherwise made with the first one."""
        self.compare.curves.ensurePolished()

    def stop(self) -> None:
        """Wait for pending reads and writes before the window closes."""
        self.results.stop()
        self.answers.stop()
        for controller in self._controllers.values():
            controller.stop()
        self.demo.stop()

    def focus_stop(self, what: str | None) -> None:
        """Focus the button that stops a job of this kind."""
        if (controller := self._controllers.get(what or "")) is not None:
            controller.stop_button.setFocus()

    def _connect(self) -> None:
        runs, experiments = self._runs, self._experiments
        experiments.catalog_known.connect(lambda _catalog: self.limits.refresh())
        for page, controller in self._controllers.items():
            controller.page_wanted.connect(partial(self.page_wanted.emit, page))
            controller.reported.connect(self._notice.notify)
            controller.written.connect(self._on_written)
        self.sweeps.comparison_wanted.connect(self.comparisons.compare)
        self.fastest.comparison_wanted.connect(self.comparisons.compare)
        panels = (self.limit_panel, self.numerics_panel, self.profile_panel, self.sweep_panel)
        for panel in (*panels, self.tune_panel):
            panel.guide_wanted.connect(self.guide_wanted)
        runs.find_nan_requested.connect(self.numerics.find_nonfinite)
        experiments.ended.connect(self._offer_to_find)
        self.results.wanted.connect(partial(self.page_wanted.emit, "results"))
        self.results.problem.connect(self.problem)
        self.results.form_wanted.connect(self.form_wanted)
        self.results.remedy_wanted.connect(self.remedy_wanted)
        self.results.guide_wanted.connect(self.guide_wanted)
        self.compare.headline.guide_wanted.connect(self.guide_wanted)
        for source in (self.sweeps, self.results):
            source.runs_wanted.connect(self.runs_wanted)
        self.compare.experiment_wanted.connect(self.form_wanted)
        self.demo.experiment_wanted.connect(self.form_wanted)
        self.demo.offer(runs, self.head)
        self.demo.page_wanted.connect(self.page_wanted)
        self.demo.engine_wanted.connect(self.engine_wanted)

    def _on_written(self, path: Path) -> None:
        self._notice.notify_written(
            f"Wrote {path.name}.", path, TRACE_WRITTEN if path.suffix == ".gz" else ""
        )

    def _offer_to_find(self, run_id: str) -> None:
        run = self._experiments.runs.record(run_id)
        if run is None or run.summary is None or self.demo.tells_of(run_id):
            return
        if (step := run.summary.first_nan_step) is not None:
            trouble = f"The loss of “{run.title}” is NaN from step {step:,} on."
        elif (scale := run.summary.final_grad_scale or 1.0) < 1.0:
            trouble = (
                f"The loss scale of “{run.title}” fell to {scale:g}: its gradients overflow at any scale."
            )
        else:
            return
        self._notice.notify(
            trouble,
            "Numerics repeats the steps before it and names the operation that caused it.",
            "Find it",
            lambda: self.numerics.find_nonfinite(run),
        )


class AnswerController(QObject):
    """Computes a comparison's result in a thread once its runs have ended, and shows it above the plots.

    It also copies the command line of a comparison of scripts.
    """

    def __init__(
        self, store_path: Path, experiments: Experiments, live: LivePanel, notice: Notice, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._store_path, self._experiments, self._live = store_path, experiments, live
        self._notice = notice
        live.command_wanted.connect(self._copy_command)
        self._run_ids: tuple[str, ...] = ()
        self._reader = Reader(self._next_work, self)
        self._reader.read.connect(self._show)
        self._reader.failed.connect(experiments.problem)
        self.stop = self._reader.stop

    def read(self, run_ids: tuple[str, ...]) -> None:
        """Read and compare these runs, with their repeats, and show the answer."""
        self._run_ids = run_ids
        self._reader.refresh()

    def _next_work(self) -> Callable[[], ComparedRuns] | None:
        runs = self._compared(self._run_ids)
        if len(runs) < 2:
            return None
        others = self._experiments.runs.records()
        return partial(read_and_compare, self._store_path, runs[0].id, None, runs, {}, others)

    @cached_property
    def _of_scripts(self) -> tuple[RequiredMetrics, PrintedLines]:
        parts = RequiredMetrics(), PrintedLines()
        self._live.page.add_around_plots(*parts)
        return parts

    def _copy_command(self, run_ids: tuple[str, ...]) -> None:
        sides: dict[str, list[RunRecord]] = {}
        for run in self._with_repeats(run_ids):
            sides.setdefault(run.side, []).append(run)
        firsts, repeats = [runs[0] for runs in sides.values()], max(map(len, sides.values()))
        commands, first = [run.experiment.command for run in firsts], firsts[0].experiment
        warmup = first.measure.warmup_steps
        line = script_line(commands, (first.steps or 0) - warmup, warmup, repeats, firsts[0].machine)
        QGuiApplication.clipboard().setText(line)
        self._notice.notify("Copied the command to the clipboard.")

    def _with_repeats(self, run_ids: tuple[str, ...]) -> list[RunRecord]:
        """Return the runs in view with their repeats, oldest first."""
        records = self._experiments.runs.records()
        ended = {run.id: run for run in records}
        comparisons = {ended[run_id].comparison for run_id in run_ids if run_id in ended} - {None}
        return [run for run in reversed(records) if run.id in run_ids or run.comparison in comparisons]

    def _compared(self, run_ids: tuple[str, ...]) -> list[RunRecord]:
        """Return the finished runs in view and repeats, and those of scripts that failed or were stopped.

        Empty while one of them is not over, or if none has finished.
        """
        runs = self._with_repeats(run_ids)
        finished = [run for run in runs if run.status is Status.FINISHED]
        if not finished or not all(run.status.is_over for run in runs):
            return []
        # a requirement holds only if all runs have finished
        return runs if all(run.experiment.is_script for run in runs) else finished

    def _show(self, compared: ComparedRuns) -> None:
        runs = [self._experiments.runs.record(run_id) for run_id in compared.runs]
        answer = make_answer(compared.comparison, [run for run in runs if run is not None], datetime.now())
        if answer is not None:
            if answer.is_of_scripts and answer.side is not None:
                above, below = self._of_scripts
                above.show_comparison(compared.comparison, answer.side.id)
                below.show_comparison(compared)
            self._live.show_answer(self._run_ids, answer)


def make_answer(comparison: Comparison, runs: Sequence[RunRecord], now: datetime) -> ComparisonOutcome | None:
    """Return a comparison's result for its best side. None if it has only one side."""
    if not comparison.ranked or not runs:
        return None
    report = comparison.ranked[0]
    ids = tuple(run.id for run in runs)
    alike = frozenset(name for name, cell in comparison.cells(report.side.id).items() if cell.within_spread)
    doubts = (doubt.sentence.removesuffix(".") for doubt in report.unreported_doubts)
    quiet = (*quiet_clauses(comparison, report), *doubts)
    is_script, when = all(side.is_script for side in comparison.sides), _when(runs, now)
    if is_script:
        folder = runs[0].experiment.command.folder
        when = " · ".join(filter(None, (short_folder(folder) if folder else "", when)))
    return ComparisonOutcome(ids, headline(report), report.side, quiet, when, is_script, alike)


def _when(runs: Sequence[RunRecord], now: datetime) -> str:
    ends = [run.ended for run in runs if run.ended is not None]
    begins = [run.started for run in runs if run.started is not None]
    if not ends or not begins:
        return "finished"
    took = duration((max(ends) - min(begins)).total_seconds())
    return f"finished {clock_text(max(ends).astimezone(), now.astimezone())}, took {took}"
