"""The runs in the live panel, and its repaint rate during training."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from PySide6.QtCore import QElapsedTimer, QObject, QTimer, Signal

from engine.experiment.problem import ProblemError
from engine.protocol.events import Event, Pictures
from engine.protocol.pictures import ContactSheet, Images, brightened
from engine.store.record import RunRecord, Status
from engine.store.store import Store
from engine.words.numbers import clock_text
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.session.items import time_left
from gui.session.live_run import LiveRun
from gui.session.views import SweepView
from gui.train.failure import failure_in
from gui.train.panel import LivePanel
from gui.train.strip import title_of

GPU_REPAINT_HZ = 30
CPU_REPAINT_HZ = 5
"""Lower where training shares the cores with the window: 30 would cost it some 15% of its speed."""
_REFRESH_MS = 95
"""The live page is drawn anew 10 times a second at most."""
_MOST_BACKGROUND = 4


def background_runs(
    records: Sequence[RunRecord], shown: Sequence[str], selected: Sequence[str]
) -> tuple[RunRecord, ...]:
    """Return the finished runs to draw faintly under the `shown` runs, newest first.

    These are the selected ones, if any, else the newest of each other precision with otherwise the same
    settings. `records` are newest first.
    """
    in_view = [record for record in records if record.id in shown]
    over = [record for record in records if record.status.is_over and record.id not in shown]
    chosen = [record for record in over if record.id in selected]
    if not chosen:
        settings = {record.settings_but_precision for record in in_view}
        precisions = {record.experiment.precision for record in in_view}
        for record in over:
            is_new = record.status is Status.FINISHED and record.experiment.precision not in precisions
            if is_new and record.settings_but_precision in settings:
                precisions.add(record.experiment.precision)
                chosen.append(record)
    return tuple(chosen[:_MOST_BACKGROUND])


def images_of(store_path: Path, run_ids: Sequence[str]) -> Images | None:
    """Return the training images of the first of the runs that has any, gray, (count, side, side)."""
    with Store(store_path) as store:
        sheet = store.pictures(run_ids)
    return None if sheet is None else tiles_of(sheet)


def tiles_of(sheet: ContactSheet) -> Images | None:
    """Return the images of a sheet, brightened. None for a damaged one."""
    try:
        return brightened(sheet.tiles())
    except ValueError:
        return None


class LiveController(QObject):
    """Updates the live page with the progress of its runs, `repaint_hz` times a second.

    Without `repaint_hz`, it updates as often as the training device allows. `progressed` carries (run id,
    fraction, is paused) at each update of a run.
    """

    progressed = Signal(str, float, bool)

    def __init__(
        self, live: LivePanel, experiments: Experiments, repaint_hz: int | None, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._live, self._experiments, self._repaint_hz = live, experiments, repaint_hz
        self._runs = experiments.runs
        self._shown: tuple[str, ...] = ()
        self._selected: tuple[str, ...] = ()
        # Demo is moved by the timer, too, and needs more frames than numbers and curves
        self._refresh_ms = 0 if repaint_hz else _REFRESH_MS
        self._since_refresh = QElapsedTimer()
        self._since_refresh.start()
        self.timer = QTimer(self)
        self.timer.timeout.connect(self._repaint)
        self._second = QTimer(self, interval=1_000)
        self._second.timeout.connect(self._update_work_left)
        self._background = Background(self)
        self._runs.run_changed.connect(self._on_run_changed)
        experiments.event_received.connect(self._on_event)
        experiments.works.changed.connect(self._on_work_changed)

    def show(self, run_ids: tuple[str, ...]) -> None:
        """Show runs in the live panel. A problem is emitted for each run that cannot be read."""
        lives = {run_id: live for run_id in run_ids if (live := self._read(run_id)) is not None}
        self._shown = tuple(lives)
        records = [self._runs.record(run_id) for run_id in self._shown]
        self._live.set_title(self._title([record for record in records if record]))
        self._live.set_background_runs(self._background_runs())
        self._live.set_failure(failure_in(self._experiments, self._shown))
        if self._is_training():
            self._show_race()
            self._read_images()
        self._live.set_runs(list(lives.values()))

    def set_selected(self, run_ids: tuple[str, ...]) -> None:
        """Set the selected runs. Curves of finished ones are drawn under those of the current run."""
        if run_ids == self._selected:
            return
        self._selected = run_ids
        self._live.set_background_runs(self._background_runs())
        self._live.refresh()

    def show_group(self, run_id: str) -> None:
        """Show a run with the others of its comparison."""
        self.show(self._runs.group(run_id))

    def drop_deleted(self) -> None:
        """Remove deleted runs from the panel."""
        left = tuple(run_id for run_id in self._shown if self._runs.record(run_id))
        if left != self._shown:
            self.show(left)

    def start_repainting(self, run_id: str) -> None:
        """Repaint a run from its start on. Show it, unless something else is in view."""
        record = self._runs.record(run_id)
        if record is not None and self._belongs_to_view(record):
            self.show_group(run_id)
        catalog = self._experiments.catalog
        entry = catalog.device(record.experiment.device) if catalog and record is not None else None
        on_cpu = record is not None and (entry is None or not entry.is_gpu)
        rate = self._repaint_hz or (CPU_REPAINT_HZ if on_cpu else GPU_REPAINT_HZ)
        self.timer.start(1000 // rate)
        self._update_work_left()
        self._second.start()

    def end_repainting(self) -> None:
        """Paint the run that has ended for the last time."""
        self.stop()
        self._live.set_failure(failure_in(self._experiments, self._shown))
        self._live.refresh()
        # a repaint may have come between the run's last event and its record
        self._live.fit_profile()

    def stop(self) -> None:
        """Stop repainting."""
        self.timer.stop()
        self._second.stop()

    def close(self) -> None:
        """Stop for good, and wait for what is being read."""
        self.stop()
        self._background.stop()

    def _on_work_changed(self, key: str) -> None:
        view = self._experiments.works.view(key)
        self._live.set_pilot(view.pilot_words() if isinstance(view, SweepView) else "")

    def _belongs_to_view(self, run: RunRecord) -> bool:
        # an answer that is being read must not make way for the next job of the queue
        shown = [record for run_id in self._shown if (record := self._runs.record(run_id)) is not None]
        mine = {run.id, run.comparison, run.sweep} - {None}
        return not shown or any({mate.id, mate.comparison, mate.sweep} & mine for mate in shown)

    def _read(self, run_id: str) -> LiveRun | None:
        if self._runs.record(run_id) is None:
            return None
        try:
            return self._runs.live(run_id)
        except ProblemError as error:
            self._runs.problem.emit(error.problem)
            return None

    def _on_run_changed(self, run_id: str) -> None:
        # once it has begun, its settings are resolved for this machine, as a finished run's are; the runs
        # beneath stay when it ends
        if run_id in self._shown and self._is_training():
            self._show_race()
            self._live.set_background_runs(self._background_runs())
            self._live.set_failure(failure_in(self._experiments, self._shown))
            self._live.refresh()

    def _on_event(self, run_id: str, event: Event) -> None:
        if isinstance(event, Pictures) and run_id in self._shown:
            self._background.do(lambda: tiles_of(event.sheet), self._live.set_images, lambda _problem: None)

    def _is_training(self) -> bool:
        records = (self._runs.record(run_id) for run_id in self._shown)
        return any(record is not None and not record.status.is_over for record in records)

    def _background_runs(self) -> list[tuple[LiveRun, str]]:
        if not self._is_training():
            return []
        chosen = background_runs(self._runs.records(), self._shown, self._selected)
        return [(live, run.title) for run in chosen if (live := self._read(run.id)) is not None]

    def _title(self, records: list[RunRecord]) -> str:
        if not records:
            return ""
        words = title_of([record.label or record.experiment.precision.label for record in records])
        repeat, repeats = self._runs.repeat_position(records[0].id)
        if repeats > 1:
            return f"{words}, repeat {repeat} of {repeats}"
        return words if len(records) > 1 else records[0].title

    def _show_race(self) -> None:
        """Pass on what the race needs besides the runs: times, other repeats, and images."""
        now = datetime.now().astimezone()
        stand_ins: dict[str, LiveRun] = {}
        for run_id in self._shown:
            record = self._runs.record(run_id)
            if record is not None and record.status is Status.QUEUED:
                earlier = self._runs.latest_repeat(run_id)
                if earlier is not None and (live := self._read(earlier)) is not None:
                    stand_ins[run_id] = live
        ids = (*self._shown, *(live.run_id for live in stand_ins.values()))
        records = [record for run_id in ids if (record := self._runs.record(run_id)) is not None]
        recorded = {
            record.id: f"recorded {clock_text(record.ended.astimezone(), now)}"
            for record in records
            if record.ended is not None
        }
        self._live.set_race(recorded, stand_ins)

    def _read_images(self) -> None:
        read = partial(images_of, self._experiments.store_path, self._shown)
        # without images, patterns are shown
        self._background.do(read, self._live.set_images, lambda _problem: None)

    def _update_work_left(self) -> None:
        queue, running = self._experiments.queue, self._experiments.running
        items = [item for item in self._experiments.works.items() if item.is_running or not queue.is_paused]
        # a run of a sweep is no item itself
        is_more = any(item.key != running and not item.is_paused for item in items)
        seconds, at_least = time_left(items)
        self._live.page.strip.set_work_left(seconds if is_more else None, at_least=at_least)

    def _repaint(self) -> None:
        if self._live.isVisible() and self._since_refresh.elapsed() >= self._refresh_ms:
            self._since_refresh.restart()
            self._live.refresh()
        if (live := self._experiments.live) is not None:
            self.progressed.emit(live.run_id, live.progress or 0.0, live.is_paused)
