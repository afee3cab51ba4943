"""A worker's typed events, one JSON object per line. The lines are untrusted and validated here."""

from __future__ import annotations

import math
from enum import StrEnum
from functools import cache
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from engine.curves import Columns
from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem
from engine.experiment.value import (
    LARGEST_STEP,
    MOST_ENTRIES,
    MOST_MIB,
    MOST_ROWS,
    MOST_SECONDS,
    Details,
    Fraction,
    Line,
    Message,
    Mib,
    Positive,
    Seconds,
    StepNumber,
    Text,
    Whole,
    check_size,
)
from engine.lazy_imports import np
from engine.protocol.advice import Checked as Checked
from engine.protocol.numerics import PartMeasured as PartMeasured
from engine.protocol.pictures import MOST_BYTES, MOST_SIDE, MOST_TILES, ContactSheet
from engine.protocol.profile import Profiled as Profiled
from engine.protocol.summary import Environment as Environment
from engine.protocol.summary import RankMemory as RankMemory
from engine.protocol.summary import Summary as Summary
from engine.protocol.trials import MemoryLine
from engine.protocol.trials import Tried as Tried


class Ready(Message):
    """The worker has imported torch, touched no device, and waits for a job."""

    event: Literal["ready"] = "ready"
    pid: Whole
    python: Line
    torch: Line
    ammeter: Line


class CatalogRead(Message):
    """The answer to the job `catalog`: the devices, models, datasets and precisions of the machine."""

    event: Literal["catalog"] = "catalog"
    catalog: Catalog


class Check(Message):
    """One line of the doctor's report. `remedy` says what to do, empty if nothing is wrong."""

    name: Line
    status: Literal["ok", "note", "problem"]
    detail: Text
    remedy: Text = ""

    @classmethod
    def ok(cls, name: str, detail: str) -> Self:
        return cls(name=name, status="ok", detail=detail)

    @classmethod
    def note(cls, name: str, detail: str, remedy: str = "") -> Self:
        return cls(name=name, status="note", detail=detail, remedy=remedy)

    @classmethod
    def problem(cls, name: str, detail: str, remedy: str = "") -> Self:
        return cls(name=name, status="problem", detail=detail, remedy=remedy)

    @classmethod
    def of(cls, name: str, problem: Problem) -> Self:
        """Return the check that found this problem."""
        return cls.problem(name, problem.message, problem.remedy)


class Examined(Message):
    """The answer to the job `doctor`."""

    event: Literal["examined"] = "examined"
    checks: Annotated[tuple[Check, ...], Field(max_length=MOST_ENTRIES)]


class ForecastMade(Message):
    """The result of the job `forecast`: an estimate of the experiment's memory at any batch size.

    At the experiment's own batch size it is `needed_mib`, which is `fixed_mib` plus `per_sample_mib` for each
    sample. At another batch size it is the highest of `lines`. `quantity` is "allocated" on an accelerator
    and "resident" on a CPU. Buffers count as parameters. `libraries_mib` is the memory that libraries need in
    addition to tensors.
    """

    event: Literal["forecast"] = "forecast"
    experiment: Experiment
    quantity: Literal["allocated", "resident"]
    parameters_mib: Mib
    gradients_mib: Mib
    optimizer_state_mib: Mib
    activations_mib: Mib
    libraries_mib: Mib
    fixed_mib: Mib
    per_sample_mib: Mib
    needed_mib: Mib
    lines: Annotated[tuple[MemoryLine, ...], Field(min_length=1, max_length=MOST_ENTRIES)]
    seconds: Seconds
    note: Text | None = None

    @model_validator(mode="after")
    def _lines_are_finite(self) -> ForecastMade:
        if not all(abs(part) <= MOST_MIB for line in self.lines for _, part in line):
            raise ValueError("a line is out of bounds")
        return self


class Started(Message):
    """The start of a run. `experiment` has all settings resolved. `total_steps` includes warm-up steps.

    A resumed run has a `resumed_step`: discard its earlier samples after that step. `hardly_faster` says why
    the precision saves little time.
    """

    event: Literal["started"] = "started"
    experiment: Experiment
    environment: Environment
    total_steps: Whole
    steps_per_epoch: Positive
    parameters: Whole
    loss_name: Line
    loss_unit: Line
    notes: Annotated[tuple[Text, ...], Field(max_length=MOST_ENTRIES)] = ()
    hardly_faster: Line | None = None
    resumed_step: StepNumber | None = None


