"""Runs trials one after another, each in a worker that no earlier one has poisoned."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from engine.experiment.experiment import Experiment
from engine.protocol import jobs
from engine.protocol.events import Event, PhaseName
from engine.worker.launcher import Launcher, iterate
from engine.worker.process import WorkerProcess
from engine.worker.supervision import Limits, ProcessSession

# nobody knows how long a download, decoding a folder or a compiler takes
_LONG_PHASES = (PhaseName.DOWNLOADING, PhaseName.BUILDING, PhaseName.COMPILING)
_STANDSTILL_SECONDS = 300.0
"""A trial is a handful of steps: one that stands still for this long will not go on."""

RETURNS_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "MALLOC_ARENA_MAX": "2",
}
"""The environment of a process for trials on a CPU: otherwise glibc keeps freed memory, and a peak depends on
what ran before it. It costs half the speed."""


class TrialRunner:
    """Runs the trials of one search on one device, always in processes.

    On an accelerator a worker takes trials until it is replaced; on a CPU, where a cap holds for the process,
    it takes exactly one, and the next worker gets ready meanwhile. Must be closed.
    """

    def __init__(self, launcher: Launcher, device: str) -> None:
        self._launcher = launcher
        self._is_disposable = device == "cpu"
        self._limits = trial_limits(launcher.limits)
        self._worker: WorkerProcess | None = None
        self._session: ProcessSession | None = None

    def prepare(self) -> None:
        """Starts the first trial's worker. Raises ProblemError if it cannot be started."""
        self._worker = self._take()

    @property
    def is_ready(self) -> bool:
        """Whether the next trial's worker has imported torch and waits."""
        return self._worker is not None and self._worker.has_spoken

    def run(self, experiment: Experiment, *, is_last: bool = False) -> Iterator[Event]:
        """One trial's events; the last is Tried, Failed, or Finished if it was stopped.

        After the last trial no further worker is needed. Raises ProblemError if none can be started, or if
        code may not run.
        """
        worker = self._worker = self._take()
        job = jobs.TryBatch(experiment=experiment)
        session = self._session = self._launcher.start_on(worker, job, self._limits)
        self._worker = None if self._is_disposable else worker
        try:
            if self._is_disposable and not is_last:
                self._worker = self._new_worker()
            yield from (event for event in iterate(session) if event is not None)
        finally:
            self._session = None
            session.close()

    def stop(self) -> None:
        """Ends the current trial. Any thread may ask."""
        session = self._session
        if session is not None:
            session.stop()

    def replace_worker(self) -> None:
        """Gives the next trial a new process."""
        if self._worker is not None and not self._is_disposable:
            self._worker.close()
            self._worker = None

    def close(self) -> None:
        """Ends the remaining worker."""
        if self._worker is not None:
            self._worker.discard()
            self._worker = None

    def _take(self) -> WorkerProcess:
        if self._worker is not None and not self._worker.is_alive:
            self.close()
        return self._worker or self._new_worker()

    def _new_worker(self) -> WorkerProcess:
        is_glibc = self._is_disposable and sys.platform == "linux"
        return self._launcher.fresh_worker(RETURNS_MEMORY if is_glibc else None)


def trial_limits(limits: Limits) -> Limits:
    """The launcher's limits with less patience, since nobody waits as long for a trial as for a run."""
    standstill = {
        phase: seconds if phase in _LONG_PHASES else min(seconds, _STANDSTILL_SECONDS)
        for phase, seconds in limits.standstill.items()
    }
    return replace(limits, standstill=standstill)
