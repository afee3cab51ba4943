"""Successive halving, stage by stage: the next candidate to run, and for how long.

Kinds of changes are nearly independent, so they are searched one after the other, each from the best so far.
(Halving: Jamieson and Talwalkar, Non-stochastic Best Arm Identification, 2016.) Optimizations may help one
precision and not another, so these two are searched together first. At the end each change is reverted once,
to check that it still helps with the others. Candidates that are compared run alternately, so drift of the
machine affects all alike.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.protocol.tune import CHANGE_KINDS, ChangeKind, TuningTrial
from engine.statistics import geometric_mean
from engine.tune.candidates import BASELINE, Changes, Places, Space, value_of, with_value

SHORT, LONG = 1.5, 3.0
"""Seconds of measured training in the first round of a stage, and in a later one."""

_USUAL_SPREAD, _WEIGHT = 0.02, 4
"""How much fresh processes of the same candidate differ, relatively, before that is known."""

_LEAST_GAIN = 0.01
_FINAL_ROUNDS = 2


@dataclass(frozen=True)
class TrialRequest:
    """A candidate to try for `seconds` of measured training. 0: the fewest steps that give a throughput.

    `places` are the indexes of its options in the search space.
    """

    places: Places
    round: int
    seconds: float


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial. A candidate without a speed drops out.

    So do all other candidates with one of the parts that PyTorch could not apply (`left_out`).
    """

    speed: float | None
    peak_mib: float | None = None
    is_out_of_memory: bool = False
    left_out: frozenset[str] = frozenset()
    has_attention: bool = True


Steps = Generator[TrialRequest, TrialResult, tuple[Places, ...]]


def search(space: Space) -> Steps:
    """Yield trials and receive their results. Return the remaining candidates, the fastest first.

    The baseline is tried first. If it fails for another reason than memory, all others would fail too.
    """
    return _Search(space).run()


def kept(speeds: Mapping[Places, Sequence[float]], most: int) -> tuple[Places, ...]:
    """Return the `most` fastest candidates, and at most `most` more whose speed intervals overlap with the
    slowest of them.
    """
    center = {places: math.log(geometric_mean(values) or math.nan) for places, values in speeds.items()}
    ranked = sorted(center, key=lambda places: -center[places])
    if len(ranked) <= most:
        return tuple(ranked)
    spread = _spread(speeds)
    reach = {places: 2 * spread / math.sqrt(len(values)) for places, values in speeds.items()}
    last = ranked[most - 1]
    least = center[last] - reach[last]
    close = [places for places in ranked[most:] if center[places] + reach[places] >= least]
    return *ranked[:most], *close[:most]


def _spread(speeds: Mapping[Places, Sequence[float]]) -> float:
    total, degrees = _WEIGHT * _USUAL_SPREAD**2, _WEIGHT
    for values in speeds.values():
        logs = [math.log(value) for value in values]
        mean = sum(logs) / len(logs)
        total += sum((log - mean) ** 2 for log in logs)
        degrees += len(logs) - 1
    return math.sqrt(total / degrees)


@dataclass(frozen=True)
class Ranked:
    """A candidate in the ranking of a tuning: its changes, its speed, and the last round that it reached."""

    changes: Changes
    words: str
    speed: float
    last_round: int


def ranking(trials: Iterable[TuningTrial]) -> tuple[Ranked, ...]:
    """Return the usable candidates, the fastest first. Those of later rounds come before earlier ones.

    A candidate's speed is that of its last rounds, in which it ran alternately with its neighbors.
    """
    by_changes: dict[str, list[TuningTrial]] = {}
    unusable = set()
    for trial in trials:
        key = repr(sorted(trial.changes.items()))
        if trial.round and trial.is_usable:
            by_changes.setdefault(key, []).append(trial)
        elif not trial.is_usable:
            unusable.add(key)
    known = [_ranked(group) for key, group in by_changes.items() if key not in unusable]
    return tuple(sorted(known, key=lambda one: (-one.last_round, -one.speed)))


def _ranked(trials: Sequence[TuningTrial]) -> Ranked:
    last = max(trial.round for trial in trials)
    speeds = [
        trial.samples_per_second
        for trial in trials
        if trial.samples_per_second is not None and trial.round > last - _FINAL_ROUNDS
    ]
    return Ranked(trials[0].changes, trials[0].words, geometric_mean(speeds) or 0.0, last)


