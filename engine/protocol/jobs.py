"""Jobs for a worker, and commands to the running job. One JSON object per line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from engine.experiment.experiment import Experiment
from engine.experiment.settings import MOST_DEVICES
from engine.experiment.value import Message, Positive, Whole, check_size
from engine.protocol.numerics import USUAL_PARTS, Part
from engine.protocol.profile import Limits


class RankAssignment(Message):
    """The place of a process in a multi-device run: its number (0-based) among `count` processes.

    They find each other through the file `meeting`.
    """

    number: Annotated[int, Field(ge=0, lt=MOST_DEVICES)]
    count: Annotated[int, Field(ge=2, le=MOST_DEVICES)]
    meeting: str


@dataclass(frozen=True)
class RemotePlace:
    """Where a worker runs on a remote machine, and how many bytes of its events were read.

    It may continue there after the program that started it has ended.
    """

    machine: str
    worker: str
    events_at: int = 0


class Train(Message):
    """Train an experiment and measure it, in a process of its own.

    Checkpoints go to the folder `checkpoints`. With `resume` the run continues from the last one there.
    Without a `rank`, an experiment on multiple devices starts one process for each.
    """

    job: Literal["train"] = "train"
    experiment: Experiment
    checkpoints: str | None = None
    resume: bool = False
    rank: RankAssignment | None = None


class ReadCatalog(Message):
    """Read the catalog of devices, models and datasets."""

    job: Literal["catalog"] = "catalog"


class Examine(Message):
    """Run the doctor's checks that need torch."""

    job: Literal["doctor"] = "doctor"


class TryBatch(Message):
    """Train an experiment for a few steps, to see whether its batch fits. `rank` is as in `Train`.

    Without `searches_algorithms`, cuDNN uses its first algorithms, whatever the recipe is.
    """

    job: Literal["try"] = "try"
    experiment: Experiment
    searches_algorithms: bool = True
    rank: RankAssignment | None = None


class Forecast(Message):
    """Estimate the memory of an experiment without running it."""

    job: Literal["forecast"] = "forecast"
    experiment: Experiment


class CheckModel(Message):
    """Look for mistakes in the experiment's model and loss with two small batches on the CPU."""

    job: Literal["check"] = "check"
    experiment: Experiment


class StudyNumerics(Message):
    """Examine the numerics of an experiment, part by part.

    The search for the first NaN or Inf covers `steps` steps, None for all of the experiment. Given a run's
    folder of `checkpoints`, it starts at the newest one from before `trouble_step`, at which the run went
    wrong.
    """

    job: Literal["diagnose"] = "diagnose"
    experiment: Experiment
    parts: Annotated[tuple[Part, ...], Field(min_length=1, max_length=5)] = USUAL_PARTS
    steps: Positive | None = None
    checkpoints: str | None = None
    trouble_step: Positive | None = None


class Profile(Message):
    """A job that profiles the steps of an experiment.

    The trace is written to the file `trace` as gzipped JSON, by the first rank only. If `limits` is None, the
    device's limits are measured. `rank` is as in `Train`.
    """

    job: Literal["profile"] = "profile"
    experiment: Experiment
    trace: str | None = None
    limits: Limits | None = None
    rank: RankAssignment | None = None


class Stop(Message):
    """Ask the running job to end after the current step."""

    job: Literal["stop"] = "stop"


class Pause(Message):
    """Ask the running job to wait after the current step, until `Continue` or `Stop`."""

    job: Literal["pause"] = "pause"


class Continue(Message):
    """Ask the paused job to continue."""

    job: Literal["continue"] = "continue"


class StepBarrier(Message):
    """Request a rank to wait after `step` steps for the next command. The rank answers with `Held`."""

    job: Literal["hold"] = "hold"
    step: Whole


Command = Stop | Pause | Continue | StepBarrier
ByRanks = Train | TryBatch | Profile
Job = Train | ReadCatalog | Examine | Forecast | CheckModel | TryBatch | StudyNumerics | Profile
Request = Job | Command


@cache
def _adapter() -> TypeAdapter[Request]:
    return TypeAdapter(Annotated[Request, Field(discriminator="job")])


def is_measured(job: Job) -> bool:
    """Return True if anything else that runs would disturb the job's measurements."""
    return isinstance(job, Train | StudyNumerics | Profile)


def ends_worker(job: Job) -> bool:
    """Return True if the worker cannot be used again: after a measured job, a trial on a CPU or of a rank, or
    a light job that ran the user's code."""
    if isinstance(job, CheckModel | Forecast):
        return job.experiment.code is not None
    if isinstance(job, TryBatch):
        return job.experiment.device == "cpu" or job.rank is not None
    return is_measured(job)


def to_line(request: Request) -> bytes:
    """Return the request as one line of UTF-8 JSON."""
    return request.model_dump_json().encode() + b"\n"


def from_line(line: bytes) -> Request:
    """Return the request on a line. Raises ValueError for any other line."""
    try:
        check_size(line)
        return _adapter().validate_json(line)
    except ValidationError as error:
        raise ValueError(str(error)) from None


@dataclass
class Control:
    """Passes commands (stop, pause, continue) from a worker's other threads to its training loop.

    All methods are thread-safe. The loop ends after the current step if `stop_requested` is set, and waits
    there while `pause_requested` is set. `step` is the last step known to be completed on the device.
    `has_spilled` returns True if a trial has spilled to system memory. In a multi-device run all ranks must
    make the same steps, or one waits forever for another. `StepBarrier` therefore sets a common step first,
    at which the next command is done. A rank answers it by calling `held`.
    """

    stop_requested: threading.Event = field(default_factory=threading.Event)
    pause_requested: threading.Event = field(default_factory=threading.Event)
    step: int = 0
    has_spilled: Callable[[], bool] = lambda: False
    held: Callable[[int], None] = lambda begun: None
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _begun: int = 0
    _most: int | None = None
    _wanted: Command | None = None

    @property
    def stop_follows(self) -> bool:
        """True once a stop is requested, or follows at the common step. A validation then ends at once."""
        return self.stop_requested.is_set() or isinstance(self._wanted, Stop)

    def may_begin(self, steps: int) -> None:
        """Wait if `StepBarrier` requires it. The loop calls this before each step, after `steps` steps."""
        with self._changed:
            while self._most is not None and steps >= self._most and not self.stop_requested.is_set():
                if self._wanted is not None:
                    self._do(self._wanted)
                    return
                self._changed.wait()
            self._begun = steps + 1

    def obey(self, command: Command) -> None:
        """Pass a command to the loop."""
        with self._changed:
            if isinstance(command, StepBarrier):
                if self._begun <= command.step:
                    self._most = command.step
                self.held(self._begun)
            elif isinstance(command, Continue):
                self._most = self._wanted = None
                self.pause_requested.clear()
            elif self._most is None or self.pause_requested.is_set():
                self._do(command)
            else:
                self._wanted = command
            self._changed.notify_all()

    def _do(self, command: Command) -> None:
        (self.stop_requested if isinstance(command, Stop) else self.pause_requested).set()
