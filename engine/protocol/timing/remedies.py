"""Settings that may make a step faster, as verdicts and advice offer them."""

from __future__ import annotations

from dataclasses import dataclass

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.settings import FAST, RecipePart, joined
from engine.protocol.numerics.advice import Changes

_WORKERS, _MOST_WORKERS = 4, 32


@dataclass(frozen=True)
class Remedy:
    """`changes` are the settings, `action` labels the button that applies them."""

    changes: Changes
    action: str


def more_workers(experiment: Experiment) -> Remedy | None:
    """Twice as many processes that load; None where these would be too many."""
    workers = 2 * experiment.data.workers or _WORKERS
    if workers > _MOST_WORKERS:
        return None
    return Remedy((("data.workers", str(workers)),), f"Load with {workers:,} workers")


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
