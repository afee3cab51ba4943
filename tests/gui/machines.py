"""A machine without a card as the window's tests know it, and a session that says what it is given."""

from __future__ import annotations

import threading

from engine.experiment.checks import Catalog, DatasetEntry, DeviceEntry, ModelEntry, PrecisionEntry
from engine.experiment.experiment import Precision
from engine.protocol.events import Event, Finished, Summary

WAIT_MS = 20_000
ABLE = tuple(PrecisionEntry(precision=precision, available=True) for precision in Precision)
CATALOG = Catalog(
    devices=(DeviceEntry(name="cpu", title="A processor", memory_mib=16_384, precisions=ABLE),),
    models=(ModelEntry(name="linear", task="regression", parameters=11),),
    datasets=(DatasetEntry(name="synthetic-regression", title="Regression", task="regression"),),
)


class Told:
    """A session that says what it was given to say, or nothing until it is told to stop."""

    def __init__(self, says: Event | None = None) -> None:
        self._says, self._told, self._over = says, threading.Event(), False
        if says is not None:
            self._told.set()

    def next_event(self, timeout_seconds: float) -> Event | None:
        if self._over or not self._told.wait(timeout_seconds):
            return None
        self._over = True
        return self._says or Finished(summary=Summary(), stopped=True)

    @property
    def is_over(self) -> bool:
        return self._over

    def stop(self) -> None:
        self._told.set()

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None:
        self._over = True
