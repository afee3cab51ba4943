"""Supervises a job in a worker: silence, standstill, invalid lines or death end it with a `Problem`.

The problem has the place in the user's code that was running.
"""

from __future__ import annotations

import math
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.experiment.own.code import Code
from engine.experiment.own.folders import exists_here
from engine.experiment.problem import Kind, Problem
from engine.protocol import jobs
from engine.protocol.events import (
    CatalogRead,
    Checked,
    EarlyEnd,
    Event,
    Examined,
    Failed,
    Finished,
    ForecastMade,
    Heartbeat,
    Log,
    Phase,
    PhaseName,
    Samples,
    Started,
    Tried,
    is_last,
)
from engine.protocol.jobs import RemotePlace
from engine.protocol.trials import SPILLED
from engine.worker.site import BadLine, Item, Worker, WorkerExited, WorkerLost

_FRAME = re.compile(r'  File "(?P<path>.+)", line (?P<line>\d+) in (?P<function>.+)')
_THREAD = re.compile(r"(?P<other>Thread 0x)?.*\(most recent call first\):")
"""The line before a thread's frames. For the thread that dumped, it starts with "Current thread" or
"Stack"."""
_MODULES = re.compile(r"Extension modules: |<truncated rest of")
_FIRST_CRASH = 0x80000000  # on Windows an exit status from here on is an NTSTATUS of an error
_CORRECT = {
    Kind.HANG: "Look there for an infinite loop.",
    Kind.WORKER_DIED: "Fix that line. It crashed outside Python, so it raised no error.",
}


@dataclass(frozen=True)
class TracebackFrame:
    """A frame of a traceback in the user's code: file, line and function."""

    file: str
    line: int
    function: str

    @property
    def place(self) -> str:
        """The place for a message: "net.py, line 12, in forward"."""
        function = "" if self.function.startswith("<") else f", in {self.function}"
        return f"{self.file}, line {self.line}{function}"


@dataclass(frozen=True)
class LastWords:
    """The stderr of a worker that crashed or hangs, split into the stack of the user's code and the rest.

    The innermost frame is first.
    """

    frames: tuple[TracebackFrame, ...]
    rest: str

    @property
    def frame(self) -> TracebackFrame | None:
        """The innermost line. None if no line of the user's code was running."""
        return self.frames[0] if self.frames else None

    @property
    def trace(self) -> str:
        """The user's frames as a traceback, and the rest."""
        lines = [f'  File "{frame.file}", line {frame.line}, in {frame.function}' for frame in self.frames]
        head = ["Traceback (most recent call first):", *lines] if lines else []
        return "\n".join([*head, *([self.rest] if self.rest else [])])


def last_words(stderr: str, code: Code) -> LastWords:
    """Return the last output of a crashed worker, with the lines of the user's code it was at.

    They are read from the dump by faulthandler at the end of stderr: from the thread that dumped, or else
    from the first thread in the user's code.
    """
    paths = {str(Path(code.folder) / name): name for name in (code.file, *code.beside)}
    # as faulthandler writes them
    names = {path.encode("ascii", "backslashreplace").decode(): name for path, name in paths.items()}
    threads: list[list[TracebackFrame]] = []
    rest: list[str] = []
    frames: list[TracebackFrame] | None = None
    for line in stderr.splitlines():
        if thread := _THREAD.fullmatch(line):
            frames = []
            threads.insert(len(threads) if thread["other"] else 0, frames)
        elif frames is not None and (found := _FRAME.fullmatch(line)):
            if found["path"] in names:
                frames.append(TracebackFrame(names[found["path"]], int(found["line"]), found["function"]))
        elif not _MODULES.match(line):
            frames = None
            rest.append(line)
    return LastWords(tuple(next(filter(None, threads), [])), "\n".join(rest).strip("\n"))


def protocol_problem(sent: str) -> Problem:
    """Return the problem of a worker that `sent` something other than an event."""
    return Problem(
        kind=Kind.PROTOCOL,
        message=f"The training process sent {sent}.",
        remedy="Run it again. If it happens again, report it with the details below.",
    )


def spill_problem() -> Problem:
    """Return the problem of a trial that was ended because it spilled to system memory."""
    return Problem(kind=Kind.SPILLED, message=SPILLED, remedy="Try a smaller batch.")


