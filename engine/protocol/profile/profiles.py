"""The profiles of one or several experiments, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import Field, field_validator

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem, ProblemError, request_problem
from engine.experiment.value import Line, Message
from engine.protocol.answer import Answer
from engine.protocol.profile.limits import Limits
from engine.protocol.profile.profile import StepProfile
from engine.words.numbers import number

MOST_SIDES = 8


class ProfileSide(Message):
    """An experiment, the run that it is taken from, if any, and its profile, or why there is none."""

    experiment: Experiment
    run_id: Line | None = None
    profile: StepProfile | None = None
    problem: Problem | None = None


class Profiles(Answer):
    """The sides in the order shown; the first is the baseline. Those of one device share its limits."""

    kind = "profile"
    sides: Annotated[tuple[ProfileSide, ...], Field(max_length=MOST_SIDES)] = ()

    @field_validator("sides")
    @classmethod
    def _with_shared_limits(cls, sides: tuple[ProfileSide, ...]) -> tuple[ProfileSide, ...]:
        shared = {device: _best(sides, device) for device in {side.experiment.device for side in sides}}
        return tuple(_with_limits(side, shared[side.experiment.device]) for side in sides)

    def with_side(self, place: int, **changes: Any) -> Profiles:
        """The profiles with these fields of a side changed."""
        side = self.sides[place].model_copy(update=changes)
        return Profiles(sides=(*self.sides[:place], side, *self.sides[place + 1 :]))

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        return tuple(side.experiment for side in self.sides)

    @property
    def run_ids(self) -> tuple[str | None, ...]:
        return tuple(side.run_id for side in self.sides)

    @property
    def is_known(self) -> bool:
        return bool(self.measured())

    @property
    def digest(self) -> str:
        """The steps' times: "FP32 4.0 ms, BF16 AMP 2.1 ms a step"."""
        known = [(side.experiment, side.profile) for side in self.sides if side.profile is not None]
        times = [f"{each.precision.label} {number(profile.step_ms)} ms" for each, profile in known]
        return f"{', '.join(times)} a step" if times else ""

    def afresh(self) -> Self:
        unknown = {"profile": None, "problem": None}
        return self.model_copy(
            update={"sides": tuple(side.model_copy(update=unknown) for side in self.sides)}
        )

    def measured(self) -> tuple[StepProfile, ...]:
        """The profiles that are known."""
        return tuple(side.profile for side in self.sides if side.profile is not None)


def profiles_of(experiments: Sequence[Experiment], run_ids: Sequence[str | None] = ()) -> Profiles:
    """The sides of experiments, or of the runs that are named, not profiled yet. Raises ProblemError."""
    if not 1 <= len(experiments) <= MOST_SIDES:
        message = f"{len(experiments):,} experiments cannot be profiled side by side."
        remedy = f"Choose from 1 to {MOST_SIDES}."
        raise ProblemError(request_problem(message, remedy, key="precision", value=len(experiments)))
    pairs = zip(experiments, run_ids or [None] * len(experiments), strict=True)
    return Profiles(
        sides=tuple(ProfileSide(experiment=experiment, run_id=run_id) for experiment, run_id in pairs)
    )


def _best(sides: Sequence[ProfileSide], device: str) -> Limits | None:
    """The limits of a device, each the best that was measured, without peaks that a step exceeds."""
    measured = [side.profile for side in sides if side.profile and side.experiment.device == device]
    best: Limits | None = None
    for limits in filter(None, (profile.limits for profile in measured)):
        best = limits if best is None else _better(best, limits)
    for profile in measured:
        best = best and profile.with_limits(best).limits
    return best


def _better(limits: Limits, other: Limits) -> Limits:
    for peak in other.peaks:
        limits = limits.with_peak(peak.format, max(peak.tflops, limits.tflops(peak.format) or 0.0))
    return limits.model_copy(update={"gb_per_second": max(limits.gb_per_second, other.gb_per_second)})


def _with_limits(side: ProfileSide, limits: Limits | None) -> ProfileSide:
    profile = side.profile
    if profile is None or limits is None or profile.limits in (None, limits):
        return side
    return side.model_copy(update={"profile": profile.with_limits(limits)})
