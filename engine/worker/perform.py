"""Runs a job in this process, in the calling thread or its own, or on several devices by workers."""

from __future__ import annotations

import os
import platform
import queue
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import torch

from engine import __version__
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.protocol import jobs
from engine.protocol.events import (
    CatalogRead,
    Event,
    Examined,
    Failed,
    Finished,
    Heartbeat,
    Held,
    Ready,
    Summary,
    is_last,
)
from engine.protocol.jobs import Control
from engine.protocol.trials import Tried
from engine.training.checks.check import check
from engine.training.data.image_sources import prepare_thumbnails
from engine.training.doctor import examine_torch, read_catalog
from engine.training.failures import error_details, memory_cap_problem, problem_of, summary_so_far
from engine.training.forecast import forecast
from engine.training.numerics.study import study_numerics
from engine.training.profile.profile import profile_steps
from engine.training.ranks import process_group
from engine.training.runs.loop import train
from engine.training.runs.plan import RunPlan
from engine.training.runs.prepare import fetch_data
from engine.training.runs.trial import try_batch
from engine.worker.guard import private_folder
from engine.worker.merging import Merger
from engine.worker.script.run import run_script
from engine.worker.site import BadLine, WorkerExited, WorkerProcess
from engine.worker.supervision import Timeouts, Watchdog, death_problem, protocol_problem, spill_problem

_LOOK_SECONDS = 0.02
_ANSWER_SECONDS, _SILENT_ANSWER_SECONDS = 5.0, 1.0
LIMITS = Timeouts(standstill={phase: 0.9 * limit for phase, limit in Timeouts().standstill.items()})
"""Limits of a rank, shorter than those of the run, whose errors name no rank."""
_PLACE = re.compile(r"Current thread 0x.*\n((?:  File .*\n)+)")
_FILE = re.compile(r'  File "(.*?)", line')
_WAITING = re.compile(
    r"Current thread 0x.*\n"
    r'  File ".*/(torch/(autograd/graph|distributed/.*|amp/grad_scaler|nn/modules/.*|optim/.*'
    r"|(cuda|accelerator)/.*)|engine/training/(ranks|profile/communication|measuring/(telemetry|speed)))\.py\""
)
"""The innermost frame of a rank that waits for others, or for its device that waits for others: a backward
pass sends gradients, and a full launch queue blocks any operation."""
_PYTHONS = re.compile(r"^<|/lib(64)?/python3[^/]*/(?!(site|dist)-packages/)")
_OF_LIBRARY = re.compile(r"/torch/|/engine/(experiment|protocol|training|worker)/")
_LOADS_DATA = re.compile(r"/torch/utils/data/|/engine/training/data/")
_OTHERS_SECONDS = 1.0  # after a failure the others lose the rank: the first to say so need not be the cause


def on_devices(job: jobs.ByRanks, control: jobs.Control) -> Iterator[Event]:
    """Train, profile or try on multiple devices, each with a worker. Raises ProblemError of kind REQUEST."""
    if job.rank is not None or job.experiment.devices == 1:
        yield from _here(job, control)
        return
    plan = RunPlan(job.experiment, read_catalog())
    experiment = plan.experiment
    if experiment.devices == 1:
        yield from _here(job.model_copy(update={"experiment": experiment}), control)
        return
    prepare_thumbnails(experiment)
    is_resumed = isinstance(job, jobs.Train) and job.resume
    yield from fetch_data(plan, control, None if is_resumed else plan.total_steps)
    if control.stop_requested.is_set():
        yield Finished(summary=Summary(speed_note="Stopped before training began."), stopped=True)
        return
    with ExitStack() as started:
        folder = started.enter_context(private_folder("ranks"))
        workers: list[WorkerProcess] = []
        merger = Merger(job.experiment, experiment, plan.device_names)
        started.callback(_kill_workers, workers)
        for number in range(experiment.devices):
            workers.append(WorkerProcess(environment=_environment(experiment)))
            rank = jobs.RankAssignment(
                number=number, count=experiment.devices, meeting=str(folder / "meeting")
            )
            # a NaN of one rank ends the run for all of them, which only this process can tell them
            own = experiment.model_copy(update={"on_nan": "continue"})
            workers[-1].send(job.model_copy(update={"experiment": own, "rank": rank}))
        last: Event | None = None
        for event in _Together(workers, merger, control, is_kept=isinstance(job, jobs.Train)).events():
            if is_last(event):
                last = event
                break
            yield event
    # this process may be ended as soon as it has said its last word: nothing is left by then
    if last is not None:
        yield last


