"""The figures of a run, summed up from its steps as they complete."""

from __future__ import annotations

import math
from array import array

import numpy as np

from engine.events import Summary
from engine.training.memory import Peaks
from engine.training.speed import Speed
from engine.training.telemetry import Rows
from engine.training.validation import Validation


class Tally:
    """What the run's steps and validations come to. Fed in order, from completed steps only."""

    def __init__(self) -> None:
        self.samples = array("q")
        self.step_seconds = array("d")
        self.seconds = 0.0
        self.skipped_steps = 0
        self.first_nan_step: int | None = None
        self.train_loss = math.nan
        self._accuracies: list[float] = []
        self._loss_sum = 0.0
        self._loss_samples = 0

    @property
    def steps(self) -> int:
        return len(self.samples)

    def add(self, rows: Rows) -> None:
        """Adds completed steps."""
        self.samples.extend(rows.samples.tolist())
        self.step_seconds.extend(rows.step_seconds.tolist())
        self.seconds = float(rows.seconds[-1])
        self.skipped_steps += len(skipped_steps(rows))
        loss = rows.figures["loss"]
        self._loss_sum += float(loss @ rows.samples)
        self._loss_samples += int(rows.samples.sum())
        self.train_loss = self._loss_sum / self._loss_samples
        if self.first_nan_step is None and np.isnan(loss).any():
            self.first_nan_step = int(rows.step[np.isnan(loss).argmax()])

    def begin_epoch(self) -> None:
        """From here on `train_loss` is the mean over the new epoch's samples, once it has a step."""
        self._loss_sum, self._loss_samples = 0.0, 0

    def add_validation(self, validation: Validation) -> None:
        self._accuracies.append(validation.accuracy)

    def summary(
        self,
        *,
        steps_per_epoch: int,
        speed: Speed,
        peaks: Peaks,
        grad_scale: float | None,
        data_wait_seconds: float,
    ) -> Summary:
        """The figures so far. The final train loss is the mean of the last epoch, or of its part trained."""
        busy_seconds = sum(self.step_seconds)
        return Summary(
            steps=self.steps,
            epochs=self.steps / steps_per_epoch,
            samples_per_second=speed.samples_per_second,
            samples_per_second_ci=speed.interval,
            speed_note=speed.note,
            step_ms=speed.step_ms,
            first_step_seconds=self.step_seconds[0] if self.step_seconds else None,
            peak_allocated_mib=peaks.allocated_mib,
            peak_reserved_mib=peaks.reserved_mib,
            whole_run_peak_mib=peaks.whole_run_mib,
            peak_resident_mib=peaks.resident_mib,
            final_train_loss=self.train_loss if self.steps else None,
            best_validation_accuracy=max(self._accuracies, default=None),
            final_validation_accuracy=self._accuracies[-1] if self._accuracies else None,
            final_grad_scale=grad_scale,
            skipped_steps=None if grad_scale is None else self.skipped_steps,
            data_wait_fraction=min(1.0, data_wait_seconds / busy_seconds) if busy_seconds else None,
            seconds=self.seconds,
        )


def skipped_steps(rows: Rows) -> tuple[int, ...]:
    """The numbers of the steps that the loss scaler skipped."""
    found = rows.figures.get("found_inf")
    return () if found is None else tuple(rows.step[found > 0].tolist())
