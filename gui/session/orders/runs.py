"""The studies that saved runs allow."""

from __future__ import annotations

from collections.abc import Sequence

from engine.experiment.checks import Catalog, look_at_nothing, problems
from engine.experiment.experiment import Precision
from engine.experiment.settings import PLAIN
from engine.protocol.numerics.nonfinite import SKIPS_IN_A_ROW
from engine.protocol.profiles import MOST_SIDES
from engine.store.record import RunRecord


def baseline_first(runs: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
    """The runs as they are set side by side: plain ones in strict FP32 first, then the oldest."""

    def place(run: RunRecord) -> tuple[bool, bool, int]:
        experiment = run.experiment
        return experiment.precision is not Precision.FP32, experiment.step.recipe != PLAIN, run.number

    return tuple(sorted(runs, key=place))


def why_not_profiled(runs: Sequence[RunRecord], catalog: Catalog | None) -> str | None:
    """Why these runs cannot be profiled side by side here, in a sentence; None if they can."""
    if catalog is None:
        return "Ammeter is still looking at this machine."
    if not 1 <= len(runs) <= MOST_SIDES:
        return f"Up to {MOST_SIDES} runs can be profiled side by side."
    return next(filter(None, (_obstacle(run, catalog) for run in runs)), None)


def _obstacle(run: RunRecord, catalog: Catalog) -> str | None:
    device, machine = catalog.device(run.experiment.device), run.environment
    if device is not None and machine is not None and device.title != machine.device_name:
        return f"“{run.name}” trained on {machine.device_name}, which is not in this machine."
    against = problems(run.experiment, catalog, look_at_nothing)
    return f"“{run.name}” cannot be trained here: {against[0].message}" if against else None


def why_nothing_to_find(run: RunRecord) -> str | None:
    """Why there is no NaN or Inf of a run to look for, in a sentence; None if there is."""
    if not run.status.is_over:
        return "It has not ended yet."
    summary = run.summary
    if summary is None:
        return "It was not recorded whether it met a NaN."
    if summary.first_nan_step is None and (summary.skipped_steps or 0) < SKIPS_IN_A_ROW:
        return "It met no NaN, and its loss scaler did not skip step after step."
    return None
