"""The verification of the fastest settings: saved runs of them and of plain FP32, alternating."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from engine.compare.evidence import was_slowed_down
from engine.experiment.experiment import Checkpoint, Experiment, changed
from engine.experiment.problem import Kind, Problem, request_problem
from engine.experiment.settings import LEAST_BLOCKS
from engine.experiment.sweep import Pilot, Repetition, alternating_turns
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.events import Failed, Finished, Summary
from engine.protocol.tune import CHANGE_KINDS, Gain, Proof, Tuning, TuningTrial
from engine.statistics import band_of, outlying_side, paired_ratio_interval, ratio_of_means
from engine.tune.candidates import BASELINE, Changes, Places, Space, value_of, with_value
from engine.tune.halving import TrialResult, ranking
from engine.words.names import left_out_words
from engine.words.numbers import memory_text, number_text, pace_text

BASELINE_LABEL, WINNER_LABEL = "FP32, plain", "Fastest"

_SECONDS = 60.0
"""The approximate time of a verification run of plain FP32, unless the experiment itself is shorter."""

_BINS, _LEAST_BINS = 20, 4
_MOST_PROOFS = 3

NOTHING_FASTER = "No tried combination is faster than plain FP32."


def verification_turns(
    tuning: Tuning, changes: Mapping[str, Any], speed: float, own_steps: int
) -> tuple[Repetition, ...]:
    """Return the runs of a verification in order. Both sides train on the same number of samples.

    `speed` is plain FP32's in samples per second, `own_steps` the experiment's own length.
    """
    baseline = tuning.experiment
    samples = min(own_steps, round(_SECONDS * speed / baseline.step_samples)) * baseline.step_samples
    # a winner of larger batches makes fewer steps of the same samples, and still needs its blocks
    winner = changed(baseline, changes)
    least_steps = MOST_WARMUP_STEPS + LEAST_BLOCKS
    samples = max(samples, least_steps * max(baseline.step_samples, winner.step_samples))
    sides = ((BASELINE_LABEL, baseline), (WINNER_LABEL, winner))
    return alternating_turns(
        [(label, _of_samples(side, samples)) for label, side in sides], tuning.plan.repeats
    )


def _of_samples(experiment: Experiment, samples: int) -> Experiment:
    steps = math.ceil(samples / experiment.step_samples)
    warmup = short_warmup(experiment)
    block = min(experiment.measure.block_steps, max(1, (steps - warmup) // LEAST_BLOCKS))
    shorter = with_length(experiment, max(steps - warmup, LEAST_BLOCKS), block)
    return shorter.model_copy(update={"checkpoint": Checkpoint()})


@dataclass(frozen=True)
class SideRuns:
    """The repeats of one side of a verification, by seed: speeds in samples per second, and losses.

    `is_disturbed`: other programs, heat or power limits slowed down any of them.
    """

    speeds: tuple[float, ...]
    losses: tuple[tuple[float, ...], ...]
    step_samples: int
    is_disturbed: bool = False


def with_result(proof: Proof, baseline: SideRuns, winner: SideRuns) -> Proof:
    """Return the verification with its result: the speedup, the comparison of losses, and a sentence."""
    pairs = min(len(baseline.speeds), len(winner.speeds))
    speeds, base_speeds = winner.speeds[:pairs], baseline.speeds[:pairs]
    ratio = ratio_of_means(speeds, base_speeds)
    has_outliers = outlying_side(speeds, base_speeds, is_paired=True) is not None
    interval = None if has_outliers else paired_ratio_interval(speeds, base_speeds)
    alike = losses_match(baseline, winner)
    is_disturbed = baseline.is_disturbed or winner.is_disturbed
    return proof.model_copy(
        update={
            "speedup": None if is_disturbed else ratio,
            "speedup_ci": None if is_disturbed else interval,
            "is_loss_alike": alike,
            "sentence": _sentence(ratio, interval, alike, pairs, baseline, winner),
        }
    )


def losses_match(baseline: SideRuns, winner: SideRuns) -> bool | None:
    """Return True if the losses of the fastest settings stay within the band of FP32's repeats.

    Losses are averaged over stretches of equally many samples, so that batch sizes may differ. Of the fastest
    settings, the median of the runs counts. None if the runs do not suffice.
    """
    if len(baseline.losses) < 2 or not winner.losses:
        return None
    samples = min(len(losses) * baseline.step_samples for losses in baseline.losses)
    samples = min(samples, *(len(losses) * winner.step_samples for losses in winner.losses))
    bins = min(_BINS, samples // max(baseline.step_samples, winner.step_samples))
    if bins < _LEAST_BINS:
        return None
    mine, theirs = (
        [_binned(losses, side.step_samples, samples, bins) for losses in side.losses]
        for side in (winner, baseline)
    )
    if not all(math.isfinite(loss) for curve in theirs for loss in curve):
        return None
    at_once = zip(*mine, strict=True)
    curve = [median(losses) if all(map(math.isfinite, losses)) else math.nan for losses in at_once]
    return band_of(theirs).first_step_outside(curve) is None


def _binned(losses: Sequence[float], step_samples: int, samples: int, bins: int) -> list[float]:
    ends = [round(samples * place / bins / step_samples) for place in range(bins + 1)]
    return [sum(losses[low:high]) / (high - low) if high > low else math.nan for low, high in pairwise(ends)]


def _sentence(
    ratio: float | None,
    interval: tuple[float, float] | None,
    losses_match: bool | None,
    pairs: int,
    baseline: SideRuns,
    winner: SideRuns,
) -> str:
    if ratio is None:
        return "They could not be verified, because the throughput of one side is unknown."
    sure = f" (95% interval {' to '.join(map(number_text, interval))})" if interval else ""
    if interval is None and pairs > 1:
        sure = " (outliers on one side only, so no interval)"
    by = f"{pairs:,} alternating runs of each"
    who = "these settings" if losses_match is False else "the fastest settings"
    if baseline.is_disturbed or winner.is_disturbed:
        parts = [
            f"Unreliable: the machine was disturbed during verification. In {by}, {who} trained "
            f"{pace_text(ratio)} as plain FP32. Tune again when the machine is quiet."
        ]
    elif interval is None or interval[0] <= 1.0 <= interval[1]:
        parts = [
            f"It is still unknown whether {who} are faster than plain FP32. In {by}, they trained "
            f"{pace_text(ratio)}{sure}."
        ]
    else:
        parts = [f"T{who[1:]} train {pace_text(ratio)} as plain FP32{sure}, in {by}."]
    if losses_match is None:
        parts.append("It could not be determined whether their losses match FP32.")
    else:
        where = "stay within" if losses_match else "leave"
        parts.append(f"Their losses {where} the range of FP32 runs with other seeds.")
    if baseline.step_samples != winner.step_samples:
        parts.append("Because the batch size differs, losses are compared after the same number of samples.")
    return " ".join(parts)


def candidates_to_verify(tuning: Tuning) -> Iterator[Changes]:
    """Yield the candidates to verify, the fastest first, without rejected and slower ones."""
    broken = [_seen_by_losses(proof.changes) for proof in tuning.proofs]
    for changes in (*tuning.leaders, *(rank.changes for rank in ranking(tuning.trials))):
        if not changes or len(broken) == _MOST_PROOFS:
            return
        if (seen := _seen_by_losses(changes)) not in broken:
            yield changes
            broken.append(seen)


def _seen_by_losses(changes: Changes) -> tuple[Any, ...]:
    batch = changes.get("batch_size"), changes.get("step.gradient_accumulation")
    return changes.get("precision"), changes.get("step.fp8_recipe"), batch


_LEAST_BLOCK_STEPS, _MOST_BLOCK_STEPS = 2, 500
MOST_WARMUP_STEPS = 10


def short_run(experiment: Experiment, seconds: float, speed: float | None) -> Experiment:
    """Return the experiment with as many steps as take `seconds` at a speed in samples per second.

    Without a speed it has the fewest steps that give one. It neither validates nor saves checkpoints.
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
    """Return the experiment with `steps` steps after a short warm-up."""
    warmup = short_warmup(experiment)
    measure = {"warmup_steps": warmup, "block_steps": block_steps}
    return experiment.model_copy(
        update={
            "steps": warmup + measured_steps,
            "epochs": None,
            "measure": experiment.measure.model_copy(update=measure),
        }
    )


