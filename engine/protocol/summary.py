"""The metrics of a run, and the machine it was measured on."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag
from typing import Annotated, Literal

from pydantic import Field

from engine.experiment.value import (
    MOST_ENTRIES,
    Fraction,
    Line,
    Message,
    Mib,
    Positive,
    Seconds,
    StepNumber,
    Whole,
    dropping,
)

Joules = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Watts = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class Slowdown(IntFlag):
    """Bits for the reasons why a GPU's clocks are throttled, as in the column `slowdown` of `Samples`.

    A busy GPU normally runs at its power limit, which does not disturb a measurement. The others do.
    """

    HEAT = 1
    POWER_SUPPLY = 2
    POWER_LIMIT = 4

    @property
    def disturbances(self) -> Slowdown:
        """The reasons without the GPU's own power limit."""
        return self & ~Slowdown.POWER_LIMIT

    @property
    def words(self) -> tuple[str, ...]:
        """A phrase for each reason why the device slowed down, such as "heat"."""
        return tuple(_SLOWDOWN_WORDS[reason] for reason in self)


_SLOWDOWN_WORDS = {
    Slowdown.HEAT: "heat",
    Slowdown.POWER_SUPPLY: "the power supply",
    Slowdown.POWER_LIMIT: "the power limit",
}


class Energy(Message):
    """The energy in joules of `steps` measured steps, which took `seconds` and trained `samples` samples.

    It includes the idle device's energy. `idle_watts` is the power before the model was on the device. NVML
    measures one GPU, RAPL the CPU packages without memory, fans and power supply.
    """

    source: Literal["nvml", "rapl"]
    joules: Joules
    seconds: Seconds
    steps: Positive
    samples: Positive
    idle_watts: Watts | None = None

    @property
    def mean_watts(self) -> float | None:
        """The mean power. None for no time."""
        return self.joules / self.seconds if self.seconds else None

    @property
    def net_joules(self) -> float | None:
        """Energy of training beyond that of the idle device. None if its idle power is unknown."""
        return None if self.idle_watts is None else max(0.0, self.joules - self.idle_watts * self.seconds)

    def per_step(self) -> float:
        """Return joules per step, including the idle device's."""
        return self.joules / self.steps

    def per_thousand_samples(self) -> float:
        """Return joules per thousand samples, including the idle device's."""
        return 1e3 * self.joules / self.samples


class Environment(Message):
    """The machine and software that a run was measured on. `node` is its host name in a cluster."""

    device_name: Line
    device_memory_mib: Mib
    torch: Line
    cuda: Line | None = None
    driver: Line | None = None
    python: Line
    os: Line
    ammeter: Line
    node: Line | None = None


Shares = Annotated[dict[Line, Fraction], Field(max_length=20)]


class Observed(Message):
    """The observations of a script's first steps.

    `autocast` is the format of the autocast that was on, if any. `layers` are the shares of FLOPs of linear,
    convolution and other layers with a weight matrix, by the format of their outputs, and empty if none was
    seen. `parameters` are counted by format. `is_compiled`: torch.compile compiled a part of it.
    """

    autocast: Line | None = None
    layers: Shares = Field(default_factory=dict)
    parameters: Annotated[dict[Line, Whole], Field(max_length=20)] = Field(default_factory=dict)
    batch_size: Positive | None = None
    optimizer: Line = ""
    has_scaler: bool = False
    tf32_matmuls: bool | None = None
    tf32_convolutions: bool | None = None
    is_compiled: bool = False
    processes: Positive = 1


MOST_COMPILE_EVENTS = 20


class CompileEvent(Message):
    """A recompilation or a graph break: PyTorch's reason, and the place, such as "net.py:12, forward"."""

    kind: Literal["recompilation", "graph break"]
    reason: Line
    place: Line

    @property
    def words(self) -> str:
        """The place with the reason: "net.py:12, forward: tensor 'x' size mismatch at index 0"."""
        return f"{self.place}: {self.reason}"


class Compilation(Message):
    """The work of `torch.compile` in a run.

    `graph_breaks` are counted by place. `events` are the first recompilations and graph breaks, each once. In
    `measured_steps` of the measured steps something was compiled, which took `measured_seconds` and does not
    count in the speed. `is_cached`: all graphs came from the compiler's cache. None if this is unknown.
    """

    recompilations: Whole = 0
    graph_breaks: Whole = 0
    events: Annotated[tuple[CompileEvent, ...], Field(max_length=MOST_COMPILE_EVENTS)] = ()
    measured_steps: Whole = 0
    measured_seconds: Seconds = 0.0
    is_cached: bool | None = None

    def events_of(self, kind: str) -> tuple[CompileEvent, ...]:
        return tuple(event for event in self.events if event.kind == kind)


class AttentionUse(Message):
    """The attention calls of a step that one kernel computed in one dtype: "flash", "float16", 12 calls."""

    kernel: Line
    dtype: Line
    calls: Positive


class RankMetrics(Message):
    """The metrics of one device of a multi-device run. The peak memory is defined as in `Summary`.

    `communication_ms` is the time per step in which gradients are synchronized, with the wait for slower
    devices. `exposed_ms` is the part of it in which nothing was computed. Both are medians over the later
    half of the steps that DistributedDataParallel samples.
    """

    device: Line
    samples_per_second: float | None = None
    step_ms: float | None = None
    peak_mib: float | None = None
    data_wait_fraction: float | None = None
    communication_ms: float | None = None
    exposed_ms: float | None = None


