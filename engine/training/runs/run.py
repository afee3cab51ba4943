"""A run in progress: its model, data, step and instruments, and the steps made so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from engine.experiment.catalog import Precision
from engine.experiment.settings import FAST, PLAIN
from engine.protocol.events import PhaseName, Samples, Summary
from engine.protocol.jobs import Control
from engine.protocol.summary import Compilation, RankMetrics
from engine.training.data.batches import Batch, BatchSource, batch_samples, requested_samples
from engine.training.failures import check_normalized
from engine.training.measuring.formats import FormatRecord
from engine.training.measuring.instruments import Instruments
from engine.training.measuring.memory_cap import CAPPED_CPU_NOTE
from engine.training.measuring.speed import Speed, Tally, ValidationResult, validate
from engine.training.measuring.telemetry import Rows, Telemetry, samples_event
from engine.training.precision import EMULATED_NOTE, float32_mode_name
from engine.training.ranks import (
    SAMPLED_FIRST,
    broadcast_buffers,
    current_rank,
    is_sharded,
    local_shard,
    sum_over_ranks,
)
from engine.training.runs.checkpoints import (
    CheckpointKind,
    Checkpoints,
    StateSnapshot,
    capture_state,
    restore_state,
)
from engine.training.runs.plan import RunPlan
from engine.training.steps.plain import PlainStep, learning_rate_at
from engine.training.steps.recipe import cudnn_search
from engine.training.steps.rehearsal import rehearse

_SAMPLES = 8
_MOST_WEIGHTS = 2**16  # of each tensor: they tell the share to a fifth of a percent, and take next to nothing


class UnchangedWeights:
    """Measures the share of weights that a step leaves unchanged, in up to eight steps spread over a run.

    Of a large tensor, only evenly spaced weights are compared. It never synchronizes with the device.
    """

    def __init__(self, model: nn.Module, total_steps: int) -> None:
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._total_steps = total_steps
        self._before: list[Tensor] = []
        self._counts: Tensor | None = None

    def is_due(self, steps: int) -> bool:
        """Return True if the step after `steps` steps is to be compared."""
        return (steps + 1) * _SAMPLES // self._total_steps > steps * _SAMPLES // self._total_steps

    def begin(self) -> None:
        """Copy the weights before a step, to compare them in `end`."""
        self._before = [_sampled_values(parameter).clone() for parameter in self._parameters]

    def end(self) -> None:
        """Compare the weights after the step, whose gradients are still there."""
        for before, parameter in zip(self._before, self._parameters, strict=True):
            if parameter.grad is not None:
                moved = _sampled_values(parameter.grad) != 0
                counts = torch.stack([(moved & (_sampled_values(parameter) == before)).sum(), moved.sum()])
                counts = counts * _distance(parameter)
                self._counts = counts if self._counts is None else self._counts + counts
        self._before = []

    @property
    def fraction(self) -> float | None:
        """Return the share over all compared steps. None without any. Synchronizes with the device."""
        unchanged, all_moved = (0, 0) if self._counts is None else self._counts.tolist()
        return unchanged / all_moved if all_moved else None


def _distance(tensor: Tensor) -> int:
    return -(-local_shard(tensor).numel() // _MOST_WEIGHTS) or 1


def _sampled_values(tensor: Tensor) -> Tensor:
    return local_shard(tensor).detach().flatten()[:: _distance(tensor)]


class Run:
    """A run in progress: its data, step, instruments and metrics, and its current epoch.

    `resumed` is the state of the checkpoint from which it resumes, None for a new run.
    """

    def __init__(
        self,
        plan: RunPlan,
        control: Control,
        *,
        step: PlainStep,
        source: BatchSource,
        instruments: Instruments,
        checkpoints: Checkpoints | None,
        resumed: Mapping[str, Any] | None = None,
    ) -> None:
        self.experiment, self.device = plan.experiment, plan.device
        self.steps_per_epoch, self.total_steps = plan.steps_per_epoch, plan.total_steps
        self.control = control
        self.source = source
        self.step = step
        self.instruments = instruments
        self.tally = Tally(self.experiment.measure)
        self.epoch = 1
        self.phase = PhaseName.BUILDING
        self._workload = plan.workload
        self._left_out = plan.left_out
        self._checkpoints = checkpoints
        every = self.experiment.checkpoint.rewind_every
        keeps = every and checkpoints is not None
        self.snapshot = StateSnapshot(every, self.experiment.scaler, self.device) if keeps else None
        is_pure = self.experiment.precision is Precision.BF16_PURE
        self._unchanged = UnchangedWeights(step.model, self.total_steps) if is_pure else None
        self.not_done: dict[str, str] = {}
        self._recompiled: list[int] = []
        self._formats: FormatRecord | None = None
        self._batches_done = 0
        self._paused_seconds = 0.0
        self._unsent: list[Rows] = []
        if resumed is not None:
            self._restore(resumed)
        self._first_step = self._warm_until = self.tally.steps
        self.telemetry = Telemetry(
            self.device, step.columns, first_step=self.tally.steps, first_seconds=self.tally.seconds
        )

    def close(self) -> None:
        """End loader processes, and the thread that reads the GPU."""
        self.source.close()
        self.instruments.close()

    def enter(self, phase: PhaseName) -> None:
        """Enter a phase. The instruments measure only in the phase `MEASURING`."""
        self.phase = phase
        self.instruments.count(phase is PhaseName.MEASURING, is_capturing=phase is PhaseName.CAPTURING)

    @property
    def training_phase(self) -> PhaseName:
        """Return the phase of the next step: compiling, capturing, warming up, or measuring."""
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
        """True once the last epoch has ended, including its validation."""
        return self.is_complete and self._batches_done == 0

    def groups(self) -> Iterator[list[Batch]]:
        """Yield the batches of each optimizer step left in this epoch, and record the wait for them."""
        # Begun here and not at the first `next`, which counts as the first step's time.
        return self._groups(self.source.epoch(self.epoch, self._batches_done))

    def _groups(self, batches: Iterator[Batch]) -> Iterator[list[Batch]]:
        while group := list(islice(batches, self.experiment.step.gradient_accumulation)):
            if self.source.is_waited_for:
                self.telemetry.data_ready()
            yield group

    def train_on(self, group: list[Batch]) -> None:
        """Make one optimizer step and record its values."""
        settings, begun = self.experiment, self.telemetry.steps - self._first_step
        is_warming = self.phase is not PhaseName.MEASURING
        if is_warming:
            self._warm_until = self.telemetry.steps + 1
        rate = learning_rate_at(
            self.telemetry.steps,
            settings.optimizer,
            settings.schedule,
            self.total_steps,
            self.steps_per_epoch,
        )
        if settings.schedule.name != "constant" or settings.schedule.warmup_steps:
            self.step.set_learning_rate(rate)
        samples = sum(map(batch_samples, group))
        if settings.measure.warmup_steps > 1 and begun == settings.measure.warmup_steps - 1:
            # The warm-up's last step allocates anew what measured steps need. A single warm-up step is also
            # the first, before which there is nothing to free.
            self.instruments.settle()
        unchanged = self._unchanged
        if unchanged is not None and not unchanged.is_due(self.telemetry.steps):
            unchanged = None
        if unchanged is not None:
            # the work beside the step is in no step's time
            unchanged.begin()
            self.telemetry.begin()
        with (
            # the second step's memory is broken down: the first allocates workspaces
            self.instruments.measuring_memory(self.step) if begun == 1 and is_warming else nullcontext(),
            # A search for a smaller group would come in the middle of the measured steps, which its memory
            # would be counted in, and the host would wait for the device when that memory is freed.
            cudnn_search(False)
            if sum(map(requested_samples, group)) < self.experiment.device_step_samples
            else nullcontext(),
            self._recording(group[0]) if begun == 0 and is_warming else nullcontext(),
        ):
            try:
                figures = self.step(group)
            except ValueError as error:
                check_normalized(error, min(map(batch_samples, group)))
                raise
        watch = self.step.compile_watch
        if watch is not None and watch.has_compiled and not is_warming:
            self._recompiled.append(self.telemetry.steps + 1)
        is_reused = self.step.is_replayed
        self.telemetry.record(figures, samples, rate * self.step.rate_factor, is_reused=is_reused)
        if unchanged is not None:
            unchanged.end()
            self.telemetry.begin()
        if begun <= SAMPLED_FIRST:
            self.step.note_communication()
        self._batches_done += len(group)

    def record_formats(self) -> None:
        """Record the dtypes of the first step's matmuls, unless it is measured or the model is sharded."""
        if not is_sharded(self.step.model):
            self._formats = FormatRecord(self.experiment, self.device)

    def _recording(self, batch: Batch) -> AbstractContextManager[object]:
        if self._formats is None or not (self._compiles or current_rank().count > 1):
            return self._formats or nullcontext()
        # neither compiled code nor DistributedDataParallel shows its operations
        seconds = rehearse(self.step, batch, self._formats)
        self.telemetry.begin(paused_seconds=seconds)
        return nullcontext()

    @property
    def _compiles(self) -> bool:
        code = self.experiment.own_code
        of_code = code is not None and any("compile" in text for text in (code.text, *code.beside.values()))
        return of_code or self.step.compiles

    def begin_epoch(self) -> None:
        self.epoch += 1
        self._batches_done = 0
        self.tally.begin_epoch()

    def end_pause(self, seconds: float) -> None:
        """Count a pause, and exclude it from all other metrics."""
        self._paused_seconds += seconds
        self.telemetry.begin(paused_seconds=seconds)

    def take(self, rows: Rows) -> None:
        """Add steps that the device has completed."""
        self.tally.add(rows, self._warm_until, self._recompiled)
        self.step.note_communication()
        self.control.step = rows.last_step
        self._unsent.append(rows)

    def samples(self) -> Samples | None:
        """Return the steps added since the last call as one event. None without any."""
        unsent, self._unsent = self._unsent, []
        return samples_event(unsent, self.instruments.now()) if unsent else None

    def validation_is_due(self) -> bool:
        """Return True after the last step of an epoch or of the run, if validation is due."""
        every = self.experiment.validation.every
        if not every or not self.source.has_validation:
            return False
        ends_by_steps = self.experiment.steps is not None and self.is_complete
        return ends_by_steps or self.epoch % every == 0

    def validate(self) -> ValidationResult | None:
        """Validate. Return None if a stop was requested, which then ends the run."""
        rank, batches = current_rank(), self.source.validation(self.experiment.validation.limit)
        broadcast_buffers(self.step.model)
        if is_sharded(self.step.model):
            # every process takes part in every pass: all of them validate on the same, and leave together
            validation = self.validate_on(
                batches, lambda: bool(sum_over_ranks([self._must_stop()], self.device)[0])
            )
            self.step.model.reshard()  # type: ignore[operator]
        else:
            validation = self.validate_on(islice(batches, rank.number, None, rank.count), self._must_stop)
        if validation is None:
            # another rank may have heard of it first
            self.control.stop_requested.set()
        return validation

    def _must_stop(self) -> bool:
        return self.control.stop_follows

    def validate_on(
        self, batches: Iterable[Batch], must_end: Callable[[], bool] = lambda: False
    ) -> ValidationResult | None:
        """Validate on these batches. Return None if it must end before the last."""
        return validate(
            self.step.model,
            batches,
            self._workload.loss,
            precision=self.step.autocast_precision,
            device=self.device,
            must_end=must_end,
            call=self._workload.call,
            hits=self._workload.hits,
        )

    def checkpoints_due(self, epoch: int, *, is_best: bool) -> Iterator[CheckpointKind]:
        """Yield the checkpoints to save after an epoch. At its end, a run saves the last one anyway."""
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
        """Save a checkpoint: the state kept in memory for the kind "rewind", else the current one.

        Saving the current state synchronizes with the device. Raises ProblemError if it cannot be written.
        """
        assert self._checkpoints is not None
        kept = self.snapshot.state if kind == "rewind" and self.snapshot is not None else None
        self._checkpoints.save(kind, kept or self._state())

    def keep(self) -> None:
        """Keep the current state in memory, after all steps were added. Synchronizes with the device."""
        if self.snapshot is not None:
            self.snapshot.keep(self._state())

    def _state(self) -> dict[str, Any]:
        progress = {
            "epoch": self.epoch,
            "batches_done": self._batches_done,
            "paused_seconds": self._paused_seconds,
            "tally": self.tally.state(),
        }
        return capture_state(self.step.model, self.step.optimizer, self.step.scaler, progress, self.device)

    def _restore(self, state: Mapping[str, Any]) -> None:
        progress = restore_state(state, self.step.model, self.step.optimizer, self.step.scaler, self.device)
        self.epoch, self._batches_done = progress["epoch"], progress["batches_done"]
        self._paused_seconds = progress["paused_seconds"]
        self.tally.restore(progress["tally"])
        self.control.step = self.tally.steps

    def summary(self) -> Summary:
        """Return the metrics so far. Synchronizes with the device."""
        settings, scaler, measured = self.experiment, self.step.scaler, self.tally.measured
        if self.device.type == "cpu" and settings.memory_cap_gib is not None:
            speed = Speed(note=CAPPED_CPU_NOTE)
        elif self.device.type == "cpu" and settings.precision is Precision.FP8:
            speed = Speed(note=EMULATED_NOTE)
        else:
            speed = self.instruments.with_note(self.tally.speed())
        mode = float32_mode_name(settings.precision, settings.step.autocast_tf32)
        totals = self.tally.summary(steps_per_epoch=self.steps_per_epoch, is_scaled=scaler.is_enabled())
        figures = {
            "samples_per_second": speed.samples_per_second,
            "samples_per_second_ci": speed.interval,
            "speed_note": speed.note,
            "step_ms": speed.step_ms,
            **self.instruments.figures(self.step),
            "energy": self.instruments.energy.over(measured.steps, measured.samples, measured.seconds),
            "unchanged_weights_fraction": self._unchanged and self._unchanged.fraction,
            "final_grad_scale": scaler.get_scale() if scaler.is_enabled() else None,
            "recipe": self.step.record.recipe,
            "left_out": {**self._left_out, **self.step.record.left_out},
            "not_done": {**self._missing_settings(), **self.not_done},
            "float32_mode": "strict" if mode == "tf32" and self.device.type != "cuda" else mode,
            "compile_seconds": self.step.compile_seconds,
            "compilation": self._compilation(),
            "capture_seconds": self.step.capture_seconds,
            "paused_seconds": self._paused_seconds or None,
            **({} if self._formats is None else self._formats.figures(self.step)),
        }
        return self._as_rank(totals.model_copy(update=figures))

    def _compilation(self) -> Compilation | None:
        watch, again = self.step.compile_watch, self.tally.recompiled
        return None if watch is None else watch.compilation(again.steps, again.seconds)

    def _missing_settings(self) -> dict[str, str]:
        """Return requested settings that the run cannot apply, by key, with the reason."""
        settings, left_out = self.experiment, self.step.record.left_out
        missing = {}
        if left_out and settings.step.recipe not in (PLAIN, FAST):
            missing["step.recipe"] = ", ".join(f"{part}: {why}" for part, why in left_out.items())
        if settings.optimizer.fused and "fused" in left_out:
            missing["optimizer.fused"] = left_out["fused"]
        if settings.step.activation_budget is not None and "compile" in left_out:
            missing["step.activation_checkpointing"] = left_out["compile"]
        if self._left_out:
            missing["precision"] = next(iter(self._left_out.values()))
        return missing

    def _as_rank(self, summary: Summary) -> Summary:
        if current_rank().count == 1:
            return summary
        step_ms = summary.step_ms
        sent, exposed = (step_ms and self.step.communication(step_ms)) or (None, None)
        own = RankMetrics(
            device=self.experiment.device,
            samples_per_second=summary.samples_per_second,
            step_ms=step_ms,
            peak_mib=summary.peak_allocated_mib or summary.peak_resident_mib,
            data_wait_fraction=summary.data_wait_fraction,
            communication_ms=sent,
            exposed_ms=exposed,
        )
        return summary.model_copy(update={"ranks": (own,)})
