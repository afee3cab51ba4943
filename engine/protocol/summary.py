"""The figures of a run, and the machine it was measured on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.experiment.value import Line, Message, Mib, Seconds, StepNumber, Whole
from engine.protocol.profile.energy import Energy


class Environment(Message):
    """The machine and the software that a run was measured on."""

    device_name: Line
    device_memory_mib: Mib
    torch: Line
    cuda: Line | None = None
    driver: Line | None = None
    python: Line
    os: Line
    ammeter: Line


class Summary(Message):
    """The figures of one run; a figure that does not apply is None, never 0.

    `samples_per_second` is the median over blocks after warm-up, and its interval (95 %) says only how
    steady this run was; `speed_note` says why there is no speed, or what it suffered from, and `slowed_by`
    what held the card's clocks down. The peaks allocated, reserved and resident are over training without
    warm-up: the caching allocator's, or for a CPU the worker's resident memory over its idle level;
    `whole_run_peak_mib` is allocated, including warm-up and cuDNN's search. `spilled_mib` is what a driver
    that does so put into the host's memory, as it did not fit on the card. `final_train_loss` is the mean
    over the last epoch, or over the part of it that was trained; accuracies are fractions, 0 to 1.

    `recipe` is the one in force at the end, its parts joined by "+", and `left_out` says why a requested part
    is missing; `float32_mode` is how float32 products were computed ("strict", "tf32" or "default").
    `warmup_seconds` include compiling and capturing. The memory breakdown is of one step's tensors, and
    `other_mib` is the rest of the training peak. Utilisation, activity, power and clock are means over the
    measured steps; temperature and other programs' memory are maxima; `energy` is of the measured steps. A
    pause counts in `paused_seconds` only, and the sampling of ranges in `sampling_seconds`.
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
    best_epoch: Whole | None = None
    recipe: Line | None = None
    left_out: Annotated[dict[Line, Line], Field(max_length=100)] = Field(default_factory=dict)
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
    sm_activity_percent: float | None = None
    tensor_activity_percent: float | None = None
    memory_activity_percent: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    clock_mhz: float | None = None
    other_programs_mib: float | None = None
    energy: Energy | None = None
    paused_seconds: float | None = None
    sampling_seconds: float | None = None
    seconds: Seconds = 0.0
