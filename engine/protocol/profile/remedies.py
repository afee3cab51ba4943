"""Settings that may make a step faster, as verdicts and advice offer them."""

from __future__ import annotations

from dataclasses import dataclass

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.settings import FAST, RecipePart, joined
from engine.protocol.numerics.advice import Changes
from engine.protocol.profile.bar import StepPart
from engine.protocol.profile.profile import StepProfile

_WORKERS, _MOST_WORKERS = 4, 32
_LEAST_GAIN = 0.05


@dataclass(frozen=True)
class Remedy:
    """`changes` are the settings, `action` labels the button that applies them."""

    changes: Changes
    action: str


def more_workers(experiment: Experiment, profile: StepProfile) -> tuple[Remedy, float] | None:
    """Twice as many processes that load, up to the processor's cores, and the milliseconds that a step takes
    at best with them; None where they would gain nothing."""
    before, cores = experiment.data.workers, profile.cores or _MOST_WORKERS
    workers = min(2 * before or _WORKERS, cores, _MOST_WORKERS)
    least_ms = _least_ms(min(before, cores), workers, profile)
    if workers <= before or least_ms > (1 - _LEAST_GAIN) * profile.step_ms:
        return None
    return Remedy((("data.workers", str(workers)),), f"Load with {workers:,} workers"), least_ms


def _least_ms(before: int, workers: int, profile: StepProfile) -> float:
    """The shortest step with so many loader processes, instead of as many as before.

    Without any, loading takes what the training waits for; with some that do not keep up, it takes all of a
    step in each. A CPU that also trains divides its cores between both.
    """
    wait_ms = profile.bar.ms(StepPart.DATA)
    rest_ms = max(0.0, profile.step_ms - wait_ms)
    loading_ms = before * profile.step_ms if before else wait_ms
    least_ms = max(rest_ms, loading_ms / workers)
    if profile.threads is not None and profile.cores is not None:
        least_ms = max(least_ms, (profile.threads * rest_ms + loading_ms) / profile.cores)
    return least_ms


def kept_on_device(experiment: Experiment) -> Remedy | None:
    """The dataset in the device's memory; None where it is there."""
    if experiment.data.on_device:
        return None
    return Remedy((("data.on_device", "true"),), "Keep it on the device")


def pinned_memory(experiment: Experiment) -> Remedy | None:
    """Batches in pinned memory; None where they are."""
    return None if experiment.data.pin_memory else Remedy((("data.pin_memory", "true"),), "Pin memory")


def fused_optimizer(experiment: Experiment) -> Remedy | None:
    """A fused optimizer; None where it is fused, or the model file's own."""
    settings = experiment.optimizer
    is_fused = settings.fused or (settings.fused is None and "fused" in experiment.step.parts)
    code = experiment.own_code
    if is_fused or (code is not None and "optimizer" in code.defines):
        return None
    return Remedy((("optimizer.fused", "true"),), "Fuse the optimizer")


def fast_recipe(experiment: Experiment, lacking: RecipePart) -> Remedy | None:
    """Everything that speeds a step up; None where the part that would help is there."""
    if lacking in experiment.step.parts:
        return None
    return Remedy((("step.recipe", FAST),), "Use the fast recipe")


def channels_last(experiment: Experiment) -> Remedy | None:
    """Pictures in the layout that suits convolutions; None where they are."""
    parts = experiment.step.parts
    if "channels_last" in parts:
        return None
    return Remedy((("step.recipe", joined({*parts, "channels_last"})),), "Use channels_last")


def larger_batch(experiment: Experiment) -> Remedy:
    """A batch of twice the size."""
    batch = 2 * experiment.batch_size
    return Remedy((("batch_size", str(batch)),), f"Use a batch of {batch:,}")


def other_precision(precision: Precision) -> Remedy:
    """The same training in another precision."""
    return Remedy((("precision", precision.value),), f"Train in {precision.label}")
