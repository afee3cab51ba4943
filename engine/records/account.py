"""What can be said of a run that ended without its own summary, from what was recorded of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from engine.events import Epoch, Event, Skipped, Started, Summary

_INTERRUPTED_NOTE = "the run ended early"


def summary_of(events: Iterable[Event], samples: Mapping[str, NDArray[np.float64]]) -> Summary:
    """The figures that samples and events show; a speed is not among them, since the run ended early."""
    events = tuple(events)
    started = next((event for event in events if isinstance(event, Started)), None)
    validated = [
        (event.validation_accuracy, event.epoch)
        for event in events
        if isinstance(event, Epoch) and event.validation_accuracy is not None
    ]
    # of equal accuracies the first one is the best
    best = max(validated, key=lambda pair: (pair[0], -pair[1]), default=(None, None))
    skipped = sum(len(event.steps) for event in events if isinstance(event, Skipped))
    steps = int(_last(samples, "step") or 0)
    return Summary(
        steps=steps,
        epochs=steps / started.steps_per_epoch if started is not None else 0.0,
        speed_note=_INTERRUPTED_NOTE,
        seconds=_last(samples, "seconds") or 0.0,
        final_train_loss=_train_loss(events, samples),
        final_grad_scale=_last(samples, "grad_scale"),
        best_validation_accuracy=best[0],
        best_epoch=best[1],
        final_validation_accuracy=validated[-1][0] if validated else None,
        first_nan_step=_first_nan_step(samples),
        skipped_steps=skipped if started is not None and started.experiment.uses_scaler else None,
    )


def _first_nan_step(samples: Mapping[str, NDArray[np.float64]]) -> int | None:
    losses = samples.get("loss")
    if losses is None or not np.isnan(losses).any():
        return None
    return int(samples["step"][np.isnan(losses).argmax()])


def _train_loss(events: tuple[Event, ...], samples: Mapping[str, NDArray[np.float64]]) -> float | None:
    """The mean loss of the last epoch, or of the part of it that was trained, as in a whole run."""
    last = max((event for event in events if isinstance(event, Epoch)), key=_step_of, default=None)
    since = 0 if last is None else last.step
    losses = samples["loss"][samples["step"] > since] if "loss" in samples else np.empty(0)
    if len(losses):
        # of a diverged run the sum may be beyond all numbers
        with np.errstate(over="ignore", invalid="ignore"):
            return float(losses.mean())
    return None if last is None else last.train_loss


def _step_of(epoch: Epoch) -> int:
    return epoch.step


def _last(samples: Mapping[str, NDArray[np.float64]], name: str) -> float | None:
    column = samples.get(name)
    return float(column[-1]) if column is not None and len(column) else None