def short_warmup(experiment: Experiment) -> int:
    """Return the number of steps of a short warm-up that still covers compilation and graph capture."""
    return max(min(experiment.measure.warmup_steps, MOST_WARMUP_STEPS), experiment.step.least_warmup_steps)


def known_speed(trials: Iterable[TuningTrial], changes: Changes) -> float | None:
    """Return the newest measured speed of the trials with these changes, in samples per second.

    Without such a trial, it is the speed of plain FP32. None if neither was measured.
    """
    speeds = [(trial.changes, trial.samples_per_second) for trial in trials if trial.is_usable]
    own = [speed for of, speed in speeds if of == changes]
    plain = [speed for of, speed in speeds if not of]
    return next(reversed(own or plain), None)


def shown(
    trial: TuningTrial, experiment: Experiment, pilot: Pilot | None, last: Finished | Failed, tuning: Tuning
) -> TuningTrial:
    """Return the trial with the results of its run, or with the reason why the run cannot be used."""
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
        "is_disturbed": was_slowed_down(last.summary),
        "left_out": last.summary.left_out,
        "has_attention": bool(last.summary.attention) or not last.summary.formats,
    }
    known = trial.model_copy(update=figures)
    return known.model_copy(update={"problem": _why_unusable(known, last.summary, tuning)})


