"""Makes a race of two recorded runs: which stretch is replayed, and what the comparison says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from engine.compare.comparison import Comparison
from engine.compare.figures import ACCURACY, PEAK_MEMORY, SPEED, Cell, is_comparable
from engine.compare.sides import Side
from engine.curves import Columns
from engine.experiment.catalog import Task
from engine.experiment.value import MIB_PER_GIB
from engine.race.lanes import (
    Lane,
    Stretch,
    ending,
    pair_of,
    part_of,
    playback_rate_of,
    stretches_of,
    whole_of,
)
from engine.race.race import Race, Unit, claim_of, counts_match
from engine.statistics import Interval
from engine.store.record import RunRecord

_UNITS: dict[Task, Unit] = {
    "classification": "images",
    "language": "sequences",
    "regression": "samples",
    "own": "samples",
}


def race_of(comparison: Comparison, curves: Mapping[str, Columns], side_id: str | None = None) -> Race:
    """The race of a side against the comparison's baseline; `curves` are the samples of each run by its id.

    `side_id` is the id of any run of the side. By default it is the first side under autocast that can be
    replayed, else the first other one. Raises ProblemError if there is no such side, or nothing to replay.
    """
    full, mixed = pair_of(comparison, curves, side_id)
    cells, base_cells = comparison.cells(mixed.side.id), comparison.cells(full.side.id)
    speed, report = cells[SPEED.name], comparison.report(mixed.side.id)
    ratio = _sound(speed.ratio)
    interval = None if ratio is None else _sound_interval(speed.ratio_interval)
    stretch, full, mixed, seconds = _replayed(full, mixed, claim_of(full, mixed, ratio, interval, report))
    return Race(
        full=full,
        mixed=mixed,
        samples=stretch.samples,
        block_samples=stretch.block_samples,
        blocks=stretch.blocks,
        seconds=seconds,
        playback_rate=playback_rate_of(seconds),
        ratio=ratio,
        ratio_interval=interval,
        repeats=(_known(base_cells[SPEED.name]), _known(speed)),
        memory_ratio=_sound(cells[PEAK_MEMORY.name].ratio),
        peaks_mib=_peaks_mib(comparison, full.side, mixed.side),
        accuracy=_accuracy(cells[ACCURACY.name], full.side, mixed.side),
        doubts=report.doubts,
        report=report,
        reason=report.verdict.reason,
        unit=_unit(full.run, mixed.run),
        is_cpu=all(_is_on_cpu(lane.run) for lane in (full, mixed)),
        device=" and ".join(dict.fromkeys(_device(lane.run) for lane in (full, mixed))),
        pictured=tuple(
            dict.fromkeys(run.id for run in (full.run, mixed.run, *full.side.runs, *mixed.side.runs))
        ),
        tensor_percent=_tensor_percent(full.side, mixed.side),
    )


def _replayed(full: Lane, mixed: Lane, ratio: float | None) -> tuple[Stretch, Lane, Lane, float]:
    """The stretch, its two lanes and its end: a part whose counts match the ratio, else the whole."""
    for stretch in stretches_of(full, mixed):
        parts = _parts(full, mixed, stretch.samples, ratio)
        seconds = _end(*parts, stretch.samples)
        if counts_match(*parts, seconds, ratio):
            break
    else:
        stretch, parts = whole_of(full, mixed), (full, mixed)
        seconds = _end(*parts, stretch.samples)
    full, mixed = (
        replace(part, stopped=ending(part.run)) if _goes_no_further(lane, stretch.samples, seconds) else part
        for lane, part in zip((full, mixed), parts, strict=True)
    )
    return stretch, full, mixed, seconds


def _parts(full: Lane, mixed: Lane, samples: int, ratio: float | None) -> tuple[Lane, Lane]:
    """The faster lane where its pace is its mean speed, and the other where the counts match the ratio."""
    is_mixed_ahead = mixed.speed >= full.speed if ratio is None else ratio >= 1
    ahead, behind = (mixed, full) if is_mixed_ahead else (full, mixed)
    ahead = part_of(ahead, samples, samples / ahead.speed)
    seconds = _end(ahead, behind, samples)
    by = behind.speed / ahead.speed if ratio is None else min(ratio, 1.0 / ratio)
    behind = part_of(behind, by * ahead.samples_at(seconds), seconds)
    return (behind, ahead) if is_mixed_ahead else (ahead, behind)


def _end(full: Lane, mixed: Lane, samples: int) -> float:
    """When the first of the two has trained that many samples, or goes no further."""
    ends = [(lane.seconds_to(samples), float(lane.seconds[-1])) for lane in (full, mixed)]
    return min(last if finish is None else finish for finish, last in ends)


def _goes_no_further(lane: Lane, samples: int, seconds: float) -> bool:
    return lane.seconds_to(samples) is None and float(lane.seconds[-1]) <= seconds


def _sound(ratio: float | None) -> float | None:
    # what diverged or was damaged cannot be shown
    return ratio if ratio is not None and math.isfinite(ratio) and ratio > 0 else None


def _sound_interval(interval: Interval | None) -> Interval | None:
    is_sound = interval is not None and all(_sound(end) is not None for end in interval)
    return interval if is_sound else None


def _known(cell: Cell) -> int:
    return sum(value is not None for value in cell.values)


def _peaks_mib(comparison: Comparison, full: Side, mixed: Side) -> tuple[float | None, float | None]:
    if not is_comparable(PEAK_MEMORY, mixed, full):
        return None, None
    row = next(row for row in comparison.figures if row.figure.name == PEAK_MEMORY.name)
    scale = MIB_PER_GIB if row.figure.unit == "GiB" else 1.0
    values = [row.cells[comparison.sides.index(side)].value for side in (full, mixed)]
    peaks = [None if (sound := _sound(value)) is None else sound * scale for value in values]
    return peaks[0], peaks[1]


def _tensor_percent(full: Side, mixed: Side) -> tuple[float, float] | None:
    """The means over the repeats."""
    means = []
    for side in (full, mixed):
        summaries = (run.summary for run in side.runs)
        known = [summary.tensor_activity_percent for summary in summaries if summary is not None]
        shares = [share for share in known if share is not None and 0 <= share <= 100]
        if not shares:
            return None
        means.append(sum(shares) / len(shares))
    return means[0], means[1]


_CLOSE_POINTS = 1.0
"""Accuracies closer than this many percentage points are about the same, even from one run each."""


def _accuracy(cell: Cell, full: Side, mixed: Side) -> str:
    if cell.difference is None or not math.isfinite(cell.difference) or not _learned_alike(full, mixed):
        return ""
    is_close = abs(cell.difference) < _CLOSE_POINTS
    if is_close:
        return "same accuracy" if cell.within_spread else "about the same accuracy"
    if cell.within_spread:
        return "accuracy no further apart than repeats are"
    if cell.within_spread is None:
        return ""
    return "higher accuracy" if cell.difference > 0 else "lower accuracy"


_AS_LONG = 0.9


def _learned_alike(full: Side, mixed: Side) -> bool:
    """Whether the accuracies can be compared: all trained about as long, and none met NaN."""
    known = [(run, run.summary) for run in (*full.runs, *mixed.runs) if ACCURACY.value(run) is not None]
    if any(summary is not None and summary.first_nan_step is not None for _, summary in known):
        return False
    trained = [run.experiment.step_samples * summary.steps for run, summary in known if summary is not None]
    return min(trained, default=0) >= _AS_LONG * max(trained, default=0)


def _unit(*runs: RunRecord) -> Unit:
    units = {_unit_of(run) for run in runs}
    return units.pop() if len(units) == 1 else "samples"


def _unit_of(run: RunRecord) -> Unit:
    return _UNITS[run.experiment.dataset.task]


def _is_on_cpu(run: RunRecord) -> bool:
    return run.experiment.device == "cpu"


def _device(run: RunRecord) -> str:
    return run.environment.device_name if run.environment is not None else "an unknown device"
