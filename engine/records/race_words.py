"""A race in plain words, for people who do not code: this module has all of them."""

from __future__ import annotations

from engine.records.glossary import GLOSSARY
from engine.records.plain_numbers import number_text, range_text, seconds_short, seconds_text
from engine.records.race import Moment, Race, Which
from engine.records.race_headline import sentence, title, why_no_ratio
from engine.records.race_names import called, continued, is_one_of_each, lane_name, numbers
from engine.records.race_proof import certainty, doubt_words, memory_words

__all__ = [
    "GLOSSARY",
    "caption",
    "caution",
    "certainty",
    "counted_text",
    "counter_words",
    "doubt_words",
    "lane_detail",
    "lane_name",
    "lapse_words",
    "memory_words",
    "sentence",
    "sure_words",
    "title",
    "told",
]

_PLAIN = "plain"


def lane_detail(race: Race, which: Which) -> str:
    """What the lane trained with, and how it ended early: "32-bit numbers (FP32)"."""
    lane = race.lane(which)
    parts = []
    if is_one_of_each(race):
        recipe = lane.side.recipe
        parts.append(
            numbers(lane.side.precision) + (f" with the {recipe} recipe" if recipe != _PLAIN else "")
        )
        if race.full.run.experiment.batch_size != race.mixed.run.experiment.batch_size:
            parts.append(f"{lane.run.experiment.batch_size:,} {race.unit} at once")
    if lane.stopped:
        parts.append(f"{lane.stopped} after {seconds_short(float(lane.seconds[-1]))}")
    return ", ".join(parts)


def counted_text(race: Race, moment: Moment) -> str | None:
    """The number at a moment, with as many digits as it ends with; "" before it tells, None without one."""
    if race.claim is None:
        return None
    if moment.number is None:
        return ""
    if moment.is_over or race.figure is None:
        return number_text(moment.number)
    digits = len(number_text(race.figure).partition(".")[2])
    return f"{moment.number:,.{digits}f}"


def caption(race: Race, moment: Moment) -> tuple[str, str]:
    """What the number counts, or what there is in its place, in a strong line and a second one."""
    if race.report.spoilers:
        return _SPOILED, "so it does not tell which of the two is faster"
    if race.ratio is None:
        return "No fair figure", f"since {continued(why_no_ratio(race))}"
    if race.is_unlike:
        return "No fair figure", "since they are two different trainings"
    if race.claim is None and race.ratio_interval is not None:
        return "No difference shown", f"between {range_text(*race.ratio_interval)} times as fast"
    if moment.number is None:
        return "Just begun", ""
    if race.ahead == "full":
        return "as long", f"with {called(race, 'mixed')}{'' if moment.is_over else ' so far'}"
    return f"as many {race.unit}", f"in the same {seconds_text(race.seconds)}" if moment.is_over else "so far"


def told(race: Race, moment: Moment) -> str:
    """The number and what it counts, as it is read aloud."""
    words = " ".join(part for part in caption(race, moment) if part)
    number = counted_text(race, moment)
    return f"{number} times {words}" if number else words


def caution(race: Race) -> str:
    """What leads the doubts: whether they spoil the measurement or only qualify it; "" without any."""
    if race.report.spoilers:
        return _SPOILED
    return "With caution" if doubt_words(race) else ""


_SPOILED = "Not a clean measurement"


def sure_words(race: Race) -> str:
    """How far the ratio can be trusted, after a word of caution where the number itself bears none."""
    lead = caution(race) if race.claim is not None else ""
    return f"{lead}: {continued(certainty(race))}" if lead else certainty(race)


def counter_words(race: Race, which: Which, moment: Moment) -> str:
    """What stands after a lane's count of samples: "images so far"."""
    ending = {
        "waiting": "",
        "running": " so far",
        "over": f" in {seconds_short(race.seconds)}",
        "stopped": f", then it {race.lane(which).stopped}",
    }
    return f"{race.unit}{ending[moment.lane(which).state]}"


def lapse_words(race: Race) -> str:
    """How the replay's pace relates to the true one, a sentence; "" where it is that."""
    if race.lapse == 1:
        return ""
    shown = seconds_text(race.seconds / race.lapse)
    if race.lapse < 1:
        return f"Shown in slow motion: {seconds_text(race.seconds)} take {shown} here."
    return f"Shown faster than it went: {seconds_text(race.seconds)} pass in {shown}."
