"""Everything that one run consists of, put together on its device."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from engine.catalog import Task
from engine.events import PhaseName, Samples, Summary
from engine.experiment import Experiment
from engine.training.batches import Batch, Source
from engine.training.contention import OtherPrograms, contention_note
from engine.training.control import Control
from engine.training.memory import MemoryMeter
from engine.training.memory_cap import CAPPED_CPU_NOTE
from engine.training.speed import Speed, speed_of
from engine.training.step import LossFunction, PlainStep, optimizer_for, scaler_for
from engine.training.tally import Tally
from engine.training.telemetry import Rows, Telemetry
from engine.training.validation import Validation, validate

LOSSES: dict[Task, tuple[LossFunction, str, str]] = {
    "classification": (cross_entropy, "cross-entropy", "nats"),
    "regression": (mse_loss, "mean squared error", ""),
}


class Run:
    """The parts of a run and how far it is. `experiment` is resolved, `model` still on the CPU."""

    def __init__(
        self,
        experiment: Experiment,
        control: Control,
        *,
        device: torch.device,
        model: nn.Module,
        source: Source,
        task: Task,
        memory: MemoryMeter,
        steps_per_epoch: int,
        total_steps: int,
    ) -> None:
        self.experiment = experiment
        self.control = control
        self.device = device
        self.source = source
        self.memory = memory
        self.steps_per_epoch = steps_per_epoch
        self.total_steps = total_steps
        self.loss_function = LOSSES[task][0]
        self.model = model.to(device).train()
        self.scaler = scaler_for(experiment, device)
        self.step = PlainStep(
            self.model,
            self.loss_function,
            optimizer_for(self.model, experiment),
            self.scaler,
            device=device,
            precision=experiment.precision,
            clip_norm=experiment.step.clip_norm,
        )
        self.telemetry = Telemetry(device, self.step.columns)
        self.tally = Tally()
        self.phase = PhaseName.BUILDING
        self._others = OtherPrograms() if device.type == "cpu" else None
        self._unsent: list[Rows] = []
        self._data_wait_seconds = 0.0

    def enter(self, phase: PhaseName) -> None:
        """Goes over to a phase: what belongs to the measurement is counted in `MEASURING` alone."""
        self.phase = phase
        is_measured = phase is PhaseName.MEASURING
        self.memory.count(is_measured)
        if self._others is not None:
            self._others.count(is_measured)

    @property
    def training_phase(self) -> PhaseName:
        """Whether the next step warms up or is measured."""
        is_warm = self.telemetry.steps >= self.experiment.measure.warmup_steps
        return PhaseName.MEASURING if is_warm else PhaseName.WARMING_UP

    @property
    def must_end(self) -> bool:
        """Whether someone asked for the end, or a NaN calls for it."""
        nan_ends = self.experiment.on_nan != "continue" and self.tally.first_nan_step is not None
        return nan_ends or self.control.stop_requested.is_set()

    @property
    def is_complete(self) -> bool:
        return self.telemetry.steps >= self.total_steps

    def batches(self) -> Iterator[Batch]:
        """The next epoch's batches; the time that the loop waits for them is counted."""
        # Begun here and not at the first `next`, which is the first step's own time.
        return self._awaited(self.source.epoch())

    def _awaited(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        while True:
            asked = time.perf_counter()
            batch = next(batches, None)
            self._data_wait_seconds += time.perf_counter() - asked
            if batch is None:
                return
            yield batch

    def take(self, rows: Rows) -> None:
        """Takes in steps that the device has completed."""
        self.tally.add(rows)
        self.control.step = rows.last_step
        self._unsent.append(rows)

    def samples(self) -> Samples | None:
        """The steps taken in since the last call as one event; None when there are none."""
        unsent, self._unsent = self._unsent, []
        if not unsent:
            return None
        return samples_of(unsent, self.experiment.optimizer.learning_rate, self.memory.sample())

    def validation_is_due(self, epoch: int) -> bool:
        """Whether to validate now, after the last step of an epoch or of the run."""
        every = self.experiment.validation.every
        if not every or not self.source.has_validation:
            return False
        ends_by_steps = self.experiment.steps is not None and self.is_complete
        return ends_by_steps or epoch % every == 0

    def validate(self) -> Validation | None:
        """Validates, and adds what it finds to the tally. None when it was asked to end."""
        found = validate(
            self.model,
            self.source.validation(self.experiment.validation.limit),
            self.loss_function,
            precision=self.experiment.precision,
            device=self.device,
            must_end=self.control.stop_requested.is_set,
        )
        if found is not None:
            self.tally.add_validation(found)
        return found

    def summary(self) -> Summary:
        """The figures so far. Waits for the device."""
        return self.tally.summary(
            steps_per_epoch=self.steps_per_epoch,
            speed=self._speed(),
            peaks=self.memory.peaks(),
            grad_scale=self.scaler.get_scale() if self.scaler.is_enabled() else None,
            data_wait_seconds=self._data_wait_seconds,
        )

    def _speed(self) -> Speed:
        if self.device.type == "cpu" and self.experiment.memory_cap_gib is not None:
            return Speed(note=CAPPED_CPU_NOTE)
        measure = self.experiment.measure
        speed = speed_of(
            self.tally.samples, self.tally.step_seconds, measure.block_steps, measure.warmup_steps
        )
        if self._others is None or speed.samples_per_second is None:
            return speed
        return replace(speed, note=contention_note(self._others.share()))


def samples_of(rows: list[Rows], learning_rate: float, memory: dict[str, float]) -> Samples:
    """Completed steps as one `Samples` event; the memory of now stands in each of its rows."""
    columns: dict[str, list[float]] = {
        "step": [], "seconds": [], "loss": [], "samples_per_second": []
    }  # fmt: skip
    for part in rows:
        columns["step"] += part.step.tolist()
        columns["seconds"] += part.seconds.tolist()
        columns["samples_per_second"] += (part.samples / part.step_seconds).tolist()
        for name in ("loss", "grad_scale", "grad_norm"):
            if name in part.figures:
                columns.setdefault(name, []).extend(part.figures[name].tolist())
    length = len(columns["step"])
    columns["learning_rate"] = [learning_rate] * length
    columns |= {name: [value] * length for name, value in memory.items()}
    return Samples.model_validate({name: tuple(column) for name, column in columns.items()})
