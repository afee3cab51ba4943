"""Memory forecasts, kept beside the store and corrected by measured peaks. No torch."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, linear_regression, median
from typing import Literal

from pydantic import Field, ValidationError

from engine import __version__
from engine.experiment.catalog import SYNTHETIC_REGRESSION
from engine.experiment.experiment import Experiment
from engine.experiment.paths import file_name_of, read_file, write_whole
from engine.experiment.value import Bounded, Message, Mib, Positive
from engine.protocol.events import ForecastMade, Summary
from engine.protocol.trials import MemoryLine, highest_line, needed_mib, upper_hull
from engine.words.names import comparable_settings

Quantity = Literal["allocated", "resident"]
_APART = 1.5  # the slope between batches closer than this drowns in noise


class MeasuredPeak(Message):
    """The peak memory of training in one run or trial at a batch size, to correct a forecast."""

    batch_size: Positive
    peak_mib: Mib
    quantity: Quantity


def calibrated(forecast: ForecastMade, measured: Sequence[MeasuredPeak]) -> ForecastMade:
    """Return the forecast, corrected by measured peaks of the same settings.

    Peaks of clearly different batch sizes correct both the fixed and the per-sample part. With peaks of about
    one batch size, memory above the forecast counts as a library's workspace, the same for every batch.
    Memory below it that missing workspaces cannot explain was saved on each sample, as a compiler does.
    """
    peaks = [peak for peak in measured if peak.quantity == forecast.quantity]
    if not peaks:
        return forecast
    lines = forecast.lines
    errors = [peak.peak_mib - needed_mib(lines, peak.batch_size) for peak in peaks]
    batches = [peak.batch_size for peak in peaks]
    if max(batches) >= _APART * min(batches):
        slope, offset = linear_regression(batches, errors)
        return with_lines(forecast, _moved(lines, offset, slope))
    error = median(errors)
    if error >= -forecast.libraries_mib:
        return with_lines(forecast, _moved(lines, error))
    slimmer = _moved(lines, -forecast.libraries_mib)
    return with_lines(forecast, _slimmed(slimmer, fmean(batches), fmean(peak.peak_mib for peak in peaks)))


def with_lines(forecast: ForecastMade, lines: Sequence[MemoryLine]) -> ForecastMade:
    """Return the forecast with other lines and the numbers that follow from them."""
    hull = upper_hull(lines)
    batch_size = forecast.experiment.batch_size
    decisive = highest_line(hull, batch_size)
    figures = {
        "lines": hull,
        "fixed_mib": decisive.fixed_mib,
        "per_sample_mib": decisive.per_sample_mib,
        "needed_mib": decisive.at(batch_size),
    }
    return forecast.model_copy(update=figures)


def _moved(lines: Sequence[MemoryLine], offset_mib: float, slope_mib: float = 0.0) -> list[MemoryLine]:
    return [
        MemoryLine(
            fixed_mib=line.fixed_mib + offset_mib, per_sample_mib=max(0.0, line.per_sample_mib + slope_mib)
        )
        for line in lines
    ]


def _slimmed(lines: Sequence[MemoryLine], batch_size: float, peak_mib: float) -> list[MemoryLine]:
    decisive = highest_line(lines, round(batch_size))
    grown = decisive.per_sample_mib * batch_size
    if peak_mib <= decisive.fixed_mib or grown <= 0:
        return _moved(lines, peak_mib - decisive.fixed_mib - grown)
    fraction = (peak_mib - decisive.fixed_mib) / grown
    return [line.model_copy(update={"per_sample_mib": line.per_sample_mib * fraction}) for line in lines]


FILE_NAME = "forecasts.json"
_MOST_FORECASTS, _MOST_PEAKS = 200, 16
_NO_MATTER = frozenset(
    (
        *("batch_size", "epochs", "steps", "seed", "memory_cap_gib", "on_nan", "samples", "label_smoothing"),
        *("optimizer.learning_rate", "optimizer.weight_decay", "optimizer.momentum"),
        *("step.clip_norm", "step.autocast_tf32", "data.workers", "data.prefetch", "data.pin_memory"),
        *("data.persistent_workers", "data.augment", "data.skip_broken"),
    )
)
_MATTER_AT_TIMES = frozenset(["optimizer.momentum", "label_smoothing", "samples"])
"""Of those: whether they are 0, or for some data."""
_NO_MATTER_TABLES = ("measure.", "schedule.", "scaler.", "validation.", "checkpoint.")


class _Kept(Bounded, extra="forbid", ser_json_inf_nan="strings"):
    forecasts: dict[str, ForecastMade] = Field(default_factory=dict)
    peaks: dict[str, tuple[MeasuredPeak, ...]] = Field(default_factory=dict)


class Forecasts:
    """The memory forecasts for one machine, in a small file that may be lost, since all can be recomputed.

    A file that is missing, damaged or not a list of forecasts counts as empty. One that is not writable stays
    as it is. `machine` is a remote machine, "" for this one.
    """

    def __init__(self, folder: Path, machine: str = "") -> None:
        name = f"forecasts-{file_name_of(machine)}.json" if machine else FILE_NAME
        self._path = folder / name

    def find(self, experiment: Experiment) -> ForecastMade | None:
        """Return the forecast for the experiment's batch size, corrected by measured peaks, or None."""
        return self.find_all([experiment])[0]

    def find_all(self, experiments: Iterable[Experiment]) -> tuple[ForecastMade | None, ...]:
        """Return the result of `find` for several experiments, reading the file once."""
        kept = self._read()
        return tuple(_found(kept, experiment) for experiment in experiments)

    def peaks(self, experiment: Experiment) -> tuple[MeasuredPeak, ...]:
        """Return the measured peaks of the experiment's settings, at any batch size."""
        kept = self._read()
        forecast = kept.forecasts.get(forecast_key(experiment))
        resolved = experiment if forecast is None else forecast.experiment
        return kept.peaks.get(forecast_key(resolved), ())

    def keep(self, experiment: Experiment, forecast: ForecastMade) -> None:
        """Keep a forecast for an experiment at any batch, also under its resolved settings."""
        kept, keys = self._read(), (forecast_key(experiment), forecast_key(forecast.experiment))
        # the code is in the key, and whoever finds the forecast has it
        without_code = forecast.experiment.model_copy(update={"code": None})
        forecast = forecast.model_copy(update={"experiment": without_code})
        for key in keys:
            kept.forecasts.pop(key, None)
            kept.forecasts[key] = forecast
        while len(kept.forecasts) > _MOST_FORECASTS:
            del kept.forecasts[next(iter(kept.forecasts))]
        self._write(kept)

    def learn(self, resolved: Experiment, batch_size: int, peak_mib: float, quantity: Quantity) -> None:
        """Learn from the training peak of a run or trial with these resolved settings."""
        try:
            peak = MeasuredPeak(batch_size=batch_size, peak_mib=peak_mib, quantity=quantity)
        except ValidationError:
            # not a peak to learn from: out of bounds
            return
        kept = self._read()
        key = forecast_key(resolved)
        before = [known for known in kept.peaks.pop(key, ()) if known.batch_size != batch_size]
        kept.peaks[key] = (*before, peak)[-_MOST_PEAKS:]
        while len(kept.peaks) > _MOST_FORECASTS:
            del kept.peaks[next(iter(kept.peaks))]
        self._write(kept)

    def learn_run(self, resolved: Experiment, summary: Summary) -> None:
        """Learn from a run's training peak, if it has one."""
        if summary.peak_allocated_mib is not None:
            self.learn(resolved, resolved.batch_size, summary.peak_allocated_mib, "allocated")
        elif summary.peak_resident_mib is not None:
            self.learn(resolved, resolved.batch_size, summary.peak_resident_mib, "resident")

    def forget(self) -> None:
        """Delete all forecasts."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _read(self) -> _Kept:
        with suppress(OSError, ValidationError):
            return _Kept.model_validate_json(read_file(self._path))
        return _Kept()

    def _write(self, kept: _Kept) -> None:
        # another window may read it meanwhile
        with suppress(OSError):
            write_whole(self._path, kept.model_dump_json())


def _found(kept: _Kept, experiment: Experiment) -> ForecastMade | None:
    forecast = kept.forecasts.get(forecast_key(experiment))
    if forecast is None:
        return None
    resolved = forecast.experiment.model_copy(
        update={"batch_size": experiment.batch_size, "code": experiment.code}
    )
    asked = forecast.model_copy(update={"experiment": resolved})
    peaks = kept.peaks.get(forecast_key(resolved), ())
    return calibrated(with_lines(asked, asked.lines), peaks)


def may_change_memory(key: str) -> bool:
    """Return True if another value of the setting may have another forecast. All batch sizes share one."""
    return key in _MATTER_AT_TIMES or (key not in _NO_MATTER and not key.startswith(_NO_MATTER_TABLES))


def forecast_key(experiment: Experiment) -> str:
    """Return the identity of a forecast: settings that change memory (no batch), machine, versions."""
    settings = {
        name: value
        for name, value in comparable_settings(experiment).items()
        if name not in _NO_MATTER and not name.startswith(_NO_MATTER_TABLES)
    }
    settings["has_momentum"] = experiment.optimizer.momentum > 0
    settings["is_smoothed"] = experiment.label_smoothing > 0
    settings["samples"] = experiment.samples if experiment.dataset == SYNTHETIC_REGRESSION else None
    settings["where"] = (platform.node(), __version__, _torch_version())
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:24]


@cache
def _torch_version() -> str:
    # finding it parses a page of text, and a window asks several times as a run begins
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""
