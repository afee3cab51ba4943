"""The pair of experiments that the demo trains, which suits this machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from engine.experiment.catalog import Catalog, DeviceEntry, Precision
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.value import MIB_PER_GIB

TITLE = "Demo"
SLOWER_SECONDS = 14.0  # how long the slower of the two trains
_PILOT_STEPS, _MOST_STEPS = 20, 20_000
_LARGE_CARD_MIB = 0.95 * 12 * MIB_PER_GIB  # a card sold with 12 GiB reports a little less


@dataclass(frozen=True)
class Showcase:
    """The two experiments of the demo, full precision first, with their labels. `why` says what to expect."""

    title: str
    sides: tuple[tuple[str, Experiment], ...]
    why: str

    def pilot(self) -> Showcase:
        """Return the same pair for a few steps each, to measure how fast this machine is."""
        experiment = self.sides[0][1]
        steps = experiment.measure.warmup_steps + _PILOT_STEPS
        unvalidated = experiment.validation.model_copy(update={"every": 0})
        return self._with({"steps": steps, "epochs": None, "validation": unvalidated})

    def of_pace(self, steps_per_second: float) -> Showcase:
        """Return the pair with the steps that its slower run, at this pace, trains in `SLOWER_SECONDS`."""
        steps = min(round(SLOWER_SECONDS * steps_per_second), _MOST_STEPS)
        return self._with({"steps": max(self.sides[0][1].least_steps, steps), "epochs": None})

    def matches(self, experiments: Iterable[Experiment]) -> bool:
        """Return True if `experiments` are this showcase's pair, of any length."""
        own = {experiment.model_copy(update=_IGNORED) for _, experiment in self.sides}
        return {experiment.model_copy(update=_IGNORED) for experiment in experiments} == own

    def _with(self, settings: dict[str, Any]) -> Showcase:
        sides = tuple((label, experiment.model_copy(update=settings)) for label, experiment in self.sides)
        return Showcase(self.title, sides, self.why)


def showcase(catalog: Catalog) -> Showcase:
    """Return the pair that suits the first device of this machine."""
    device = catalog.devices[0]
    settings, mixed = _ON_CPU, Precision.BF16
    if device.is_gpu:
        is_large = device.memory_mib >= _LARGE_CARD_MIB and device.tensor_cores
        settings, mixed = _LARGE if is_large else _SMALL, Precision.FP16
    if not device.precision(mixed).available:
        mixed = Precision.BF16 if mixed is Precision.FP16 else Precision.FP16
    base = experiment_from({**_COMMON, **settings, "device": device.name})
    sides = (base, base.model_copy(update={"precision": mixed}))
    labelled = tuple((experiment.precision.label, experiment) for experiment in sides)
    return Showcase(TITLE, labelled, _why(device, mixed))


def pace_of(experiment: Experiment, samples_per_second: ArrayLike) -> float | None:
    """Return the steps per second of a run, the median after the warm-up. None without such steps."""
    speeds = np.asarray(samples_per_second, dtype=np.float64)[experiment.measure.warmup_steps :]
    usable = speeds[np.isfinite(speeds) & (speeds > 0)]
    return float(np.median(usable)) / experiment.step_samples if len(usable) else None


def _why(device: DeviceEntry, mixed: Precision) -> str:
    note = device.precision(mixed).note
    if device.is_gpu:
        if device.tensor_cores:
            return "This GPU has Tensor Cores, which multiply 16-bit numbers several times as fast."
        if note is None:
            # not an NVIDIA GPU: it has units and rules of its own
            return "On most GPUs mixed precision saves memory and time. The replay shows its effect here."
        return "This GPU has no Tensor Cores, so mixed precision saves memory here, and likely little time."
    if note is None:
        return "This CPU computes with 16-bit numbers, so mixed precision should be faster here too."
    return f"Mixed precision {note}, so it is probably slower. The replay shows by how much."


_COMMON: dict[str, Any] = {
    "dataset": "fashion",
    "precision": Precision.FP32,
    "optimizer": {"name": "adamw", "learning_rate": 1e-3},
    # so that even a slow machine completes a measurement in few steps
    "measure": {"warmup_steps": 5, "block_steps": 5},
    # once, at the end: the accuracy is as honest, and nobody waits for it after each epoch
    "validation": {"every": 1_000},
}
_Settings = dict[str, Any]
_CARD: _Settings = {"step": {"recipe": "channels_last+fused"}}
_LARGE: _Settings = {**_CARD, "model": "resnet50", "image_size": 224, "batch_size": 64}
_SMALL: _Settings = {**_CARD, "model": "resnet18", "image_size": 128, "batch_size": 32}
_ON_CPU: _Settings = {"model": "small-cnn", "batch_size": 64}
# known only after the pilot, or once a run has begun on its dataset
_IGNORED: dict[str, Any] = {"steps": None, "epochs": None, "image_size": None, "num_classes": None}