def death_problem(status: int) -> Problem:
    """Return the problem of a worker that ended with this exit status."""
    remedy = "The details below show its last output."
    if status >= 0:
        # Windows' codes of crashes are known in hexadecimal: 0xC0000005
        how = f"with exit status {f'0x{status:08X}' if status >= _FIRST_CRASH else status}"
    else:
        known = -status in set(signal.Signals)
        how = f"by signal {-status}{f' ({signal.Signals(-status).name})' if known else ''}"
        if -status == getattr(signal, "SIGKILL", 9):
            remedy = "If you did not end it, the system probably ran out of memory. Try a smaller batch."
    return Problem(kind=Kind.WORKER_DIED, message=f"The training process ended mid-run {how}.", remedy=remedy)


def lost_problem(why: str, kind: Kind = Kind.WORKER_DIED) -> Problem:
    """Return the problem of a worker that a remote machine has lost."""
    remedy = "Its results until then are saved. Train the run again, or resume it from a checkpoint."
    return Problem(kind=kind, message=why, remedy=remedy)


def with_frame(problem: Problem, code: Code, words: LastWords) -> Problem:
    """Return the problem with the line of the user's code that was running, or at least the file."""
    if words.frame is not None and problem.kind in _CORRECT:
        message = f"{words.frame.place}: {problem.message}"
        update = {"message": message, "key": "model", "remedy": _CORRECT[problem.kind]}
        return problem.model_copy(update=update)
    if problem.kind is Kind.WORKER_DIED:
        message = f"{problem.message.removesuffix('.')} while running {code.file}."
        return problem.model_copy(update={"message": message})
    return problem


class TrainingProgress:
    """A run's progress as seen in its events: the last completed `step`, and the metrics `so_far`."""

    def __init__(self) -> None:
        self.step, self.so_far = 0, EarlyEnd()

    def note_event(self, event: Event) -> bool:
        """Add the event. Return whether a step was completed since the last one."""
        before = self.step
        self.so_far.add_event(event)
        match event:
            case Heartbeat(step=step) | Samples(step=(*_, step)):
                self.step = max(self.step, int(step))
        return self.step > before


_ANSWER_SECONDS = 1.0
_BLINK_SECONDS = 2.0  # between two looks in a row; a longer gap means that nobody was looking
_STANDSTILL_SECONDS: Mapping[PhaseName, float] = {
    # a whole validation is one event, as is decoding a folder; a large model's CPU step takes minutes
    **dict.fromkeys(PhaseName, 3_600.0),
    **dict.fromkeys(
        (PhaseName.WARMING_UP, PhaseName.CAPTURING, PhaseName.MEASURING, PhaseName.SAVING), 900.0
    ),
    PhaseName.PAUSED: math.inf,
}


@dataclass(frozen=True)
class Timeouts:
    """The time limits, in seconds, after which a worker that does not respond is ended.

    `ready`: to import torch. `silence`: without any message. `standstill`, by phase: without a completed step
    or other progress, although heartbeats arrive. `stop`: from the request to stop to the signal.
    `terminate`: from the signal to the kill.
    """

    ready: float = 180.0
    silence: float = 60.0
    stop: float = 5.0
    terminate: float = 2.0
    standstill: Mapping[PhaseName, float] = field(default_factory=lambda: _STANDSTILL_SECONDS)


