"""Forecasts of memory as a worker would send them."""

from __future__ import annotations

from engine.experiment.experiment import Experiment
from engine.protocol.events import ForecastMade
from engine.protocol.trials import MemoryLine


def forecast_made(
    experiment: Experiment, fixed_mib: float, per_sample_mib: float, quantity: str = "resident"
) -> ForecastMade:
    """Return a forecast of memory that grows by so much with each sample."""
    line = MemoryLine(fixed_mib=fixed_mib, per_sample_mib=per_sample_mib)
    parts = ("gradients", "optimizer_state", "activations", "libraries")
    return ForecastMade.model_validate(
        {
            "experiment": experiment,
            "quantity": quantity,
            "parameters_mib": fixed_mib,
            **{f"{part}_mib": 0 for part in parts},
            "fixed_mib": fixed_mib,
            "per_sample_mib": per_sample_mib,
            "needed_mib": line.at(experiment.batch_size),
            "lines": (line,),
            "seconds": 0.1,
        }
    )
