"""The runs on the page of a comparison: current ones, and those opened in the table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Signal

from gui.runs.panel import RunsPanel
from gui.session.experiments import Experiments
from gui.train.controller import LiveController
from gui.train.panel import LivePanel
from gui.widgets.notice import Notice


class RunsInView(QObject):
    """Decides which runs the live page shows: the current run, or those opened in the table of results.

    `page_wanted` asks the window to show the live page. `repaint_ms_changed` carries the time between
    two repaints, None between runs.
    """

    page_wanted = Signal()
    repaint_ms_changed = Signal(object)

    def __init__(
        self,
        live: LivePanel,
        runs: RunsPanel,
        experiments: Experiments,
        notice: Notice,
        is_reported: Callable[[str], bool],
        repaint_hz: int | None,
        parent: QObject,
    ) -> None:
        """`is_reported` returns True if a page reports how this run ends, so nothing else has to."""
        super().__init__(parent)
        self._notice, self._is_reported = notice, is_reported
        self._live, self._runs, self._experiments = live, runs, experiments
        self._followed = LiveController(self._live, self._experiments, repaint_hz, self)
        self._followed.progressed.connect(self._runs.set_progress)
        self.timer, self.stop = self._followed.timer, self._followed.close
        self.progressed = self._followed.progressed
        self._live.why_not_profiled = self._experiments.why_not_profiled
        self._live.stop_requested.connect(self._experiments.stop)
        self._live.pause_toggled.connect(self._experiments.toggle_pause)
        self._experiments.pause_request_changed.connect(self._live.set_pause_request)
        self._runs.checked_changed.connect(self._followed.set_selected)
        self._runs.resume_requested.connect(self._resume)
        self._runs.open_requested.connect(self.open)
        self._runs.details_requested.connect(self.open)
        self._runs.details_requested.connect(lambda _run_id: self._live.open_details())
        self._experiments.runs.list_changed.connect(self._on_list_changed)
        self._experiments.runs.run_changed.connect(self._on_run_changed)
        self._experiments.began.connect(self._on_began)
        self._experiments.ended.connect(self._on_ended)

    def open(self, run_id: str) -> None:
        """Show a run with the others of its comparison."""
        self._followed.show_group(run_id)
        self.page_wanted.emit()

    def show(self, run_ids: tuple[str, ...]) -> None:
        """Show these runs, or the empty page without any."""
        self._followed.show(run_ids)
        self.page_wanted.emit()

    def show_submitted(self, run_id: str) -> None:
        """Show the comparison of a run that was added, unless another one trains."""
        if self._experiments.running is None:
            self._followed.show_group(run_id)
        self.page_wanted.emit()

    def _resume(self, run_id: str) -> None:
        self._experiments.resume(run_id)
        if self._experiments.running is None:
            self.open(run_id)

    def _on_began(self, run_id: str) -> None:
        self._followed.start_repainting(run_id)
        self.repaint_ms_changed.emit(self._followed.timer.interval())

    def _on_ended(self, run_id: str) -> None:
        self._followed.end_repainting()
        self.repaint_ms_changed.emit(None)
        if not self._is_reported(run_id):
            self._notify_failure(run_id)

    def _notify_failure(self, run_id: str) -> None:
        record = self._experiments.runs.record(run_id)
        # a sweep goes on with its next cell
        if record is not None and record.problem is not None and record.sweep is None:
            do, problem = partial(self.open, run_id), record.problem
            self._notice.notify(problem.message, problem.remedy, "What to do", do)

    def _on_list_changed(self) -> None:
        self._runs.set_runs(self._experiments.runs.records())
        self._followed.drop_deleted()

    def _on_run_changed(self, run_id: str) -> None:
        if (record := self._experiments.runs.record(run_id)) is not None:
            self._runs.update_run(record)
