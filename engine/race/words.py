"""A replay in plain words for people who do not code: captions, memory, certainty and doubts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.compare.evidence import Doubt
from engine.compare.metrics import PEAK_MEMORY, is_comparable
from engine.compare.verdict import energy_words
from engine.experiment.settings import PLAIN
from engine.experiment.value import in_sentence
from engine.race.headline import (
    NUMBERS,
    device_kind,
    is_one_of_each,
    lane_name,
    prose_name,
    sentence,
    short_name,
    title,
    why_no_ratio,
)
from engine.race.race import LANES, Moment, Race, Which
from engine.race.scene import NOT_MEASURED, Count, Instant, LaneHead, Scene
from engine.words.names import optimizations_words
from engine.words.numbers import number_text, pace_text, range_text, seconds_abbreviated, seconds_text

_ABOUT_SAME = 0.03
_PARTS = (
    (1 / 10, "Less than a tenth"),
    (1 / 5, "Less than a fifth"),
    (1 / 4, "Less than a quarter"),
    (1 / 3, "Less than a third"),
    (1 / 2, "Less than half"),
    (2 / 3, "Less than two thirds"),
    (3 / 4, "Less than three quarters"),
)


def memory_words(race: Race) -> tuple[str, str]:
    """Return the mixed lane's memory, energy and accuracy vs. the full lane's: a strong part and the rest."""
    ratio, energy = race.memory_ratio, race.report.verdict.energy_ratio
    if ratio is not None:
        strong, rest = _amount(ratio)
    elif is_comparable(PEAK_MEMORY, race.mixed.side, race.full.side):
        strong, rest = "No measurement", "of memory"
    else:
        strong, rest = "No comparison", "between GPU and CPU memory"
    if energy is not None:
        rest += f"{',' if ratio is None else ' and'} {energy_words(energy)}"
    return strong, f"{rest}, {race.accuracy}" if race.accuracy else rest


def _amount(ratio: float) -> tuple[str, str]:
    for most, words in _PARTS:
        if ratio < most:
            return words, "of the memory"
    if abs(ratio - 1) <= _ABOUT_SAME:
        return "About the same", "amount of memory"
    if ratio < 1:
        return f"{100 * ratio:.0f}%", "of the memory"
    if ratio < 2:
        return f"{100 * (ratio - 1):.0f}% more", "memory"
    return f"{number_text(ratio)} times", "the memory"


def certainty(race: Race) -> str:
    """Return how far the ratio can be trusted: its interval in plain words, or why it has none."""
    if race.ratio is None:
        return f"There is no ratio. {why_no_ratio(race)}."
    mine, theirs = race.repeats
    times = f"{mine} and {theirs} times"
    if mine == theirs:
        times = f"{_TIMES.get(mine, f'{mine} times')} each"
    if race.report.disqualifiers:
        ratio = number_text(race.ratio)
        return f"Measured {times}. The ratio of {ratio}× is unreliable: the machine was disturbed."
    if race.ratio_interval is None:
        if mine == theirs == 1:
            return f"Measured {times}. Repeats would show how certain the ratio is."
        reasons = (_NO_INTERVAL[doubt.kind] for doubt in race.doubts if doubt.kind in _NO_INTERVAL)
        return f"Measured {times}, {next(reasons, 'too few for a 95% interval')}."
    low, high = race.ratio_interval
    interval = f"{range_text(low, high)} times as fast"
    if high < 1:
        interval = f"{range_text(1.0 / high, 1.0 / low)} times as long"
    sentence = f"Measured {times}. The 95% interval is {interval}."
    return f"{sentence} It does not show which of the two is faster." if low <= 1 <= high else sentence


def doubt_words(race: Race) -> tuple[str, ...]:
    """Return the doubts about the numbers or the replay, a plain sentence each."""
    sentences = [_doubt_sentence(race, doubt) for doubt in race.doubts]
    # the counts of the whole runs give another ratio than the comparison
    if race.ratio is not None and not race.matches_ratio:
        trained = race.mixed.samples_at(race.seconds) / race.full.samples_at(race.seconds)
        whole = f"These two runs give {pace_text(trained)}"
        sentences.append(f"{_UNSTEADY}. {whole}, the comparison {pace_text(race.ratio)}.")
    return tuple(dict.fromkeys(sentences))


_NO_INTERVAL = {
    "order": "but the runs did not alternate, so there is no 95% interval",
    "outliers": "but one of the two has outliers, so there is no 95% interval",
}
_TIMES = {1: "once", 2: "twice"}
_UNSTEADY = "The speed was not steady"


def _doubt_sentence(race: Race, doubt: Doubt) -> str:
    if doubt.kind in _OF_ONE_RUN:
        whose = [which for which in LANES if race.lane(which).side.id == doubt.side_id]
        of = f" {'in' if is_one_of_each(race) else 'of'} {prose_name(race, whose[0])}" if whose else ""
        return f"A run{of} {_OF_ONE_RUN[doubt.kind]}"
    if doubt.kind == "throttled":
        return f"The {device_kind(race)} ran below its full speed for a while."
    otherwise = f"The two differ in {doubt.difference}" if doubt.difference else doubt.sentence
    return _OF_BOTH.get(doubt.kind, otherwise)


_OF_BOTH: dict[str, str] = {
    "order": "The runs of the two did not alternate, so drift of the machine could look like a difference.",
    "outliers": "Only one of the two has outliers among its repeats.",
    "device": "The two ran on different machines.",
    "version": "The two ran with different software versions.",
}
_OF_ONE_RUN = {
    "other-program": "had to share the machine with other programs.",
    "spilled": "did not fit in GPU memory.",
    "too-short": "was too short for a reliable speed.",
    "no-speed": "has no reliable speed.",
    "unfinished": "did not finish.",
    "drift": "became faster or slower while it ran.",
    "unsteady": "varied in speed.",
    "nan": "went wrong. Its loss became NaN or Inf.",
    "lost-updates": "lost many weight updates to rounding.",
}


def lane_detail(race: Race, which: Which) -> str:
    """Return the lane's numbers and batch, and how it ended early: "32-bit numbers (FP32)"."""
    lane, parts = race.lane(which), []
    if is_one_of_each(race):
        step = lane.run.experiment.step
        optimized = "" if step.recipe == PLAIN else f" with {optimizations_words(lane.run.experiment)}"
        parts.append(f"{NUMBERS[lane.side.precision]}{optimized}")
        if race.full.run.experiment.batch_size != race.mixed.run.experiment.batch_size:
            parts.append(f"{lane.run.experiment.batch_size:,} {race.unit} at once")
    if lane.stopped:
        parts.append(f"{lane.stopped} after {seconds_abbreviated(float(lane.seconds[-1]))}")
    return ", ".join(parts)