def _here(job: jobs.ByRanks, control: jobs.Control) -> Iterator[Event]:
    experiment = job.experiment
    with process_group(job.rank, torch.device(experiment.device).type if job.rank else ""):
        if isinstance(job, jobs.TryBatch):
            yield from try_batch(experiment, control, searches_algorithms=job.searches_algorithms)
        elif isinstance(job, jobs.Profile):
            yield from profile_steps(job, control)
        else:
            folder = None if job.checkpoints is None else Path(job.checkpoints)
            yield from train(experiment, control, folder, resume=job.resume)


def _environment(experiment: Experiment) -> dict[str, str]:
    # each rank would use all cores of the processor that they share
    if experiment.device != "cpu" or "OMP_NUM_THREADS" in os.environ:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, torch.get_num_threads() // experiment.devices))}


def _kill_workers(workers: Sequence[WorkerProcess]) -> None:
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.close()


class _Together:
    """The workers of one run, trial or profile, and the commands to them."""

    def __init__(
        self, workers: Sequence[WorkerProcess], merger: Merger, control: jobs.Control, *, is_kept: bool
    ) -> None:
        self._workers, self._merger, self._control = workers, merger, control
        self._is_kept = is_kept
        self._watches = [Watchdog(LIMITS) for _ in workers]
        self._over: set[int] = set()
        self._told: jobs.Command = jobs.Continue()
        self._wanted: jobs.Command | None = None
        self._begun: dict[int, int] = {}
        self._rounds = self._at = 0
        self._is_synchronous = merger.is_synchronous

    def events(self) -> Iterator[Event]:
        """Yield the events of the job. The last is `Finished`, `Failed` or `Tried`."""
        while len(self._over) < len(self._workers):
            if not self._is_kept and self._control.stop_requested.is_set():
                # nothing of it is kept, so that the ranks need not end at the same step
                yield Finished(summary=Summary(), stopped=True)
                return
            self._command()
            is_idle = True
            for rank, worker in enumerate(self._workers):
                self._watches[rank].note_supervised()
                while rank not in self._over and (item := worker.next_item(0.0)) is not None:
                    is_idle = False
                    if isinstance(item, Heartbeat) and item.has_spilled:
                        item = Failed(problem=spill_problem())
                    if isinstance(item, Failed | WorkerExited | BadLine):
                        yield self._failure(rank, item)
                        return
                    if isinstance(item, Tried) and not item.trial.fits:
                        yield self._merger.unfit(rank, item)
                        return
                    self._watches[rank].note_event(item)
                    if isinstance(item, Held):
                        self._receive_held(rank, item.begun)
                        continue
                    if is_last(item):
                        self._over.add(rank)
                    yield from self._merger.add(rank, item)
                if rank not in self._over and (problem := self._watches[rank].overdue()) is not None:
                    yield self._hang(rank, problem)
                    return
            self._control.step = self._merger.step
            if is_idle:
                time.sleep(_LOOK_SECONDS)
        yield from self._merger.ending()

    def _command(self) -> None:
        control = self._control
        if control.stop_requested.is_set() or self._merger.must_end:
            self._request_all(jobs.Stop())
        elif control.pause_requested.is_set():
            self._request_all(jobs.Pause())
        elif isinstance(self._told, jobs.Pause) and self._wanted is None:
            self._send_command(jobs.Continue())

    def _request_all(self, wanted: jobs.Command) -> None:
        if isinstance(self._told, jobs.Stop) or self._told == wanted or self._over:
            return
        if self._wanted is None:
            self._rounds, self._at = 0, 0
            self._send_barrier()
        self._wanted = wanted

    def _send_barrier(self) -> None:
        self._begun.clear()
        self._send(jobs.StepBarrier(step=self._at))

    def _receive_held(self, rank: int, begun: int) -> None:
        self._begun[rank] = begun
        if len(self._begun) < len(self._workers) or self._wanted is None:
            return
        furthest = max(self._begun.values())
        if furthest > self._at:
            # a rank of fast steps is past it by the time that it hears, so each round looks further ahead
            self._at = furthest + 2**self._rounds - 1
            self._rounds += 1
            self._send_barrier()
            return
        wanted, self._wanted = self._wanted, None
        self._send_command(wanted)

    def _send_command(self, command: jobs.Command) -> None:
        self._told = command
        self._send(command)

    def _send(self, request: jobs.Request) -> None:
        for worker in self._workers:
            worker.send(request)

    def _failure(self, rank: int, item: Failed | WorkerExited | BadLine) -> Failed | Tried:
        # the others fail for want of this one, or this one for want of another
        failures = {rank: self._failed_rank(rank, item)}
        deadline = time.monotonic() + _OTHERS_SECONDS
        while len(failures) < len(self._workers) and time.monotonic() < deadline:
            for other, worker in enumerate(self._workers):
                if other in failures:
                    continue
                following = worker.next_item(_LOOK_SECONDS)
                if isinstance(following, Tried) and not following.trial.fits:
                    return self._merger.unfit(other, following)
                if isinstance(following, Failed | WorkerExited | BadLine):
                    failures[other] = self._failed_rank(other, following)
        first = min(failures, key=lambda number: _remoteness(failures[number].problem))
        failed = failures[first]
        if len({failure.problem.message for failure in failures.values()}) == 1 < len(failures):
            return failed  # the same for all
        return failed.model_copy(update={"problem": self._rank_problem(first, failed.problem)})

    def _hang(self, rank: int, problem: Problem) -> Failed:
        # all stand still for want of the one that waits for none of the others
        for worker in self._workers:
            worker.ask_where()
        is_silent = self._watches[rank].is_silent
        self._send(jobs.StepBarrier(step=0))  # each answers how many steps it has begun
        before, tails = [""], [""]
        deadline = time.monotonic() + (_SILENT_ANSWER_SECONDS if is_silent else _ANSWER_SECONDS)
        while (tails != before or not all(map(_PLACE.search, tails))) and time.monotonic() < deadline:
            time.sleep(_SILENT_ANSWER_SECONDS / 4)
            before, tails = tails, [worker.stderr_tail for worker in self._workers]
        if not is_silent:
            begun = [self._steps_begun(number) for number in range(len(self._workers))]
            hung = hung_rank(tails, begun, is_synchronous=self._is_synchronous)
            if hung is None:
                return Failed(problem=problem, detail="\n".join(tails))
            rank = hung
        sys.stderr.write(f"{tails[rank]}\n")
        sys.stderr.flush()
        return Failed(problem=self._rank_problem(rank, problem), detail=tails[rank])

    def _steps_begun(self, rank: int) -> int | None:
        begun = None
        while (item := self._workers[rank].next_item(0.0)) is not None:
            begun = item.begun if isinstance(item, Held) else begun
        return begun

    def _rank_problem(self, rank: int, problem: Problem) -> Problem:
        return problem.model_copy(update={"message": self._merger.of_rank(rank, problem.message)})

    def _failed_rank(self, rank: int, item: Failed | WorkerExited | BadLine) -> Failed:
        worker = self._workers[rank]
        if isinstance(item, Failed):
            return item
        if isinstance(item, BadLine):
            sent = f"something that is not an Ammeter event: '{item.shown}'"
            return Failed(problem=protocol_problem(sent), detail=f"{item.why}\n{worker.stderr_tail}")
        worker.kill()
        status, words = worker.close(), worker.stderr_tail
        # where it was in the user's code is read from there
        sys.stderr.write(f"{words}\n")
        sys.stderr.flush()
        return Failed(problem=death_problem(status), detail=words)


