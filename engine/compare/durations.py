"""How long a run will take, from earlier runs on this machine whose settings mean the same speed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

from engine.compare.evidence import is_spoiled
from engine.compare.sides import for_speed
from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.store.record import RunRecord, Status

_MOST_RUNS = 500
"""How many of the newest saved runs are looked at: reading thousands of settings takes too long."""
_MOST_ALIKE = 5


@dataclass(frozen=True)
class _Pace:
    """What an earlier run took: `fixed_seconds` around its training, and a step's share of the rest."""

    fixed_seconds: float
    step_seconds: float
    steps_per_epoch: float


def seconds_of(experiment: Experiment, runs: Iterable[RunRecord], device_name: str) -> float | None:
    """How long a run of the experiment will take, by the newest of `runs` that are as fast.

    `runs` are newest first; those of other devices do not count. None where no run tells.
    """
    alike = list(islice(_alike(experiment, islice(runs, _MOST_RUNS), device_name), _MOST_ALIKE))
    return median(_seconds(experiment, pace) for pace in alike) if alike else None


def _alike(experiment: Experiment, runs: Iterable[RunRecord], device_name: str) -> Iterable[_Pace]:
    key, look = for_speed(experiment), _look(experiment)
    for run in runs:
        try:
            # the overview is quickly read
            if run.status is Status.FINISHED and tuple(run.overview)[: len(look)] == look:
                pace = _pace(run, device_name) if for_speed(run.experiment) == key else None
                if pace is not None:
                    yield pace
        except (ProblemError, ValueError):
            # one damaged run must not hide the others
            continue


def _look(experiment: Experiment) -> Sequence[object]:
    return (
        experiment.model,
        experiment.dataset,
        experiment.image_size,
        experiment.precision,
        experiment.batch_size,
        experiment.step.recipe,
    )


def _pace(run: RunRecord, device_name: str) -> _Pace | None:
    summary, environment = run.summary, run.environment
    if summary is None or environment is None or run.started is None or run.ended is None:
        return None
    if environment.device_name != device_name or is_spoiled(summary) or not summary.steps:
        return None
    around = (run.ended - run.started).total_seconds() - summary.seconds - (summary.paused_seconds or 0.0)
    per_epoch = summary.steps / summary.epochs if summary.epochs else 0.0
    return _Pace(max(0.0, around), summary.seconds / summary.steps, per_epoch)


def _seconds(experiment: Experiment, pace: _Pace) -> float:
    steps = experiment.steps or (experiment.epochs or 1) * pace.steps_per_epoch
    return pace.fixed_seconds + steps * pace.step_seconds
