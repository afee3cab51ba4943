"""A race in plain words, for people who do not code: this module has all of them."""

from __future__ import annotations

from engine.records.glossary import GLOSSARY
from engine.records.plain_numbers import number_text, seconds_short, seconds_text
from engine.records.race import Moment, Race, Which
from engine.records.race_headline import sentence, title, why_no_ratio
from engine.records.race_names import continued, is_one_of_each, lane_name
from engine.records.race_proof import certainty, doubt_words, memory_words, pace_words

__all__ = [
    "GLOSSARY",
    "caption",
    "certainty",
    "counted_text",
    "counter_words",
    "doubt_words",
    "lane_detail",
    "lane_name",
    "lapse_words",
    "memory_words",
    "pace_words",
    "sentence",
    "title",
]

_PLAIN = "plain"


def lane_detail(race: Race, which: Which) -> str:
    """What the lane trained with and how long it took: "FP32, 14.5 s for 12,800 images"."""
    lane = race.lane(which)
    parts = []
    if is_one_of_each(race):
        recipe = lane.side.recipe
        parts.append(lane.side.precision.label + (f" with the {recipe} recipe" if recipe != _PLAIN else ""))
        if race.full.run.experiment.batch_size != race.mixed.run.experiment.batch_size:
            parts.append(f"batch {lane.run.experiment.batch_size:,}")
    finish = lane.seconds_to(race.samples)
    if finish is None:
        parts.append(f"{lane.stopped} after {seconds_short(float(lane.seconds[-1]))}")
    else:
        whole = f" for {race.samples:,} {race.unit}" if which == "full" else ""
        parts.append(f"{seconds_short(finish)}{whole}")
    return ", ".join(parts)


def counted_text(race: Race, moment: Moment) -> str | None:
    """The number at a moment with as many digits as the ratio will have; None without one."""
    if race.ratio is None or moment.number is None or moment.is_decided:
        return None if race.ratio is None else number_text(race.ratio)
    digits = len(number_text(race.ratio).partition(".")[2])
    return f"{moment.number:,.{digits}f}"


def caption(race: Race, moment: Moment) -> tuple[str, str]:
    """What the number counts, in a strong line and a second one."""
    if race.ratio is None:
        return "No fair figure", f"since {continued(why_no_ratio(race))}"
    if not moment.is_decided:
        # no claim yet: the number is on its way, and no ratio of the counters beside it
        return "and counting", "until the first one is through"
    what = f"as many {race.unit}"
    if not race.is_typical:
        return what, "in the same time, over the whole runs"
    if not race.is_borne_out:
        return what, "at their usual pace"
    return what, f"in the same {seconds_text(race.decided)}"


def counter_words(race: Race, which: Which, moment: Moment) -> str:
    """What stands after a lane's count of samples: "images, still running"."""
    ending = {
        "waiting": "about to start",
        "running": "still running",
        "finished": "finished",
        "stopped": f"then it {race.lane(which).stopped}",
    }
    return f"{race.unit}, {ending[moment.lane(which).state]}"


def lapse_words(race: Race) -> str:
    """How the replay's pace relates to the true one; "" where it is that."""
    if race.lapse == 1:
        return ""
    if race.lapse < 1:
        on_screen = seconds_text(race.seconds / race.lapse)
        return f"in slow motion: {seconds_text(race.seconds)} last {on_screen}"
    times = f"{race.lapse:,.0f}" if race.lapse >= 10 else f"{race.lapse:.1f}"
    return f"{times} times as fast as it truly went"
