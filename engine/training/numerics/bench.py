"""Training for numerics: an experiment's initial weights and first batches, under other settings too."""

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
from engine.protocol.events import Event, Phase, PhaseName
from engine.protocol.jobs import Control
from engine.training.data.batches import Batch
from engine.training.precision import float32_mode
from engine.training.runs.prepare import RunPlan, fetch_data, plain, plain_step
from engine.training.steps.plain import learning_rate_at


@dataclass(frozen=True)
class Figures:
    """A step's figures. `grad_scale` and `skipped` are None and False without a loss scaler."""

    loss: float
    grad_scale: float | None = None
    skipped: bool = False
    grad_norm: float | None = None


class Trainee:
    """A model in training under some settings, always by the plain recipe: compiled code hides its modules.

    It has the initial weights and the random numbers of a run. `steps` counts the optimizer steps made.
    """

    def __init__(self, plan: RunPlan, experiment: Experiment, weights: dict[str, Any]) -> None:
        self.experiment = experiment
        self.device = plan.device
        self.workload = plan.workload
        self._plan = plan
        self.step = plain_step(plan, experiment, weights)
        self.model = self.step.model
        self.steps = 0

    def close(self) -> None:
        """Lets go of the model and of all that was made for it, whoever still knows the trainee."""
        del self.step, self.model

    def wait(self) -> None:
        """Waits until the device has done what it was given."""
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)

    def go_back(self, group: Sequence[Batch]) -> Tensor:
        """The forward and backward pass of a group, which leave scaled gradients in the parameters; returns
        the loss.

        A step of the model file's own is made as a whole, and changes the weights.
        """
        return self.step.gradients(group)

    def train(self, group: Sequence[Batch]) -> Figures:
        """Makes one optimizer step at the run's learning rate. Waits for the device."""
        return self.figures(self.make_step(group))

    def make_step(self, group: Sequence[Batch]) -> Tensor:
        """Makes one optimizer step at the run's learning rate; returns its row of figures."""
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

    def figures(self, row: Tensor) -> Figures:
        """The figures of a row of `make_step`. Waits for the device."""
        values = dict(zip(self.step.columns, row.tolist(), strict=True))
        return Figures(
            loss=values["loss"],
            grad_scale=values.get("grad_scale"),
            skipped=bool(values.get("found_inf", 0.0)),
            grad_norm=values.get("grad_norm"),
        )


class StoppedError(Exception):
    """A part was asked to stop before it was known."""


class Bench:
    """Gives trainees of an experiment, all from equal weights, and the batches of its first steps.

    Close it. Raises ProblemError where the model's modules cannot be watched.
    """

    def __init__(self, plan: RunPlan, control: Control) -> None:
        self.plan, self.control = plan, control
        self.experiment = plain(plan.experiment)
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
        """Raises StoppedError once a stop was requested."""
        if self.is_stopped:
            raise StoppedError

    def close(self) -> None:
        self._source.close()

    @contextmanager
    def trainee(self, experiment: Experiment | None = None) -> Iterator[Trainee]:
        """A fresh trainee of the bench's experiment, or of one `changed` from it."""
        settings = experiment or self.experiment
        with float32_mode(settings.precision, settings.step.autocast_tf32):
            trainee = Trainee(self.plan, settings, self._weights)
            yield trainee
        trainee.close()
        if self.device.type in ("cuda", "xpu"):
            torch.get_device_module(self.device).empty_cache()

    def groups(self, steps: int, first: int = 0) -> Iterator[list[Batch]]:
        """The batches of `steps` optimizer steps after the first `first`, the same at every call."""
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
    """Progress of a part, and its work."""
    return Phase(name=PhaseName.NUMERICS, fraction=fraction, detail=detail)


def with_precision(
    experiment: Experiment, precision: Precision | None = None, fp32_modules: tuple[str, ...] | None = None
) -> Experiment:
    """The experiment in another precision, or with other modules kept in FP32."""
    step = experiment.step
    if fp32_modules is not None:
        step = step.model_copy(update={"fp32_modules": fp32_modules})
    return experiment.model_copy(update={"step": step, "precision": precision or experiment.precision})


def open_bench(plan: RunPlan, control: Control) -> Generator[Event, None, Bench | None]:
    """The plan's bench, once its data are there; None where that was stopped. Raises ProblemError."""
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
                f"cannot be diagnosed: {where} is {what}, and hides its operations.",
                "Return the model itself, without "
                + ("torch.jit." if is_scripted else "torch.compile; the recipe compiles it."),
                value=experiment.model,
            )
