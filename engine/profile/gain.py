"""Why a profiled side is faster than the first one, by the parts of their steps, in sentences."""

from __future__ import annotations

from dataclasses import dataclass

from engine.compare.verdict import Piece, Pieces
from engine.experiment.experiment import Experiment, Precision
from engine.profile.names import part_phrase, side_names
from engine.profile.verdict import NOTED_DIFFERENCE, milliseconds, verdicts
from engine.protocol.profile import Bar, Profiles, StepPart, StepProfile
from engine.words.numbers import number, share_text, throughput_text, times


@dataclass(frozen=True)
class ProfileSpeedup:
    """The speedup of a profiled experiment over the first one, and a sentence on the part that caused it.

    `ratio` is None if a profile is unreliable or its matmuls are emulated.
    """

    ratio: float | None
    sentence: str


def gains(profiles: Profiles) -> tuple[ProfileSpeedup | None, ...]:
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


def headline(profiles: Profiles) -> tuple[Pieces, tuple[str, ...]]:
    """Return the largest speedup with the parts that caused it as a sentence, and its saving per step.

    Without a speedup, return the first bottleneck.
    """
    known = gains(profiles)
    best = max((gain for gain in known if gain is not None), key=lambda gain: gain.ratio or 0.0, default=None)
    if best is None:
        named = zip(side_names(profiles), verdicts(profiles), strict=True)
        name, verdict = next((name, verdict) for name, verdict in named if verdict is not None)
        several = len(profiles.sides) > 1
        return (Piece(f"{name}: {verdict.sentence}" if several else verdict.sentence),), ()
    side, first = profiles.sides[known.index(best)], profiles.sides[0]
    if (
        best.ratio is None
        or best.ratio < 1 + NOTED_DIFFERENCE
        or side.profile is None
        or first.profile is None
    ):
        return (Piece(best.sentence),), ()
    names = side_names(profiles)
    new = _Side(names[known.index(best)], side.profile, side.experiment)
    old = _Side(names[0], first.profile, first.experiment)
    return _gain_causes(best.ratio, new, old)


def _gain_causes(ratio: float, side: _Side, first: _Side) -> tuple[Pieces, tuple[str, ...]]:
    was, now = first.experiment.precision, side.experiment.precision
    scale = first.profile.samples / side.profile.samples
    works = sorted(_works(side, first, scale), key=lambda work: -work.fell)
    saved = first.profile.step_ms * (1 - 1 / ratio)
    fallen = [work for work in works[:2] if work.fell >= NOTED_DIFFERENCE * saved]
    pieces = [Piece("Why "), Piece(f"{times(ratio)} times", "strong", precision=now), Piece(": ")]
    for place, work in enumerate(fallen):
        pieces.append(Piece(f", {work.name} from " if place else f"{work.name} fell from "))
        pieces += [Piece(number(work.before), "strong", precision=was), Piece(" to ")]
        pieces.append(Piece(milliseconds(work.now), "strong", precision=now))
    if -works[-1].fell >= NOTED_DIFFERENCE * saved:
        cost = Piece(milliseconds(-works[-1].fell), "strong", precision=now)
        pieces += [Piece(f", and {works[-1].name} costs "), cost, Piece(" more")]
    # more than all of it where other work rose: that has no share
    share = fallen[0].fell / saved if fallen else 0.0
    most = f", {share_text(share)} of it in {fallen[0].name}" if 0 < share <= 1 else ""
    return tuple(pieces), (f"{milliseconds(saved)} saved per step{most}",)


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


def _gain(side: _Side, first: _Side) -> ProfileSpeedup:
    disturbed = next((other for other in (first, side) if other.profile.disturbance), None)
    if disturbed is not None:
        why = f"the profile of {disturbed.name} is unreliable"
        return ProfileSpeedup(None, f"{side.name} is not compared with {first.name}: {why}.")
    emulated = next((other for other in (first, side) if other.is_emulated), None)
    if emulated is not None:
        why = f"{emulated.name} is emulated on a CPU, which says nothing about a GPU"
        return ProfileSpeedup(None, f"{side.name} is not compared with {first.name}: {why}.")
    scale = first.profile.samples / side.profile.samples
    before, now = first.profile.step_ms, side.profile.step_ms * scale
    ratio, noted = before / now if now else 1.0, NOTED_DIFFERENCE * before
    more = " for the same samples" if scale != 1 else " per step"
    both_times = f"({number(now)} vs. {milliseconds(before)}{more})"
    works = _works(side, first, scale)
    fallen, risen = max(works, key=lambda work: work.fell), min(works, key=lambda work: work.fell)
    longest = max(works, key=lambda work: work.now)
    share = share_text(longest.now / now) if now else ""
    if ratio >= 1 + NOTED_DIFFERENCE:
        lead = f"{side.name} is {times(ratio)} times as fast as {first.name} {both_times}"
        reason = f"{fallen.change}, while {longest.change} and now takes {share} of the step"
        if longest is fallen:
            reason = f"{fallen.change}, and still takes {share} of the step"
    elif ratio > 1 - NOTED_DIFFERENCE:
        lead = f"{side.name} is not faster than {first.name} {both_times}"
        reason = f"{share} of its step is {longest.name}{_reason(longest, side, first)}"
        if fallen.fell >= noted and -risen.fell >= noted:
            reason = f"{fallen.change}, but {risen.change}{_reason(risen, side, first)}"
    else:
        lead = f"{side.name} takes {times(1 / ratio)} times as long as {first.name} {both_times}"
        reason = f"{fallen.change}, but " if fallen.fell >= noted else ""
        reason += f"{risen.change}{_reason(risen, side, first)}"
    return ProfileSpeedup(ratio, f"{lead}: {reason}.")


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