class Pictures(Message):
    """The event with some of the training images, sent before the first step: a `ContactSheet` in base64."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    event: Literal["pictures"] = "pictures"
    jpeg: Annotated[bytes, Field(min_length=1, max_length=MOST_BYTES)]
    side: Annotated[int, Field(ge=1, le=MOST_SIDE)]
    count: Annotated[int, Field(ge=1, le=MOST_TILES)]

    @property
    def sheet(self) -> ContactSheet:
        """The images as a sheet, which is not yet validated. Reading its `tiles` does that."""
        return ContactSheet(self.jpeg, self.side, self.count)


class PhaseName(StrEnum):
    """The phases of a job."""

    WAITING = "waiting"
    DOWNLOADING = "downloading"
    CHECKING = "checking"
    NUMERICS = "diagnosing"
    PROFILING = "profiling"
    BUILDING = "building"
    COMPILING = "compiling"
    WARMING_UP = "warming up"
    CAPTURING = "capturing"
    MEASURING = "measuring"
    VALIDATING = "validating"
    SAVING = "saving"
    PAUSED = "paused"


class Phase(Message):
    """The worker's current phase, and its progress if known (0 to 1)."""

    event: Literal["phase"] = "phase"
    name: PhaseName
    fraction: Fraction | None = None
    detail: Text = ""


Column = tuple[float, ...]


class Samples(Message):
    """The measurements of consecutive steps, as columns of equal length. Columns that do not apply are None.

    `step` counts from 1. `seconds` runs from the start of the first step, including validation.
    `data_wait_ms` is the time of a step in which the device had nothing to do. `resident_mib` excludes the
    idle worker's memory. GPU sensors were read when the row was sent: the activity of SMs, Tensor Cores and
    memory is that of the fifth of a second before, and `slowdown` is a sum of `Slowdown` bits.
    """

    event: Literal["samples"] = "samples"
    step: Annotated[tuple[int, ...], Field(max_length=MOST_ROWS)]
    seconds: Column
    loss: Column
    samples_per_second: Column
    learning_rate: Column
    grad_scale: Column | None = None
    grad_norm: Column | None = None
    allocated_mib: Column | None = None
    reserved_mib: Column | None = None
    device_used_mib: Column | None = None
    resident_mib: Column | None = None
    data_wait_ms: Column | None = None
    gpu_utilization_percent: Column | None = None
    sm_activity_percent: Column | None = None
    tensor_activity_percent: Column | None = None
    memory_activity_percent: Column | None = None
    power_watts: Column | None = None
    temperature_celsius: Column | None = None
    clock_mhz: Column | None = None
    slowdown: Column | None = None
    other_programs_mib: Column | None = None

    @model_validator(mode="after")
    def _columns_are_sound(self) -> Samples:
        if any(len(column) != len(self.step) for column in self.columns().values()):
            raise ValueError("the columns differ in length")
        # pydantic's bounds on each number would take twice as long as all the rest of the line
        if not _are_within(self.step, LARGEST_STEP):
            raise ValueError("a step is out of bounds")
        if not _are_within(self.seconds, MOST_SECONDS):
            raise ValueError("a time is out of bounds")
        return self

    def columns(self) -> dict[str, tuple[float, ...]]:
        """Return the columns that are not None, by name."""
        named = {name: getattr(self, name) for name in SAMPLE_COLUMNS}
        return {name: column for name, column in named.items() if column is not None}

    def has_room_for(self, later: Samples) -> bool:
        """Return True if both batches of rows fit into one."""
        return len(self.step) + len(later.step) <= MOST_ROWS

    def followed_by(self, later: Samples) -> Samples:
        """Return both batches of rows as one, without columns that either lacks."""
        mine, theirs = self.columns(), later.columns()
        joined = {name: mine[name] + theirs[name] for name in mine if name in theirs}
        return Samples.model_validate(joined)


def _are_within(values: tuple[float, ...], most: float) -> bool:
    # min and max may pass over a NaN; the sum does not
    return not values or (min(values) >= 0 and max(values) <= most and not math.isnan(sum(values)))


SAMPLE_COLUMNS = tuple(name for name in Samples.model_fields if name != "event")


class Epoch(Message):
    """The end of an epoch at `step`, with its mean training loss. The validation metrics may be None."""

    event: Literal["epoch"] = "epoch"
    epoch: Whole
    step: StepNumber
    seconds: Seconds
    train_loss: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None


class Skipped(Message):
    """Optimizer steps that the loss scaler or a workload file's own step skipped.

    `own` are those in which the gradients of this rank itself overflowed.
    """

    event: Literal["skipped"] = "skipped"
    steps: Annotated[tuple[StepNumber, ...], Field(max_length=MOST_ROWS)]
    own: Annotated[tuple[StepNumber, ...], Field(max_length=MOST_ROWS)] = ()


class Heartbeat(Message):
    """A sign of life. `step` was completed last. With `has_spilled`, a trial has spilled to system memory."""

    event: Literal["heartbeat"] = "heartbeat"
    step: StepNumber
    has_spilled: bool = False


