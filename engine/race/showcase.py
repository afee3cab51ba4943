"""The pair of experiments that the demo trains: one that suits this machine and takes about a minute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from engine.experiment.catalog import Catalog, DeviceEntry, Precision
from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.library_models import ModelRef
from engine.experiment.problem import Problem, request_problem
from engine.experiment.value import MIB_PER_GIB

TITLE = "Demo"
MOST_ATTEMPTS = 4  # the most starts of a pair: a machine whose pace keeps changing would keep people waiting


@dataclass(frozen=True)
class Span:
    """The shortest, wanted and longest duration of a run in the demo, in seconds.

    A run between the shortest and the longest keeps its number of steps.
    """

    shortest: float
    wanted: float
    longest: float


FIRST, SHORTENED, SECOND = Span(5.0, 9.0, 18.0), Span(0.0, 9.0, 18.0), Span(0.0, 18.0, 27.0)
"""FIRST is for full precision: long enough to watch and measure. SHORTENED is for it after a cut for the sake
of mixed precision, which has as many steps: it does not grow again. SECOND is for mixed precision."""

PATIENCE_SECONDS = 45.0  # the longest that anybody has to watch the fewest steps of the smallest workload
LENGTHENED = Span(0.0, 27.0, PATIENCE_SECONDS)  # for a pair measured again since its race would be too short
LEAST_RACE_SECONDS = 2.0  # of either run: in less, a single hold-up decides which is faster
_LARGE_CARD_MIB = 0.95 * 12 * MIB_PER_GIB  # a card sold with 12 GiB reports a little less
_AIMED_RACE_SECONDS = 3.0
_RESTART_SECONDS = 4.0
_LEAST_COUNTED, _LEAST_SECONDS, _LEAST_WARM_SECONDS = 5, 1.0, 3.0


@dataclass(frozen=True)
class Showcase:
    """The two experiments of the demo, full precision first, with their labels. `why` says what to expect."""

    title: str
    sides: tuple[tuple[str, Experiment], ...]
    why: str

    def of_length(self, like: Experiment) -> Showcase:
        """Return the pair with the steps of `like` on both sides."""
        return self._with({"steps": like.steps})

    def lighter(self) -> Showcase | None:
        """Return the pair with the next smaller workload. None after the smallest."""
        experiment = self.sides[0][1]
        own = (
            all(getattr(experiment, key) == value for key, value in workload.items() if key != "steps")
            for workload in _WORKLOADS
        )
        place = next((number for number, is_own in enumerate(own) if is_own), None)
        if place is None or place + 1 >= len(_WORKLOADS):
            return None
        return self._with({"image_size": None, **_WORKLOADS[place + 1]})

    def matches(self, experiments: Iterable[Experiment]) -> bool:
        """Return True if `experiments` are this showcase's pair, of any length and workload."""
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


def adapted(
    case: Showcase, span: Span, steps_per_second: float | None, done: int, other_pace: float | None = None
) -> Showcase | Problem | None:
    """Return the pair to restart with, after `done` steps of a run of `case`. None if the run may continue.

    A run too short to watch gets more steps, a run too long gets fewer. If even the fewest take too long, it
    gets a smaller workload. A Problem means that this machine is too busy for the smallest. The pace is None
    where it was too slow to measure. The other run, at `other_pace`, must last long enough for a replay.
    """
    experiment = case.sides[0][1]
    left = (experiment.steps or 0) - done
    if left <= 0:
        return None
    if steps_per_second is None:
        return case.lighter() or busy(experiment, done)
    least = experiment.least_steps
    # what is nearly done ends sooner than a new start
    if min(left, least) / steps_per_second > span.longest and (lighter := case.lighter()) is not None:
        return lighter
    if least / steps_per_second > PATIENCE_SECONDS:
        return busy(experiment, done) if is_hopeless(experiment, steps_per_second, done) else None
    fewest = 0 if other_pace is None else _steps_of_race(experiment, other_pace)
    better = _better_fitted(experiment, span, steps_per_second, done, fewest)
    return None if better is None else case.of_length(better)


