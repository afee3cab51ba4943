"""What the window knows of a search for the largest batch, side by side, live or as it was saved. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from engine.events import Failed, Phase
from engine.experiment import Experiment, Precision
from engine.memory_lines import MemoryLine
from engine.probe_events import ProbeEnded, ProbeResult, ProbeStarted, Trial, TrialBegun, TrialEnded
from engine.probe_result import telling, times_the_batch
from engine.probing import ProbeEvent
from engine.problem import Problem
from engine.records.probes import ProbeRecord
from engine.search import Search
from gui.search_order import SearchOrder


@dataclass(frozen=True)
class SideView:
    """One precision's search. `forecast` are lines in MiB, in the quantity of the trials; empty if unknown.

    `trying` is the batch in trial, and `doing` what its worker is at.
    """

    label: str
    experiment: Experiment
    granularity: int = 1
    trials: tuple[Trial, ...] = ()
    budget_mib: float | None = None
    trying: int | None = None
    doing: str = ""
    result: ProbeResult | None = None
    problem: Problem | None = None
    forecast: tuple[MemoryLine, ...] = ()

    @property
    def precision(self) -> Precision:
        return self.experiment.precision

    @property
    def largest_batch(self) -> int:
        """The largest batch that passed so far; 0 where none did."""
        return max((trial.batch_size for trial in self.telling if trial.fits), default=0)

    @property
    def telling(self) -> tuple[Trial, ...]:
        """The trials that the answer rests on; others came near it."""
        return telling(self.trials)

    @property
    def is_over(self) -> bool:
        return self.result is not None or self.problem is not None

    @property
    def is_proven(self) -> bool:
        """Whether the largest batch is the answer, and not only as far as a search came that was stopped."""
        return self.result is not None and self.result.verified

    @property
    def seconds(self) -> float:
        """How long the search took, or its trials have taken so far."""
        return self.result.seconds if self.result else sum(trial.seconds for trial in self.trials)

    def lines(self) -> tuple[MemoryLine, ...]:
        """Memory by batch size, in MiB: through the smallest and the largest trial that passed, else as
        forecast; empty where neither is known."""
        known = sorted(
            (trial.batch_size, trial.peak_mib) for trial in self.telling if trial.fits and trial.peak_mib
        )
        if len(known) < 2 or known[0][0] == known[-1][0]:
            return self.forecast
        (low, less), (high, more) = known[0], known[-1]
        slope = (more - less) / (high - low)
        return (MemoryLine(fixed_mib=less - slope * low, per_sample_mib=slope),)

    def recommended_batch(self, margin_fraction: float, multiple: int = 1) -> int:
        """The largest multiple that leaves that fraction of the memory free; 0 where there is none."""
        search = Search(granularity=self.granularity, budget_mib=self.budget_mib)
        for trial in self.telling:
            search.learn(trial, self.budget_mib)
        return search.recommended_batch(margin_fraction) // multiple * multiple

    def after(self, event: ProbeEvent) -> SideView:
        """The side with what an event of its search says."""
        match event:
            case ProbeStarted():
                return replace(self, experiment=event.experiment, budget_mib=event.budget_mib or None)
            case TrialBegun(batch_size=size):
                return replace(self, trying=size, doing="")
            case Phase(name=name):
                return replace(self, doing=name.value)
            case TrialEnded(trial=trial, budget_mib=budget):
                trials = (*self.trials, trial)
                return replace(self, trials=trials, trying=None, doing="", budget_mib=budget or None)
            case ProbeEnded(result=result):
                return replace(self, result=result, trying=None, doing="")
            case Failed(problem=problem):
                return replace(self, problem=problem, trying=None, doing="")
        return self


@dataclass(frozen=True)
class SearchView:
    """A search in one precision or several. `is_live` while it goes on, `is_waiting` before its turn."""

    series: str
    sides: tuple[SideView, ...]
    created: datetime
    is_live: bool = False
    is_waiting: bool = False

    @classmethod
    def of_order(cls, order: SearchOrder) -> SearchView:
        """A search that was just asked for."""
        sides = tuple(SideView(label, one, order.granularity) for label, one in order.sides)
        return cls(order.series, sides, datetime.now(UTC), is_waiting=True)

    @classmethod
    def of_records(cls, records: Sequence[ProbeRecord]) -> SearchView:
        """A saved search: the records of one series, in any order."""
        ordered = sorted(records, key=lambda record: record.number)
        labels = [record.experiment.precision.label for record in ordered]
        return cls(
            ordered[0].series,
            tuple(_side(record, label) for record, label in zip(ordered, labels, strict=True)),
            ordered[0].created,
        )

    def after(self, side: int, event: ProbeEvent) -> SearchView:
        """The search with what an event of one of its sides says."""
        sides = list(self.sides)
        sides[side] = sides[side].after(event)
        return replace(self, sides=tuple(sides), is_waiting=False, is_live=True)

    @property
    def trial_count(self) -> int:
        return sum(len(side.trials) for side in self.sides)

    @property
    def seconds(self) -> float:
        return sum(side.seconds for side in self.sides)

    @property
    def cap_gib(self) -> float | None:
        """The card that it was searched for; None for the device's own memory."""
        return self.sides[0].experiment.memory_cap_gib

    @property
    def budget_mib(self) -> float | None:
        """What a trial may take, as the last side told it; the least where sides differ."""
        return min((side.budget_mib for side in self.sides if side.budget_mib), default=None)

    @property
    def baseline(self) -> SideView:
        """What the others are measured against: strict FP32 if it was searched, else the first."""
        return next((side for side in self.sides if side.precision is Precision.FP32), self.sides[0])

    @property
    def best(self) -> SideView | None:
        """The side with the largest batch beside the baseline; None where there is no other."""
        others = [side for side in self.sides if side is not self.baseline]
        return max(others, key=lambda side: side.largest_batch, default=None)

    @property
    def ratio(self) -> float | None:
        """The best side's batch over the baseline's, where both are proven and bound by memory."""
        best = self.best
        return None if best is None else times_the_batch(self.baseline, best)


def _side(record: ProbeRecord, label: str) -> SideView:
    return SideView(
        label,
        record.experiment,
        record.granularity,
        record.trials,
        record.budget_mib,
        result=record.result,
    )