class _Search:
    def __init__(self, space: Space) -> None:
        self._space = space
        self._round = 0
        self._failed: set[Places] = set()
        self._impossible: frozenset[str] = frozenset()
        self._has_attention = True
        self._needs_memory: list[Places] = []
        self._peaks: dict[Places, float] = {}

    def run(self) -> Steps:
        yield from self._tried([BASELINE], 0.0)
        if BASELINE in self._failed and not self._needs_memory:
            return ()
        leaders = yield from self._halved(self._with_full_recipes(), 2)
        leaders = yield from self._varied(leaders, "recipe")
        leaders = yield from self._varied(leaders, "compile")
        if self._has_attention:
            leaders = yield from self._varied(leaders, "attention")
        leaders = yield from self._climbed(leaders)
        leaders = yield from self._with_checkpointing(leaders)
        leaders = yield from self._varied(leaders, "exchange")
        leaders = yield from self._varied(leaders, "loader")
        return (yield from self._final(leaders))

    def _with_full_recipes(self) -> list[Places]:
        recipes = self._space.places("recipe")[:2]
        return [
            with_value(with_value(BASELINE, "precision", precision), "recipe", recipe)
            for precision in self._space.places("precision")
            for recipe in recipes
        ]

    def _varied(self, leaders: Sequence[Places], kind: ChangeKind) -> Steps:
        places = self._space.places(kind)
        if len(places) == 1 or not leaders:
            return tuple(leaders)
        pool = [with_value(leader, kind, place) for leader in leaders for place in places]
        pool = [candidate for candidate in pool if self._space.is_possible(candidate)]
        if set(pool) <= set(leaders):
            return tuple(leaders)
        return (yield from self._halved([*leaders, *pool], 1))

    def _climbed(self, leaders: Sequence[Places]) -> Steps:
        options, given = self._space.options["batch"], self._space.experiment.batch_size
        sizes = {place: option.changes.get("batch_size", given) for place, option in enumerate(options)}
        best = leaders[:1]
        for direction in (
            [place for place, size in sizes.items() if size > given],
            [place for place, size in sizes.items() if size < given],
        ):
            for place in direction:
                if not best or not self._may_grow(best[0], sizes[place], given):
                    break
                rival = with_value(best[0], "batch", place)
                speeds = yield from self._tried([*best, rival], SHORT)
                before, after = (geometric_mean(speeds.get(one, ())) for one in (best[0], rival))
                if after is None or after < (before or 0.0) * (1 + _LEAST_GAIN):
                    break
                best = (rival,)
            if best and value_of(best[0], "batch"):
                break
        return (*best, *leaders[1:])

    def _may_grow(self, best: Places, size: int, given: int) -> bool:
        peak, limit = self._peaks.get(best), self._space.careful_mib
        # on a CPU an attempt that needs too much makes the machine swap; a double batch at most doubles it
        return size <= given or peak is None or limit is None or 2 * peak <= 0.8 * limit

    def _with_checkpointing(self, leaders: Sequence[Places]) -> Steps:
        options = self._space.places("checkpointing")[1:]
        if not options or not self._needs_memory:
            return tuple(leaders)
        short = self._needs_memory[-2:]
        pool = [with_value(places, "checkpointing", place) for places in short for place in options]
        return (yield from self._halved([*leaders[:1], *pool], 1))

    def _final(self, leaders: Sequence[Places]) -> Steps:
        finalists = tuple(leaders[:2])
        kinds = [kind for kind in CHANGE_KINDS if leaders and value_of(leaders[0], kind)]
        # the last was compared with its absence just now
        taken_back = [with_value(leaders[0], kind, 0) for kind in kinds[:-1]]
        if taken_back:
            speeds = yield from self._tried([*leaders, *taken_back], SHORT)
            finalists = kept(speeds, 1)[:2]
        known: dict[Places, tuple[float, ...]] = {}
        for _ in range(_FINAL_ROUNDS if len(finalists) > 1 else 0):
            more = yield from self._tried(finalists, LONG)
            known = {places: (*known.get(places, ()), *values) for places, values in more.items()}
        return kept(known, 1) or finalists

    def _halved(self, pool: Iterable[Places], keep: int) -> Steps:
        first = tuple(dict.fromkeys(pool))
        if len(first) <= keep:
            return first
        speeds = yield from self._tried(first, SHORT)
        alive = kept(speeds, max(keep, len(speeds) // 3))
        if len(alive) <= keep + 1:
            return alive
        longer = yield from self._tried(alive, LONG)
        both = {places: (*speeds[places], *values) for places, values in longer.items()}
        return kept(both, keep)[: keep + 1]

    def _tried(
        self, pool: Iterable[Places], seconds: float
    ) -> Generator[TrialRequest, TrialResult, dict[Places, tuple[float, ...]]]:
        self._round += 1
        order = [places for places in dict.fromkeys(pool) if places not in self._failed]
        speeds: dict[Places, tuple[float, ...]] = {}
        for places in order if self._round % 2 else reversed(order):
            if self._impossible & self._space.parts(places) or not self._space.is_possible(places):
                continue
            outcome = yield TrialRequest(places, self._round, seconds)
            self._impossible |= outcome.left_out
            self._has_attention &= outcome.has_attention
            if outcome.peak_mib is not None:
                self._peaks[places] = outcome.peak_mib
            if outcome.speed is not None:
                speeds[places] = (outcome.speed,)
                continue
            self._failed.add(places)
            if outcome.is_out_of_memory:
                self._needs_memory.append(places)
        return speeds
