"""The speedup of a side over the first, and the part of the step that caused it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.experiment.experiment import Experiment, Precision
from engine.profile.names import part_phrase, side_names
from engine.profile.verdict import Verdict, milliseconds, verdict_of
from engine.protocol.advice import other_precision
from engine.protocol.profile import Bar, Profiles, ProfileSide, StepPart, StepProfile
from engine.words.numbers import number, share_text, throughput_text, times


@dataclass(frozen=True)
class Gain:
    """The speedup of a profiled experiment over the first one, and a sentence on the part that caused it.

    `ratio` is None if a profile is unreliable or its matmuls are emulated.
    """

    ratio: float | None
    sentence: str


def verdicts(profiles: Profiles) -> tuple[Verdict | None, ...]:
    """Return the bottleneck of each side. A side without a profile has None."""
    return tuple(_verdict(side, profiles.sides) for side in profiles.sides)


def _verdict(side: ProfileSide, sides: Sequence[ProfileSide]) -> Verdict | None:
    if side.profile is None:
        return None
    verdict, precision = verdict_of(side.profile, side.experiment), side.experiment.precision
    if verdict.changes or side.profile.disturbance is not None:
        return verdict
    step_ms = {
        other.experiment.precision: other.profile.step_ms
        for other in sides
        if other.profile is not None
        and other.profile.step_ms
        and other.profile.disturbance is None
        and other.experiment.model_copy(update={"precision": precision}) == side.experiment
    }
    best = min(step_ms, key=lambda other: step_ms[other], default=precision)
    if best is precision or side.profile.step_ms < (1 + _NOTED) * step_ms[best]:
        return verdict
    ratio, remedy = side.profile.step_ms / step_ms[best], other_precision(best)
    sentence = f"{remedy.action}, which is {times(ratio)} times as fast here."
    return replace(verdict, next_step=sentence, **remedy._asdict())


def gains(profiles: Profiles) -> tuple[Gain | None, ...]:
    """Return each side's gain over the first. None for the first side, and if either has no profile."""
    names = side_names(profiles)
    sides = [
        None if side.profile is None else _Side(name, side.profile, side.experiment)
        for name, side in zip(names, profiles.sides, strict=True)
    ]
    return tuple(
        None if place == 0 or side is None or sides[0] is None else _gain(side, sides[0])
        for place, side in enumerate(sides)
    )


@dataclass(frozen=True)
class _Side:
    name: str
    profile: StepProfile
    experiment: Experiment

    @property
    def is_emulated(self) -> bool:
        return self.experiment.precision is Precision.FP8 and self.profile.device_type == "cpu"


@dataclass(frozen=True)
class _Work:
    name: str
    parts: tuple[StepPart, ...]
    before: float
    now: float

    @property
    def fell(self) -> float:
        return self.before - self.now

    @property
    def change(self) -> str:
        before, now = number(self.before), milliseconds(self.now)
        if milliseconds(self.before) == now:
            return f"{self.name} stays at {now}"
        return f"{self.name} {'fell' if self.fell > 0 else 'rose'} from {before} to {now}"


_MATRIX = (StepPart.MATRIX_UNITS, StepPart.MATRIX)
"""One kind of work, as matmuls move between these parts from one precision to the other."""
_KINDS = (_MATRIX, *((part,) for part in StepPart if part not in _MATRIX))
_NOTED = 0.05
"""The smallest notable change, as a share of the first side's step. Smaller ones count as none."""


