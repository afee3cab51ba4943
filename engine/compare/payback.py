"""The payback of compiling: after how many steps a run with a slower start has overtaken another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from engine.compare.metrics import STEP_TIME, MetricCell
from engine.compare.sides import Side
from engine.protocol.summary import Summary
from engine.statistics import Interval, geometric_mean, known_values
from engine.words.names import listed
from engine.words.numbers import counted, number, seconds_abbreviated


@dataclass(frozen=True)
class Payback:
    """When the training of a side, with its start, has overtaken that of another.

    `steps` and `seconds` count from the first step, and are infinite if it never does. `interval` (95%, in
    steps) combines the interval of the speed ratio with the range of start-ups over repeats. None if the
    ratio has no interval. `is_cached`: all graphs came from the compiler's cache. None if this is unknown.
    """

    steps: float
    seconds: float
    interval: Interval | None
    is_cached: bool | None

    @property
    def words(self) -> str:
        """The steps, their time and the interval: "1,240 steps (2.1 min, 95% interval 1,100 to 1,420)"."""
        known = [seconds_abbreviated(self.seconds)]
        if self.interval is not None:
            known.append(f"95% interval {' to '.join(map(_steps_text, self.interval))}")
        cache = CACHES[self.is_cached]
        count, suffix = _steps_text(self.steps), f" with {cache}" if cache else ""
        return f"{count} step{'' if count == '1' else 's'}{suffix} ({', '.join(known)})"


CACHES = {None: "", False: "an empty compiler cache", True: "a filled compiler cache"}


def _steps_text(steps: float) -> str:
    return "never" if math.isinf(steps) else number(float(f"{steps:.3g}"), 0)


def start_seconds(summary: Summary | None) -> float | None:
    """Return the seconds that a run lost by warming up, compiling and compiling again, relative to its steady
    speed. None if they were not measured.
    """
    if summary is None or summary.step_ms is None:
        return None
    if summary.warmup_seconds is None or summary.warmup_steps is None:
        return None
    again = summary.compilation
    seconds = summary.warmup_seconds + (again.measured_seconds if again else 0.0)
    steps = summary.warmup_steps + (again.measured_steps if again else 0)
    return seconds - steps * summary.step_ms / 1e3


def paybacks(side: Side, other: Side, ratio: float, interval: Interval | None) -> tuple[Payback, ...]:
    """Return one `Payback` of `side` over `other` for each state of the compiler's cache that its runs found.

    `ratio` is the speed of `side` relative to `other`. Empty if a start-up was not measured.
    """
    base, step_ms = _starts(other), geometric_mean(known_values(map(STEP_TIME.value, other.runs)))
    if not base or step_ms is None:
        return ()
    step_seconds, found = step_ms / 1e3, []
    for is_cached in CACHES:
        # of the other side the starts with the same cache, if it compiles too
        own = fmean(_starts(other, is_cached) or base)
        late = [start - own for start in _starts(side, is_cached)]
        if not late or (fmean(late) <= 0 and ratio <= 1):
            continue
        ends = None
        if interval is not None:
            ends = (
                _steps_to_gain(min(late), step_seconds, interval[1]),
                _steps_to_gain(max(late), step_seconds, interval[0]),
            )
        steps = _steps_to_gain(fmean(late), step_seconds, ratio)
        found.append(Payback(steps, own + steps * step_seconds, ends, is_cached))
    return tuple(found)


def _steps_to_gain(seconds: float, step_seconds: float, ratio: float) -> float:
    """Return the steps in which the gain of a faster step makes up for a start that is later by `seconds`."""
    if seconds <= 0:
        return 0.0
    return seconds / (step_seconds * (1 - 1 / ratio)) if ratio > 1 else math.inf


def payback_sentence(side: Side, baseline: Side, names: tuple[str, str], speed: MetricCell) -> str:
    """Return when the side that starts more slowly has overtaken the other. "" if both compile alike.

    `names` are those of the sides, `speed` has the ratio of `side` to the baseline.
    """
    ratio, interval, late, other = speed.ratio, speed.ratio_interval, side, baseline
    same_samples = side.runs[0].experiment.step_samples == baseline.runs[0].experiment.step_samples
    starts = [_starts(each) for each in (side, baseline)]
    if _compiling(side) == _compiling(baseline) or not same_samples or not ratio or not all(starts):
        return ""
    if fmean(starts[0]) < fmean(starts[1]):
        late, other, names, ratio = baseline, side, names[::-1], 1 / ratio
        interval = None if interval is None else (1 / interval[1], 1 / interval[0])
    found = paybacks(late, other, ratio, interval)
    length = min(run.summary.steps for run in late.runs if run.summary is not None)
    if not found:
        return ""
    first = f"Including its start-up, {names[0]}"
    if all(math.isinf(each.steps) for each in found):
        return f"{first} never overtakes {names[1]}, because its steps are not faster."
    within = listed([each.words for each in found if each.steps <= length])
    beyond = listed([each.words for each in found if each.steps > length])
    when = f"overtakes {names[1]} after {within}"
    if not within:
        when = f"does not overtake {names[1]} in {counted(length, 'step')}"
    return f"{first} {when}.{f' It would take {beyond}.' if beyond else ''}"


def _starts(side: Side, *cached: bool | None) -> list[float]:
    """Return the starts of the runs, or only of those that found the compiler's cache so."""
    runs = (run.summary for run in side.runs)
    return known_values(start_seconds(each) for each in runs if not cached or _is_cached(each) in cached)


def _is_cached(summary: Summary | None) -> bool | None:
    return summary.compilation.is_cached if summary and summary.compilation else None


def _compiling(side: Side) -> tuple[str, bool | None] | None:
    step = next((run.experiment.step for run in side.runs if run.summary and run.summary.compilation), None)
    return None if step is None else (step.compile_mode, step.compile_dynamic)
