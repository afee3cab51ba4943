"""The live race in words and numbers: lanes, the ratio so far, and what is said where there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.compare.evidence import was_slowed_down
from engine.compare.live import (
    Point,
    Standing,
    TrainedSamples,
    clock_of,
    progress_of,
    standing_of,
    why_no_ratio,
)
from engine.experiment.catalog import DataRef
from engine.experiment.experiment import Precision
from engine.words.numbers import number, times
from gui.session.live_run import LiveRun
from gui.train.strip import current_run, phase_words


@dataclass(frozen=True)
class LiveLane:
    """A side's lane: how far it has come, as a fraction of the longest training, and its words.

    `tag` is "live", "next", "failed", or when it was recorded. `end` is the fraction at which its training
    ends. `count` is empty before the first step after the warm-up.
    """

    precision: Precision
    name: str
    tag: str
    fraction: float = 0.0
    end: float = 1.0
    count: str = ""
    step: str = ""
    end_words: str = ""
    ratio: str = ""

    @property
    def is_live(self) -> bool:
        return self.tag == "live"


@dataclass(frozen=True)
class ClockMark:
    """Where the recorded side was at the clock, drawn in the live lane: both lanes' places, and the words."""

    live: int
    recorded: int
    words: str
    ahead: str


@dataclass(frozen=True)
class Scene:
    """All that the live race shows at a moment. `number` is large: a ratio, with ×, or a speed.

    `title` and `line` explain the number, or stand alone if there is none. The second part of `line` is
    emphasized. `spoken` says all of it in sentences.
    """

    lanes: tuple[LiveLane, ...]
    unit: str
    number: str = ""
    title: str = ""
    line: tuple[str, str] = ("", "")
    mark: ClockMark | None = None
    standing: Standing | None = None
    baseline: str = ""
    spoken: str = ""


@dataclass(frozen=True)
class _Sides:
    """The runs and their progress by side, the place of the live one and of the recorded one it is up to."""

    runs: tuple[LiveRun, ...]
    progress: tuple[TrainedSamples | None, ...]
    live: int
    opponent: int | None

    @property
    def clock(self) -> float:
        """The seconds up to which the two can be compared."""
        live = self.progress[self.live]
        other = None if self.opponent is None else self.progress[self.opponent]
        return 0.0 if live is None else clock_of(live, *filter(None, (other,)))


@dataclass
class LiveRaceReader:
    """Makes scenes of runs. What has not changed since the last one is not computed again."""

    _progress: dict[str, tuple[int, TrainedSamples | None]] = field(default_factory=dict)
    _points: tuple[object, Mapping[float, Point]] = (None, {})
    _reason: tuple[object, str] = (None, "")

    def scene(
        self, runs: Sequence[LiveRun], recorded: Mapping[str, str], stand_ins: Mapping[str, LiveRun]
    ) -> Scene:
        """Return the scene of the sides' runs, the baseline first, while one of them trains or starts.

        `recorded` says by id when runs have ended. Until a side's run is next, an earlier repeat represents
        it: the run of `stand_ins` under its id.
        """
        sides = self._sides(runs, stand_ins)
        lanes = _lanes(sides, recorded)
        unit = unit_of(sides.runs[sides.live])
        return (
            self._raced(sides, lanes, unit) if sides.opponent is not None else _lone_scene(sides, lanes, unit)
        )

    def _sides(self, runs: Sequence[LiveRun], stand_ins: Mapping[str, LiveRun]) -> _Sides:
        live = current_run(runs)
        assert live is not None
        place = runs.index(live)
        shown = tuple(run if run is live else stand_ins.get(run.run_id, run) for run in runs)
        self._progress = {run.run_id: self._progress_of(run) for run in shown}
        progress = tuple(self._progress[run.run_id][1] for run in shown)
        paces = [
            (one.pace, other) for other, one in enumerate(progress) if other != place and one is not None
        ]
        fastest = max(paces)[1] if paces else None
        opponent = 0 if place and shown[0].is_over else fastest
        return _Sides(shown, progress, place, opponent)

    def _progress_of(self, run: LiveRun) -> tuple[int, TrainedSamples | None]:
        known = self._progress.get(run.run_id)
        is_known = known is not None and known[0] == run.revision
        return known if known is not None and is_known else (run.revision, progress_of_run(run))

    def _raced(self, sides: _Sides, lanes: tuple[LiveLane, ...], unit: str) -> Scene:
        live, clock, other = sides.progress[sides.live], sides.clock, sides.opponent or 0
        opponent, recorded = sides.runs[other], sides.progress[other]
        reason = self._why_no_ratio(opponent, sides.runs[sides.live])
        if not reason and recorded is None:
            reason = f"{opponent.label} ended during its warm-up."
        if reason or recorded is None:
            return Scene(lanes, unit, title="No ratio", line=(reason, ""), spoken=f"No ratio. {reason}")
        if live is None:
            return _waiting_scene(sides, lanes, unit, "The race counts from the end of the warm-up")
        # the ratio is to the baseline, whichever of the two is live
        base, side = sorted((sides.live, other), key=lambda place: place != 0)
        mine, theirs = (live, recorded) if side == sides.live else (recorded, live)
        pair = tuple(sides.runs[place].run_id for place in (side, base))
        known = self._points[1] if self._points[0] == pair else {}
        standing = standing_of(mine, theirs, live, known)
        name, mark_words = sides.runs[side].label, f"{opponent.label} was here after {clock:,.1f} s"
        mark = ClockMark(sides.live, other, mark_words, _distance_words(live, recorded, clock, unit))
        if standing is None:
            words = f"It takes {2 * opponent.block_steps} steps of both sides after the warm-up"
            return Scene(lanes, unit, title="No ratio yet", line=(words, ""), mark=mark, spoken=words)
        self._points = pair, {point.seconds: point for point in standing.points[:-1]}
        now, title = standing.now, f"as many {unit} so far"
        whose = f"{name}, " if len(lanes) > 2 else ""
        line = (f"{whose}in the same ", f"{clock:,.1f} seconds")
        spoken = (
            f"{name} trained {times(now.ratio)} times as many {unit} as {sides.runs[base].label} so far, "
            f"in the same {line[1]}. 95% interval {times(now.low)} to {times(now.high)}."
        )
        lanes = _with_ratios(sides, lanes) if len(lanes) > 2 else lanes
        ratio = f"{times(now.ratio)}×"
        return Scene(lanes, unit, ratio, title, line, mark, standing, sides.runs[base].label, spoken)

    def _why_no_ratio(self, opponent: LiveRun, live: LiveRun) -> str:
        asked = (opponent.status, opponent.summary, opponent.experiment, live.experiment)
        if asked != self._reason[0]:
            self._reason = asked, why_no_ratio(opponent.label, *asked)
        return self._reason[1]


