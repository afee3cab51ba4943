"""What a worker says: typed events, JSON, one a line. A line is untrusted input and is validated here."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from engine.catalog import Catalog
from engine.contact_sheet import MOST_BYTES, MOST_SIDE, MOST_TILES, ContactSheet
from engine.experiment import Experiment
from engine.memory_lines import MemoryLine
from engine.probe_events import Tried as Tried
from engine.problem import Problem, Text


class _Message(BaseModel):
    # pydantic writes NaN and infinity as null unless told otherwise; a diverged loss must survive the trip
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", defer_build=True)


class Environment(_Message):
    """The machine and the software that a run was measured on."""

    device_name: str
    device_memory_mib: float
    torch: str
    cuda: str | None = None
    driver: str | None = None
    python: str
    os: str
    ammeter: str


class Summary(_Message):
    """The figures of one run; a figure that does not apply is None, never 0.

    `samples_per_second` is the median over blocks after warm-up, and its interval (95 %) says only how
    steady this run was; `speed_note` says why there is no speed, or what it suffered from. Allocated and
    reserved are the caching allocator's, over training without warm-up; `whole_run_peak_mib` is allocated,
    warm-up and cuDNN's search included. `peak_resident_mib` is for a CPU: the worker's resident peak over
    its idle level. `final_train_loss` is the mean over the last epoch, or over the part of it that was
    trained; accuracies are fractions, 0 to 1.

    `recipe` is what was in force in the end, its parts joined by "+", and `left_out` says why a part that was
    asked for was not; `float32_mode` is how products in float32 were made ("strict", "tf32" or "default").
    Compiling and capturing are within the warm-up, whose seconds they are part of. The breakdown of memory is
    of one step: what its tensors take, and for `other_mib` what of the training peak is none of these.
    Utilisation, power and clock are means over the measured steps, temperature and other programs' memory
    the highest seen. A pause is in no other figure than `paused_seconds`.
    """

    steps: int = 0
    epochs: float = 0.0
    samples_per_second: float | None = None
    samples_per_second_ci: tuple[float, float] | None = None
    speed_note: str | None = None
    step_ms: float | None = None
    first_step_seconds: float | None = None
    peak_allocated_mib: float | None = None
    peak_reserved_mib: float | None = None
    whole_run_peak_mib: float | None = None
    peak_resident_mib: float | None = None
    final_train_loss: float | None = None
    best_validation_accuracy: float | None = None
    final_validation_accuracy: float | None = None
    final_grad_scale: float | None = None
    skipped_steps: int | None = None
    data_wait_fraction: float | None = None
    first_nan_step: int | None = None
    best_epoch: int | None = None
    recipe: str | None = None
    left_out: dict[str, str] = {}
    float32_mode: Literal["strict", "tf32", "default"] | None = None
    warmup_seconds: float | None = None
    compile_seconds: float | None = None
    capture_seconds: float | None = None
    parameters_mib: float | None = None
    gradients_mib: float | None = None
    optimizer_state_mib: float | None = None
    activations_mib: float | None = None
    other_mib: float | None = None
    gpu_utilization_percent: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    clock_mhz: float | None = None
    other_programs_mib: float | None = None
    paused_seconds: float | None = None
    seconds: float = 0.0


class Ready(_Message):
    """The worker has imported torch, touched no device, and waits for a job."""

    event: Literal["ready"] = "ready"
    pid: int
    python: str
    torch: str
    ammeter: str


class CatalogRead(_Message):
    """The answer to the job `catalog`."""

    event: Literal["catalog"] = "catalog"
    catalog: Catalog


class Check(_Message):
    """One line of the doctor's report."""

    name: str
    status: Literal["ok", "note", "problem"]
    detail: str


class Diagnosis(_Message):
    """The answer to the job `doctor`."""

    event: Literal["diagnosis"] = "diagnosis"
    checks: tuple[Check, ...]


class ForecastMade(_Message):
    """The answer to the job `forecast`: what `experiment`, as resolved, will need at any batch size, in MiB.

    At its own batch it is `needed_mib`, `fixed_mib` and `per_sample_mib` for each sample; at another batch
    the highest of `lines` holds. `quantity` says which peak is meant: allocated memory on an accelerator, and
    on a CPU resident memory. Buffers count as parameters; `libraries_mib` is what the libraries take beside
    any tensor. Nothing here was measured.
    """

    event: Literal["forecast"] = "forecast"
    experiment: Experiment
    quantity: Literal["allocated", "resident"]
    parameters_mib: float
    gradients_mib: float
    optimizer_state_mib: float
    activations_mib: float
    libraries_mib: float
    fixed_mib: float
    per_sample_mib: float
    needed_mib: float
    lines: Annotated[tuple[MemoryLine, ...], Field(min_length=1)]
    seconds: float
    note: str | None = None