def lengthened(case: Showcase, paces: tuple[float, float]) -> Showcase | None:
    """Return the pair to measure again if its replay at these steps per second is too short, else None."""
    experiment, fastest, slowest = case.sides[0][1], max(paces), min(paces)
    counted = (experiment.steps or 0) - experiment.measure.warmup_steps
    if counted / fastest >= LEAST_RACE_SECONDS:
        return None
    steps = max(_steps_of_race(experiment, fastest), round(slowest * FIRST.wanted))
    return case.of_length(experiment.model_copy(update={"steps": steps, "epochs": None}))


def _steps_of_race(experiment: Experiment, steps_per_second: float) -> int:
    return experiment.measure.warmup_steps + round(steps_per_second * _AIMED_RACE_SECONDS)


_CLOSE_PROGRAMS = "Close programs that use the CPU or the GPU, then try again."
TOO_SHORT = request_problem(
    "This machine's speed keeps changing, so every replay ended too early.",
    _CLOSE_PROGRAMS,
)
"""The reason that the demo gives after too many starts."""


def is_hopeless(experiment: Experiment, steps_per_second: float | None, done: int) -> bool:
    """Return True if a run should be stopped: it has too few steps for a speed and will not end soon."""
    if done >= min(experiment.steps or 0, experiment.least_steps):
        return False
    left = (experiment.steps or 0) - done
    return steps_per_second is None or left / steps_per_second > PATIENCE_SECONDS


def busy(experiment: Experiment, done: int) -> Problem:
    """Return the reason that nothing was measured: the machine is too slow now."""
    least = experiment.least_steps
    progress = f" Only {done:,} of {least:,} steps were done." if done < least else ""
    return request_problem(f"This machine is busy.{progress} The rest would take too long.", _CLOSE_PROGRAMS)


def pace_of(
    experiment: Experiment, samples_per_second: ArrayLike, least_seconds: float | None = None
) -> float | None:
    """Return the steps per second. None while the steps are few, or took under `least_seconds`.

    The warm-up counts only if it takes seconds by itself.
    """
    least_seconds = _LEAST_SECONDS if least_seconds is None else least_seconds
    speeds = np.asarray(samples_per_second, dtype=np.float64)
    warmup = experiment.measure.warmup_steps
    counted = _seconds(experiment, speeds[warmup:])
    if len(counted) >= _LEAST_COUNTED and counted.sum() >= least_seconds:
        return float(len(counted) / counted.sum())
    # the first step loads and chooses kernels, so it says nothing of the others
    warm = _seconds(experiment, speeds[1:warmup])
    if len(warm) and warm.sum() >= _LEAST_WARM_SECONDS:
        return float(len(warm) / warm.sum())
    return None


def _better_fitted(
    experiment: Experiment, span: Span, steps_per_second: float, done: int, fewest: int
) -> Experiment | None:
    steps = experiment.steps or done
    expected, left = steps / steps_per_second, (steps - done) / steps_per_second
    if span.shortest <= expected <= span.longest:
        return None
    wanted = round(steps_per_second * max(span.wanted, fewest / steps_per_second))
    better = experiment.model_copy(update={"steps": max(experiment.least_steps, wanted), "epochs": None})
    would_take = _RESTART_SECONDS + (better.steps or 0) / steps_per_second
    if expected > span.longest and would_take >= left:
        return None
    return better if better.steps != experiment.steps else None


def _seconds(experiment: Experiment, speeds: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    usable = speeds[np.isfinite(speeds) & (speeds > 0)]
    return experiment.step_samples / usable


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
_LARGE: _Settings = {**_CARD, "model": "resnet50", "image_size": 224, "batch_size": 64, "steps": 120}
_SMALL: _Settings = {**_CARD, "model": "resnet18", "image_size": 128, "batch_size": 32, "steps": 300}
_ON_CPU: _Settings = {"model": "small-cnn", "batch_size": 64, "steps": 500}
_ON_SLOW_CPU: _Settings = {"model": "small-cnn", "batch_size": 8, "steps": 100}
_WORKLOADS = tuple(
    {**{key: value for key, value in workload.items() if key != "step"}, "model": ModelRef(workload["model"])}
    for workload in (_LARGE, _SMALL, _ON_CPU, _ON_SLOW_CPU)
)
"""The workloads, from the heaviest to the lightest."""
_IGNORED: dict[str, Any] = {
    "model": "",
    "image_size": None,
    # a run that has begun is saved with the classes of its dataset
    "num_classes": None,
    "batch_size": 1,
    "steps": None,
    "epochs": None,
}