class Held(Message):
    """A rank's answer to `StepBarrier`: it has started `begun` steps, and will wait at the requested step."""

    event: Literal["held"] = "held"
    begun: StepNumber


class Log(Message):
    """A log message. `step` is the step it refers to, if any."""

    event: Literal["log"] = "log"
    level: Literal["info", "warning", "problem", "stderr"] = "info"
    message: Text
    step: StepNumber | None = None


class Finished(Message):
    """The successful end of a run, or its end on request (`stopped`)."""

    event: Literal["finished"] = "finished"
    summary: Summary
    stopped: bool = False


class Failed(Message):
    """The end of a job by a problem. `detail` is the traceback or the end of the worker's stderr.

    `file` and `line` are the place in the user's code when its worker crashed or had to be ended.
    """

    event: Literal["failed"] = "failed"
    problem: Problem
    detail: Details = ""
    file: Line | None = None
    line: Positive | None = None
    summary: Summary | None = None


Event = (
    Ready
    | CatalogRead
    | Examined
    | ForecastMade
    | Checked
    | PartMeasured
    | Profiled
    | Started
    | Pictures
    | Phase
    | Samples
    | RankMemory
    | Epoch
    | Skipped
    | Heartbeat
    | Held
    | Log
    | Tried
    | Finished
    | Failed
)


@cache
def _adapter() -> TypeAdapter[Event]:
    # built at the first line: it takes a tenth of a second, which the window's start can do without
    return TypeAdapter(Annotated[Event, Field(discriminator="event")])


def is_last(event: Event) -> bool:
    """Return True if the event ends its job."""
    return isinstance(event, Finished | Failed | CatalogRead | Examined | ForecastMade | Checked | Tried)


def to_line(event: Event) -> bytes:
    """Return the event as one line of UTF-8 JSON."""
    return event.model_dump_json(exclude_none=True).encode() + b"\n"


def from_line(line: bytes | str) -> Event:
    """Return the event on a line. Raises ValueError for any other line."""
    try:
        check_size(line)
        return _adapter().validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'line'}: {first['msg']}") from None


class EarlyEnd:
    """Computes the metrics of a run that ended early, from the events and samples that it sent."""

    def __init__(self) -> None:
        self._started: Started | None = None
        self._epochs: list[Epoch] = []
        self._skipped = self._losses = 0
        self._loss_sum = 0.0
        self._first_nan_step: int | None = None
        self._last: dict[str, float] = {}

    def add_event(self, event: Event) -> None:
        """Add the next event. Samples may also be added by `add_samples`."""
        match event:
            case Started():
                self._started = event
            case Samples():
                values = event.columns().items()
                self.add_samples({name: np.asarray(column, dtype=np.float64) for name, column in values})
            case Epoch():
                self._epochs.append(event)
                self._loss_sum, self._losses = 0.0, 0
            case Skipped(steps=steps):
                self._skipped += len(steps)

    def add_samples(self, columns: Columns) -> None:
        """Add the samples of the next steps."""
        if not len(columns.get("step", ())):
            return
        self._last |= {name: float(values[-1]) for name, values in columns.items()}
        is_nan = np.isnan(columns["loss"])
        if self._first_nan_step is None and is_nan.any():
            self._first_nan_step = int(columns["step"][is_nan.argmax()])
        # an epoch's last steps may arrive after its end
        counted = columns["loss"][columns["step"] > (self._epochs[-1].step if self._epochs else 0)]
        # the sum of a diverged run may overflow
        with np.errstate(over="ignore", invalid="ignore"):
            self._loss_sum += float(counted.sum())
        self._losses += len(counted)

    def summary(self, speed_note: str) -> Summary:
        """Return the metrics, without a speed and a peak, which need the full run."""
        started, losses = self._started, self._losses
        pairs = ((epoch.validation_accuracy, epoch.epoch) for epoch in self._epochs)
        validated = [(accuracy, epoch) for accuracy, epoch in pairs if accuracy is not None]
        # of equal accuracies the first counts as the best
        best = max(validated, key=lambda pair: (pair[0], -pair[1]), default=(None, None))
        steps = int(self._last.get("step", 0))
        last_loss = self._epochs[-1].train_loss if self._epochs else None
        is_scaled = started is not None and started.experiment.uses_scaler
        return Summary(
            steps=steps,
            epochs=steps / started.steps_per_epoch if started is not None else 0.0,
            speed_note=speed_note,
            seconds=self._last.get("seconds", 0.0),
            final_train_loss=self._loss_sum / losses if losses else last_loss,
            final_grad_scale=self._last.get("grad_scale"),
            best_validation_accuracy=best[0],
            best_epoch=best[1],
            final_validation_accuracy=validated[-1][0] if validated else None,
            first_nan_step=self._first_nan_step,
            skipped_steps=self._skipped if is_scaled or self._skipped else None,
        )