def hung_rank(tails: Sequence[str], begun: Sequence[int | None], *, is_synchronous: bool) -> int | None:
    """Return the rank that the others wait for, from the frames and the started steps of each, or None.

    With asynchronous operations (NCCL), a waiting rank may be in any of torch's frames.
    """
    known = [steps for steps in begun if steps is not None]
    least = min(known) if len(known) == len(begun) else None
    suspected = [rank for rank, tail in enumerate(tails) if _is_in_own_code(tail)]
    # a rank that is ahead of others waits for them, perhaps in an operation that the user's code calls
    if len(suspected) == 1 and (least is None or begun[suspected[0]] == least):
        return suspected[0]
    behind = [rank for rank, steps in enumerate(begun) if steps == least]
    if least is not None and len(behind) == 1:
        return behind[0]
    elsewhere = [rank for rank, tail in enumerate(tails) if not _WAITING.search(tail)]
    return elsewhere[0] if is_synchronous and len(elsewhere) == 1 else None


def _is_in_own_code(tail: str) -> bool:
    # in neither torch nor the engine, or waiting in Python for data
    frames = _PLACE.findall(tail)
    files = _FILE.findall(frames[-1]) if frames else []
    callers = [file for file in files if not _PYTHONS.search(file)]
    if not callers:
        return False
    waits_in_python = callers[0] != files[0]
    return not _OF_LIBRARY.search(callers[0]) or (waits_in_python and bool(_LOADS_DATA.search(callers[0])))


def _remoteness(problem: Problem) -> int:
    # how far it is from a cause: an error that Ammeter does not know is often that of a lost connection
    return {Kind.INTERNAL: 2, Kind.WORKER_DIED: 1}.get(problem.kind, 0)


def perform(job: jobs.Job, control: Control) -> Iterator[Event]:
    """Yield the events of a job. The last one ends it. Any error becomes `Failed`."""
    failure: Failed | None = None
    try:
        match job:
            case jobs.Train() if job.experiment.is_script:
                yield from run_script(job.experiment, control)
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
        problem = memory_cap_problem(problem_of(error), asked.memory_cap_gib if asked is not None else None)
        failure = Failed(problem=problem, detail=error_details(error), summary=summary_so_far(error))
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
