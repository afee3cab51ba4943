"""The curves of a chart."""

from __future__ import annotations

import numpy as np

from engine.events import Epoch
from engine.exports.content import Content
from engine.exports.curves import Curve, Points, _bounds, smoothed
from engine.exports.smoothing import Values
from engine.records.blocks import Columns
from engine.records.record import RunRecord
from engine.records.sides import Side


def loss_curves(content: Content) -> tuple[Curve, ...]:
    """The training loss of every run that has samples."""
    found = (
        loss_curve(content.curves[run.id], run, side, repeat)
        for side in content.comparison.sides
        for repeat, run in enumerate(side.runs)
    )
    return tuple(curve for curve in found if curve is not None)


def loss_curve(columns: Columns, run: RunRecord, side: Side, repeat: int) -> Curve | None:
    """A run's training loss from its samples; None where it has none."""
    if not len(columns.get("step", ())):
        return None
    whole = _points(columns, columns["loss"], run)
    low, high = _bounds(whole)
    return Curve(run, side, repeat, smoothed(whole), low, high)


def accuracy_curves(content: Content) -> tuple[Curve, ...]:
    """The validation accuracy in per cent of every run that was validated, one point an epoch."""
    curves = []
    for side in content.comparison.sides:
        for repeat, run in enumerate(side.runs):
            epochs = [one for one in content.epochs(run.id) if one.validation_accuracy is not None]
            if epochs:
                points = _by_epoch(epochs, run)
                curves.append(Curve(run, side, repeat, points, points, points))
    return tuple(curves)


def _points(columns: Columns, values: Values, run: RunRecord) -> Points:
    steps = np.asarray(columns["step"], dtype=np.float64)
    seconds = np.asarray(columns["seconds"], dtype=np.float64)
    return Points(steps, seconds, steps * run.experiment.step_samples, np.asarray(values, dtype=np.float64))


def _by_epoch(epochs: list[Epoch], run: RunRecord) -> Points:
    steps = np.array([one.step for one in epochs], dtype=np.float64)
    return Points(
        steps=steps,
        seconds=np.array([one.seconds for one in epochs]),
        samples=steps * run.experiment.step_samples,
        values=np.array([100.0 * (one.validation_accuracy or 0.0) for one in epochs]),
    )

