"""Completed steps as the event that tells of them."""

from __future__ import annotations

from engine.events import Samples
from engine.training.measuring.telemetry import Rows

_OWN_FIGURES = ("loss", "grad_scale", "grad_norm")


def samples_of(rows: list[Rows], now: dict[str, float]) -> Samples:
    """Completed steps as one `Samples` event; the figures of now stand in each of its rows."""
    columns: dict[str, list[float]] = {}
    for part in rows:
        own = {
            "step": part.step,
            "seconds": part.seconds,
            "samples_per_second": part.samples / part.step_seconds,
            "learning_rate": part.learning_rate,
            "data_wait_ms": part.wait_seconds * 1e3,
            **{name: part.figures[name] for name in _OWN_FIGURES if name in part.figures},
        }
        for name, values in own.items():
            columns.setdefault(name, []).extend(values.tolist())
    length = len(columns["step"])
    columns |= {name: [value] * length for name, value in now.items()}
    return Samples.model_validate({name: tuple(column) for name, column in columns.items()})