class Started(_Message):
    """The run begins; `experiment` is as resolved, `total_steps` counts optimizer steps, warm-up included.

    `resumed_step` is the step that a resumed run goes on from: rows after it are not to be kept.
    `loss_name` and `loss_unit` say what the loss is ("cross-entropy", "nats").
    """

    event: Literal["started"] = "started"
    experiment: Experiment
    environment: Environment
    total_steps: int
    steps_per_epoch: int
    parameters: int
    loss_name: str
    loss_unit: str
    notes: tuple[str, ...] = ()
    resumed_step: int | None = None


class Pictures(_Message):
    """Some of the pictures that are trained on, told before the first step where they are known.

    As `engine.contact_sheet.ContactSheet` describes them; on the line the JPEG is in base64.
    """

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    event: Literal["pictures"] = "pictures"
    jpeg: Annotated[bytes, Field(min_length=1, max_length=MOST_BYTES)]
    side: Annotated[int, Field(ge=1, le=MOST_SIDE)]
    count: Annotated[int, Field(ge=1, le=MOST_TILES)]

    @property
    def sheet(self) -> ContactSheet:
        """The pictures as a sheet; only its `tiles` tell whether it is whole."""
        return ContactSheet(self.jpeg, self.side, self.count)


class PhaseName(StrEnum):
    DOWNLOADING = "downloading"
    BUILDING = "building"
    COMPILING = "compiling"
    WARMING_UP = "warming up"
    CAPTURING = "capturing"
    MEASURING = "measuring"
    VALIDATING = "validating"
    SAVING = "saving"
    PAUSED = "paused"


class Phase(_Message):
    """What the worker is doing now, and how far it is where that is known (0 to 1)."""

    event: Literal["phase"] = "phase"
    name: PhaseName
    fraction: float | None = None
    detail: str = ""


Column = tuple[float, ...]


class Samples(_Message):
    """One row a step, as columns of equal length; a column that does not apply to the device is None.

    `step` counts from 1. `seconds` runs since the first step began, validation included.
    `samples_per_second` is that step's own; `data_wait_ms` of its time the device had nothing to work on.
    Memory in MiB: allocated, reserved and device-used on an accelerator, `resident_mib` (over the idle
    worker) on a CPU. The card's own figures are those of the moment that the row was told.
    """

    event: Literal["samples"] = "samples"
    step: tuple[int, ...]
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
    power_watts: Column | None = None
    temperature_celsius: Column | None = None
    clock_mhz: Column | None = None
    other_programs_mib: Column | None = None

    @model_validator(mode="after")
    def _columns_are_of_one_length(self) -> Samples:
        if any(len(column) != len(self.step) for column in self.columns().values()):
            raise ValueError("the columns differ in length")
        return self

    def columns(self) -> dict[str, tuple[float, ...]]:
        """The columns that are there, by name."""
        named = {name: getattr(self, name) for name in SAMPLE_COLUMNS}
        return {name: column for name, column in named.items() if column is not None}

    def followed_by(self, later: Samples) -> Samples:
        """Both batches as one. A column must be in both or it is left out."""
        mine, theirs = self.columns(), later.columns()
        joined = {name: mine[name] + theirs[name] for name in mine if name in theirs}
        return Samples.model_validate(joined)


SAMPLE_COLUMNS = tuple(name for name in Samples.model_fields if name != "event")


class Epoch(_Message):
    """An epoch ended at `step`; `train_loss` is its mean. Without validation its figures are None."""

    event: Literal["epoch"] = "epoch"
    epoch: int
    step: int
    seconds: float
    train_loss: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None


class Skipped(_Message):
    """Optimizer steps that the loss scaler skipped, by number."""

    event: Literal["skipped"] = "skipped"
    steps: tuple[int, ...]


class Heartbeat(_Message):
    """The worker lives; `step` is the last that completed on the device."""

    event: Literal["heartbeat"] = "heartbeat"
    step: int


class Log(_Message):
    """A remark; `step` is the step that it is about, where it is about one."""

    event: Literal["log"] = "log"
    level: Literal["info", "warning", "stderr"] = "info"
    message: Text
    step: int | None = None


class Finished(_Message):
    """The run ended well, or was asked to stop (`stopped`)."""

    event: Literal["finished"] = "finished"
    summary: Summary
    stopped: bool = False


class Failed(_Message):
    """The job ended with a problem; `detail` holds the traceback or the end of the worker's stderr."""

    event: Literal["failed"] = "failed"
    problem: Problem
    detail: Text = ""
    summary: Summary | None = None


Event = (
    Ready
    | CatalogRead
    | Diagnosis
    | ForecastMade
    | Started
    | Pictures
    | Phase
    | Samples
    | Epoch
    | Skipped
    | Heartbeat
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
    """Whether nothing follows this event in its job."""
    return isinstance(event, Finished | Failed | CatalogRead | Diagnosis | ForecastMade | Tried)


def to_line(event: Event) -> bytes:
    """The event as one line of UTF-8 JSON."""
    return event.model_dump_json(exclude_none=True).encode() + b"\n"


def from_line(line: bytes) -> Event:
    """The event on one line. Raises ValueError when it is none."""
    try:
        return _adapter().validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'line'}: {first['msg']}") from None