class RankMemory(Message):
    """An event with each rank's memory (MiB) at its last step: allocated, or resident on a CPU. Not saved."""

    event: Literal["rank memory"] = "rank memory"
    mib: Annotated[tuple[Mib, ...], Field(min_length=2, max_length=MOST_ENTRIES)]


_LEAST_WAIT = 0.1  # of a step: a rank is called slow if the others wait longer for it


def slowest_rank(ranks: Sequence[RankMetrics]) -> tuple[int, float] | None:
    """Return the rank that the others wait for, and their wait per step in milliseconds.

    When it starts to send, the others' gradients are already there, so its own communication time has no
    wait. None if a communication time is unknown, or if the wait is less than a tenth of a step.
    """
    waits = [each.exposed_ms for each in ranks if each.exposed_ms is not None]
    steps = [each.step_ms for each in ranks if each.step_ms is not None]
    if not ranks or len(waits) < len(ranks) or not steps:
        return None
    wait = max(waits) - min(waits)
    return (waits.index(min(waits)), wait) if wait and wait >= _LEAST_WAIT * max(steps) else None


class Summary(Message):
    """The metrics of one run. A metric that does not apply is None, never 0.

    Speed: `samples_per_second` is the median over blocks of steps after warm-up. Its 95% interval only shows
    how steady this run was. `speed_note` says why there is no speed, or what disturbed it. `warmup_seconds`
    of `warmup_steps` include compiling and capturing. A pause counts in `paused_seconds` only.

    Memory: allocated, reserved and resident peaks are those of training after warm-up. Resident memory is in
    addition to the idle worker's. `whole_run_peak_mib` is allocated memory including warm-up and cuDNN's
    search. `spilled_mib` is the memory that a driver moved to system memory. The breakdown is that of one
    step's tensors, and `other_mib` the rest of the training peak.

    Training: `final_train_loss` is the mean over the last epoch, or its trained part. Accuracies are
    fractions, 0 to 1. `unchanged_weights_fraction` is the share of weights with a gradient that steps in pure
    BF16 leave unchanged.

    Settings: `recipe` has the optimizations active at the end, joined by "+". `left_out` says why a requested
    optimization, or FP8, is missing. `not_done` has the requested settings that were not applied, by dotted
    key, each with the reason.

    Formats: `formats` are the shares of matmul and convolution FLOPs by dtype in the first step, and
    `formats_reason` says, as a clause, why they contradict the precision. `attention` are the kernels of
    `scaled_dot_product_attention` in that step. Empty if unknown.

    Sensors: utilization, activity, power and clock are means over the measured steps, temperature and other
    programs' memory are maxima. With multiple devices, speeds and energies are of all together, peaks and
    times of the device with the highest, and `ranks` has each device. `observed` is for scripts only.
    """

    steps: StepNumber = 0
    epochs: float = 0.0
    samples_per_second: float | None = None
    samples_per_second_ci: tuple[float, float] | None = None
    speed_note: Line | None = None
    slowed_by: Annotated[tuple[Line, ...], Field(max_length=100)] = ()
    step_ms: float | None = None
    first_step_seconds: float | None = None
    peak_allocated_mib: float | None = None
    peak_reserved_mib: float | None = None
    whole_run_peak_mib: float | None = None
    peak_resident_mib: float | None = None
    spilled_mib: float | None = None
    final_train_loss: float | None = None
    best_validation_accuracy: float | None = None
    final_validation_accuracy: float | None = None
    final_grad_scale: float | None = None
    skipped_steps: Whole | None = None
    data_wait_fraction: float | None = None
    first_nan_step: StepNumber | None = None
    unchanged_weights_fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    best_epoch: Whole | None = None
    recipe: Line | None = None
    left_out: Annotated[dict[Line, Line], Field(max_length=100)] = Field(default_factory=dict)
    not_done: Annotated[dict[Line, Line], Field(max_length=100)] = Field(default_factory=dict)
    float32_mode: Literal["strict", "tf32", "default"] | None = None
    warmup_seconds: float | None = None
    warmup_steps: StepNumber | None = None
    compile_seconds: float | None = None
    compilation: Compilation | None = None
    capture_seconds: float | None = None
    parameters_mib: float | None = None
    gradients_mib: float | None = None
    optimizer_state_mib: float | None = None
    activations_mib: float | None = None
    other_mib: float | None = None
    gpu_utilization_percent: float | None = None
    sm_activity_percent: float | None = None
    tensor_activity_percent: float | None = None
    memory_activity_percent: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    clock_mhz: float | None = None
    other_programs_mib: float | None = None
    energy: Energy | None = None
    paused_seconds: float | None = None
    seconds: Seconds = 0.0
    ranks: Annotated[tuple[RankMetrics, ...], Field(max_length=100)] = ()
    observed: Observed | None = None
    formats: Shares = Field(default_factory=dict)
    formats_reason: Line = ""
    attention: Annotated[tuple[AttentionUse, ...], Field(max_length=100)] = ()

    _drop_removed = dropping("sampling_seconds")
