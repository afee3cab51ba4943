"""Diagnoses an experiment's numerics in a worker, and saves each part in the store as it becomes known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind
from engine.inspector import Inspector
from engine.protocol import jobs
from engine.protocol.events import Diagnosed, Failed, Finished, Log, Phase, Skipped
from engine.protocol.numerics.diagnosis import USUAL_PARTS, DiagnosisStarted, Part
from engine.protocol.numerics.nonfinite import SKIPS_IN_A_ROW, most_skips
from engine.store.record import RunRecord
from engine.store.store import Store

DiagnosisEvent = DiagnosisStarted | Diagnosed | Phase | Log | Finished | Failed


class Diagnoser(Inspector):
    """Diagnoses in the thread that iterates, with the parts known by then where it is stopped."""

    def diagnose(
        self,
        experiment: Experiment,
        parts: Sequence[Part] = USUAL_PARTS,
        *,
        steps: int | None = None,
        run_id: str | None = None,
        diagnosis_id: str | None = None,
    ) -> Iterator[DiagnosisEvent]:
        """DiagnosisStarted, each part as `Diagnosed`, and Finished or Failed as the last event.

        `steps` is how far the search for the first NaN or Inf goes, through the whole length by default. With
        `run_id` it is that run's experiment, whatever is given, and the search begins at its newest
        checkpoint from before it went wrong. `diagnosis_id` is its id in the store, a new one by default.
        What is refused before any part is known leaves nothing behind. Raises ProblemError before any event
        if there is no such run, if the experiment cannot be trained on this machine, or if its code is not
        trusted.
        """
        run = None if run_id is None else self._store.run(run_id)
        ((resolved, device),) = self._prepared([experiment if run is None else run.experiment])
        job = jobs.Diagnose(
            experiment=resolved,
            parts=tuple(parts),
            steps=steps,
            checkpoints=None if run is None else str(self._store.checkpoints_folder(run.id)),
            trouble_step=None if run is None else trouble_step(self._store, run),
        )
        diagnosis_id = self._store.diagnoses.add(
            resolved,
            job.parts,
            device_name=device.title,
            run_id=None if run is None else run.id,
            diagnosis_id=diagnosis_id,
        )
        yield from self._recorded(diagnosis_id, job)

    def _recorded(self, diagnosis_id: str, job: jobs.Diagnose) -> Iterator[DiagnosisEvent]:
        diagnoses = self._store.diagnoses
        is_kept, problem = False, None
        try:
            yield DiagnosisStarted(diagnosis_id=diagnosis_id, experiment=job.experiment)
            for event in self._events(job):
                if isinstance(event, Diagnosed):
                    diagnoses.record(diagnosis_id, event.result)
                    is_kept = True
                elif isinstance(event, Failed):
                    problem = event.problem
                    is_kept = is_kept or problem.kind is not Kind.REQUEST
                if isinstance(event, Diagnosed | Phase | Log | Finished | Failed):
                    yield event
        finally:
            if is_kept:
                diagnoses.end(diagnosis_id, problem)
            else:
                diagnoses.delete(diagnosis_id)


def trouble_step(store: Store, run: RunRecord) -> int | None:
    """The step from which the run's loss is not finite, or its scaler skipped step after step; else None."""
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
