"""Short runs that measure a speed: how long they are, and what they show."""

from __future__ import annotations

from collections.abc import Iterable

from engine.experiment.experiment import Checkpoint, Experiment
from engine.experiment.problem import Kind, Problem, request_problem
from engine.experiment.settings import LEAST_BLOCKS
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.events import Failed, Finished, Summary
from engine.protocol.tuning import Tuning, TuningTrial
from engine.sweep.fastest.candidates import Changes
from engine.sweep.fastest.halving import Outcome
from engine.words.names import left_out_words
from engine.words.numbers import memory_text

_LEAST_BLOCK_STEPS, _MOST_BLOCK_STEPS = 2, 500
_MOST_WARMUP_STEPS = 10


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
    warmup = min(experiment.measure.warmup_steps, _MOST_WARMUP_STEPS)
    measure = {"warmup_steps": warmup, "block_steps": block_steps, "range_every": 0}
    return experiment.model_copy(
        update={
            "steps": warmup + measured_steps,
            "epochs": None,
            "measure": experiment.measure.model_copy(update=measure),
        }
    )


def known_speed(trials: Iterable[TuningTrial], changes: Changes) -> float | None:
    """The newest speed of a candidate, or of plain FP32, in samples a second."""
    speeds = [(trial.changes, trial.samples_per_second) for trial in trials if trial.is_usable]
    own = [speed for of, speed in speeds if of == changes]
    plain = [speed for of, speed in speeds if not of]
    return next(reversed(own or plain), None)


def shown(trial: TuningTrial, last: Finished | Failed, tuning: Tuning) -> TuningTrial:
    """The trial with what its run's last event shows, and why it cannot be used if so."""
    if isinstance(last, Failed):
        return trial.model_copy(update={"problem": last.problem})
    summary = last.summary
    figures = {
        "samples_per_second": summary.samples_per_second or None,
        "peak_mib": peak_of(summary),
        "final_loss": summary.final_train_loss,
    }
    return trial.model_copy(update={**figures, "problem": _why_unusable(summary, tuning)})


def peak_of(summary: Summary) -> float | None:
    """The run's peak: allocated on an accelerator, resident on a CPU."""
    allocated = summary.peak_allocated_mib
    return summary.peak_resident_mib if allocated is None else allocated


def _why_unusable(summary: Summary, tuning: Tuning) -> Problem | None:
    peak, cap = peak_of(summary), tuning.memory_cap_gib
    if peak is not None and cap is not None and peak > cap * MIB_PER_GIB:
        message = f"It needs {memory_text(peak)}, more than the cap of {memory_text(cap * MIB_PER_GIB)}."
        return Problem(kind=Kind.OUT_OF_MEMORY, message=message, remedy="Allow more memory.")
    if summary.left_out:
        message = left_out_words(summary.left_out).replace("\n", "; ")
        return request_problem(f"Not possible here: {message}.", "Choose another recipe.")
    if tuning.plan.guard == "alike" and summary.first_nan_step is not None:
        message = f"Its loss is not a number at step {summary.first_nan_step:,}."
        return Problem(kind=Kind.NOT_A_NUMBER, message=message, remedy="Choose another precision.")
    if summary.samples_per_second is None:
        message = summary.speed_note or "Its speed is not known."
        return request_problem(message, "Try again on an idle machine.")
    return None


def outcome_of(trial: TuningTrial) -> Outcome:
    """What the search learns of a trial."""
    speed = trial.samples_per_second if trial.is_usable else None
    is_out = trial.problem is not None and trial.problem.kind is Kind.OUT_OF_MEMORY
    return Outcome(speed, trial.peak_mib, is_out)
