"""What a comparison with repeats shows: speed-ups with their interval, memory and accuracy, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.records.comparison import training_peak
from engine.records.record import RunRecord, Status
from engine.records.verdict import Facts, verdict

_RESAMPLES = 2_000
_COVERED_PERCENT = 95.0

Samples = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Variant:
    """One side of a comparison, measured against the baseline; what does not apply is None.

    `speedup` is how many times as fast; `speedup_ci` its 95 % interval, None with fewer than two repeats of
    either side. `memory_ratio` is of training peaks of one quantity. `accuracy_delta` is a fraction.
    `clean`: every run finished with a speed, on the same device and torch as the baseline.
    """

    label: str
    ids: tuple[str, ...]
    speedup: float | None
    speedup_ci: tuple[float, float] | None
    memory_ratio: float | None
    accuracy_delta: float | None
    clean: bool
    verdict: str


def variants(runs: Sequence[RunRecord], samples: Mapping[str, Samples], baseline: str) -> tuple[Variant, ...]:
    """The runs by their label, each against the label `baseline`, which comes first.

    `samples` holds the columns of each run by its id. Raises KeyError for a baseline that no run is of.
    """
    groups: dict[str, list[RunRecord]] = {}
    for run in runs:
        groups.setdefault(run.label or run.experiment.precision.label, []).append(run)
    base = groups.pop(baseline)
    base_blocks = [block_speeds(run, samples.get(run.id, {})) for run in base]
    found = [_variant(baseline, base, base, baseline, None)]
    for label, group in groups.items():
        blocks = [block_speeds(run, samples.get(run.id, {})) for run in group]
        found.append(_variant(label, group, base, baseline, speedup_interval(blocks, base_blocks)))
    return tuple(found)


def block_speeds(run: RunRecord, samples: Samples) -> NDArray[np.float64]:
    """Samples per second of each whole block of `measure.block_steps` steps after warm-up.

    Of a block that is the harmonic mean over its steps: samples by time, for batches of one size.
    """
    speeds = samples.get("samples_per_second")
    measure = run.experiment.measure
    if speeds is None:
        return np.empty(0)
    counted = np.asarray(speeds, dtype=np.float64)[measure.warmup_steps :]
    whole = len(counted) // measure.block_steps * measure.block_steps
    blocks = counted[:whole].reshape(-1, measure.block_steps)
    usable = blocks[np.all(np.isfinite(blocks) & (blocks > 0), axis=1)]
    return np.asarray(1.0 / np.mean(1.0 / usable, axis=1), dtype=np.float64)


def speedup_interval(
    blocks: Sequence[NDArray[np.float64]], base_blocks: Sequence[NDArray[np.float64]], seed: int = 0
) -> tuple[float, float] | None:
    """The 95 % interval of a speed-up from the block speeds of each repeat; None with one repeat.

    A hierarchical bootstrap: repeats are drawn with replacement, then the blocks within each; a side's speed
    is the median over repeats of the median over blocks (Davison and Hinkley, Bootstrap Methods and their
    Application, 1997, section 3.8).
    """
    if min(len(blocks), len(base_blocks)) < 2 or any(not len(one) for one in (*blocks, *base_blocks)):
        return None
    generator = np.random.default_rng(seed)
    ratios = _resampled(blocks, generator) / _resampled(base_blocks, generator)
    outside = (100.0 - _COVERED_PERCENT) / 2
    low, high = np.percentile(ratios, [outside, 100.0 - outside])
    return float(low), float(high)


def _resampled(repeats: Sequence[NDArray[np.float64]], generator: np.random.Generator) -> NDArray[np.float64]:
    """The side's speed in each resample."""
    medians = np.empty((_RESAMPLES, len(repeats)))
    for row in range(_RESAMPLES):
        for column, index in enumerate(generator.integers(len(repeats), size=len(repeats))):
            blocks = repeats[index]
            medians[row, column] = np.median(blocks[generator.integers(len(blocks), size=len(blocks))])
    return np.asarray(np.median(medians, axis=1), dtype=np.float64)


def _variant(
    label: str,
    group: list[RunRecord],
    base: list[RunRecord],
    baseline: str,
    interval: tuple[float, float] | None,
) -> Variant:
    speed, base_speed = _median_speed(group), _median_speed(base)
    accuracies, base_accuracies = _accuracies(group), _accuracies(base)
    speedup = speed / base_speed if speed is not None and base_speed else None
    memory_ratio = _memory_ratio(group, base)
    delta = float(np.mean(accuracies) - np.mean(base_accuracies)) if accuracies and base_accuracies else None
    facts = Facts(
        label=label,
        baseline=baseline,
        is_baseline=group is base,
        repeats=min(len(group), len(base)),
        speed=speed,
        speedup=speedup,
        interval=interval,
        memory_ratio=memory_ratio,
        accuracies=accuracies,
        base_accuracies=base_accuracies,
        trouble=_trouble([*group, *base]),
    )
    return Variant(
        label=label,
        ids=tuple(run.id for run in group),
        speedup=speedup,
        speedup_ci=interval if speedup is not None else None,
        memory_ratio=memory_ratio,
        accuracy_delta=delta,
        clean=facts.trouble is None and speedup is not None,
        verdict=verdict(facts),
    )


def _median_speed(group: list[RunRecord]) -> float | None:
    speeds = [run.summary.samples_per_second for run in group if run.summary is not None]
    known = [speed for speed in speeds if speed is not None]
    return float(np.median(known)) if known and len(known) == len(group) else None


def _accuracies(group: list[RunRecord]) -> tuple[float, ...]:
    found = [run.summary.final_validation_accuracy for run in group if run.summary is not None]
    return tuple(accuracy for accuracy in found if accuracy is not None)


def _memory_ratio(group: list[RunRecord], base: list[RunRecord]) -> float | None:
    peaks, base_peaks = [training_peak(run) for run in group], [training_peak(run) for run in base]
    known = [peak for peak in (*peaks, *base_peaks) if peak is not None]
    if len(known) < len(group) + len(base) or len({quantity for quantity, _ in known}) != 1:
        return None
    mine = float(np.median([mib for _, mib in known[: len(group)]]))
    theirs = float(np.median([mib for _, mib in known[len(group) :]]))
    return mine / theirs if theirs else None


def _trouble(runs: list[RunRecord]) -> str | None:
    """Why no clean ratio can be drawn from these runs, as the end of a sentence."""
    for run in runs:
        side = run.label or run.experiment.precision.label
        if run.status is not Status.FINISHED:
            reason = f": {run.problem.message.rstrip('.')}" if run.problem else ""
            return f"{run.name} ({side}) {_ENDINGS[run.status]}{reason}"
        if run.summary is None or run.summary.samples_per_second is None:
            note = run.summary.speed_note if run.summary else None
            return f"{run.name} ({side}) has no speed" + (f": {note.rstrip('.')}" if note else "")
    for run in runs:
        if run.summary is not None and run.summary.speed_note:
            return f"in {run.name} ({run.label or run.experiment.precision.label}) {run.summary.speed_note}"
    for attribute, noun in (("device_name", "devices"), ("torch", "versions of torch")):
        if len({getattr(run.environment, attribute, None) for run in runs}) > 1:
            return f"the runs were measured with different {noun}"
    return None


_ENDINGS = {
    Status.QUEUED: "has not run yet",
    Status.RUNNING: "is still running",
    Status.STOPPED: "was stopped before its end",
    Status.FAILED: "failed",
    Status.INTERRUPTED: "was interrupted",
}
