"""How sure the figures of a race are, what speaks against them, and what memory it took, in plain words."""

from __future__ import annotations

from engine.records.doubts import Doubt
from engine.records.figures import PEAK_MEMORY
from engine.records.likeness import is_alike
from engine.records.plain_numbers import number_text, pace_text, range_text
from engine.records.race import LANES, Race
from engine.records.race_headline import why_no_ratio
from engine.records.race_names import called, continued, is_one_of_each, place

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
    """What the mixed lane took of the full one's memory, strong and then joining words, with the accuracy."""
    ratio = race.memory_ratio
    strong, joining = _unknown(race) if ratio is None else _amount(ratio)
    return strong, f"{joining}, {race.accuracy}" if race.accuracy else joining


def _unknown(race: Race) -> tuple[str, str]:
    if is_alike(PEAK_MEMORY, race.mixed.side, race.full.side):
        return "No measurement", "of the memory"
    return "No comparison", "between a card's memory and a processor's"


def _amount(ratio: float) -> tuple[str, str]:
    for most, words in _PARTS:
        if ratio < most:
            return words, "of the memory"
    if abs(ratio - 1) <= _ABOUT_SAME:
        return "About the same", "amount of memory"
    if ratio < 1:
        return f"{100 * ratio:.0f} %", "of the memory"
    if ratio < 2:
        return f"{100 * (ratio - 1):.0f} % more", "memory"
    return f"{number_text(ratio)} times", "the memory"


def certainty(race: Race) -> str:
    """How far the ratio can be trusted: its interval in plain words, or why there is none."""
    if race.ratio is None:
        return f"There is no ratio: {continued(why_no_ratio(race))}."
    times, is_once = _measured(race.repeats)
    if race.report.spoilers:
        return f"Measured {times}. The figure came to {number_text(race.ratio)}×, with the machine disturbed."
    if race.ratio_interval is None:
        if is_once:
            return f"Measured {times}. Repeats would show how sure the figure is."
        is_in_order = not any(doubt.kind == "order" for doubt in race.doubts)
        why = "too few to say how sure it is" if is_in_order else _NOT_IN_TURNS
        return f"Measured {times}, {why}."
    low, high = race.ratio_interval
    if high < 1:
        between, what = range_text(1.0 / high, 1.0 / low), "times as long"
    else:
        between, what = range_text(low, high), "times as fast"
    told = f"Measured {times}: between {between} {what}, with 95 % confidence."
    return f"{told} Which of the two is faster is left open." if low <= 1 <= high else told


_NOT_IN_TURNS = "but not in turns, so how sure it is cannot be said"


def _measured(repeats: tuple[int, int]) -> tuple[str, bool]:
    if repeats[0] == repeats[1]:
        times = {1: "once", 2: "twice"}.get(repeats[0], f"{repeats[0]} times")
        return f"{times} each", repeats[0] == 1
    return f"{repeats[0]} and {repeats[1]} times", False


def doubt_words(race: Race) -> tuple[str, ...]:
    """What speaks against the figures or the replay, a plain sentence each; empty where nothing does."""
    told = [*(_told(race, doubt) for doubt in race.doubts), _unsteady(race)]
    return tuple(dict.fromkeys(sentence for sentence in told if sentence))


def _unsteady(race: Race) -> str:
    """Why the counts of the whole runs give another ratio than the comparison has; "" where they do not."""
    figure, ratio = race.figure, race.claim
    if ratio is None or figure is None or race.is_borne_out:
        return ""
    seen = figure if race.ahead == "mixed" else 1.0 / figure
    whole = f"these two whole runs come to {pace_text(seen)}"
    return f"The speed was not steady: {whole}, and the comparison to {pace_text(ratio)}."


def _told(race: Race, doubt: Doubt) -> str:
    if doubt.kind in _OF_ONE_RUN:
        return f"{_subject(race, doubt.side_id)} {_OF_ONE_RUN[doubt.kind]}"
    if doubt.kind == "throttled":
        return f"The {place(race)} ran below its full speed for a while."
    if doubt.kind == "order":
        return "The two were not trained in turns, so a change of the machine may look like a difference."
    if doubt.kind == "device":
        return "The two were not trained on the same machine."
    if doubt.kind == "version":
        return "The two were not trained with the same version of the software."
    differing = doubt.sentence.removeprefix("Unlike the baseline in ")
    return doubt.sentence if differing == doubt.sentence else f"The two differ in {differing}"


def _subject(race: Race, side_id: str | None) -> str:
    for which in LANES:
        if race.lane(which).side.id == side_id:
            return f"A run {'in' if is_one_of_each(race) else 'of'} {called(race, which)}"
    return "A run"


_OF_ONE_RUN = {
    "other-program": "had to share the machine with other programs.",
    "too-short": "was too short for a sure speed.",
    "no-speed": "has no speed that can be trusted.",
    "unfinished": "did not get to its end.",
    "drift": "was not equally fast from its beginning to its end.",
    "nan": "went wrong: its loss stopped being a number.",
}
