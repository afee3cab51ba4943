"""The metrics of a run: totals, the median speed over blocks of steps, and the validation."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterable
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from engine.experiment.experiment import LEAST_BLOCKS, Measure, Precision
from engine.protocol.events import Summary
from engine.statistics import steadiness
from engine.training.data.batches import Batch, batch_samples
from engine.training.measuring.telemetry import Rows
from engine.training.models.outputs import Forward, Hits, LossFunction, call_model, count_correct
from engine.training.precision import autocast
from engine.training.ranks import sum_over_ranks

MOST_BLOCKS = 2**18  # with more, two neighbours become one of twice the steps: no median needs as many


_RESUMED = (
    *("seconds", "skipped_steps", "first_nan_step", "train_loss", "loss_sum", "loss_samples"),
    *("accuracy", "best_accuracy", "best_epoch", "least_loss"),
)
"""The fields of a `Tally` that a checkpoint saves, in addition to its steps."""


class Blocks:
    """Groups consecutive steps into blocks of `steps` steps. Keeps the samples and seconds of full blocks."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.samples = array("q")
        self.seconds = array("d")
        self._rest: tuple[NDArray[np.int64], NDArray[np.float64]] = (np.empty(0, np.int64), np.empty(0))

    def add(self, samples: NDArray[np.int64], seconds: NDArray[np.float64]) -> None:
        """Add steps with their samples and seconds.

        Steps that do not fill a block wait for the next steps.
        """
        samples, seconds = np.append(self._rest[0], samples), np.append(self._rest[1], seconds)
        while blocks := min(len(seconds) // self.steps, MOST_BLOCKS - len(self.seconds)):
            whole = blocks * self.steps
            self.samples.extend(samples[:whole].reshape(blocks, self.steps).sum(axis=1).tolist())
            self.seconds.extend(seconds[:whole].reshape(blocks, self.steps).sum(axis=1).tolist())
            samples, seconds = samples[whole:], seconds[whole:]
            if len(self.seconds) == MOST_BLOCKS:
                self._join_pairs()
        self._rest = samples, seconds

    def _join_pairs(self) -> None:
        self.steps *= 2
        self.samples = array("q", np.asarray(self.samples).reshape(-1, 2).sum(axis=1).tolist())
        self.seconds = array("d", np.asarray(self.seconds).reshape(-1, 2).sum(axis=1).tolist())


@dataclass
class _Totals:
    steps: int = 0
    samples: int = 0
    seconds: float = 0.0
    wait_seconds: float = 0.0

    def add(self, steps: int, samples: int, seconds: float, wait_seconds: float) -> None:
        self.steps += steps
        self.samples += samples
        self.seconds += seconds
        self.wait_seconds += wait_seconds


class Tally:
    """Adds up a run's completed steps and validations into its metrics.

    `warm_up` and `measured` count steps since the run was started or resumed. `recompiled` are the measured
    steps in which something was compiled, which do not count in the speed.
    """

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._blocks = Blocks(measure.block_steps)
        self.warm_up, self.measured, self.recompiled = _Totals(), _Totals(), _Totals()
        self._first_step_seconds: float | None = None
        self.seconds = 0.0
        self.skipped_steps = 0
        self.first_nan_step: int | None = None
        self.train_loss = math.nan
        self.accuracy: float | None = None
        self.best_accuracy: float | None = None
        self.best_epoch: int | None = None
        self.least_loss: float | None = None
        self.loss_sum = 0.0
        self.loss_samples = 0
        self._steps_before = 0

    @property
    def steps(self) -> int:
        """The number of all steps, including steps before the run was resumed."""
        return self._steps_before + self.warm_up.steps + self.measured.steps

    def add(self, rows: Rows, warm_until: int, recompiled: Collection[int] = ()) -> None:
        """Add completed steps. Steps up to `warm_until` are warm-up, including earlier measured ones."""
        if self._first_step_seconds is None:
            self._first_step_seconds = float(rows.step_seconds[0])
        warm = int(np.searchsorted(rows.step, warm_until, side="right"))
        if warm and self.measured.steps:
            # a part of the model was compiled later
            self.warm_up.add(*astuple(self.measured))
            self.measured, self.recompiled = _Totals(), _Totals()
            self._blocks = Blocks(self._measure.block_steps)
        again = np.isin(rows.step, [*recompiled]) & (rows.step > warm_until)
        parts: tuple[tuple[_Totals, Any], ...] = (
            (self.warm_up, slice(warm)),
            (self.measured, slice(warm, None)),
            (self.recompiled, again),
        )
        for totals, part in parts:
            samples, seconds, waits = rows.samples[part], rows.step_seconds[part], rows.wait_seconds[part]
            totals.add(len(samples), int(samples.sum()), float(seconds.sum()), float(waits.sum()))
        steady = (rows.step > warm_until) & ~again
        self._blocks.add(rows.samples[steady], rows.step_seconds[steady])
        self.seconds = float(rows.seconds[-1])
        self.skipped_steps += len(skipped_steps(rows))
        counted = ~rows.is_given_up
        loss, samples = rows.figures["loss"][counted], rows.samples[counted]
        with np.errstate(invalid="ignore"):  # infinite losses of both signs
            self.loss_sum += float(loss @ samples)
        self.loss_samples += int(samples.sum())
        if self.loss_samples:
            self.train_loss = self.loss_sum / self.loss_samples
        if self.first_nan_step is None and np.isnan(loss).any():
            self.first_nan_step = int(rows.step[counted][np.isnan(loss).argmax()])

    def begin_epoch(self) -> None:
        """Make `train_loss` the mean over the new epoch's samples, once it has a step."""
        self.loss_sum, self.loss_samples = 0.0, 0

    def add_validation(self, epoch: int, validation: ValidationResult) -> bool:
        """Add a validation. Return whether it is the best so far, by accuracy or else by loss."""
        if validation.accuracy is None:
            if self.least_loss is not None and not validation.loss < self.least_loss:
                return False
            self.least_loss = validation.loss
            return True
        self.accuracy = validation.accuracy
        if self.best_accuracy is not None and validation.accuracy <= self.best_accuracy:
            return False
        self.best_accuracy, self.best_epoch = validation.accuracy, epoch
        return True

    def state(self) -> dict[str, float | None]:
        """Return the state that a resumed run continues from, as plain numbers."""
        return {"steps": self.steps, **{name: getattr(self, name) for name in _RESUMED}}

    def restore(self, state: dict[str, Any]) -> None:
        self._steps_before = state["steps"]
        for name in _RESUMED:
            setattr(self, name, state.get(name))

    def speed(self) -> Speed:
        if len(self._blocks.seconds) < LEAST_BLOCKS:
            warmup_steps = max(self.warm_up.steps, self._measure.warmup_steps)
            steps = self.warm_up.steps + self.measured.steps
            return Speed(
                note=_too_short(steps, self._measure.block_steps, warmup_steps, self.recompiled.steps)
            )
        samples, seconds = np.asarray(self._blocks.samples), np.asarray(self._blocks.seconds)
        if not seconds.all():
            return Speed(note="The steps were too short for this machine's clock.")
        rates = samples / seconds
        return Speed(
            samples_per_second=float(np.median(rates)),
            interval=steadiness(rates),
            step_ms=float(np.median(seconds) / self._blocks.steps * 1e3),
        )

    def summary(self, *, steps_per_epoch: int, is_scaled: bool) -> Summary:
        """Return the metrics of the steps alone. The final loss is the mean over the last epoch."""
        # of the measured steps' time, or of all steps' if none was measured
        timed = self.measured if self.measured.steps else self.warm_up
        waited = min(1.0, timed.wait_seconds / timed.seconds) if timed.seconds else None
        return Summary(
            steps=self.steps,
            epochs=self.steps / steps_per_epoch,
            first_step_seconds=self._first_step_seconds,
            final_train_loss=self.train_loss if self.steps else None,
            best_validation_accuracy=self.best_accuracy,
            final_validation_accuracy=self.accuracy,
            best_epoch=self.best_epoch,
            first_nan_step=self.first_nan_step,
            skipped_steps=self.skipped_steps if is_scaled or self.skipped_steps else None,
            data_wait_fraction=waited,
            warmup_seconds=self.warm_up.seconds if self.warm_up.steps else None,
            warmup_steps=self.warm_up.steps or None,
            seconds=self.seconds,
        )


def skipped_steps(rows: Rows, *columns: str) -> tuple[int, ...]:
    """Return the numbers of the steps skipped by the loss scaler or the model file's own step, or of those in
    which this rank's own gradients overflowed ("own_inf")."""
    flags = [rows.figures[name] > 0 for name in columns or ("found_inf", "own_skip") if name in rows.figures]
    return tuple(rows.step[np.any(flags, axis=0)].tolist()) if flags else ()


@dataclass(frozen=True)
class Speed:
    """The speed of a run: medians over its blocks of steps, or None with the reason in `note`.

    `interval` is the 95% interval of the median over the blocks of this run. It shows how steady this run
    was, not how much another run would differ.
    """

    samples_per_second: float | None = None
    interval: tuple[float, float] | None = None
    step_ms: float | None = None
    note: str | None = None


def _too_short(steps: int, block_steps: int, warmup_steps: int, recompiled_steps: int) -> str:
    least = warmup_steps + recompiled_steps + LEAST_BLOCKS * block_steps
    warm_up = f"{warmup_steps:,} to warm up, " if warmup_steps else ""
    warm_up += f"{recompiled_steps:,} to compile again, " if recompiled_steps else ""
    return (
        f"The run had {steps:,} step{'' if steps == 1 else 's'}. At least {least:,} are needed to measure "
        f"throughput ({warm_up}{LEAST_BLOCKS} blocks of {block_steps:,})."
    )


HitsFunction = Callable[[Any, Any, int], Hits | None]


@dataclass(frozen=True)
class ValidationResult:
    """The result of a validation: the mean loss, and the top-1 accuracy as a fraction (0 to 1).

    Each image is one prediction, and each token of a text. The accuracy is None for a task without one.
    """

    loss: float
    accuracy: float | None


def validate(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_function: LossFunction,
    *,
    precision: Precision,
    device: torch.device,
    must_end: Callable[[], bool],
    call: Forward = call_model,
    hits: HitsFunction = count_correct,
) -> ValidationResult | None:
    """Validate under the run's autocast, without a loss scaler.

    It uses the model itself, neither compiled nor captured, and leaves it in training mode. `call` returns
    its outputs, `hits` the number of right predictions in a batch. Returns None if it must end before the
    last batch, on any of several processes, which combine their results at the end.
    """
    loss_sum = torch.zeros((), device=device)
    correct: Tensor | None = None
    samples = predictions = 0
    is_left = False
    model.eval()
    try:
        with torch.no_grad():
            for batch in batches:
                if is_left := must_end():
                    break
                inputs, targets = batch
                with autocast(precision, device):
                    outputs = call(model, inputs)
                    loss = loss_function(outputs, targets)
                count = batch_samples(batch)
                loss_sum += loss.float() * count
                samples += count
                if (found := hits(outputs, targets, count)) is not None:
                    correct = found[0] if correct is None else correct + found[0]
                    predictions += found[1]
    finally:
        model.train()
    # The only wait for the device, once per validation.
    hit = None if correct is None else correct.item()
    figures = sum_over_ranks((loss_sum.item(), samples, hit or 0, predictions, is_left), device)
    if figures[4]:
        return None
    return ValidationResult(figures[0] / figures[1], figures[2] / figures[3] if figures[3] else None)