def counted_text(race: Race, moment: Moment) -> str | None:
    """Return the ratio of the counts as text. "" before the first value, None if no number is shown."""
    if race.claim is None:
        return None
    if moment.number is None:
        return ""
    if moment.is_over or race.final_number is None:
        return number_text(moment.number)
    digits = len(number_text(race.final_number).partition(".")[2])
    return f"{moment.number:,.{digits}f}"


def caption(race: Race, moment: Moment) -> tuple[str, str]:
    """Return the two lines of the caption below the ratio, or the reason why no ratio is shown."""
    if race.report.disqualifiers:
        return _SPOILED, "so it does not show which of the two is faster"
    if race.ratio is None:
        return "No fair comparison", f"because {in_sentence(why_no_ratio(race))}"
    if race.is_unlike:
        return "No fair comparison", "because the two trainings differ"
    if not race.matches_ratio:
        return "No fair comparison", f"because {in_sentence(_UNSTEADY)}"
    if race.claim is None and race.ratio_interval is not None:
        return "No significant difference", f"95% interval {range_text(*race.ratio_interval)}"
    if moment.number is None:
        return "Just started", ""
    if race.ahead == "full":
        return "as long", f"with {prose_name(race, 'mixed')}{'' if moment.is_over else ' so far'}"
    return f"as many {race.unit}", f"in the same {seconds_text(race.seconds)}" if moment.is_over else "so far"


