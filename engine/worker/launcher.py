"""Starts and supervises workers, iterates their events, and tries out a PyTorch installation."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol, Self

from engine.experiment.command import refuse
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.installation.installed import TRIED_PACKAGES, add_to_path, require_engine
from engine.protocol import jobs
from engine.protocol.events import Event, Examined, Failed
from engine.protocol.jobs import RemotePlace
from engine.worker.site import COMMAND, HERE, Site, Worker
from engine.worker.supervision import ProcessSession, Timeouts

_log = logging.getLogger(__name__)
_TICK_SECONDS = 0.2
_ACTIONS = {"try": "limit", "diagnose": "numerics"}
_LAST_ERROR = re.compile(r"^[\w.]+Error: (.+)\Z", re.MULTILINE)


class Target(StrEnum):
    """The place where jobs run: a process of their own, or a thread of this one (for debugging)."""

    PROCESS = "process"
    THREAD = "thread"


class Session(Protocol):
    """The interface to a running job: its events, and stop, pause and resume, which any thread may call.

    These take effect after the current step. The last event is one for which `is_last` returns True, even if
    the worker crashes.
    """

    def next_event(self, timeout_seconds: float) -> Event | None:
        """Return the next event. None after the timeout, or after the last event."""

    @property
    def is_over(self) -> bool:
        """True once the last event was returned."""

    def stop(self) -> None:
        """Ask the job to end, and force it later."""

    def pause(self) -> None:
        """Ask the job to wait until `resume` or `stop`."""

    def resume(self) -> None: ...

    def close(self) -> None:
        """End the job if it still runs, and free its resources."""


class Launcher:
    """Starts jobs in worker processes. All workers are started here, from one thread at a time.

    Each measured job gets a new worker. To save time, a spare that has already imported torch is kept ready.
    Other jobs share one worker, which is ended before a measured job starts. Jobs with code that is not in
    `trusted_code` are refused. With the default `command`, PyTorch must be installed. When another
    installation of PyTorch is used, idle workers are ended.
    """

    def __init__(
        self,
        target: Target = Target.PROCESS,
        limits: Timeouts | None = None,
        command: tuple[str, ...] = COMMAND,
        environment: dict[str, str] | None = None,
        site: Site = HERE,
    ) -> None:
        self.target = target
        self.site = site
        self.limits = limits or Timeouts()
        self._command = command
        self._environment = environment or {}
        self.trusted_code = TrustedCode()
        self._idle: dict[Literal["spare", "light"], Worker] = {}
        self._engine: object = None
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Start a spare if there is none. Call it on an idle machine: importing torch takes a core."""
        with self._lock:
            self._end_outdated()
            self._end("light")
            spare = self._idle.get("spare")
            if spare is not None and not spare.is_alive:
                self._end("spare")
            if self.target is Target.PROCESS and self.site.keeps_spare and "spare" not in self._idle:
                # without a spare the next job starts a worker itself, and reports it if that fails
                with suppress(ProblemError):
                    self._idle["spare"] = self._new_worker()

    @property
    def idle_worker_pids(self) -> frozenset[int]:
        """Process IDs of the idle workers: the spare, and the one for light jobs."""
        return frozenset(worker.pid for worker in tuple(self._idle.values()))

    @property
    def has_ready_spare(self) -> bool:
        """True once a spare has imported torch and waits."""
        spare = self._idle.get("spare")
        return spare is not None and spare.has_spoken

    def start(self, job: jobs.Job, keep: Callable[[RemotePlace], None] | None = None) -> Session:
        """Start the job in a worker. Raises ProblemError if none can be started, or PyTorch is missing.

        Raises UntrustedCodeError, a ProblemError, for code that may not run. On a remote machine the job can
        outlive this program. Before it is sent, `keep` is called with the place of its worker.
        """
        self._check(job)
        if self.target is Target.THREAD:
            require_engine()
            add_to_path()
            # imported here, so that torch comes into this process only for this target
            from engine.worker.perform import ThreadSession

            return ThreadSession(job)
        with self._lock:
            worker = self._fresh() if jobs.is_measured(job) else self._light_worker()
        if keep is not None and worker.place is not None:
            keep(worker.place)
            worker.keep()
        return ProcessSession(worker, job, self.limits)

    def reconnect(self, place: RemotePlace, job: jobs.Job) -> ProcessSession:
        """Resume a job that was kept. Raises ProblemError, and UntrustedCodeError as `start` does."""
        self._check(job)
        return ProcessSession(self.site.reconnect(place, job), job, self.limits, resumes=True)

    def start_on(self, worker: Worker, job: jobs.Job, limits: Timeouts) -> ProcessSession:
        """Start the job in a worker of `fresh_worker`. Raises UntrustedCodeError as `start` does."""
        self._check(job)
        return ProcessSession(worker, job, limits)

    def fresh_worker(self, environment: dict[str, str] | None = None) -> Worker:
        """Return a worker to use and close. Ends the one for light jobs. Raises ProblemError."""
        with self._lock:
            if not environment:
                return self._fresh()
            self._end("light")
            return self._new_worker(environment)

    def close(self) -> None:
        """End the idle workers. Sessions are closed by their callers."""
        with self._lock:
            self._end("light")
            self._end("spare")
            self.site.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, job: jobs.Job) -> None:
        experiment = getattr(job, "experiment", None)
        if experiment is not None:
            if job.job != "train":
                refuse(_ACTIONS.get(job.job, job.job), [experiment.command])
            self.trusted_code.check(experiment)

    def _new_worker(self, more: Mapping[str, str] | None = None) -> Worker:
        environment = {**self._environment, **(more or {})}
        if self._command is COMMAND and TRIED_PACKAGES not in environment:
            self.site.require_engine()
        return self.site.worker(self._command, environment)

    def _fresh(self) -> Worker:
        self._end_outdated()
        self._end("light")
        spare = self._idle.get("spare")
        if spare is not None and spare.is_alive:
            return self._idle.pop("spare")
        self._end("spare")
        return self._new_worker()

    def _light_worker(self) -> Worker:
        self._end_outdated()
        light = self._idle.get("light")
        if light is None or not light.is_alive:
            self._end("light")
            light = self._idle["light"] = self._new_worker()
        return light

    def _end_outdated(self) -> None:
        engine = self.site.engine
        if engine != self._engine:
            self._engine = engine
            self._end("light")
            self._end("spare")

    def _end(self, which: Literal["spare", "light"]) -> None:
        worker = self._idle.pop(which, None)
        if worker is not None:
            worker.discard()


