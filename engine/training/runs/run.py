"""The parts of a run, and its progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from typing import Any

import torch
from torch import nn

from engine.experiment.experiment import Experiment
from engine.protocol.events import PhaseName, Samples, Summary
from engine.protocol.jobs import Control
from engine.training.data.batches import Batch, Source, batch_samples
from engine.training.failures import check_normalised
from engine.training.measuring.breakdown import Instruments
from engine.training.measuring.memory_cap import CAPPED_CPU_NOTE
from engine.training.measuring.speed import Speed, Tally
from engine.training.measuring.telemetry import Rows, Telemetry, samples_event
from engine.training.measuring.validation import Validation, validate
from engine.training.precision import Float32Mode, float32_mode_name
from engine.training.runs.checkpoints import CheckpointKind, Checkpoints, Rewind, capture_state, restore_state
from engine.training.runs.workload import Workload
from engine.training.steps.plain import PlainStep, learning_rate_at
from engine.training.steps.recipe import cudnn_search


class Run:
    """The parts of a run and its progress.

    `experiment` is resolved; `resumed` is the state of the checkpoint that the run resumes from.
    """

    def __init__(
        self,
        experiment: Experiment,
        control: Control,
        *,
        device: torch.device,
        model: nn.Module,
        step: PlainStep,
        source: Source,
        workload: Workload,
        instruments: Instruments,
        checkpoints: Checkpoints | None,
        steps_per_epoch: int,
        total_steps: int,
        resumed: Mapping[str, Any] | None = None,
    ) -> None:
        self.experiment = experiment
        self.control = control
        self.device = device
        self.source = source
        self.step = step
        self.instruments = instruments
        self.steps_per_epoch = steps_per_epoch
        self.total_steps = total_steps
        self.tally = Tally(experiment.measure)
        self.epoch = 1
        self.phase = PhaseName.BUILDING
        self._model = model
        self._workload = workload
        self._checkpoints = checkpoints
        every = experiment.checkpoint.rewind_every
        self.rewind = Rewind(every, experiment.scaler) if every and checkpoints is not None else None
        self._batches_done = 0
        self._paused_seconds = self._sampling_seconds = 0.0
        self._unsent: list[Rows] = []
        if resumed is not None:
            self._restore(resumed)
        self._first_step = self._warm_until = self.tally.steps
        self.telemetry = Telemetry(
            device, step.columns, first_step=self.tally.steps, first_seconds=self.tally.seconds
        )

    def close(self) -> None:
        """Ends what runs beside the run: loader processes, and the thread that reads the card."""
        self.source.close()
        self.instruments.close()

    def enter(self, phase: PhaseName) -> None:
        """Enters a phase; the instruments count for the measurement only in `MEASURING`."""
        self.phase = phase
        self.instruments.count(phase is PhaseName.MEASURING, is_capturing=phase is PhaseName.CAPTURING)

    @property
    def training_phase(self) -> PhaseName:
        """The phase of the next step: compiling, capturing, warming up, or measuring."""
        phase = self.step.next_phase()
        if phase is not None:
            return phase
        is_warm = self.telemetry.steps - self._first_step >= self.experiment.measure.warmup_steps
        return PhaseName.MEASURING if is_warm else PhaseName.WARMING_UP

    @property
    def must_end(self) -> bool:
        """True once a stop was requested, or a NaN ends the run."""
        nan_ends = self.experiment.on_nan != "continue" and self.tally.first_nan_step is not None
        return nan_ends or self.control.stop_requested.is_set()

    @property
    def is_complete(self) -> bool:
        """True once all steps are done."""
        return self.telemetry.steps >= self.total_steps

    @property
    def is_over(self) -> bool:
        """True once the last epoch has ended, too."""
        return self.is_complete and self._batches_done == 0

    def groups(self) -> Iterator[list[Batch]]:
        """The batches of each optimizer step left in this epoch; the wait for them is recorded."""
        # Begun here and not at the first `next`, which counts as the first step's time.
        return self._groups(self.source.epoch(self.epoch, self._batches_done))

    def _groups(self, batches: Iterator[Batch]) -> Iterator[list[Batch]]:
        while group := list(islice(batches, self.experiment.step.gradient_accumulation)):
            self.telemetry.data_ready()
            yield group

    def train_on(self, group: list[Batch]) -> None:
        """Makes one optimizer step and records its figures."""
        if self.phase is not PhaseName.MEASURING:
            self._warm_until = self.telemetry.steps + 1
        rate = self._learning_rate()
        if self.experiment.schedule.name != "constant" or self.experiment.schedule.warmup_steps:
            self.step.set_learning_rate(rate)
        samples = sum(map(batch_samples, group))
        if self._is_last_to_warm_up:
            self.instruments.settle()
        with (
            self.instruments.weighing(self.step) if self._is_weighed else nullcontext(),
            # A search for a smaller group would come in the middle of the measured steps, which its memory
            # would be counted in, and the host would wait for the device when that memory is freed.
            cudnn_search(False) if samples < self.experiment.step_samples else nullcontext(),
        ):
            try:
                figures = self.step(group)
            except ValueError as error:
                check_normalised(error, min(map(batch_samples, group)))
                raise
        self.telemetry.record(figures, samples, rate * self.step.rate_factor)
        self._batches_done += len(group)

    @property
    def _is_weighed(self) -> bool:
        """True if the next step's memory is broken down; not in the first, which allocates workspaces."""
        is_second = self.telemetry.steps == self._first_step + 1
        return is_second and self.phase is not PhaseName.MEASURING

    @property
    def _is_last_to_warm_up(self) -> bool:
        """True before the warm-up's last step, which allocates anew what measured steps need.

        A single warm-up step is also the first, before which there is nothing to free.
        """
        warmup = self.experiment.measure.warmup_steps
        return warmup > 1 and self.telemetry.steps == self._first_step + warmup - 1

    def _learning_rate(self) -> float:
        settings = self.experiment
        return learning_rate_at(
            self.telemetry.steps,
            settings.optimizer,
            settings.schedule,
            self.total_steps,
            self.steps_per_epoch,
        )

    def begin_epoch(self) -> None:
        """Begins the next epoch."""
        self.epoch += 1
        self._batches_done = 0
        self.tally.begin_epoch()

    def end_pause(self, seconds: float) -> None:
        """Counts a pause as such and in no other figure."""
        self._paused_seconds += seconds
        self.telemetry.begin(paused_seconds=seconds)

    def end_sampling(self, seconds: float) -> None:
        """Counts the sampling of ranges as such and in no other figure."""
        self._sampling_seconds += seconds
        self.telemetry.begin(paused_seconds=seconds)

    def take(self, rows: Rows) -> None:
        """Adds steps that the device has completed."""
        self.tally.add(rows, self._warm_until)
        self.control.step = rows.last_step
        self._unsent.append(rows)

    def samples(self) -> Samples | None:
        """The steps added since the last call as one event; None without any."""
        unsent, self._unsent = self._unsent, []
        return samples_event(unsent, self.instruments.now()) if unsent else None

    def validation_is_due(self) -> bool:
        """True after the last step of an epoch or of the run, if validation is due."""
        every = self.experiment.validation.every
        if not every or not self.source.has_validation:
            return False
        ends_by_steps = self.experiment.steps is not None and self.is_complete
        return ends_by_steps or self.epoch % every == 0

    def validate(self) -> Validation | None:
        """Validates; None if it was asked to stop."""
        return self.validate_on(self.source.validation(self.experiment.validation.limit))

    def validate_on(self, batches: Iterable[Batch]) -> Validation | None:
        """Validates on these batches; None if it was asked to stop."""
        return validate(
            self._model,
            batches,
            self._workload.loss,
            precision=self.experiment.precision,
            device=self.device,
            must_end=self.control.stop_requested.is_set,
            call=self._workload.call,
            hits=self._workload.hits,
        )

    def checkpoints_due(self, epoch: int, *, is_best: bool) -> Iterator[CheckpointKind]:
        """The checkpoints to save after an epoch; at the run's end the last one is saved anyway."""
        wanted = self.experiment.checkpoint
        if self._checkpoints is None:
            return
        if wanted.best and is_best:
            yield "best"
        if wanted.last and epoch % wanted.every == 0 and not self.is_complete:
            yield "last"

    @property
    def saves_at_end(self) -> bool:
        return self._checkpoints is not None and self.experiment.checkpoint.last

    def save(self, kind: CheckpointKind) -> None:
        """Saves a checkpoint; of kind "rewind" the state that is kept in memory, else that of now, for which
        it waits for the device. Raises ProblemError where it cannot be written."""
        assert self._checkpoints is not None
        kept = self.rewind.state if kind == "rewind" and self.rewind is not None else None
        self._checkpoints.save(kind, kept or self._state())

    def keep(self) -> None:
        """Keeps the state of now in memory, once all steps were taken. Waits for the device."""
        if self.rewind is not None:
            self.rewind.keep(self._state())

    def _state(self) -> dict[str, Any]:
        progress = {
            "epoch": self.epoch,
            "batches_done": self._batches_done,
            "paused_seconds": self._paused_seconds,
            "sampling_seconds": self._sampling_seconds,
            "tally": self.tally.state(),
        }
        return capture_state(self._model, self.step.optimizer, self.step.scaler, progress, self.device)

    def _restore(self, state: Mapping[str, Any]) -> None:
        progress = restore_state(state, self._model, self.step.optimizer, self.step.scaler, self.device)
        self.epoch, self._batches_done = progress["epoch"], progress["batches_done"]
        self._paused_seconds = progress["paused_seconds"]
        self._sampling_seconds = progress["sampling_seconds"]
        self.tally.restore(progress["tally"])
        self.control.step = self.tally.steps

    def summary(self) -> Summary:
        """The figures so far. Waits for the device."""
        scaler, speed, measured = self.step.scaler, self._speed(), self.tally.measured
        totals = self.tally.summary(steps_per_epoch=self.steps_per_epoch, is_scaled=scaler.is_enabled())
        figures = {
            "samples_per_second": speed.samples_per_second,
            "samples_per_second_ci": speed.interval,
            "speed_note": speed.note,
            "step_ms": speed.step_ms,
            **self.instruments.figures(self.step),
            "energy": self.instruments.energy.over(measured.steps, measured.samples, measured.seconds),
            "final_grad_scale": scaler.get_scale() if scaler.is_enabled() else None,
            "recipe": self.step.record.recipe,
            "left_out": dict(self.step.record.left_out),
            "float32_mode": self._float32_mode(),
            "compile_seconds": self.step.compile_seconds,
            "capture_seconds": self.step.capture_seconds,
            "paused_seconds": self._paused_seconds or None,
            "sampling_seconds": self._sampling_seconds or None,
        }
        return totals.model_copy(update=figures)

    def _float32_mode(self) -> Float32Mode:
        mode = float32_mode_name(self.experiment.precision, self.experiment.step.autocast_tf32)
        return "strict" if mode == "tf32" and self.device.type != "cuda" else mode

    def _speed(self) -> Speed:
        if self.device.type == "cpu" and self.experiment.memory_cap_gib is not None:
            return Speed(note=CAPPED_CPU_NOTE)
        return self.instruments.with_note(self.tally.speed())
