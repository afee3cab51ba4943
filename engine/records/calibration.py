"""What was measured corrects what was forecast. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, linear_regression, median
from typing import Literal

from pydantic import BaseModel, ConfigDict

from engine.events import ForecastMade
from engine.memory_lines import MemoryLine, highest_line, needed_mib, upper_hull
from engine.message import Mib, Positive

Quantity = Literal["allocated", "resident"]
_APART = 1.5  # two batches closer than this say nothing of a slope that the noise does not drown


class MeasuredPeak(BaseModel):
    """The training peak of one run or trial."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    batch_size: Positive
    peak_mib: Mib
    quantity: Quantity


def calibrated(forecast: ForecastMade, measured: Sequence[MeasuredPeak]) -> ForecastMade:
    """The forecast as measured peaks of the same settings correct it; without any it is as it was.

    Peaks of batches well apart correct both the fixed part and that of each sample. Peaks of one batch alone:
    what it took more is a library's workspace, the same for every batch; what it took less than can be
    explained by workspaces was saved on each sample, as a compiler does.
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
    """The forecast with other lines, and the figures that follow from them."""
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
    """The lines with less for each sample, so that they meet the peak at that batch."""
    decisive = highest_line(lines, round(batch_size))
    grown = decisive.per_sample_mib * batch_size
    if peak_mib <= decisive.fixed_mib or grown <= 0:
        return _moved(lines, peak_mib - decisive.fixed_mib - grown)
    fraction = (peak_mib - decisive.fixed_mib) / grown
    return [line.model_copy(update={"per_sample_mib": line.per_sample_mib * fraction}) for line in lines]
