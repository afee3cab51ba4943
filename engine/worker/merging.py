"""Merges the events of ranks into those of one run or trial: mean losses, the time of the slowest rank."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.experiment.experiment import Experiment
from engine.protocol.events import (
    SAMPLE_COLUMNS,
    Epoch,
    Event,
    Failed,
    Finished,
    Heartbeat,
    Log,
    Ready,
    Samples,
    Skipped,
    Started,
)
from engine.protocol.summary import Energy, RankMemory, Summary, slowest_rank
from engine.protocol.trials import OUT_OF_MEMORY, Trial, Tried
from engine.training.failures import not_a_number

_ACTIVITIES = ("gpu_utilization", "sm_activity", "tensor_activity", "memory_activity")
_MEANS = frozenset({"loss", *(f"{activity}_percent" for activity in _ACTIVITIES)})
_SUMS = frozenset({"power_watts"})
_LEAST = frozenset({"samples_per_second", "clock_mhz"})
_MEMORY = ("allocated_mib", "resident_mib")
_OF_FIRST = frozenset({"step", "learning_rate", "grad_scale", "grad_norm"})


class Merger:
    """Merges the events of a multi-device run's ranks into the events of the run, in the order of each rank.

    `asked` is the user's experiment, and `experiment` the one that is trained, on the first of `devices`,
    which are the ranks' devices, such as "cuda:1" for the second.
    """

    def __init__(self, asked: Experiment, experiment: Experiment, devices: Sequence[str]) -> None:
        self._experiment = experiment.model_copy(update={"on_nan": asked.on_nan})
        self._count = experiment.devices
        self._columns: list[dict[str, list[float]]] = [{} for _ in range(self._count)]
        self._epochs: dict[int, list[Epoch]] = {}
        self._skipped: list[list[int]] = [[] for _ in range(self._count)]
        self._overflowed: list[set[int]] = [set() for _ in range(self._count)]
        self._is_named = [False] * self._count
        self._finished: dict[int, Finished] = {}
        self._tried: dict[int, Tried] = {}
        self._devices = devices
        self._completed = [0] * self._count
        self._has_nan = False
        self._began = time.monotonic()

    @property
    def must_end(self) -> bool:
        """True once a NaN ends the run."""
        return self._has_nan and self._experiment.on_nan != "continue"

    @property
    def step(self) -> int:
        """The last step that all ranks have completed."""
        return min(self._completed)

    @property
    def is_synchronous(self) -> bool:
        """True on a CPU, where the call that waits for other ranks blocks."""
        return self._devices[0] == "cpu"

    def of_rank(self, rank: int, message: str) -> str:
        """Return a message of a rank with the rank's name in front."""
        where = "" if self._devices[rank] == "cpu" else f", on {self._devices[rank]}"
        return f"Rank {rank} of {self._count}{where}: {message}"

    def add(self, rank: int, event: Event) -> Iterator[Event]:
        """Take an event of a rank, and yield the run's events that it completes."""
        match event:
            case Samples(step=(*_, step)):
                self._completed[rank] = int(step)
                for name, values in event.columns().items():
                    self._columns[rank].setdefault(name, []).extend(values)
                yield from self._common_steps()
            case Epoch():
                ended = self._epochs.setdefault(event.epoch, [])
                ended.append(event)
                if len(ended) == self._count:
                    loss = math.fsum(each.train_loss for each in ended) / self._count
                    seconds = max(each.seconds for each in ended)
                    yield event.model_copy(update={"train_loss": loss, "seconds": seconds})
                    del self._epochs[event.epoch]
            case Skipped(steps=steps):
                self._skipped[rank] += steps
                self._overflowed[rank] |= set(event.own)
                if rank == 0:
                    yield event.model_copy(update={"own": ()})
                yield from self._overflows()
            case Started():
                if rank == 0:
                    yield event.model_copy(update={"experiment": self._experiment})
            case Log(message=message):
                if rank == 0:
                    yield event
                elif event.level == "stderr" or event.step is not None:
                    yield event.model_copy(update={"message": f"Rank {rank}: {message}"})
            case Finished():
                self._finished[rank] = event
            case Tried():
                self._tried[rank] = event
            case Heartbeat(step=step):
                self._completed[rank] = max(step, self._completed[rank])
            case Ready():
                pass
            case _:
                if rank == 0:
                    yield event

    def ending(self) -> Iterator[Event]:
        """Yield the last events, once each rank has sent its own."""
        if self._tried:
            yield self._fitting([self._tried[rank] for rank in range(self._count)])
            return
        if any(steps != self._skipped[0] for steps in self._skipped):
            message = "The ranks skipped different steps, so their weights now differ."
            yield Log(level="problem", message=message)
        summary = merged([self._finished[rank].summary for rank in range(self._count)])
        if (slowest := slowest_rank(summary.ranks)) is not None:
            rank, wait_ms = slowest
            wait = f"{wait_ms:.1f} ms of each step ({summary.step_ms:.1f} ms)"
            message = f"slower than the others, which wait {wait} for it."
            yield Log(level="warning", message=self.of_rank(rank, message))
        if self._experiment.on_nan == "fail" and summary.first_nan_step is not None:
            yield Failed(problem=not_a_number(summary.first_nan_step), summary=summary)
        else:
            yield Finished(summary=summary, stopped=any(each.stopped for each in self._finished.values()))

    def unfit(self, rank: int, tried: Tried) -> Tried:
        """Return the answer of a trial that did not fit on one rank."""
        return self._of_all(tried, note=self.of_rank(rank, tried.trial.note or OUT_OF_MEMORY))

    def _fitting(self, tried: list[Tried]) -> Tried:
        peaks = [each.trial.peak_mib or 0.0 for each in tried]
        rank = peaks.index(max(peaks))
        of_all = self._of_all(
            tried[rank],
            reserved_mib=_largest_value([each.trial for each in tried], "reserved_mib"),
            one_step_samples_per_second=_of_slowest([each.trial for each in tried]),
            note=self.of_rank(rank, "its memory is the largest of all ranks."),
        )
        others_mib = _largest_value(tried, "other_programs_mib")
        budget_mib = min(each.budget_mib for each in tried)
        return of_all.model_copy(update={"budget_mib": budget_mib, "other_programs_mib": others_mib})

    def _of_all(self, tried: Tried, **changes: Any) -> Tried:
        # the ranks end with their trial, and so does what they would still hold
        seconds = time.monotonic() - self._began
        trial = tried.trial.model_copy(update={"seconds": seconds, **changes})
        return tried.model_copy(update={"trial": trial, "leaked_mib": 0.0})

    def _overflows(self) -> Iterator[Log]:
        # each rank is named once, at a step that all of them have skipped and it alone is the cause of
        skipped = set(self._skipped[0]).intersection(*self._skipped[1:])
        for step in sorted(skipped.intersection(set().union(*self._overflowed))):
            ranks = [rank for rank, steps in enumerate(self._overflowed) if step in steps]
            for steps in self._overflowed:
                steps.discard(step)
            if len(ranks) == 1 and not self._is_named[ranks[0]]:
                self._is_named[ranks[0]] = True
                message = f"all ranks skipped step {step:,}, but only this rank's gradients overflowed."
                yield Log(level="warning", message=self.of_rank(ranks[0], message), step=step)

    def _common_steps(self) -> Iterator[Samples | RankMemory]:
        steps = min(len(columns.get("step", ())) for columns in self._columns)
        if not steps:
            return
        names = [name for name in SAMPLE_COLUMNS if all(name in columns for columns in self._columns)]
        columns: dict[str, list[float]] = {}
        for name in names:
            values = np.array([own[name][:steps] for own in self._columns])
            columns[name] = _of_all(name, values)
        memory = next((name for name in _MEMORY if name in columns), None)
        last = tuple(own[memory][steps - 1] for own in self._columns) if memory is not None else ()
        for own in self._columns:
            for name in tuple(own):
                del own[name][:steps]
        self._has_nan |= any(map(math.isnan, columns["loss"]))
        yield Samples.model_validate(columns)
        if last and all(map(math.isfinite, last)):
            yield RankMemory(mib=last)


