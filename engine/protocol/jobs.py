"""Jobs for a worker, and commands to the running job; one JSON object per line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from engine.experiment.experiment import Experiment
from engine.experiment.value import Message, Positive
from engine.protocol.numerics.numerics import USUAL_PARTS, Part
from engine.protocol.profile import Limits


class Train(Message):
    """Train an experiment and measure it, in a process of its own.

    Checkpoints go to the folder `checkpoints`; with `resume` the run continues from the last one there.
    """

    job: Literal["train"] = "train"
    experiment: Experiment
    checkpoints: str | None = None
    resume: bool = False


class ReadCatalog(Message):
    job: Literal["catalog"] = "catalog"


class Examine(Message):
    job: Literal["doctor"] = "doctor"


class TryBatch(Message):
    job: Literal["try"] = "try"
    experiment: Experiment


class Forecast(Message):
    """Ask how much memory an experiment would need, without running it."""

    job: Literal["forecast"] = "forecast"
    experiment: Experiment


class CheckModel(Message):
    """Look for mistakes in the experiment's model and loss with two small batches on the CPU."""

    job: Literal["check"] = "check"
    experiment: Experiment


class StudyNumerics(Message):
    """Look at an experiment's numerics, part by part.

    The search for the first NaN or Inf goes through `steps` steps, all of the experiment's by default. If
    `checkpoints` names a run's folder, the search begins at the newest state there from before the run went
    wrong, which was at `trouble_step`.
    """

    job: Literal["diagnose"] = "diagnose"
    experiment: Experiment
    parts: Annotated[tuple[Part, ...], Field(min_length=1, max_length=5)] = USUAL_PARTS
    steps: Positive | None = None
    checkpoints: str | None = None
    trouble_step: Positive | None = None


class Profile(Message):
    """Record where the time of an experiment's step goes.

    The trace is written to the file `trace` as gzipped JSON. Without the device's `limits` they are measured.
    """

    job: Literal["profile"] = "profile"
    experiment: Experiment
    trace: str | None = None
    limits: Limits | None = None


class Stop(Message):
    """Asks the running job to end after the step in flight."""

    job: Literal["stop"] = "stop"


class Pause(Message):
    """Asks the running job to wait after the step in flight, until `Continue` or `Stop`."""

    job: Literal["pause"] = "pause"


class Continue(Message):
    """Asks the paused job to go on."""

    job: Literal["continue"] = "continue"


Job = Train | ReadCatalog | Examine | Forecast | CheckModel | TryBatch | StudyNumerics | Profile
Request = Job | Stop | Pause | Continue


@cache
def _adapter() -> TypeAdapter[Request]:
    return TypeAdapter(Annotated[Request, Field(discriminator="job")])


def is_measured(job: Job) -> bool:
    """True if the job's figures would suffer from anything running beside it."""
    return isinstance(job, Train | StudyNumerics | Profile)


def ends_worker(job: Job) -> bool:
    """True if the worker cannot be used again: after a measured job, a trial under a cap on a CPU, or a light
    job that ran code of the user's."""
    if isinstance(job, CheckModel | Forecast):
        return job.experiment.code is not None
    return is_measured(job) or (isinstance(job, TryBatch) and job.experiment.device == "cpu")


def to_line(request: Request) -> bytes:
    """The request as one line of UTF-8 JSON."""
    return request.model_dump_json().encode() + b"\n"


def from_line(line: bytes) -> Request:
    """The request on a line. Raises ValueError for any other line."""
    try:
        return _adapter().validate_json(line)
    except ValidationError as error:
        raise ValueError(str(error)) from None


@dataclass
class Control:
    """Shared by the training loop and the threads beside it.

    `stop_requested` asks the loop to end after the step in flight, `pause_requested` to wait there while it
    is set. `step` is the last step known to have completed on the device; `has_spilled` says whether a trial
    crawls in the host's memory.
    """

    stop_requested: threading.Event = field(default_factory=threading.Event)
    pause_requested: threading.Event = field(default_factory=threading.Event)
    step: int = 0
    has_spilled: Callable[[], bool] = lambda: False

    def obey(self, command: Stop | Pause | Continue) -> None:
        """Passes a command on to the loop."""
        match command:
            case Stop():
                self.stop_requested.set()
            case Pause():
                self.pause_requested.set()
            case Continue():
                self.pause_requested.clear()
