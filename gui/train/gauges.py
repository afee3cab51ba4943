"""The live gauges of a card: a line of words, and the figures behind it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtWidgets import QWidget

from engine.curves import Values
from engine.protocol.summary import Slowdown
from engine.words.numbers import memory_text, number
from gui.session.live_run import LiveRun
from gui.train.strip import current_run
from gui.widgets import ElidedLabel, Marker
from gui.widgets.boxes import in_row, wide

_RECENT = 50


class LiveGauges(QWidget):
    """A line 20 px high with the card's gauges; hidden on a CPU, which has none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(20)
        self._has_room = True
        self._marker: Marker | None = None
        self.words = ElidedLabel("", "legend")
        self._row = in_row(wide(self.words), parent=self, margins=(4, 0, 4, 0), spacing=8)
        self.hide()

    def set_room(self, has_room: bool) -> None:
        """Hides the gauges in a low window, where the plots need the height."""
        self._has_room = has_room
        self.setVisible(has_room and bool(self.words.whole_text()))

    def show_runs(self, runs: Sequence[LiveRun]) -> None:
        """Shows the gauges of the run in progress, or of the last one."""
        run = current_run([run for run in runs if run.status != "queued"])
        words = gauge_words(run) if run is not None else ""
        self.setVisible(self._has_room and bool(words))
        if run is None or not words:
            self.words.set_whole_text("")
            return
        if self._marker is None:
            self._marker = Marker(run.precision)
            self._row.insertWidget(0, self._marker)
        self._marker.set_precision(run.precision, colour=run.colour)
        self.words.set_whole_text(f"{run.label}   {words}")


def gauge_words(run: LiveRun) -> str:
    """How busy and warm the card is, and how much it waits for data; empty on a CPU."""
    busy, power = gauge(run, "gpu_utilization_percent"), gauge(run, "power_watts")
    celsius, clock = gauge(run, "temperature_celsius"), clock_words(run)
    if not clock and all(value is None for value in (busy, power, celsius)):
        return ""
    others, wait = gauge(run, "other_programs_mib"), data_wait_percent(run)
    parts = [
        f"GPU busy {busy:.0f} %" if busy is not None else "",
        *(f"{name} {share:.0f} %" for name, share in activities(run)),
        f"{number(power, 0)} W" if power is not None else "",
        f"{celsius:.0f} °C" if celsius is not None else "",
        clock,
        f"waiting for data {wait:.0f} %" if wait is not None else "",
        f"other programs {memory_text(others)}" if others else "",
    ]
    return "  ·  ".join(part for part in parts if part)


TENSOR_CORES, SMS = "tensor_activity_percent", "sm_activity_percent"
"""The columns of the activity of Tensor Cores and SMs."""
ACTIVITIES = (
    ("Tensor Cores", TENSOR_CORES),
    ("SMs", SMS),
    ("memory", "memory_activity_percent"),
)
"""The parts of a card whose activity it tells, with their columns."""


def activities(run: LiveRun) -> tuple[tuple[str, float], ...]:
    """How active the parts of the card are, in per cent; those that it does not tell are absent."""
    shares = ((name, gauge(run, column)) for name, column in ACTIVITIES)
    return tuple((name, share) for name, share in shares if share is not None)


def clock_words(run: LiveRun) -> str:
    """The clock of the SMs, and what holds it down; empty where the card does not tell it."""
    clock = gauge(run, "clock_mhz")
    if clock is None:
        return ""
    reasons = run.summary.slowed_by if run.summary is not None else _slowdown(run).words
    held = f" (held down by {' and '.join(reasons)})" if reasons else ""
    return f"{number(clock, 0)} MHz{held}"


def _slowdown(run: LiveRun) -> Slowdown:
    bits = gauge(run, "slowdown")
    return Slowdown(int(bits or 0))


def data_wait_percent(run: LiveRun) -> float | None:
    """The share of the steps' time in which the device waited for data; None if it was not measured."""
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
    """The share of each step's time in which the device waited for data; empty if it was not measured."""
    waits, rates = run.curves.means("data_wait_ms"), run.curves.means("samples_per_second")
    count = min(len(waits), len(rates))
    if not np.isfinite(waits[:count]).any():
        return np.empty(0)
    # NaN before the first speed is known
    with np.errstate(invalid="ignore", divide="ignore"):
        share: Values = waits[:count] * rates[:count] / (10.0 * run.batch_size)
    return np.minimum(share, 100.0)


def gauge(run: LiveRun, name: str) -> float | None:
    """The summary's figure, or the latest value of the column."""
    if run.summary is not None:
        figure = getattr(run.summary, name)
        return None if figure is None else float(figure)
    values = run.column(name)
    known = values[np.isfinite(values)][-1:] if len(values) else values
    return float(known[0]) if len(known) else None