def _gain(side: _Side, first: _Side) -> Gain:
    disturbed = next((other for other in (first, side) if other.profile.disturbance), None)
    if disturbed is not None:
        why = f"the profile of {disturbed.name} is unreliable"
        return Gain(None, f"{side.name} is not compared with {first.name}: {why}.")
    emulated = next((other for other in (first, side) if other.is_emulated), None)
    if emulated is not None:
        why = f"{emulated.name} is emulated on a CPU, which says nothing about a GPU"
        return Gain(None, f"{side.name} is not compared with {first.name}: {why}.")
    scale = first.profile.samples / side.profile.samples
    before, now = first.profile.step_ms, side.profile.step_ms * scale
    ratio, noted = before / now if now else 1.0, _NOTED * before
    more = " for the same samples" if scale != 1 else " per step"
    both_times = f"({number(now)} vs. {milliseconds(before)}{more})"
    works = _works(side, first, scale)
    fallen, risen = max(works, key=lambda work: work.fell), min(works, key=lambda work: work.fell)
    longest = max(works, key=lambda work: work.now)
    share = share_text(longest.now / now) if now else ""
    if ratio >= 1 + _NOTED:
        lead = f"{side.name} is {times(ratio)} times as fast as {first.name} {both_times}"
        reason = f"{fallen.change}, while {longest.change} and now takes {share} of the step"
        if longest is fallen:
            reason = f"{fallen.change}, and still takes {share} of the step"
    elif ratio > 1 - _NOTED:
        lead = f"{side.name} is not faster than {first.name} {both_times}"
        reason = f"{share} of its step is {longest.name}{_reason(longest, side, first)}"
        if fallen.fell >= noted and -risen.fell >= noted:
            reason = f"{fallen.change}, but {risen.change}{_reason(risen, side, first)}"
    else:
        lead = f"{side.name} takes {times(1 / ratio)} times as long as {first.name} {both_times}"
        reason = f"{fallen.change}, but " if fallen.fell >= noted else ""
        reason += f"{risen.change}{_reason(risen, side, first)}"
    return Gain(ratio, f"{lead}: {reason}.")


def _works(side: _Side, first: _Side, scale: float) -> list[_Work]:
    def time(bar: Bar, parts: tuple[StepPart, ...]) -> float:
        return sum(bar.ms(part) for part in parts)

    works = []
    for parts in _KINDS:
        name = "matrix work" if parts is _MATRIX else part_phrase(parts[0], side.profile)
        before, now = time(first.profile.bar, parts), time(side.profile.bar, parts) * scale
        works.append(_Work(name, parts, before, now))
    return works


_REASONS = {
    StepPart.DATA: ", which no precision shortens",
    StepPart.COPIES: ", which no precision shortens",
    StepPart.HOST: ", because the work is too small to keep the device busy in any precision",
    StepPart.COMMUNICATION: ", which sends the gradients as before",
    StepPart.SCALING: ", which only FP8 needs",
    StepPart.OPTIMIZER: ", which still computes in FP32",
}


def _reason(work: _Work, side: _Side, first: _Side) -> str:
    """Return a clause on why a precision does not shorten this work. "" where something else differs."""
    part, precision = work.parts[0], side.experiment.precision
    if precision == first.experiment.precision:
        return ""
    if part is StepPart.HOST and side.profile.device_type == "cpu":
        return ", in which Python prepares the next operation, whatever its dtype"
    if part is StepPart.MEMORY and not precision.is_narrow:
        return f", which {precision.label} does not shorten"
    if precision is Precision.BF16_PURE and part in (StepPart.MEMORY, StepPart.OPTIMIZER):
        return ""
    if part is StepPart.MEMORY:
        return ", because AMP adds casts" if work.fell < 0 else ", much of which AMP leaves in FP32"
    if part is StepPart.MATRIX_UNITS:
        return _matrix_reason(side.profile, first.profile)
    return _REASONS.get(part, "")


def _matrix_reason(profile: StepProfile, first: StepProfile) -> str:
    names = f"{profile.format.upper()}", f"{first.format.upper()}"
    peak, first_peak = profile.peak_tflops, first.peak_tflops
    if peak and first_peak and peak < 1.1 * first_peak:
        device = "CPU" if profile.device_type == "cpu" else "device"
        return (
            f", because the matmuls of this {device} reach {throughput_text(peak)} in {names[0]} "
            f"and {throughput_text(first_peak)} in {names[1]}"
        )
    if profile.matrix_units and profile.bar.ms(StepPart.MATRIX) > profile.bar.ms(StepPart.MATRIX_UNITS):
        return f", because most of it does not run on {profile.matrix_units}"
    reached = profile.matrix_share_of_peak
    return "" if reached is None else f", which runs at {share_text(reached)} of its measured peak"
