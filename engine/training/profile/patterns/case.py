"""A recorded step as the patterns look at it, and what they find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from engine.experiment.experiment import Experiment
from engine.protocol.advice import Advice, Changes
from engine.protocol.profile import StepProfile
from engine.protocol.profiles import Remedy
from engine.training.profile.traces.trace import DeviceWork, HostOperation, LaunchPlace, Trace
from engine.words.names import listed
from engine.words.numbers import counted, number, share_text

_MOST_NAMES, _MOST_NAMED = 100, 2


class _Timed(Protocol):
    @property
    def us(self) -> float: ...

    @property
    def place(self) -> LaunchPlace: ...


@dataclass(frozen=True)
class TimeAdvice:
    """Advice, and the milliseconds of a step that it could save at most."""

    saved_ms: float
    advice: Advice


@dataclass(frozen=True)
class Case:
    """A recording, the profile made of it, and the experiment."""

    trace: Trace
    profile: StepProfile
    experiment: Experiment

    @cached_property
    def work(self) -> tuple[DeviceWork, ...]:
        """The device's work in the recorded steps."""
        return tuple(work for work in self.trace.work if work.place.step is not None)

    @property
    def steps(self) -> int:
        """The number of recorded steps."""
        return max(1, len(self.trace.steps))

    def ms(self, parts: Iterable[_Timed]) -> float:
        """The time of these parts in a step, at most all of it: recorded steps are longer."""
        return min(self.profile.step_ms, sum(part.us for part in parts) / 1e3 / self.steps)

    def count(self, parts: Sized, noun: str) -> str:
        """The number of these in a step: "12 copies"."""
        return counted(round(len(parts) / self.steps), noun)

    def of_step(self, ms: float) -> str:
        """A time within a step: "1.2 ms of a step of 14.2 ms (8.4 %)"."""
        whole = self.profile.step_ms
        return f"{number(ms)} ms of a step of {number(whole)} ms ({share_text(ms / whole)})"


def modules_of(parts: Iterable[_Timed]) -> tuple[str, ...]:
    """The modules that asked for these, the longest first; without the model itself."""
    times: Counter[str] = Counter()
    for part in parts:
        if part.place.module:
            times[part.place.module] += round(1e3 * part.us)
    return tuple(name for name, _ in times.most_common(_MOST_NAMES))


def calling_operation(operation: HostOperation | None) -> HostOperation | None:
    """The operation of ATen that a program called, and that came down to this one."""
    while (
        operation is not None and operation.parent is not None and operation.parent.name.startswith("aten::")
    ):
        operation = operation.parent
    return operation


def names_words(names: Iterable[str]) -> str:
    """The first names, and how many more there are: "fc, head and 3 more"."""
    known = list(dict.fromkeys(names))
    more = len(known) - _MOST_NAMED
    return listed([*known[:_MOST_NAMED], f"{more:,} more"] if more > 0 else known)


def trying(remedy: Remedy | None) -> dict[str, Changes | str]:
    """The fields of advice that offer a remedy; none without any."""
    return {} if remedy is None else {"changes": remedy.changes, "action": remedy.action}
