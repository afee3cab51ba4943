"""Like against like: which figures of two sides count the same thing."""

from __future__ import annotations

from collections.abc import Callable

from engine.records.figures import ACCURACY, PEAK_MEMORY, SPEED, Figure, training_peak
from engine.records.record import RunRecord
from engine.records.sides import Side


def is_alike(figure: Figure, side: Side, baseline: Side) -> bool:
    """Whether the figure of one may be set against that of the other.

    Never allocated memory against resident memory, samples that are pictures against samples that are texts,
    the time of a short training against that of a long one, or accuracies on two datasets.
    """
    count = _COUNTS.get(figure.name)
    if count is None:
        return True
    counted = {count(run) for run in (*side.runs, *baseline.runs) if figure.value(run) is not None}
    return len(counted) <= 1


def _sample(run: RunRecord) -> object:
    """What one sample is: a picture or a row, or a text of so many tokens."""
    experiment = run.experiment
    is_text = experiment.model.startswith("causal-lm")
    return experiment.sequence_length if is_text else None


def _step(run: RunRecord) -> object:
    return _sample(run), run.experiment.step_samples


def _training(run: RunRecord) -> object:
    steps = run.summary.steps if run.summary is not None else 0
    return _sample(run), steps * run.experiment.step_samples


def _peak(run: RunRecord) -> object:
    peak = training_peak(run)
    return None if peak is None else peak[0]


def _dataset(run: RunRecord) -> object:
    return run.experiment.dataset, run.experiment.path


def _loss(run: RunRecord) -> object:
    return _dataset(run), run.experiment.label_smoothing


_COUNTS: dict[str, Callable[[RunRecord], object]] = {
    SPEED.name: _sample,
    "step_ms": _step,
    "seconds": _training,
    PEAK_MEMORY.name: _peak,
    ACCURACY.name: _dataset,
    "final_train_loss": _loss,
}
