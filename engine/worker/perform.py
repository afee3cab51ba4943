"""Runs a job in this process, in the calling thread or in its own."""

from __future__ import annotations

import os
import platform
import queue
import threading
from collections.abc import Iterator

import torch

from engine import __version__
from engine.protocol import jobs
from engine.protocol.events import CatalogRead, Event, Examined, Failed, Ready, is_last
from engine.protocol.jobs import Control
from engine.training.checks.check import check
from engine.training.doctor import examine_torch, read_catalog
from engine.training.failures import capped, details_of, problem_of, summary_so_far
from engine.training.forecast import forecast
from engine.training.numerics.parts import study_numerics
from engine.worker.ranks import on_devices


def perform(job: jobs.Job, control: Control) -> Iterator[Event]:
    """Yield the events of a job. The last one ends it. Any error becomes `Failed`."""
    failure: Failed | None = None
    try:
        match job:
            case jobs.Train() | jobs.TryBatch() | jobs.Profile():
                yield from on_devices(job, control)
            case jobs.ReadCatalog():
                yield CatalogRead(catalog=read_catalog())
            case jobs.Examine():
                yield Examined(checks=examine_torch())
            case jobs.Forecast():
                yield forecast(job.experiment)
            case jobs.CheckModel():
                yield check(job.experiment)
            case jobs.StudyNumerics():
                yield from study_numerics(job, control)
    # a worker's last word must be an event, whatever happened; the user's code may call sys.exit
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001
        asked = getattr(job, "experiment", None)
        problem = capped(problem_of(error), asked.memory_cap_gib if asked is not None else None)
        failure = Failed(problem=problem, detail=details_of(error), summary=summary_so_far(error))
    # outside the except block, where the exception no longer pins the tensors of its frames
    if failure is not None:
        yield failure


def ready() -> Ready:
    """Return the event that torch is imported. No device has been used."""
    return Ready(
        pid=os.getpid(), python=platform.python_version(), torch=torch.__version__, ammeter=__version__
    )


class ThreadSession:
    """A job that runs in a thread of this process, for debugging.

    It cannot be killed, so `close` waits for its current step.
    """

    def __init__(self, job: jobs.Job) -> None:
        self._control = jobs.Control()
        self._events: queue.Queue[Event] = queue.Queue()
        self.is_over = False
        self._events.put(ready())
        self._thread = threading.Thread(target=self._work, args=(job,), name="engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._control.obey(jobs.Stop())

    def pause(self) -> None:
        self._control.obey(jobs.Pause())

    def resume(self) -> None:
        self._control.obey(jobs.Continue())

    def close(self) -> None:
        self.stop()
        self._thread.join()
        self.is_over = True

    def next_event(self, timeout_seconds: float) -> Event | None:
        if self.is_over:
            return None
        try:
            event = self._events.get(timeout=timeout_seconds)
        except queue.Empty:
            return None
        if is_last(event):
            self.is_over = True
            self._thread.join()
        return event

    def _work(self, job: jobs.Job) -> None:
        for event in perform(job, self._control):
            self._events.put(event)
