"""A slim line under the stat cards: how busy, hungry and warm the card is, and what the run waits for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtWidgets import QHBoxLayout, QWidget

from engine.records.large_numbers import number
from gui.panels.live_run import LiveRun, Values
from gui.panels.live_strip import current_run
from gui.widgets import ElidedLabel, Marker

_RECENT = 50


class LiveGauges(QWidget):
    """20 px high; gone where the device tells nothing of itself, as a CPU does not."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(20)
        self._has_room = True
        self._marker: Marker | None = None
        self.words = ElidedLabel("", "legend")
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(4, 0, 4, 0)
        self._row.setSpacing(8)
        self._row.addWidget(self.words, 1)
        self.hide()

    def set_room(self, has_room: bool) -> None:
        """Gives way in a low window, where the plots need the height."""
        self._has_room = has_room
        self.setVisible(has_room and bool(self.words.whole_text()))

    def show_runs(self, runs: Sequence[LiveRun]) -> None:
        """Tells of the run that trains, or of the last one."""
        run = current_run([run for run in runs if run.status != "queued"])
        words = gauge_words(run) if run is not None else ""
        self.setVisible(self._has_room and bool(words))
        if run is None or not words:
            self.words.set_whole_text("")
            return
        if self._marker is None:
            self._marker = Marker(run.precision)
            self._row.insertWidget(0, self._marker)
        self._marker.set_precision(run.precision)
        self.words.set_whole_text(f"{run.label}   {words}")


def gauge_words(run: LiveRun) -> str:
    """How busy and warm the card is, and how long it waits for data; empty on a CPU."""
    busy, power = _gauge(run, "gpu_utilization_percent"), _gauge(run, "power_watts")
    heat, clock = _gauge(run, "temperature_celsius"), _gauge(run, "clock_mhz")
    if all(value is None for value in (busy, power, heat, clock)):
        return ""
    others, wait = _gauge(run, "other_programs_mib"), data_wait_percent(run)
    parts = [
        f"GPU busy {busy:.0f} %" if busy is not None else "",
        f"{number(power, 0)} W" if power is not None else "",
        f"{heat:.0f} °C" if heat is not None else "",
        f"{number(clock, 0)} MHz" if clock is not None else "",
        f"waiting for data {wait:.0f} %" if wait is not None else "",
        f"other programs {others / 1024:.1f} GiB" if others else "",
    ]
    return "  ·  ".join(part for part in parts if part)


def data_wait_percent(run: LiveRun) -> float | None:
    """The share of the steps' time in which the device had nothing to work on; None where nobody measured."""
    if run.summary is not None:
        share = run.summary.data_wait_fraction
        return None if share is None else share * 100.0
    waits, rates = run.column("data_wait_ms")[-_RECENT:], run.column("samples_per_second")[-_RECENT:]
    usable = np.isfinite(waits) & np.isfinite(rates) & (rates > 0) if len(waits) == len(rates) else None
    if usable is None or not usable.any():
        return None
    milliseconds = run.batch_size / rates[usable] * 1000.0
    return float(min(waits[usable].sum() / milliseconds.sum(), 1.0) * 100.0)


def waiting_percent(run: LiveRun) -> Values:
    """The share of each step's time in which the device had nothing to do; empty where nobody measured."""
    waits, rates = run.column("data_wait_ms"), run.column("samples_per_second")
    count = min(len(waits), len(rates))
    if not np.isfinite(waits[:count]).any():
        return np.empty(0)
    # NaN before the first speed is known
    with np.errstate(invalid="ignore", divide="ignore"):
        share: Values = waits[:count] * rates[:count] / (10.0 * run.batch_size)
    return np.minimum(share, 100.0)


def _gauge(run: LiveRun, name: str) -> float | None:
    """The latest value of the column, or what the summary says of the whole run."""
    if run.summary is not None:
        figure = getattr(run.summary, name)
        return None if figure is None else float(figure)
    values = run.column(name)
    known = values[np.isfinite(values)][-1:] if len(values) else values
    return float(known[0]) if len(known) else None