def unit_of(run: LiveRun) -> str:
    """Return what a run's samples are called: images, sequences or samples."""
    if run.unit == "img/s":
        return "images"
    is_text = DataRef(run.experiment.dataset).task == "language"
    return "sequences" if is_text and not run.experiment.is_script else "samples"


def progress_of_run(run: LiveRun) -> TrainedSamples | None:
    """Return a run's progress from its samples. None before the end of its warm-up."""
    speeds, rows = run.curves.means("samples_per_second"), run.rows_until(run.warmup_steps)
    if not len(speeds) > rows:
        return None
    total = run.summary.steps if run.is_over and run.summary is not None else run.total_steps
    row_steps = run.curves.steps_by_row
    return progress_of(run.experiment, speeds, row_steps, rows, total, is_over=run.is_over)


def _lanes(sides: _Sides, recorded: Mapping[str, str]) -> tuple[LiveLane, ...]:
    known = [one for one in sides.progress if one is not None]
    longest = max((one.total or one.samples_at(one.end) for one in known), default=1.0)
    lanes = []
    for place, (run, one) in enumerate(zip(sides.runs, sides.progress, strict=True)):
        is_live = place == sides.live and run.status == "running"
        tag = "live" if is_live else recorded.get(run.run_id, "recorded")
        if one is None:
            tag = tag if is_live else "failed" if run.status == "failed" else "next"
            lanes.append(LiveLane(run.precision, run.label, tag))
            continue
        seconds = one.now if is_live else sides.clock
        trained, all_of_it = one.samples_at(seconds), one.total or one.samples_at(one.end)
        steps = f"{run.total_steps:,} steps, " if run.total_steps else ""
        ended = "finished" if run.status == "finished" else run.status
        after = f"after {one.end:,.1f} s"
        coming = after if one.now >= one.end else f"forecast {one.end:,.1f} s"
        end = f"{steps}{coming}" if is_live else f"{ended} {after}"
        count, step = f"{trained:,.0f}", f"step {one.step_at(seconds):,}"
        fractions = trained / longest, all_of_it / longest
        lanes.append(LiveLane(run.precision, run.label, tag, *fractions, count, step, end))
    return tuple(lanes)


def _with_ratios(sides: _Sides, lanes: tuple[LiveLane, ...]) -> tuple[LiveLane, ...]:
    base = sides.progress[0]
    trained = 0.0 if base is None else base.samples_at(sides.clock)
    ratios = [""]
    for run, one in zip(sides.runs[1:], sides.progress[1:], strict=True):
        is_sound = one is not None and trained > 0 and not was_slowed_down(run.summary)
        ratios.append(f"{times(one.samples_at(sides.clock) / trained)}×" if one and is_sound else "")
    return tuple(replace(lane, ratio=ratio) for lane, ratio in zip(lanes, ratios, strict=True))


def _lone_scene(sides: _Sides, lanes: tuple[LiveLane, ...], unit: str) -> Scene:
    run, progress = sides.runs[sides.live], sides.progress[sides.live]
    following = next((lane.name for lane in lanes if lane.tag == "next" and lane.name != run.label), "")
    then = f"{following} is next, on the same clock" if following else ""
    if progress is None:
        return _waiting_scene(sides, lanes, unit, then)
    pace, line = number(progress.pace), ("after ", f"{progress.now:,.1f} seconds")
    spoken = f"{run.label} trains {pace} {unit} per second, {''.join(line)}. {then}".strip()
    return Scene(lanes, unit, pace, f"{unit} per second", line, spoken=spoken)


def _waiting_scene(sides: _Sides, lanes: tuple[LiveLane, ...], unit: str, then: str) -> Scene:
    run = sides.runs[sides.live]
    phase = "waiting to start" if run.status == "queued" else phase_words(run, brief=True) or "warming up"
    title = f"{phase[:1].upper()}{phase[1:]}"
    return Scene(lanes, unit, title=title, line=(then, ""), spoken=f"{run.label}: {phase}. {then}")


def _distance_words(live: TrainedSamples, recorded: TrainedSamples, clock: float, unit: str) -> str:
    if live.step_samples == recorded.step_samples:
        apart, what = live.step_at(clock) - recorded.step_at(clock), "steps"
    else:
        apart, what = round(live.samples_at(clock) - recorded.samples_at(clock)), unit
    return f"{abs(apart):,} {what} {'ahead' if apart > 0 else 'behind'}" if apart else ""
