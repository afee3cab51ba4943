"""The runs on the page of a comparison: those that train, as they train, and those opened in the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from gui.runs.controller import RunsController
from gui.runs.panel import RunsPanel
from gui.session.experiments import Experiments
from gui.train.controller import LiveController
from gui.train.failure import open_file
from gui.train.panel import LivePanel

if TYPE_CHECKING:
    from gui.show.controller import ShowController


class RunsInView(QObject):
    """Follows what trains. `bring_up` shows a page; `shows` are Show's controller, None before it is made."""

    def __init__(
        self,
        live: LivePanel,
        runs: RunsPanel,
        experiments: Experiments,
        table: RunsController,
        repaint_hz: int | None,
        *,
        bring_up: Callable[[str], None],
        shows: Callable[[], ShowController | None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._live, self._runs, self._experiments, self._table = live, runs, experiments, table
        self._bring_up, self._shows = bring_up, shows
        self._followed = LiveController(live, experiments, repaint_hz, self)
        self._followed.progressed.connect(runs.set_progress)
        self._followed.progressed.connect(self._refresh_shows)
        live.why_not_profiled = experiments.why_not_profiled
        live.stop_requested.connect(experiments.stop)
        live.pause_toggled.connect(experiments.toggle_pause)
        live.file_wanted.connect(open_file)
        experiments.pause_asked.connect(live.set_pause_asked)
        runs.checked_changed.connect(self._followed.set_ticked)
        runs.resume_requested.connect(self._resume)
        runs.open_requested.connect(self.open)
        runs.details_requested.connect(self._open_details)
        experiments.runs.list_changed.connect(self._show_list)
        experiments.runs.run_changed.connect(self._show_run)
        experiments.began.connect(self._begin)
        experiments.ended.connect(self._end)

    @property
    def timer(self) -> QTimer:
        """Repaints what trains."""
        return self._followed.timer

    def stop(self) -> None:
        """Stops repainting."""
        self._followed.stop()

    def open(self, run_id: str) -> None:
        """Shows a run with the others of its comparison."""
        self._followed.show_group(run_id)
        self._bring_up("compare")

    def show(self, run_ids: tuple[str, ...]) -> None:
        """Shows these runs; none for the empty page."""
        self._followed.show(run_ids)
        self._bring_up("compare")

    def show_submitted(self, run_id: str) -> None:
        """Shows the comparison of a run that was added, unless another one trains."""
        if self._experiments.running is None:
            self._followed.show_group(run_id)
        self._bring_up("compare")

    def _open_details(self, run_id: str) -> None:
        self.open(run_id)
        self._live.open_details()

    def _resume(self, run_id: str) -> None:
        self._experiments.resume(run_id)
        if self._experiments.running is None:
            self.open(run_id)

    def _begin(self, run_id: str) -> None:
        self._followed.begin(run_id)
        if (shows := self._shows()) is not None:
            shows.set_frame_ms(self._followed.timer.interval())

    def _end(self, run_id: str) -> None:
        self._followed.end()
        shows = self._shows()
        if shows is not None:
            shows.set_frame_ms(None)
        if shows is None or not shows.tells_of(run_id):
            self._table.retry(run_id)

    def _show_list(self) -> None:
        self._runs.set_runs(self._experiments.runs.records())
        self._followed.drop_deleted()

    def _show_run(self, run_id: str) -> None:
        if (record := self._experiments.runs.record(run_id)) is not None:
            self._runs.update_run(record)

    def _refresh_shows(self) -> None:
        if (shows := self._shows()) is not None:
            shows.refresh()
