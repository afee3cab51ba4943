"""The QThread that supervises the engine: it owns the queue of runs and turns events into signals."""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path

from PySide6.QtCore import QObject, QThread, Signal

from engine.events import Failed, Finished
from engine.launcher import Launcher
from engine.problem import Kind, Problem, ProblemError
from engine.records.store import Store
from engine.runner import Runner


class EngineThread(QThread):
    """Runs what is queued, one after another, and reads the catalog first. The training is another process.

    Only signals leave this thread. `told` carries (run id, engine event). When the queue is empty it readies
    a spare worker, so that the next click trains at once.
    """

    catalog_read = Signal(object)
    run_began = Signal(str)
    told = Signal(str, object)
    run_ended = Signal(str, object)
    problem = Signal(object)
    idle = Signal()

    def __init__(self, store_path: Path, launcher: Launcher, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("engine")
        self._store_path = store_path
        self._launcher = launcher
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._closing = False
        self._stop_asked = False
        self._pause_asked = False
        self._runner: Runner | None = None

    def enqueue(self, run_ids: tuple[str, ...]) -> None:
        """Adds runs that are queued in the store."""
        with self._changed:
            self._waiting.extend(run_ids)
            self._changed.notify()

    def take_out(self, run_id: str) -> bool:
        """Takes a run out again; False if it runs already or is not there."""
        with self._changed:
            if run_id not in self._waiting:
                return False
            self._waiting.remove(run_id)
            return True

    def waiting(self) -> tuple[str, ...]:
        with self._changed:
            return tuple(self._waiting)

    def stop_run(self) -> None:
        """Asks the run in progress to end; those that wait go on waiting their turn."""
        self._stop_asked = True
        if self._runner is not None:
            self._runner.stop()

    def pause_run(self) -> None:
        """Asks the run in progress to wait after the step in flight."""
        with self._changed:
            self._pause_asked = True
            if self._runner is not None:
                self._runner.pause()

    def continue_run(self) -> None:
        """Asks the run that waits to go on."""
        with self._changed:
            self._pause_asked = False
            if self._runner is not None:
                self._runner.go_on()

    def shut_down(self) -> None:
        """Stops the run in progress, forgets the queue, and waits until the worker is gone."""
        with self._changed:
            self._waiting.clear()
            self._closing = True
            self._changed.notify()
        self.stop_run()
        self.wait()

    def run(self) -> None:
        try:
            with self._launcher, Store(self._store_path) as store:
                self._runner = Runner(store, self._launcher)
                self._work(self._runner)
        except ProblemError as error:
            self.problem.emit(error.problem)
        finally:
            self._runner = None

    def _work(self, runner: Runner) -> None:
        self._read_catalog(runner)
        while not self._closing:
            if not self.waiting():
                self._launcher.prepare()
                self.idle.emit()
            run_id = self._next()
            if run_id is not None:
                self._train(runner, run_id)

    def _read_catalog(self, runner: Runner) -> None:
        try:
            self.catalog_read.emit(runner.catalog())
        except ProblemError as error:
            if not self._closing:
                self.problem.emit(error.problem)

    def _next(self) -> str | None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._closing)
            self._stop_asked = self._pause_asked = False
            return None if self._closing else self._waiting.popleft()

    def _train(self, runner: Runner, run_id: str) -> None:
        last: Finished | Failed | None = None
        is_first = True
        self.run_began.emit(run_id)
        try:
            for event in runner.run(run_id):
                self.told.emit(run_id, event)
                if isinstance(event, Finished | Failed):
                    last = event
                if self._stop_asked:
                    # asked again, in case the wish came before the session was there
                    runner.stop()
                elif is_first:
                    self._ask_again_to_pause(runner)
                is_first = False
        except ProblemError as error:
            last = Failed(problem=error.problem)
        except Exception as error:  # noqa: BLE001 - the thread must outlive one run, and the user must be told
            last = Failed(problem=_internal(error))
        self.run_ended.emit(run_id, last)

    def _ask_again_to_pause(self, runner: Runner) -> None:
        """In case the wish came before the session was there."""
        with self._changed:
            if self._pause_asked:
                runner.pause()


def _internal(error: Exception) -> Problem:
    return Problem(
        kind=Kind.INTERNAL,
        message=f"The run was lost to a fault in Ammeter: {error}.",
        remedy="The other runs go on. Please report it with the text of the log.",
    )