def _of_all(name: str, values: NDArray[np.float64]) -> list[float]:
    # of one figure of each rank (ranks, steps) that of the run (steps,)
    if name in _OF_FIRST:
        own = values[0]
    elif name == "slowdown":
        # bits, of which a rank may have others than the first
        own = np.bitwise_or.reduce(np.nan_to_num(values).astype(np.int64)).astype(np.float64)
    elif name in _MEANS:
        own = values.mean(axis=0)
    elif name == "samples_per_second":
        # each waits for the slowest
        own = values.min(axis=0) * len(values)
    elif name in _LEAST:
        own = values.min(axis=0)
    else:
        own = values.sum(axis=0) if name in _SUMS else values.max(axis=0)
    figures: list[float] = own.tolist()
    return figures


_PEAKS = (
    *("peak_allocated_mib", "peak_reserved_mib", "whole_run_peak_mib", "peak_resident_mib", "spilled_mib"),
    *("data_wait_fraction", "first_step_seconds", "warmup_seconds", "compile_seconds", "step_ms"),
    *("temperature_celsius", "other_programs_mib", "paused_seconds", "seconds"),
)


def merged(summaries: list[Summary]) -> Summary:
    """Merge the summaries of the ranks, in their order, into that of the run."""
    speeds = [each.samples_per_second for each in summaries]
    known = [speed for speed in speeds if speed is not None]
    has_speed = len(known) == len(speeds)
    slowest = summaries[speeds.index(min(known))] if has_speed else summaries[speeds.index(None)]
    figures: dict[str, Any] = {name: _largest_value(summaries, name) for name in _PEAKS}
    if has_speed:
        figures["samples_per_second"] = min(known) * len(summaries)
        interval = slowest.samples_per_second_ci
        if interval is not None:
            figures["samples_per_second_ci"] = tuple(end * len(summaries) for end in interval)
    losses = [each.final_train_loss for each in summaries]
    known_losses = [loss for loss in losses if loss is not None]
    if len(known_losses) == len(losses):
        figures["final_train_loss"] = math.fsum(known_losses) / len(losses)
    nan_steps = [each.first_nan_step for each in summaries if each.first_nan_step is not None]
    return slowest.model_copy(
        update={
            **figures,
            "first_nan_step": min(nan_steps, default=None),
            "energy": _energy(summaries),
            # the first to say why
            "not_done": {key: why for each in reversed(summaries) for key, why in each.not_done.items()},
            "ranks": tuple(own for each in summaries for own in each.ranks),
        }
    )


def _largest_value(parts: Sequence[Summary | Tried | Trial], name: str) -> float | None:
    values = [value for each in parts if (value := getattr(each, name)) is not None]
    return max(values, default=None)


def _of_slowest(trials: Sequence[Trial]) -> float | None:
    # each rank waits for the slowest
    known = [each.one_step_samples_per_second for each in trials]
    return None if None in known else min(filter(None, known)) * len(known)


def _energy(summaries: list[Summary]) -> Energy | None:
    energies = [each.energy for each in summaries if each.energy is not None]
    if len(energies) < len(summaries):
        return None
    first = energies[0]
    samples = sum(each.samples for each in energies)
    if first.source == "rapl":
        # the processor that all of them share was counted by each
        return first.model_copy(update={"samples": samples})
    idle = [each.idle_watts for each in energies if each.idle_watts is not None]
    return first.model_copy(
        update={
            "joules": math.fsum(each.joules for each in energies),
            "samples": samples,
            "seconds": max(each.seconds for each in energies),
            "idle_watts": math.fsum(idle) if len(idle) == len(energies) else None,
        }
    )
