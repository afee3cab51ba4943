"""The memory of both runs: two tanks beside the lanes, or two bars below them where the page is narrow."""

from __future__ import annotations

from dataclasses import replace

from engine.drawing.shapes import Shape, Stroke, Words, rounded, text_width, wrapped, wrapped_evenly
from engine.race import words as race_words
from engine.race.headline import short_name
from engine.race.parts import Part, Sizes, still
from engine.race.race import LANES, Moment, Race
from engine.race.tanks import NOT_MEASURED, Rect, Tank, TankPair
from engine.words.numbers import memory_text, memory_unit_text


def tanks(race: Race, sizes: Sizes, x: float, top: float, height: float) -> Part:
    """A panel with the tanks of both runs, on one scale, and what they mean in words."""
    pad = 0.1 * sizes.panel
    size = sizes.detail + 1
    words = _memory_lines(race, sizes, sizes.panel - 2 * pad)
    words_height = 1.55 * size + 1.35 * (sizes.detail - 1) * len(words[1]) if words[0] else -0.6 * pad
    rule = top + height - pad - words_height - 0.6 * pad
    room = Rect(x + pad, top + pad + 4.7 * size, x + sizes.panel - pad, rule - 0.6 * pad)
    absent = NOT_MEASURED if any(race.peaks_mib) else race_words.memory_words(race)[0].lower()
    pair = TankPair(tanks_of(race), room, sizes.detail / _DETAIL, absent=absent)
    shapes: list[Shape] = [
        rounded(x, top, sizes.panel, height, 12, "bg1", "line"),
        Words(x + pad, top + pad + 0.9 * size, "Memory used", "text", size + 1, 600),
        Words(x + pad, top + pad + 2.4 * size, "at its highest point", "text2", sizes.detail - 1),
        Words(x + pad, top + pad + 3.7 * size, memory_unit_text(*race.peaks_mib), "text2", sizes.detail - 1),
        *pair.names(),
    ]
    if words[0]:
        shapes.append(Stroke(((x + pad, rule), (x + sizes.panel - pad, rule)), "line"))
        first = rule + 0.6 * pad + size
        strong = min(size, size * room.width / text_width(words[0], size, 600))
        shapes.append(Words(x + pad, first, words[0], "text", strong, 600))
        shapes += [
            Words(x + pad, first + 1.4 * (sizes.detail - 1) * (1 + place), line, "text2", sizes.detail - 1)
            for place, line in enumerate(words[1])
        ]

    def moving(moment: Moment) -> tuple[Shape, ...]:
        return replace(pair, fill=race.passed(moment.seconds)).shapes()

    return Part(tuple(shapes), moving, top + height)


_DETAIL = 17.0
"""The size of a lane's detail beside a pair of tanks at scale 1."""


def tanks_of(race: Race) -> tuple[Tank, Tank]:
    """What the tanks of a race hold, the full lane's first."""
    full, mixed = (
        Tank(short_name(race, which), race.looks[race.lane(which).side.id], peak)
        for which, peak in zip(LANES, race.peaks_mib, strict=True)
    )
    return full, mixed


def _memory_lines(race: Race, sizes: Sizes, room: float) -> tuple[str, tuple[str, ...]]:
    strong, plain = race_words.memory_words(race)
    return (
        strong,
        wrapped_evenly(plain, room, sizes.detail - 1, most=3) if plain else (),
    )


def bars(race: Race, sizes: Sizes, x: float, top: float) -> Part:
    """The same on a narrow page: a bar with its peak for either run, and the words."""
    size, looks = sizes.detail, race.looks
    largest = max((peak for peak in race.peaks_mib if peak), default=1.0)
    texts = [NOT_MEASURED if peak is None else memory_text(peak) for peak in race.peaks_mib]
    beside = max(text_width(text, size, 600) for text in texts) + 12
    baseline = top + 1.2 * size
    shapes: list[Shape] = [Words(x, baseline, "Memory used at its highest point", "text", size, 600)]
    strong, plain = race_words.memory_words(race)
    down = baseline + 0.8 * size
    for which, peak, text in zip(LANES, race.peaks_mib, texts, strict=True):
        look = looks[race.lane(which).side.id]
        width = (sizes.lanes - 1.4 * size - beside) * (peak or 0.0) / largest
        shapes += look.mark(x + 0.4 * size, down + 0.7 * size, 0.75 * size)
        if width > 0:
            shapes.append(rounded(x + 1.4 * size, down, width, 1.4 * size, 3, look.ink))
        at = x + 1.4 * size + width + (8 if width > 0 else 0)
        shapes.append(Words(at, down + 1.05 * size, text, "text", size, 600))
        down += 2 * size
    words = ". ".join(part for part in (f"{strong} {plain}", memory_unit_text(*race.peaks_mib)) if part)
    for line in wrapped(words, sizes.lanes, size, most=3) if words else ():
        down += 1.4 * size
        shapes.append(Words(x, down, line, "text2", size))
    return still(tuple(shapes), down + 0.6 * size)
