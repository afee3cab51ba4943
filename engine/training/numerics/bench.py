"""Training for numerics: an experiment's initial weights and first batches, also with other settings."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import torch
from torch import Tensor, nn

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment, setting_error
from engine.experiment.settings import NARROW_KERNELS
from engine.protocol.events import Event, Phase, PhaseName
from engine.protocol.jobs import Control
from engine.training.data.batches import Batch
from engine.training.models.attention import attention_kernel
from engine.training.precision import float32_mode
from engine.training.runs.plan import RunPlan
from engine.training.runs.prepare import build_plain_step, fetch_data, with_plain_step
from engine.training.steps.plain import learning_rate_at


@dataclass(frozen=True)
class StepMetrics:
    """The loss, loss scale and gradient norm of a step, and how often the loss scaler has skipped it.

    Without a loss scaler, `grad_scale` is None.
    """

    loss: float
    grad_scale: float | None = None
    skipped: int = 0
    grad_norm: float | None = None


class Trainee:
    """A model that a numerics study trains, without optimizations, because compilation hides modules.

    It starts with the same weights and random numbers as a run. `steps` counts the completed optimizer steps.
    """

    def __init__(self, plan: RunPlan, experiment: Experiment, weights: dict[str, Any]) -> None:
        self.experiment = experiment
        self.device = plan.device
        self.workload = plan.workload
        self._plan = plan
        self.step = build_plain_step(plan, experiment, weights)
        self.model = self.step.model
        self.steps = 0

    def close(self) -> None:
        """Release the model and everything created for it, even if others still refer to the trainee."""
        del self.step, self.model

    def forward_backward(self, group: Sequence[Batch]) -> Tensor:
        """Run the forward and backward pass of a group and return the loss.

        Scaled gradients are left in the parameters. A model file's own step runs completely, and changes the
        weights.
        """
        return self.step.gradients(group)

    def train(self, group: Sequence[Batch]) -> StepMetrics:
        """Make one optimizer step at the run's learning rate. Synchronizes with the device."""
        return self.metrics(self.make_step(group))

    def make_step(self, group: Sequence[Batch]) -> Tensor:
        """Make one optimizer step at the run's learning rate and return its row of metrics."""
        settings = self.experiment
        rate = learning_rate_at(
            self.steps,
            settings.optimizer,
            settings.schedule,
            self._plan.total_steps,
            self._plan.steps_per_epoch,
        )
        if settings.schedule.name != "constant" or settings.schedule.warmup_steps:
            self.step.set_learning_rate(rate)
        self.steps += 1
        return self.step(group)

    def metrics(self, row: Tensor) -> StepMetrics:
        """Return the metrics of a row of `make_step`. Synchronizes with the device."""
        values = dict(zip(self.step.columns, row.tolist(), strict=True))
        return StepMetrics(
            loss=values["loss"],
            grad_scale=values.get("grad_scale"),
            skipped=int(values.get("found_inf", 0.0)),
            grad_norm=values.get("grad_norm"),
        )


class StoppedError(Exception):
    """Raised when a stop was requested before a part of a numerics study had a result."""


class Bench:
    """Creates the models that a numerics study trains, all with equal weights, and their first batches.

    Close it after use. The constructor raises ProblemError if the model's modules cannot be watched.
    """

    def __init__(self, plan: RunPlan, control: Control) -> None:
        self.plan, self.control = plan, control
        self.experiment = with_plain_step(plan.experiment)
        self.device = plan.device
        model = plan.workload.build()
        _check_watchable(model, plan.experiment)
        self._weights = {name: value.clone() for name, value in model.state_dict().items()}
        self._source = plan.workload.source(plan.device, torch.contiguous_format)

    @property
    def is_stopped(self) -> bool:
        """True once a stop was requested."""
        return self.control.stop_requested.is_set()

    def check_stop(self) -> None:
        """Raise StoppedError once a stop was requested."""
        if self.is_stopped:
            raise StoppedError

    def close(self) -> None:
        self._source.close()

    @contextmanager
    def trainee(self, experiment: Experiment | None = None) -> Iterator[Trainee]:
        """Create a new trainee of the bench's experiment, or of another `experiment`.

        If that has a kernel for 16-bit inputs and a wider precision, PyTorch chooses the attention kernel.
        """
        settings = experiment or self.experiment
        is_wide = self.device.type == "cuda" and not settings.precision.is_narrow
        is_possible = not (is_wide and settings.step.attention in NARROW_KERNELS)
        with (
            float32_mode(settings.precision, settings.step.autocast_tf32),
            attention_kernel(settings.step.attention if is_possible else "auto"),
        ):
            trainee = Trainee(self.plan, settings, self._weights)
            yield trainee
        trainee.close()
        if self.device.type in ("cuda", "xpu"):
            torch.get_device_module(self.device).empty_cache()

    def groups(self, steps: int, first: int = 0) -> Iterator[list[Batch]]:
        """Return the batches of `steps` optimizer steps after the first `first`, the same at every call."""
        return islice(self._groups(first), steps)

    def _groups(self, first: int) -> Iterator[list[Batch]]:
        epochs_before, steps_before = divmod(first, self.plan.steps_per_epoch)
        accumulated = self.experiment.step.gradient_accumulation
        for epoch in count(epochs_before + 1):
            batches = self._source.epoch(epoch, steps_before * accumulated)
            while group := list(islice(batches, accumulated)):
                yield group
            steps_before = 0


def numerics_phase(detail: str, fraction: float | None) -> Phase:
    """Return the event that reports a part's progress and its current work."""
    return Phase(name=PhaseName.NUMERICS, fraction=fraction, detail=detail)


def with_precision(
    experiment: Experiment, precision: Precision | None = None, fp32_modules: tuple[str, ...] | None = None
) -> Experiment:
    """Return the experiment in another precision, or with other modules kept in FP32."""
    step = experiment.step
    if fp32_modules is not None:
        step = step.model_copy(update={"fp32_modules": fp32_modules})
    return experiment.model_copy(update={"step": step, "precision": precision or experiment.precision})


def open_bench(plan: RunPlan, control: Control) -> Generator[Event, None, Bench | None]:
    """Fetch the data and return the plan's bench. Return None if stopped. Raise ProblemError."""
    yield from fetch_data(plan, control, plan.total_steps)
    if control.stop_requested.is_set():
        return None
    yield Phase(name=PhaseName.BUILDING, detail=plan.experiment.model)
    return Bench(plan, control)


def _check_watchable(model: nn.Module, experiment: Experiment) -> None:
    for name, module in model.named_modules():
        is_scripted = isinstance(module, torch.jit.ScriptModule)
        if is_scripted or type(module).__name__ == "OptimizedModule":
            what = "scripted" if is_scripted else "compiled"
            where = f"{experiment.model}'s {name}" if name else experiment.model
            raise setting_error(
                "model",
                f"cannot be examined: {where} is {what}, which hides its operations.",
                "Return the model itself, without "
                + ("torch.jit." if is_scripted else "torch.compile. Optimizations can compile it."),
                value=experiment.model,
            )