def _why_unusable(trial: TuningTrial, summary: Summary, tuning: Tuning) -> Problem | None:
    peak, cap = trial.peak_mib, tuning.memory_cap_gib
    if peak is not None and cap is not None and peak > cap * MIB_PER_GIB:
        message = f"It needs {memory_text(peak)}, more than the cap of {memory_text(cap * MIB_PER_GIB)}."
        return Problem(kind=Kind.OUT_OF_MEMORY, message=message, remedy="Raise the memory cap.")
    if trial.left_out:
        message = left_out_words(trial.left_out).replace("\n", ", ")
        return request_problem(f"Not possible here: {message}.", "Choose other optimizations.")
    if tuning.plan.guard == "alike" and summary.first_nan_step is not None:
        message = f"Its loss is NaN or Inf at step {summary.first_nan_step:,}."
        return Problem(kind=Kind.NOT_A_NUMBER, message=message, remedy="Choose another precision.")
    return _no_speed(summary) if trial.samples_per_second is None else None


def _no_speed(summary: Summary) -> Problem:
    message = summary.speed_note or "Its throughput is unknown."
    return request_problem(message, "Try again on an idle machine.")


def trial_result(trial: TuningTrial) -> TrialResult:
    """Return a saved trial as the result for the search."""
    speed = trial.samples_per_second if trial.is_usable else None
    is_out = trial.problem is not None and trial.problem.kind is Kind.OUT_OF_MEMORY
    return TrialResult(speed, trial.peak_mib, is_out, frozenset(trial.left_out), trial.has_attention)


ROUNDS = 3

REMAINDER = "Full runs vs. short runs"


def change_path(space: Space, winner: Places) -> tuple[Places, ...]:
    """Return the path from plain FP32 to the fastest settings, one change at a time."""
    steps = [BASELINE]
    for kind in CHANGE_KINDS:
        if place := value_of(winner, kind):
            steps.append(with_value(steps[-1], kind, place))
    return tuple(steps)


def path_trials(steps: Sequence[Places]) -> Iterator[Places]:
    """Return the trials that measure a path: its steps one after the other, every second time in reverse.

    A single change needs none, because its gain is that of the verification.
    """
    for number in range(ROUNDS if len(steps) > 2 else 0):
        yield from steps if number % 2 == 0 else reversed(steps)


def gains(
    space: Space, steps: Sequence[Places], trials: Sequence[TuningTrial], proof: Proof
) -> tuple[Gain, ...]:
    """Return the gain of each step and the remainder, so that their product is the verified speedup.

    `trials` are those of `path_trials`. Empty if any of them has no speed.
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
        ratio = ratio_of_means(mine[:pairs], before[:pairs])
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
