"""How long a run took to reach an accuracy: in seconds, and in samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engine.events import Epoch
from engine.records.figures import Figure
from engine.records.record import RunRecord

NOT_REACHED = "not reached"


def reaching_figures(target_accuracy: float, epochs: Mapping[str, Sequence[Epoch]]) -> tuple[Figure, ...]:
    """Lines of the table for the first epoch whose validation reached `target_accuracy` (a fraction).

    `epochs` are those of each run by its id. Seconds count from the first step, validations included;
    samples count every batch as whole.
    """

    def first(run: RunRecord) -> Epoch | None:
        return next((epoch for epoch in epochs.get(run.id, ()) if _reaches(epoch, target_accuracy)), None)

    def seconds(run: RunRecord) -> float | None:
        epoch = first(run)
        return None if epoch is None else epoch.seconds

    def samples(run: RunRecord) -> float | None:
        epoch = first(run)
        return None if epoch is None else float(epoch.step * run.experiment.step_samples)

    goal = f"{100 * target_accuracy:g} % accuracy"
    return (
        _figure("seconds_to_accuracy", f"Time to {goal}", "s", None, seconds),
        _figure("samples_to_accuracy", f"Samples to {goal}", "", 0, samples),
    )


def _figure(
    name: str, title: str, unit: str, digits: int | None, value: Callable[[RunRecord], float | None]
) -> Figure:
    return Figure(name, title, unit, digits, True, value, needs_all=True, absent=NOT_REACHED)


def _reaches(epoch: Epoch, target_accuracy: float) -> bool:
    return epoch.validation_accuracy is not None and epoch.validation_accuracy >= target_accuracy