class ProcessSession:
    """A `Session` that runs one job in a worker process and ends the worker if it does not respond.

    With `resumes`, the worker already has the job, from before Ammeter was restarted. The session `is_lost`
    if a remote machine no longer has the worker. The job then counts as interrupted.
    """

    def __init__(self, worker: Worker, job: jobs.Job, limits: Timeouts, *, resumes: bool = False) -> None:
        self._worker = worker
        self._job = job
        self._limits = limits
        experiment = getattr(job, "experiment", None)
        self._watch = Watchdog(limits, is_script=experiment is not None and experiment.is_script)
        self._stop_asked: float | None = None
        self._terminated: float | None = None
        self._writes = resumes
        self.is_over = self.is_lost = self._is_worker_over = False
        self._code: Code | None = None if experiment is None else experiment.own_code
        if not resumes:
            worker.send(job)

    @property
    def place(self) -> RemotePlace | None:
        """How far the output of the job's remote worker was read. None on this machine."""
        return self._worker.place

    def leave(self) -> None:
        """Leave a remote job running, to be resumed later. End it on this machine."""
        self.is_over = True
        self._worker.leave()

    def stop(self) -> None:
        if self._stop_asked is None:
            self._stop_asked = time.monotonic()
            self._worker.send(jobs.Stop())

    def pause(self) -> None:
        self._worker.send(jobs.Pause())

    def resume(self) -> None:
        self._worker.send(jobs.Continue())

    def close(self) -> None:
        """End the job if it still runs. Call it once its last event is recorded."""
        if not self.is_over:
            self._finish(kill=True)
        if self._is_worker_over:
            self._worker.forget()

    def next_event(self, timeout_seconds: float) -> Event | None:
        if self.is_over:
            return None
        self._watch.note_supervised()
        ending = self._overdue()
        if ending is None:
            # at least five looks a second, so that a stop or a limit is seen soon
            item = self._worker.next_item(min(timeout_seconds, 0.2))
            if item is None:
                return None
            ending = self._ending_of(item)
            if ending is None:
                assert not isinstance(item, BadLine | WorkerExited)
                self._watch.note_event(item)
                # its job writes files from now on, and must be given time to end well
                self._writes |= isinstance(item, Started) or self._watch.phase is PhaseName.PROFILING
                if is_last(item):
                    self._finish(kill=False)
                return self._with_its_place(item)
        self._finish(kill=True)
        return ending

    def _with_its_place(self, event: Event) -> Event:
        """Add the machine's name to the error of a path that exists on this machine but not on the remote
        one.
        """
        place = self._worker.place
        if place is None or not isinstance(event, Failed) or event.problem.key != "path":
            return event
        experiment = getattr(self._job, "experiment", None)
        path = None if experiment is None else experiment.path
        if path is None or not exists_here(path):
            return event
        remedy = f"{event.problem.remedy} The path must exist on {place.machine}."
        return event.model_copy(update={"problem": event.problem.model_copy(update={"remedy": remedy})})

    def _finish(self, *, kill: bool) -> None:
        self.is_over = True
        if kill:
            self._worker.kill()
        if kill or jobs.ends_worker(self._job):
            self._is_worker_over = True
            self._worker.close()
            if kill or self._code is not None:
                self._worker.kill_orphans()

    def _overdue(self) -> Event | None:
        if self._worker.is_away:
            self._watch.wait()
            if self._stop_asked is not None:
                self._stop_asked = time.monotonic()
            return None
        if self._worker.is_waiting:
            self._watch.wait()
        if self._stop_asked is None:
            problem = self._watch.overdue()
            if problem is None:
                return None
            self._ask_where()
            return self._failed(problem)
        if not self._writes or self._worker.is_waiting:
            return self._stopped("Stopped before training began.")
        now = time.monotonic()
        # a checkpoint that is being saved gets the time it needs
        saving = self._watch.phase is PhaseName.SAVING
        patience = self._limits.standstill[PhaseName.SAVING] if saving else self._limits.stop
        patience += self._worker.delay_seconds
        if self._terminated is None and now - self._stop_asked > patience:
            self._ask_where()
            self._terminated = now
            self._worker.terminate()
        if self._terminated is not None and now - self._terminated > self._limits.terminate:
            return self._stopped(f"The worker did not stop on request and was ended.{self._where}")
        return None

    def _stopped(self, why: str) -> Finished:
        return Finished(summary=self._watch.progress.so_far.summary(why), stopped=True)

    def _failed(self, problem: Problem, why: str = "") -> Failed:
        words, tail = self._last_words(), self._worker.stderr_tail
        if words is None or self._code is None:
            return Failed(problem=problem, detail="\n".join(part for part in (why, tail) if part))
        if not isinstance(self._job, jobs.CheckModel):
            problem = with_frame(problem, self._code, words)
        return Failed(
            problem=problem,
            detail="\n".join(part for part in (why, words.trace) if part),
            file=None if words.frame is None else words.frame.file,
            line=None if words.frame is None else words.frame.line,
        )

    def _last_words(self) -> LastWords | None:
        return None if self._code is None else last_words(self._worker.stderr_tail, self._code)

    def _ask_where(self) -> None:
        # a worker that runs the user's code says where it is, and is given a moment to
        words = self._last_words()
        if words is None or words.frame is not None:
            return
        self._worker.ask_where()
        deadline = time.monotonic() + _ANSWER_SECONDS + self._worker.delay_seconds
        while words is not None and words.frame is None and time.monotonic() < deadline:
            time.sleep(_ANSWER_SECONDS / 20)
            words = self._last_words()

    @property
    def _where(self) -> str:
        words = self._last_words()
        return f" It was at {words.frame.place}." if words is not None and words.frame is not None else ""

    def _ending_of(self, item: Item) -> Event | None:
        if isinstance(item, BadLine):
            sent = f"something that is not an Ammeter event: '{item.shown}'"
            return self._failed(protocol_problem(sent), item.why)
        if isinstance(item, WorkerLost):
            self.is_lost = not item.has_failed
            return self._failed(lost_problem(item.why, item.kind))
        if isinstance(item, WorkerExited):
            if self._stop_asked is not None:
                how = "by itself" if self._terminated is None else "by a signal"
                return self._stopped(f"The worker ended {how} without a report of its progress.{self._where}")
            self._worker.kill()
            return self._failed(death_problem(self._worker.close()))
        if isinstance(item, Failed) and item.problem.kind in (Kind.WORKER_DIED, Kind.HANG):
            # it speaks of a loader process or a rank, which said where it was
            return self._failed(item.problem) if self._where else None
        if isinstance(item, Heartbeat) and item.has_spilled:
            return self._failed(spill_problem())
        if is_last(item) and not isinstance(item, (*_ENDINGS, *_ANSWERS.get(type(self._job), ()))):
            return self._failed(protocol_problem(f"'{item.event}', which does not answer its job"))
        return None