def iterate(session: Session) -> Iterator[Event | None]:
    """Yield the session's events as they come, and None several times a second without one."""
    while not session.is_over:
        yield session.next_event(_TICK_SECONDS)


def try_out(packages: Path, command: tuple[str, ...] = COMMAND) -> None:
    """Train a step in a worker with these packages. Raises ProblemError if that fails."""
    with (
        Launcher(command=command, environment={TRIED_PACKAGES: str(packages)}) as launcher,
        closing(launcher.start(jobs.Examine())) as session,
    ):
        for event in iterate(session):
            if isinstance(event, Failed):
                died = event.problem.kind is Kind.WORKER_DIED
                # of a worker that could not import torch, the last line of its traceback
                error = _LAST_ERROR.search(event.detail.rstrip()) if died else None
                raise _useless(error[1] if error else event.problem.message, event.detail)
            if isinstance(event, Examined):
                for check in event.checks:
                    if check.status == "problem":
                        raise _useless(f"{check.name}: {check.detail}")


def _useless(why: str, detail: str = "") -> ProblemError:
    problem = Problem(
        kind=Kind.NO_ENGINE,
        message=f"This build of PyTorch was installed, but it does not train here: {why.rstrip('.')}.",
        remedy="Choose another build. Any earlier installation stays in use, and downloads are kept.",
    )
    return ProblemError(problem, detail=detail)


@contextmanager
def kept_awake() -> Iterator[bool]:
    """Keep the system awake while entered, if possible. Leave it in the same thread."""
    # the import takes a tenth of a second
    from wakepy import keep

    with keep.running(on_fail="pass") as mode:
        if not mode.active:
            _log.info("%s", mode.result.get_failure_text(style="inline"))
        yield mode.active
