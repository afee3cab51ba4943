"""Find the fastest settings in short runs, verify them against plain FP32, and save all results."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

from engine.compare.evidence import doubts_of, is_disturbed
from engine.compare.sides import Side
from engine.driver import Driver
from engine.experiment.checks import Catalog
from engine.experiment.experiment import changed
from engine.experiment.problem import Kind, Problem, ProblemError, request_error
from engine.experiment.settings import RECIPE_PARTS, joined
from engine.experiment.sweep import Repetition
from engine.protocol import jobs
from engine.protocol.events import Event, Failed, Finished, Log, Phase, PhaseName
from engine.protocol.tune import Proof, Tuning, TuningTrial
from engine.runner import Runner
from engine.store.record import Status
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.sweep.order import PilotWatch
from engine.tune.candidates import NO_ATTENTION, Changes, Space, baseline_of, space_of
from engine.tune.halving import SHORT, TrialRequest, TrialResult, search
from engine.tune.verification import (
    BASELINE_LABEL,
    NOTHING_FASTER,
    SideRuns,
    candidates_to_verify,
    change_path,
    gains,
    known_speed,
    path_trials,
    short_run,
    shown,
    trial_result,
    verification_turns,
    with_result,
)
from engine.words.names import dataset_words
from engine.worker.launcher import Launcher

_SEARCH_FRACTION = 0.5
"""The share of a time limit for the search. The rest is for the verification and the gains."""

_MOST_NOT_TRIED = 100

_PHASES = {
    "candidates": "Short runs",
    "halving": "Short runs",
    "proof": "Verification",
    "gains": "Gains",
    "over": "Gains",
}

_Known = Study[Tuning] | Event
Steps = Generator[_Known, None, Problem | None]


class TuneDriver(Driver[Tuning]):
    """Finds the fastest settings of a tuning study and verifies them, from the study's saved state on."""

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
        """Prepare plain FP32 and the candidates for a new study. Refuse a finished one.

        The cap is the experiment's own unless the study has another.
        """
        tuning = study.answer
        if tuning.phase == "over":
            message = f"{study.name} is finished."
            raise request_error(message, "Start a new one.", key="tuning", value=study.id)
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
        space = self._space_of(tuning)
        begun = study.knowing(
            experiment=baseline, memory_cap_gib=cap, candidates=space.size, not_tried=space.not_tried
        )
        return replace(begun, device_name=device.title)

    def steps(self, study: Study[Tuning], is_to_end: Callable[[], bool]) -> Iterator[Study[Tuning] | Event]:
        self._study, self._space, self._is_to_end = study, self._space_of(study.answer), is_to_end
        self._before, self._began = study.answer.seconds, time.monotonic()
        problem = yield from self._phases()
        end = self._end(problem)
        if isinstance(end, Finished):
            end = end.model_copy(update={"stopped": self._tuning.phase != "over"})
        yield end

    def _space_of(self, tuning: Tuning) -> Space:
        return space_of(tuning.experiment, tuning.plan, self._known_catalog(), tuning.left_out)

    def _phases(self) -> Steps:
        if self._tuning.phase == "candidates":
            yield from self._looked_at()
            if self._is_to_end():
                return None
        if self._tuning.phase in ("candidates", "halving"):
            yield self._keep(phase="halving")
            problem = yield from self._searched()
            if problem is not None:
                return problem
            if self._is_to_end():
                return None
            yield self._keep(phase="proof", not_tried=self._not_tried())
        if self._tuning.phase == "proof":
            yield from self._proven()
            if self._is_to_end():
                return None
            yield self._keep(phase="gains")
        yield from self._gains()
        if not self._is_to_end():
            yield self._keep(phase="over")
        return None

    def _looked_at(self) -> Iterator[_Known]:
        """Exclude the optimizations that are not possible here, before the first trial.

        A worker that builds a step with all of them reports the impossible ones, and is stopped before its
        first step. Compilation, which would happen in the first step, is not tried.
        """
        if "recipe" not in self._tuning.plan.kinds:
            return
        parts = joined(part for part in RECIPE_PARTS if part != "compile")
        experiment = short_run(changed(self._tuning.experiment, {"step.recipe": parts}), 0.0, None)
        last: Event | None = None
        for last in self._events(jobs.Train(experiment=experiment)):
            if isinstance(last, Phase):
                yield last
            session = self._session
            is_building = isinstance(last, Phase) and last.name is PhaseName.BUILDING
            if session is not None and not session.is_over and is_building:
                session.stop()
        left_out = last.summary.left_out if isinstance(last, Finished) else {}
        self._space = self._space_of(self._tuning.model_copy(update={"left_out": left_out}))
        yield self._keep(left_out=left_out, candidates=self._space.size, not_tried=self._space.not_tried)

    def _searched(self) -> Steps:
        earlier = [trial for trial in self._tuning.trials if trial.round]
        with closing(search(self._space)) as asked:
            outcome: TrialResult | None = None
            while True:
                try:
                    ask = next(asked) if outcome is None else asked.send(outcome)
                except StopIteration as over:
                    leaders = tuple(self._space.changes(places) for places in over.value)
                    yield self._keep(leaders=leaders)
                    return None
                changes = self._space.changes(ask.places)
                if earlier and (earlier[0].round, earlier[0].changes) == (ask.round, changes):
                    outcome = trial_result(earlier.pop(0))
                    continue
                earlier.clear()
                if self._is_to_end() or self._is_spent(_SEARCH_FRACTION):
                    return None
                trial = yield from self._trial(ask)
                if trial is None:
                    return None
                outcome = trial_result(trial)
                if trial.problem is not None and self._is_hopeless:
                    yield self._keep(trials=())
                    return trial.problem

    def _trial(self, ask: TrialRequest) -> Generator[_Known, None, TuningTrial | None]:
        changes, words = self._space.changes(ask.places), self._space.words(ask.places)
        trial = TuningTrial(round=ask.round, changes=changes, steps=0, seconds=0.0, words=words)
        try:
            experiment = changed(self._tuning.experiment, changes)
        except ProblemError as error:
            yield self._add(trial.model_copy(update={"problem": error.problem}))
            return self._tuning.trials[-1]
        experiment = short_run(experiment, ask.seconds, known_speed(self._tuning.trials, changes))
        yield from self._begun(words)
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
        yield self._add(shown(trial, experiment, watch.pilot(), last, self._tuning))
        return self._tuning.trials[-1]

    def _proven(self) -> Iterator[_Known]:
        for changes in candidates_to_verify(self._tuning):
            proof = self._tuning.proof
            if proof is None or proof.changes != dict(changes):
                comparison = self._store.add_comparison(f"Fastest of {self._subject}")
                proof = Proof(changes=dict(changes), comparison=comparison)
                yield self._keep(proof=proof)
            proof = yield from self._runs(proof)
            if proof is None:
                return
            if proof.is_broken or (proof.is_loss_alike is False and self._tuning.plan.guard == "alike"):
                yield self._keep(proof=None, proofs=(*self._tuning.proofs, proof))
                continue
            winner = changed(self._tuning.experiment, changes)
            yield self._keep(proof=proof, winner=winner, winner_changes=dict(changes))
            return
        yield self._keep(proof=Proof(sentence=NOTHING_FASTER), winner=self._tuning.experiment)

    def _runs(self, proof: Proof) -> Generator[_Known, None, Proof | None]:
        proof = self._drop_unfinished_runs(proof)
        for turn in self._turns(proof.changes):
            side = "baseline_ids" if turn.label == BASELINE_LABEL else "winner_ids"
            if turn.repeat <= len(getattr(proof, side)):
                continue
            if self._is_to_end():
                return None
            if self._is_spent() and min(len(proof.baseline_ids), len(proof.winner_ids)) > 1:
                break
            run = self._store.add(
                turn.experiment,
                name=turn.name(f"Fastest of {self._subject}"),
                comparison=proof.comparison,
                label=turn.label,
                machine=self._launcher.site.name,
            )
            proof = proof.model_copy(update={side: (*getattr(proof, side), run.id)})
            yield self._keep(proof=proof)
            yield from self._begun(turn.label, run.id)
            last = yield from self._run(run.id)
            if isinstance(last, Failed):
                # what failed here fails again, with the same words
                sentence = f"{turn.label} failed. {last.problem.message}"
                return proof.model_copy(
                    update={"sentence": sentence, "is_broken": turn.label != BASELINE_LABEL}
                )
            if self._stop_asked.is_set():
                return None
        return with_result(proof, self._side(proof.baseline_ids), self._side(proof.winner_ids))

    def _run(self, run_id: str) -> Generator[_Known, None, Event | None]:
        last: Event | None = None
        self._runner = runner = Runner(self._store, self._launcher, keeps=False)
        try:
            for last in runner.run(run_id):
                if not isinstance(last, Finished | Failed):
                    yield last
                if self._stop_asked.is_set():
                    runner.stop()
        finally:
            self._runner = None
        return last

    def _drop_unfinished_runs(self, proof: Proof) -> Proof:
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

    def _gains(self) -> Iterator[_Known]:
        tuning, space = self._tuning, self._space
        if tuning.proof is None or tuning.proof.speedup is None or not tuning.winner_changes:
            return
        steps = change_path(space, space.places_for(tuning.winner_changes))
        done = sum(1 for trial in tuning.trials if not trial.round)
        for places in list(path_trials(steps))[done:]:
            if self._is_to_end() or self._is_spent():
                break
            if (yield from self._trial(TrialRequest(places, 0, SHORT))) is None:
                return
        yield self._keep(gains=gains(space, steps, self._tuning.trials, tuning.proof))

    @property
    def _tuning(self) -> Tuning:
        return self._study.answer

    @property
    def _subject(self) -> str:
        experiment = self._tuning.experiment
        return f"{experiment.model} on {dataset_words(experiment.dataset)}"

    def _is_spent(self, fraction: float = 1.0) -> bool:
        limit = self._tuning.plan.time_limit_seconds
        return limit is not None and self._seconds() >= fraction * limit

    def _begun(self, words: str, run_id: str | None = None) -> Iterator[Study[Tuning] | Log]:
        number = self._tuning.runs + 1
        doing = f"{_PHASES[self._tuning.phase]}, run {number:,}, {words}"
        self._study = replace(self._study, doing=doing, trains=run_id)
        yield self._known_study(runs=number)
        yield Log(message=f"Run {number:,}: {words}.")

    def _add(self, trial: TuningTrial) -> Study[Tuning]:
        rounds = max(self._tuning.rounds, trial.round)
        return self._keep(trials=(*self._tuning.trials, trial), rounds=rounds)

    @property
    def _is_hopeless(self) -> bool:
        (first, *others) = self._tuning.trials
        is_memory = first.problem is not None and first.problem.kind is Kind.OUT_OF_MEMORY
        return not others and first.problem is not None and not is_memory

    def _keep(self, **changes: Any) -> Study[Tuning]:
        self._study = replace(self._study, trains=None)
        return self._known_study(**changes)

    def _known_study(self, **changes: Any) -> Study[Tuning]:
        self._study = self._study.knowing(**changes, seconds=self._seconds())
        return self._study

    def _turns(self, changes: Changes) -> tuple[Repetition, ...]:
        tuning, trials = self._tuning, self._tuning.trials
        per_epoch = next((trial.steps_per_epoch for trial in trials if trial.steps_per_epoch), 1)
        own = tuning.experiment.steps or (tuning.experiment.epochs or 1) * per_epoch
        return verification_turns(tuning, changes, known_speed(trials, {}) or 1.0, own)

    def _not_tried(self) -> tuple[str, ...]:
        tuning, key = self._tuning, "step.activation_checkpointing"
        sentences = list(tuning.not_tried)
        is_offered = any(key in option.changes for option in self._space.options["checkpointing"])
        if is_offered and not any(key in trial.changes for trial in tuning.trials):
            sentences.append("Activation checkpointing: memory was sufficient, and it slows down every step.")
        if len(self._space.options["attention"]) > 1 and not all(
            trial.has_attention for trial in tuning.trials
        ):
            sentences.append(NO_ATTENTION)
        if self._is_spent(_SEARCH_FRACTION):
            sentences.append("The short runs ended early, to leave time for verification.")
        tried = {repr(sorted(trial.changes.items())) for trial in tuning.trials}
        if (left := tuning.candidates - len(tried)) > 0:
            sentences.append(
                f"{left:,} of {tuning.candidates:,} combinations: the kinds of changes were tried one "
                "after the other."
            )
        failed = ((trial.words, trial.problem) for trial in tuning.trials)
        sentences += [f"{words}: {problem.message}" for words, problem in failed if problem is not None]
        return tuple(dict.fromkeys(sentences))[:_MOST_NOT_TRIED]

    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._began