class Watchdog:
    """Measures how long a worker has sent no message and made no progress. Only supervised time counts.

    A script also makes progress by printing. It may validate or save in any phase, so all have one limit.
    """

    def __init__(self, limits: Timeouts, *, is_script: bool = False) -> None:
        now = time.monotonic()
        self.progress = TrainingProgress()
        self._limits, self._is_script = limits, is_script
        self._ignored = (Heartbeat, Samples) if is_script else (Heartbeat, Samples, Log)
        self._looked = self._heard = self._advanced = now
        self._is_ready = False
        self.phase = PhaseName.BUILDING

    def note_supervised(self) -> None:
        """Note that the worker is supervised now. Time in which this program was suspended is not counted."""
        now = time.monotonic()
        unwatched = now - self._looked
        self._looked = now
        if unwatched > _BLINK_SECONDS:
            self._heard += unwatched
            self._advanced += unwatched

    def wait(self) -> None:
        """Do not count the time up to now, because the worker is disconnected."""
        self._heard = self._advanced = time.monotonic()

    def note_event(self, event: Event) -> None:
        self._heard = now = time.monotonic()
        # a word about the worker is none of its own
        self._is_ready |= not (isinstance(event, Phase) and event.name is PhaseName.WAITING)
        if isinstance(event, Phase):
            self.phase = event.name
        if self.progress.note_event(event) or not isinstance(event, self._ignored):
            self._advanced = now

    @property
    def is_silent(self) -> bool:
        """True once a ready worker has sent nothing for too long, not even a heartbeat."""
        return self._is_ready and time.monotonic() - self._heard > self._limits.silence

    def overdue(self) -> Problem | None:
        now = time.monotonic()
        remedy = "The device or its driver may hang. Check that other programs can use it, then run again."
        if not self._is_ready:
            waited, limit = now - self._heard, self._limits.ready
            sentence = f"The training process was not ready after {limit:.0f} seconds."
        elif self.is_silent:
            waited, limit = now - self._heard, self._limits.silence
            sentence = f"The training process was silent for {limit:.0f} seconds and was ended."
        elif self._is_script:
            waited, limit = now - self._advanced, self._limits.standstill[PhaseName.BUILDING]
            sentence = (
                f"The script printed nothing and made no step for {limit:,.0f} seconds after step "
                f"{self.progress.step:,}. It was ended."
            )
            remedy = "Look for an infinite loop or a deadlock. Let the script print during long work."
        else:
            waited, limit = now - self._advanced, self._limits.standstill[self.phase]
            sentence = (
                f"There was no progress for {limit:.0f} seconds while {self.phase.value}, "
                f"after step {self.progress.step:,}. The training process was ended."
            )
        if waited <= limit:
            return None
        return Problem(kind=Kind.HANG, message=sentence, remedy=remedy)


_ENDINGS = (Finished, Failed)
_ANSWERS: Mapping[type[jobs.Job], tuple[type[Event], ...]] = {
    jobs.ReadCatalog: (CatalogRead,),
    jobs.Examine: (Examined,),
    jobs.Forecast: (ForecastMade,),
    jobs.CheckModel: (Checked,),
    jobs.TryBatch: (Tried,),
}
