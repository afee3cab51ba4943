"""Examines an experiment's numerics in a worker, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from engine.driver import Driver
from engine.experiment.settings import Checkpoint
from engine.protocol import jobs
from engine.protocol.events import Event, Failed, Finished, Log, PartMeasured, Phase, Skipped
from engine.protocol.numerics import PART_NAMES, SKIPS_IN_A_ROW, Numerics, most_skips
from engine.store.record import RunRecord
from engine.store.saved.studies import Study
from engine.store.store import Store


class NumericsDriver(Driver[Numerics]):
    """Examines the numerics of an experiment or of a saved run in a worker.

    The search for a run's first NaN or Inf starts at its newest checkpoint from before it went wrong.
    """

    on_one_device = "numerics are examined"

    def prepare(self, study: Study[Numerics]) -> Study[Numerics]:
        run_id = study.answer.run_id
        wanted = study.answer.experiment if run_id is None else self._store.run(run_id).experiment
        ((experiment, device),) = self._prepared([wanted])
        return replace(study.knowing(experiment=experiment), device_name=device.title)

    def steps(
        self, study: Study[Numerics], is_to_end: Callable[[], bool]
    ) -> Iterator[Study[Numerics] | Event]:
        experiment = study.answer.experiment
        yield Log(message=f"Numerics of {experiment.model} in {experiment.precision.label}.")
        run = None if study.answer.run_id is None else self._store.run(study.answer.run_id)
        is_elsewhere = run is not None and run.machine != self._launcher.site.name
        if run is not None and is_elsewhere and run.experiment.checkpoint != Checkpoint():
            where = run.machine or "this machine"
            yield Log(
                level="problem", message=f"The checkpoints of {run.title} are on {where} and cannot be used."
            )
        for event in self._events(self._job(study.answer, run)):
            if isinstance(event, PartMeasured):
                study = study.knowing(results=study.answer.results.with_part(event.result))
                yield study
                yield Log(message=f"Done: {PART_NAMES[event.result.part]}.")
            elif isinstance(event, Phase | Log | Finished | Failed):
                yield event

    def _job(self, answer: Numerics, run: RunRecord | None) -> jobs.StudyNumerics:
        site, checkpoints = self._launcher.site, None
        if run is not None and run.machine == site.name:
            checkpoints = site.checkpoints(self._store.checkpoints_folder(run.id))
        return jobs.StudyNumerics(
            experiment=answer.experiment,
            parts=answer.parts,
            steps=answer.steps,
            checkpoints=checkpoints,
            trouble_step=None if run is None else trouble_step(self._store, run),
        )


def trouble_step(store: Store, run: RunRecord) -> int | None:
    """Return the first step with a loss that is not finite, or of too many skips in a row. None without."""
    summary = run.summary or store.summary_so_far(run.id)
    if summary.first_nan_step:
        return summary.first_nan_step
    skipped = [step for event in store.events(run.id) if isinstance(event, Skipped) for step in event.steps]
    return _first_in_a_row(skipped, most_skips(run.experiment.scaler), summary.steps)


def _first_in_a_row(skipped: Sequence[int], most: int, last: int) -> int | None:
    first, length = None, 0
    for before, step in pairwise((-1, *skipped)):
        first, length = (first, length + 1) if step == before + 1 else (step, 1)
        if length >= (SKIPS_IN_A_ROW if step == last else most):
            return first
    return None
