"""The strip above the plots: what runs, how far it is, how long it will take, and Stop."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from gui.numbers import duration
from gui.panels import live_figures as figures
from gui.panels.live_run import LiveRun
from gui.widgets import Button, ElidedLabel, Marker, ProgressLine, Segmented, label, set_text

_NARROW = 900


class LiveStrip(QWidget):
    """32 px high; `stop_requested` when Stop is pressed, `x_axis_chosen` with "steps" or "seconds"."""

    stop_requested = Signal()
    x_axis_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = ElidedLabel("", "title")
        self._marker: Marker | None = None
        self.status = ElidedLabel("", "legend")
        self.step = label("", "legend")
        self.progress = ProgressLine("Progress")
        self.progress.setFixedWidth(120)
        self.left = label("", "legend")
        self.x_axis = Segmented(
            (("steps", "Steps"), ("seconds", "Time")), "Horizontal axis", "Plot against steps or against time"
        )
        self.x_axis.changed.connect(self.x_axis_chosen)
        self.stop = Button(
            "Stop", "strip", "Stop this run and keep what it trained; the next in the queue begins", "stop"
        )
        self.stop.clicked.connect(self.stop_requested)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(10)
        self._row.addWidget(self.title)
        self._row.addSpacing(4)
        self._row.addWidget(self.status, 1)
        for part in (self.step, self.progress, self.left, self.x_axis, self.stop):
            self._row.addWidget(part)
        self.setFixedHeight(32)
        self._narrow = False

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._narrow = event.size().width() < _NARROW
        self.progress.setFixedWidth(40 if self._narrow else 120)
        self._row.setSpacing(6 if self._narrow else 10)

    def show_runs(self, title: str, runs: Sequence[LiveRun], stopping: bool) -> None:
        """Says how far the runs are."""
        current = current_run(runs)
        if current is None:
            return
        self.title.set_whole_text(title or _usual_title(runs))
        busy = current.status == "running"
        for part in (self.step, self.progress, self.left):
            part.setVisible(busy)
        self.stop.setVisible(any(run.status in ("running", "queued") for run in runs))
        self.stop.setEnabled(busy and not stopping)
        self._show_status(current, runs, stopping)
        if busy:
            self._show_progress(current)

    def _show_status(self, current: LiveRun, runs: Sequence[LiveRun], stopping: bool) -> None:
        if self._marker is None:
            self._marker = Marker(current.precision)
            self._row.insertWidget(2, self._marker)
        self._marker.set_precision(current.precision, current.status == "queued")
        place = f", {runs.index(current) + 1} of {len(runs)}" if len(runs) > 1 else ""
        over = all(run.is_over for run in runs)
        if over and len(runs) > 1 and {run.status for run in runs} == {"finished"}:
            self.status.set_whole_text(f"all {len(runs)} finished")
            self._marker.hide()
            return
        self._marker.show()
        word = "stopping" if stopping and current.status == "running" else current.status
        busy_with = current.phase if current.status == "running" and current.phase != "measuring" else ""
        phase = f" · {busy_with}" if busy_with else ""
        reason = f": {current.problem.message}" if current.problem is not None else ""
        self.status.set_whole_text(f"{current.label} {word}{place}{phase}{reason}")

    def _show_progress(self, run: LiveRun) -> None:
        total = run.total_steps
        word = "" if self._narrow else "step "
        set_text(self.step, f"{word}{run.step:,} of {total:,}" if total else f"step {run.step:,}")
        self.progress.set_progress(run.step / total if total else 0.0, run.precision)
        seconds = figures.seconds_left(run)
        set_text(self.left, f"{duration(seconds)} left" if seconds is not None else "")


def _usual_title(runs: Sequence[LiveRun]) -> str:
    first, *others = [run.label for run in runs]
    if not others:
        return first
    return f"{first} against {', '.join(others[:-1])}{' and ' if others[1:] else ''}{others[-1]}"


def current_run(runs: Sequence[LiveRun]) -> LiveRun | None:
    """The run that trains, else the next one queued, else the last."""
    for status in ("running", "queued"):
        found = next((run for run in runs if run.status == status), None)
        if found is not None:
            return found
    return runs[-1] if runs else None
