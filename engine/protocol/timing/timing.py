"""A timing: the profiles of one or several experiments, set side by side."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem
from engine.experiment.text import Line
from engine.experiment.value import Message, Whole
from engine.protocol.timing.profile import StepProfile

MOST_SIDES = 8


class TimingSide(Message):
    """An experiment, the run that it is taken from, if any, and its profile, or why there is none."""

    experiment: Experiment
    run_id: Line | None = None
    profile: StepProfile | None = None
    problem: Problem | None = None


class Timing(Message):
    """The sides in the order shown; the first is the baseline."""

    sides: Annotated[tuple[TimingSide, ...], Field(max_length=MOST_SIDES)] = ()

    def with_side(self, place: int, **changes: Any) -> Timing:
        """The timing with these fields of a side changed."""
        side = self.sides[place].model_copy(update=changes)
        return Timing(sides=(*self.sides[:place], side, *self.sides[place + 1 :]))

    def profiles(self) -> tuple[StepProfile, ...]:
        """The profiles that are known."""
        return tuple(side.profile for side in self.sides if side.profile is not None)


class TimingStarted(Message):
    """A timing begins; `timing_id` is its id in the store, the sides' experiments are as resolved."""

    event: Literal["timing-started"] = "timing-started"
    timing_id: Line
    timing: Timing


class SideStarted(Message):
    """The events that follow are of this side, counted from 0."""

    event: Literal["side-started"] = "side-started"
    side: Whole


class SideFailed(Message):
    """A side has no profile; the others are made all the same."""

    event: Literal["side-failed"] = "side-failed"
    side: Whole
    problem: Problem
