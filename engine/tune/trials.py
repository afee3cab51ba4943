"""Short runs that measure a speed: how long they are, and what they show."""

from __future__ import annotations

from collections.abc import Iterable

from engine.compare.evidence import is_spoiled
from engine.experiment.experiment import Checkpoint, Experiment
from engine.experiment.problem import Kind, Problem, request_problem
from engine.experiment.repeats import Pilot
from engine.experiment.settings import LEAST_BLOCKS
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.events import Failed, Finished, Summary
from engine.protocol.tune import Tuning, TuningTrial
from engine.tune.candidates import Changes
from engine.tune.halving import Outcome
from engine.words.names import left_out_words
from engine.words.numbers import memory_text

_LEAST_BLOCK_STEPS, _MOST_BLOCK_STEPS = 2, 500
MOST_WARMUP_STEPS = 10


def short_run(experiment: Experiment, seconds: float, speed: float | None) -> Experiment:
    """The experiment's first steps, which take that long at that speed in samples a second.

    It has as few as show a speed where no speed is known, and neither validates nor saves checkpoints.
    """
    block = _LEAST_BLOCK_STEPS
    if speed is not None:
        block = round(seconds * speed / experiment.step_samples / LEAST_BLOCKS)
        block = min(max(block, _LEAST_BLOCK_STEPS), _MOST_BLOCK_STEPS)
    return with_length(experiment, LEAST_BLOCKS * block, block).model_copy(
        update={
            "validation": experiment.validation.model_copy(update={"every": 0}),
            "checkpoint": Checkpoint(),
        }
    )


def with_length(experiment: Experiment, measured_steps: int, block_steps: int) -> Experiment:
    """The experiment with so many steps after a short warm-up."""
    warmup = short_warmup(experiment)
    measure = {"warmup_steps": warmup, "block_steps": block_steps, "range_every": 0}
    return experiment.model_copy(
        update={
            "steps": warmup + measured_steps,
            "epochs": None,
            "measure": experiment.measure.model_copy(update=measure),
        }
    )


def short_warmup(experiment: Experiment) -> int:
    """The steps of a short warm-up, in which the recipe's step is compiled and captured all the same."""
    return max(min(experiment.measure.warmup_steps, MOST_WARMUP_STEPS), experiment.step.least_warmup_steps)


def known_speed(trials: Iterable[TuningTrial], changes: Changes) -> float | None:
    """The newest speed of a candidate, or of plain FP32, in samples a second."""
    speeds = [(trial.changes, trial.samples_per_second) for trial in trials if trial.is_usable]
    own = [speed for of, speed in speeds if of == changes]
    plain = [speed for of, speed in speeds if not of]
    return next(reversed(own or plain), None)


def shown(
    trial: TuningTrial, experiment: Experiment, pilot: Pilot | None, last: Finished | Failed, tuning: Tuning
) -> TuningTrial:
    """The trial with what its run showed, and why it cannot be used if so."""
    if isinstance(last, Failed) or pilot is None:
        problem = last.problem if isinstance(last, Failed) else _no_speed(last.summary)
        return trial.model_copy(update={"problem": problem})
    # a run that was ended early has too few blocks for a speed, but it has steps
    by_steps = None if pilot.step_ms is None else 1e3 * experiment.step_samples / pilot.step_ms
    figures = {
        "steps": pilot.steps,
        "seconds": pilot.seconds,
        "steps_per_epoch": pilot.steps_per_epoch,
        "samples_per_second": pilot.samples_per_second or by_steps,
        "peak_mib": pilot.peak_mib,
        "final_loss": pilot.final_loss,
        "is_disturbed": is_spoiled(last.summary),
        "left_out": last.summary.left_out,
    }
    known = trial.model_copy(update=figures)
    return known.model_copy(update={"problem": _why_unusable(known, last.summary, tuning)})


def _why_unusable(trial: TuningTrial, summary: Summary, tuning: Tuning) -> Problem | None:
    peak, cap = trial.peak_mib, tuning.memory_cap_gib
    if peak is not None and cap is not None and peak > cap * MIB_PER_GIB:
        message = f"It needs {memory_text(peak)}, more than the cap of {memory_text(cap * MIB_PER_GIB)}."
        return Problem(kind=Kind.OUT_OF_MEMORY, message=message, remedy="Allow more memory.")
    if trial.left_out:
        message = left_out_words(trial.left_out).replace("\n", "; ")
        return request_problem(f"Not possible here: {message}.", "Choose another recipe.")
    if tuning.plan.guard == "alike" and summary.first_nan_step is not None:
        message = f"Its loss is not a number at step {summary.first_nan_step:,}."
        return Problem(kind=Kind.NOT_A_NUMBER, message=message, remedy="Choose another precision.")
    return _no_speed(summary) if trial.samples_per_second is None else None


def _no_speed(summary: Summary) -> Problem:
    message = summary.speed_note or "Its speed is not known."
    return request_problem(message, "Try again on an idle machine.")


def outcome_of(trial: TuningTrial) -> Outcome:
    """What the search learns of a trial."""
    speed = trial.samples_per_second if trial.is_usable else None
    is_out = trial.problem is not None and trial.problem.kind is Kind.OUT_OF_MEMORY
    return Outcome(speed, trial.peak_mib, is_out, frozenset(trial.left_out))
