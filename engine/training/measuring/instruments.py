"""What is read beside a run's steps: memory and its parts, the card, and other programs on the processor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import torch

from engine.busyness import OtherPrograms
from engine.training.measuring.breakdown import activations_of, breakdown_of
from engine.training.measuring.card import CardGauge
from engine.training.measuring.contention import contention_note
from engine.training.measuring.memory import MemoryMeter
from engine.training.measuring.speed import Speed
from engine.training.steps.plain import TrainingStep


class Instruments:
    """All that a run reads besides its steps' own figures. `memory` was made before the model."""

    def __init__(self, device: torch.device, memory: MemoryMeter, card: CardGauge) -> None:
        self._device = device
        self._memory = memory
        self._card = card
        self._others = OtherPrograms() if device.type == "cpu" else None
        self._activations_mib: float | None = None

    def close(self) -> None:
        """Ends the thread that asks the card."""
        self._card.close()

    def count(self, is_measured: bool, *, is_capturing: bool = False) -> None:
        """Says whether what follows belongs to the measurement, or is the capture of a step."""
        self._memory.count(is_measured, captures=is_capturing)
        self._card.count(is_measured)
        if self._others is not None:
            self._others.count(is_measured)

    def settle(self) -> None:
        """Before the last step of the warm-up: gives back what only the steps before it needed."""
        self._memory.settle()

    def now(self) -> dict[str, float]:
        """The columns of a `Samples` event that are of this moment."""
        return {**self._memory.sample(), **self._card.sample()}

    @contextmanager
    def weighing(self, step: TrainingStep) -> Iterator[None]:
        """Around one eager step: measures what its forward leaves for its backward."""
        with activations_of(step.watched, self._device) as meter:
            yield
        self._activations_mib = meter.mib

    def figures(self, step: TrainingStep) -> dict[str, Any]:
        """Those fields of a `Summary` that the instruments know."""
        peaks, card = self._memory.peaks(), asdict(self._card.figures())
        card.pop("slowed_by")
        parts = breakdown_of(step.model, step.optimizer, self._activations_mib)
        peak_mib = peaks.resident_mib if self._device.type == "cpu" else peaks.allocated_mib
        return {
            "peak_allocated_mib": peaks.allocated_mib,
            "peak_reserved_mib": peaks.reserved_mib,
            "whole_run_peak_mib": peaks.whole_run_mib,
            "peak_resident_mib": peaks.resident_mib,
            **asdict(parts),
            "other_mib": parts.other_mib(peak_mib),
            **card,
        }

    def with_note(self, speed: Speed) -> Speed:
        """The speed, with what it suffered from."""
        if speed.samples_per_second is None:
            return speed
        note = None if self._others is None else contention_note(self._others.share())
        slowed = self._card.figures().slowed_by
        if slowed:
            note = f"the card's clocks were held down by {' and '.join(slowed)}"
        return replace(speed, note=note)