def spoken(race: Race, moment: Moment) -> str:
    """Return the number and its caption, for a screen reader."""
    words = " ".join(part for part in caption(race, moment) if part)
    number = counted_text(race, moment)
    return f"{number} times {words}" if number else words


def caution(race: Race) -> str:
    """Return the heading of the doubts: they spoil the measurement, or only qualify it. "" without any."""
    if race.report.disqualifiers:
        return _SPOILED
    return "Caution" if doubt_words(race) else ""


_SPOILED = "Unreliable"


def sure_words(race: Race) -> str:
    """Return how far the ratio can be trusted, after a word of caution if there are doubts."""
    lead = caution(race) if race.claim is not None else ""
    return f"{lead}: {in_sentence(certainty(race))}" if lead else certainty(race)


def counter_words(race: Race, which: Which, moment: Moment, *, is_brief: bool = False) -> str:
    """Return the words after a lane's count of samples: "images so far". Brief: not how it ended early."""
    ending = {
        "waiting": "",
        "running": " so far",
        "over": f" in {seconds_abbreviated(race.seconds)}",
        "stopped": "" if is_brief else f", then it {race.lane(which).stopped}",
    }
    return f"{race.unit}{ending[moment.lane(which).state]}"


def playback_rate_words(race: Race) -> str:
    """Return how the replay's pace relates to the true one, in a sentence. "" at the true pace."""
    if race.playback_rate == 1:
        return ""
    shown = seconds_text(race.seconds / race.playback_rate)
    if race.playback_rate < 1:
        return f"Slow motion: {seconds_text(race.seconds)} shown in {shown}."
    return f"Time lapse: {seconds_text(race.seconds)} shown in {shown}."


def scene_of(race: Race, tiles: NDArray[np.uint8]) -> Scene:
    """Return the scene of a replay, with gray `tiles` of shape (count, side, side) in its blocks."""
    memory = memory_words(race)
    full, mixed = (
        LaneHead(
            lane_name(race, which),
            lane_detail(race, which),
            race.looks[race.lane(which).side.id],
            short_name(race, which),
        )
        for which in LANES
    )
    return Scene(
        title=title(race),
        sentence=sentence(race),
        heads=(full, mixed),
        blocks=race.blocks,
        tiles=tiles,
        at=lambda seconds: _instant(race, seconds),
        seconds=race.seconds,
        playback_rate=race.playback_rate,
        pace=playback_rate_words(race),
        caution=caution(race),
        doubts=doubt_words(race),
        is_spoiled=bool(race.report.disqualifiers),
        peaks=race.peaks_mib != (None, None),
        memory=memory,
        absent=NOT_MEASURED if any(race.peaks_mib) else memory[0].lower(),
        activity=race.tensor_percent,
    )


def _instant(race: Race, seconds: float) -> Instant:
    moment = race.at(seconds)
    full, mixed = (
        Count(
            moment.lane(which).blocks,
            f"{moment.lane(which).samples:,}",
            counter_words(race, which, moment),
            counter_words(race, which, moment, is_brief=True),
        )
        for which in LANES
    )
    # without a ratio the caption says why
    is_sure = moment.is_over and race.ratio is not None
    return Instant(
        counts=(full, mixed),
        number=counted_text(race, moment),
        caption=caption(race, moment),
        spoken=spoken(race, moment),
        sure=sure_words(race) if is_sure else "",
        fill=race.passed(moment.seconds),
        peaks_mib=race.peaks_mib,
    )
