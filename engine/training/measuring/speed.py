"""The figures of a run: totals over its completed steps, and the median speed over blocks of steps."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.experiment.experiment import LEAST_BLOCKS
from engine.protocol.events import Summary
from engine.statistics import steadiness
from engine.training.measuring.telemetry import Rows
from engine.training.measuring.validation import Validation


class Tally:
    """Totals of the run's completed steps and validations, added in order."""

    def __init__(self) -> None:
        self.samples = array("q")
        self.step_seconds = array("d")
        self.wait_seconds = array("d")
        self.seconds = 0.0
        self.skipped_steps = 0
        self.first_nan_step: int | None = None
        self.train_loss = math.nan
        self._accuracy: float | None = None
        self._best_accuracy: float | None = None
        self._best_epoch: int | None = None
        self._least_loss: float | None = None
        self._loss_sum = 0.0
        self._loss_samples = 0
        self._steps_before = 0

    @property
    def steps(self) -> int:
        """All steps; the columns hold those since the run was started or resumed."""
        return self._steps_before + len(self.samples)

    def add(self, rows: Rows) -> None:
        """Adds completed steps."""
        self.samples.extend(rows.samples.tolist())
        self.step_seconds.extend(rows.step_seconds.tolist())
        self.wait_seconds.extend(rows.wait_seconds.tolist())
        self.seconds = float(rows.seconds[-1])
        self.skipped_steps += len(skipped_steps(rows))
        loss = rows.figures["loss"]
        self._loss_sum += float(loss @ rows.samples)
        self._loss_samples += int(rows.samples.sum())
        self.train_loss = self._loss_sum / self._loss_samples
        if self.first_nan_step is None and np.isnan(loss).any():
            self.first_nan_step = int(rows.step[np.isnan(loss).argmax()])

    def begin_epoch(self) -> None:
        """From now on `train_loss` is the mean over the new epoch's samples, once it has a step."""
        self._loss_sum, self._loss_samples = 0.0, 0

    def add_validation(self, epoch: int, validation: Validation) -> bool:
        """Adds a validation after `epoch`; returns whether it is the best so far.

        That is by its accuracy, or by its loss where there is none.
        """
        if validation.accuracy is None:
            return self._is_least_loss(validation.loss)
        self._accuracy = validation.accuracy
        if self._best_accuracy is not None and validation.accuracy <= self._best_accuracy:
            return False
        self._best_accuracy, self._best_epoch = validation.accuracy, epoch
        return True

    def _is_least_loss(self, loss: float) -> bool:
        if self._least_loss is not None and not loss < self._least_loss:
            return False
        self._least_loss = loss
        return True

    def state(self) -> dict[str, float | None]:
        """What a resumed run continues from, as plain numbers."""
        return {
            "steps": self.steps,
            "seconds": self.seconds,
            "skipped_steps": self.skipped_steps,
            "first_nan_step": self.first_nan_step,
            "train_loss": self.train_loss,
            "accuracy": self._accuracy,
            "best_accuracy": self._best_accuracy,
            "best_epoch": self._best_epoch,
            "least_loss": self._least_loss,
            "loss_sum": self._loss_sum,
            "loss_samples": self._loss_samples,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self._steps_before = state["steps"]
        self.seconds, self.train_loss = state["seconds"], state["train_loss"]
        self.skipped_steps, self.first_nan_step = state["skipped_steps"], state["first_nan_step"]
        self._accuracy = state["accuracy"]
        self._best_accuracy, self._best_epoch = state["best_accuracy"], state["best_epoch"]
        self._least_loss = state.get("least_loss")
        self._loss_sum, self._loss_samples = state["loss_sum"], state["loss_samples"]

    def summary(self, *, steps_per_epoch: int, warm_steps: int, is_scaled: bool) -> Summary:
        """The figures so far that follow from the steps alone, of which the first `warm_steps` were warm-up.

        The final train loss is the mean over the last epoch, or over its trained part.
        """
        return Summary(
            steps=self.steps,
            epochs=self.steps / steps_per_epoch,
            first_step_seconds=self.step_seconds[0] if self.step_seconds else None,
            final_train_loss=self.train_loss if self.steps else None,
            best_validation_accuracy=self._best_accuracy,
            final_validation_accuracy=self._accuracy,
            best_epoch=self._best_epoch,
            first_nan_step=self.first_nan_step,
            skipped_steps=self.skipped_steps if is_scaled else None,
            data_wait_fraction=self._wait_fraction(warm_steps),
            warmup_seconds=sum(self.step_seconds[:warm_steps]) if warm_steps else None,
            seconds=self.seconds,
        )

    def _wait_fraction(self, warm_steps: int) -> float | None:
        """As a fraction of the measured steps' time, or of all steps' if none was measured."""
        first = warm_steps if warm_steps < len(self.step_seconds) else 0
        busy_seconds = sum(self.step_seconds[first:])
        return min(1.0, sum(self.wait_seconds[first:]) / busy_seconds) if busy_seconds else None


def skipped_steps(rows: Rows) -> tuple[int, ...]:
    """The numbers of the steps that the loss scaler skipped."""
    found_inf = rows.figures.get("found_inf")
    return () if found_inf is None else tuple(rows.step[found_inf > 0].tolist())


@dataclass(frozen=True)
class Speed:
    """Medians over blocks; each is None where `note` says why.

    `interval` is the 95 % interval of the median over this run's blocks: it shows how steady this run was,
    not what another run would show.
    """

    samples_per_second: float | None = None
    interval: tuple[float, float] | None = None
    step_ms: float | None = None
    note: str | None = None


def speed_of(samples: Sequence[int], seconds: Sequence[float], block_steps: int, warmup_steps: int) -> Speed:
    """The speed of a run from the samples and the seconds of each step.

    Leaves out the first `warmup_steps`, and steps at the end that make no whole block of `block_steps`.
    """
    blocks = max(0, len(seconds) - warmup_steps) // block_steps
    if blocks < LEAST_BLOCKS:
        return Speed(note=_too_short(len(seconds), block_steps, warmup_steps))
    measured = slice(warmup_steps, warmup_steps + blocks * block_steps)
    block_seconds = np.asarray(seconds[measured]).reshape(blocks, block_steps).sum(axis=1)
    block_samples = np.asarray(samples[measured]).reshape(blocks, block_steps).sum(axis=1)
    if not block_seconds.all():
        return Speed(note="The steps were too short for this machine's clock.")
    rates = block_samples / block_seconds
    return Speed(
        samples_per_second=float(np.median(rates)),
        interval=steadiness(rates),
        step_ms=float(np.median(block_seconds) / block_steps * 1e3),
    )


def _too_short(steps: int, block_steps: int, warmup_steps: int) -> str:
    least = warmup_steps + LEAST_BLOCKS * block_steps
    warm_up = f"{warmup_steps:,} to warm up and " if warmup_steps else ""
    return (
        f"The run was too short to measure: it had {steps:,} step{'' if steps == 1 else 's'}, and a speed "
        f"needs {least:,}, {warm_up}{LEAST_BLOCKS} blocks of {block_steps:,}."
    )
