"""Finds the fastest settings in short runs, proves them beside plain FP32, and saves what is known."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Any

from engine.compare.evidence import doubts_of, is_disturbed
from engine.compare.sides import Side
from engine.driver import Driver
from engine.experiment.checks import Catalog
from engine.experiment.problem import Problem, ProblemError, request_problem
from engine.experiment.settings import RECIPE_PARTS, joined
from engine.protocol import jobs
from engine.protocol.events import Event, Failed, Finished, Phase, PhaseName
from engine.protocol.tune import CHANGE_KINDS, Gain, Proof, Tuning, TuningTrial
from engine.runner import Runner
from engine.statistics import paired_ratio_interval, typical_ratio
from engine.store.record import Status
from engine.store.saved.study import Study
from engine.store.store import Store
from engine.sweep.order import PilotWatch
from engine.tune.candidates import (
    BASELINE,
    Places,
    Space,
    baseline_of,
    changed,
    space_of,
    value_of,
    with_value,
)
from engine.tune.halving import SHORT, Ask, Outcome, search
from engine.tune.known import SEARCH_FRACTION, Known
from engine.tune.proof import (
    BASELINE_LABEL,
    NOTHING_FASTER,
    SideRuns,
    known_speed,
    outcome_of,
    proven,
    short_run,
    shown,
    worth_proving,
)
from engine.worker.launcher import Launcher

_Known = Study[Tuning] | Event
Steps = Generator[_Known, None, Problem | None]


class TuneDriver(Driver[Tuning]):
    """Tunes from wherever a study stands."""

    keeps_place = True

    def __init__(self, store: Store, launcher: Launcher, catalog: Catalog | None = None) -> None:
        super().__init__(store, launcher, catalog)
        self._runner: Runner | None = None

    def stop(self) -> None:
        super().stop()
        runner = self._runner
        if runner is not None:
            runner.stop()

    def prepare(self, study: Study[Tuning]) -> Study[Tuning]:
        """A new study gets its plain FP32 loop and its candidates; one that is over is refused.

        The cap is the experiment's own unless the study has another.
        """
        tuning = study.answer
        if tuning.phase == "over":
            message = f"{study.name} is over."
            raise ProblemError(request_problem(message, "Begin another.", key="tuning", value=study.id))
        if tuning.phase != "candidates":
            self._prepared([tuning.experiment])
            return study
        cap = tuning.memory_cap_gib or tuning.experiment.memory_cap_gib
        capped = baseline_of(tuning.experiment.model_copy(update={"memory_cap_gib": cap}))
        ((baseline, device),) = self._prepared([capped])
        if not device.is_gpu:
            # a cap slows training on a CPU down; the peak is compared with it instead
            baseline = baseline.model_copy(update={"memory_cap_gib": None})
        tuning = tuning.model_copy(update={"experiment": baseline, "memory_cap_gib": cap})
        space = self._space(tuning)
        begun = study.knowing(
            experiment=baseline, memory_cap_gib=cap, candidates=space.size, not_tried=space.not_tried
        )
        return replace(begun, device_name=device.title)

    def steps(self, study: Study[Tuning], is_to_end: Callable[[], bool]) -> Iterator[Study[Tuning] | Event]:
        known = Known(study, self._space(study.answer))
        problem = yield from self._phases(known, is_to_end)
        end = self._end(problem)
        if isinstance(end, Finished):
            end = end.model_copy(update={"stopped": not known.is_over})
        yield end

    def _space(self, tuning: Tuning) -> Space:
        return space_of(
            tuning.experiment, tuning.plan, self._known_catalog(), tuning.memory_cap_gib, tuning.left_out
        )

    def _phases(self, known: Known, is_to_end: Callable[[], bool]) -> Steps:
        if known.tuning.phase == "candidates":
            yield from self._looked_at(known)
            if is_to_end():
                return None
        if known.tuning.phase in ("candidates", "halving"):
            yield known.keep(phase="halving")
            problem = yield from self._searched(known, is_to_end)
            if problem is not None:
                return problem
            if is_to_end():
                return None
            yield known.keep(phase="proof", not_tried=known.not_tried())
        if known.tuning.phase == "proof":
            yield from self._proven(known, is_to_end)
            if is_to_end():
                return None
            yield known.keep(phase="gains")
        yield from self._gains(known, is_to_end)
        if not is_to_end():
            yield known.keep(phase="over")
        return None

    def _looked_at(self, known: Known) -> Iterator[_Known]:
        """Drops the parts of the recipe that are not possible, before anything is trained.

        A worker that builds a step with all of them knows; it is stopped before the first step. Compiling,
        which would begin with that, is left out.
        """
        if "recipe" not in known.tuning.plan.kinds:
            return
        parts = joined(part for part in RECIPE_PARTS if part != "compile")
        experiment = short_run(changed(known.tuning.experiment, {"step.recipe": parts}), 0.0, None)
        last: Event | None = None
        for last in self._events(jobs.Train(experiment=experiment)):
            if isinstance(last, Phase):
                yield last
            session = self._session
            is_building = isinstance(last, Phase) and last.name is PhaseName.BUILDING
            if session is not None and not session.is_over and is_building:
                session.stop()
        left_out = last.summary.left_out if isinstance(last, Finished) else {}
        known.space = self._space(known.tuning.model_copy(update={"left_out": left_out}))
        yield known.keep(left_out=left_out, candidates=known.space.size, not_tried=known.space.not_tried)

    def _searched(self, known: Known, is_to_end: Callable[[], bool]) -> Steps:
        earlier = [trial for trial in known.tuning.trials if trial.round]
        with closing(search(known.space)) as asked:
            outcome: Outcome | None = None
            while True:
                try:
                    ask = next(asked) if outcome is None else asked.send(outcome)
                except StopIteration as over:
                    leaders = tuple(known.space.changes(places) for places in over.value)
                    yield known.keep(leaders=leaders)
                    return None
                changes = known.space.changes(ask.places)
                if earlier and (earlier[0].round, earlier[0].changes) == (ask.round, changes):
                    outcome = outcome_of(earlier.pop(0))
                    continue
                earlier.clear()
                if is_to_end() or known.is_spent(SEARCH_FRACTION):
                    return None
                trial = yield from self._trial(known, ask)
                if trial is None:
                    return None
                outcome = outcome_of(trial)
                if trial.problem is not None and known.is_hopeless:
                    yield known.keep(trials=())
                    return trial.problem

    def _trial(self, known: Known, ask: Ask) -> Generator[_Known, None, TuningTrial | None]:
        changes, words = known.space.changes(ask.places), known.space.words(ask.places)
        trial = TuningTrial(round=ask.round, changes=changes, steps=0, seconds=0.0, words=words)
        try:
            experiment = changed(known.tuning.experiment, changes)
        except ProblemError as error:
            yield known.add(trial.model_copy(update={"problem": error.problem}))
            return known.tuning.trials[-1]
        experiment = short_run(experiment, ask.seconds, known_speed(known.tuning.trials, changes))
        yield from known.begun(words)
        watch, last = PilotWatch(), None
        for last in self._events(jobs.Train(experiment=experiment)):
            watch.take(last)
            if not isinstance(last, Finished | Failed):
                yield last
            session = self._session
            if session is not None and not session.is_over and watch.is_enough:
                session.stop()
        if self._stop_asked.is_set() or not isinstance(last, Finished | Failed):
            return None
        yield known.add(shown(trial, experiment, watch.pilot(), last, known.tuning))
        return known.tuning.trials[-1]

    def _proven(self, known: Known, is_to_end: Callable[[], bool]) -> Iterator[_Known]:
        for changes in worth_proving(known.tuning):
            proof = known.tuning.proof
            if proof is None or proof.changes != dict(changes):
                comparison = self._store.add_comparison(f"Fastest of {known.subject}")
                proof = Proof(changes=dict(changes), comparison=comparison)
                yield known.keep(proof=proof)
            proof = yield from self._runs(known, proof, is_to_end)
            if proof is None:
                return
            if proof.is_broken or (proof.is_loss_alike is False and known.tuning.plan.guard == "alike"):
                yield known.keep(proof=None, proofs=(*known.tuning.proofs, proof))
                continue
            winner = changed(known.tuning.experiment, changes)
            yield known.keep(proof=proof, winner=winner, winner_changes=dict(changes))
            return
        yield known.keep(proof=Proof(sentence=NOTHING_FASTER), winner=known.tuning.experiment)

    def _runs(
        self, known: Known, proof: Proof, is_to_end: Callable[[], bool]
    ) -> Generator[_Known, None, Proof | None]:
        proof = self._without_unfinished(proof)
        for turn in known.turns(proof.changes):
            side = "baseline_ids" if turn.label == BASELINE_LABEL else "winner_ids"
            if turn.repeat <= len(getattr(proof, side)):
                continue
            if is_to_end():
                return None
            if known.is_spent() and min(len(proof.baseline_ids), len(proof.winner_ids)) > 1:
                break
            run = self._store.add(
                turn.experiment,
                name=turn.name(f"Fastest of {known.subject}"),
                comparison=proof.comparison,
                label=turn.label,
            )
            proof = proof.model_copy(update={side: (*getattr(proof, side), run.id)})
            yield known.keep(proof=proof)
            yield from known.begun(turn.label, run.id)
            last = yield from self._run(run.id)
            if isinstance(last, Failed):
                # what failed here fails again, with the same words
                sentence = f"{turn.label} failed. {last.problem.message}"
                return proof.model_copy(
                    update={"sentence": sentence, "is_broken": turn.label != BASELINE_LABEL}
                )
            if self._stop_asked.is_set():
                return None
        return proven(proof, self._side(proof.baseline_ids), self._side(proof.winner_ids))

    def _run(self, run_id: str) -> Generator[_Known, None, Event | None]:
        last: Event | None = None
        self._runner = runner = Runner(self._store, self._launcher)
        try:
            for last in runner.run(run_id):
                if not isinstance(last, Finished | Failed):
                    yield last
                if self._stop_asked.is_set():
                    runner.stop()
        finally:
            self._runner = None
        return last

    def _without_unfinished(self, proof: Proof) -> Proof:
        kept: dict[str, tuple[str, ...]] = {}
        for side in ("baseline_ids", "winner_ids"):
            ids: tuple[str, ...] = getattr(proof, side)
            runs = [run for run in self._store.runs() if run.id in ids]
            finished = {run.id for run in runs if run.status is Status.FINISHED}
            self._store.delete(run.id for run in runs if run.id not in finished)
            kept[side] = tuple(run_id for run_id in ids if run_id in finished)
        return proof.model_copy(update=kept)

    def _side(self, run_ids: tuple[str, ...]) -> SideRuns:
        runs = tuple(self._store.run(run_id) for run_id in run_ids)
        side = Side(runs, label="")
        speeds = [run.summary.samples_per_second for run in runs if run.summary is not None]
        return SideRuns(
            tuple(speed for speed in speeds if speed is not None),
            tuple(tuple(self._store.samples(run.id).get("loss", ())) for run in runs),
            runs[0].experiment.step_samples,
            is_disturbed=is_disturbed(doubts_of(side, side, {})),
        )

    def _gains(self, known: Known, is_to_end: Callable[[], bool]) -> Iterator[_Known]:
        tuning, space = known.tuning, known.space
        if tuning.proof is None or tuning.proof.speedup is None or not tuning.winner_changes:
            return
        steps = path(space, space.of_changes(tuning.winner_changes))
        done = sum(1 for trial in tuning.trials if not trial.round)
        for places in list(in_order(steps))[done:]:
            if is_to_end() or known.is_spent():
                break
            if (yield from self._trial(known, Ask(places, 0, SHORT))) is None:
                return
        yield known.keep(gains=gains(space, steps, known.tuning.trials, tuning.proof))


ROUNDS = 3

REMAINDER = "Whole runs against short ones"


def path(space: Space, winner: Places) -> tuple[Places, ...]:
    """From the plain FP32 loop to the winner, a change at a time: precision, recipe, and so on."""
    steps = [BASELINE]
    for kind in CHANGE_KINDS:
        if place := value_of(winner, kind):
            steps.append(with_value(steps[-1], kind, place))
    return tuple(steps)


def in_order(steps: Sequence[Places]) -> Iterator[Places]:
    """The trials that measure a path: its steps in turns, every second time backwards.

    A single change needs none: it gained what the proof shows.
    """
    for number in range(ROUNDS if len(steps) > 2 else 0):
        yield from steps if number % 2 == 0 else reversed(steps)


def gains(
    space: Space, steps: Sequence[Places], trials: Sequence[TuningTrial], proof: Proof
) -> tuple[Gain, ...]:
    """The gain of each step, whose product is what the proof shows: its last entry is the remainder.

    `trials` are those that `in_order` asked for. Without their speeds nothing is said of the steps.
    """
    if proof.speedup is None or len(steps) < 2:
        return ()
    changed = [_change(space, before, after) for before, after in pairwise(steps)]
    if len(steps) == 2:
        ((words, changes),) = changed
        return (Gain(words=words, changes=changes, speedup=proof.speedup, speedup_ci=proof.speedup_ci),)
    speeds = [_speeds(trials, space.changes(places)) for places in steps]
    known, total = [], 1.0
    for (words, changes), mine, before in zip(changed, speeds[1:], speeds, strict=False):
        pairs = min(len(mine), len(before))
        ratio = typical_ratio(mine[:pairs], before[:pairs])
        if ratio is None:
            return ()
        interval = paired_ratio_interval(mine[:pairs], before[:pairs])
        known.append(Gain(words=words, changes=changes, speedup=ratio, speedup_ci=interval))
        total *= ratio
    return *known, Gain(words=REMAINDER, changes={}, speedup=proof.speedup / total)


def _change(space: Space, before: Places, after: Places) -> tuple[str, Mapping[str, Any]]:
    kind = next(kind for kind in CHANGE_KINDS if value_of(before, kind) != value_of(after, kind))
    option = space.options[kind][value_of(after, kind)]
    return option.words, dict(option.changes)


def _speeds(trials: Sequence[TuningTrial], changes: Mapping[str, Any]) -> list[float]:
    return [
        trial.samples_per_second
        for trial in trials
        if not trial.round and trial.changes == changes and trial.is_usable
        if trial.samples_per_second is not None
    ]
