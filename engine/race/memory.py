"""The memory of both runs: two tanks beside the lanes, or two bars below them where the page is narrow.

Below them stands how busy the Tensor Cores were, where both runs know it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.drawing.chart_parts import Rect
from engine.drawing.shapes import Shape, Stroke, Words, rounded, text_width, wrapped, wrapped_evenly
from engine.race import words as race_words
from engine.race.headline import short_name
from engine.race.parts import Part, Sizes, still
from engine.race.race import LANES, Moment, Race
from engine.race.tanks import NOT_MEASURED, Tank, TankPair
from engine.words.numbers import memory_text, memory_unit_text


def tanks(race: Race, sizes: Sizes, x: float, top: float, height: float) -> Part:
    """A panel with the tanks of both runs, on one scale, and what they mean in words."""
    pad = 0.1 * sizes.panel
    size = sizes.detail + 1
    words = _memory_lines(race, sizes, sizes.panel - 2 * pad)
    has_activity = race.tensor_percent is not None and height >= ROOM_FOR_ACTIVITY
    memory_height = _MEMORY_PART * height if has_activity else height
    words_height = 1.55 * size + 1.35 * (sizes.detail - 1) * len(words[1]) if words[0] else -0.6 * pad
    rule = top + memory_height - pad - words_height - 0.6 * pad
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
    pairs = [pair]
    if race.tensor_percent is not None and has_activity:
        below = Rect(room.left, top + memory_height, room.right, top + height - 0.5 * pad)
        busy, heading = _busy(race, race.tensor_percent, sizes, below)
        pairs.append(busy)
        shapes += [*heading, *busy.names()]

    def moving(moment: Moment) -> tuple[Shape, ...]:
        passed = race.passed(moment.seconds)
        return tuple(shape for pair in pairs for shape in replace(pair, fill=passed).shapes())

    return Part(tuple(shapes), moving, top + height)


_DETAIL = 17.0
"""The size of a lane's detail beside a pair of tanks at scale 1."""


_MEMORY_PART = 0.64
"""Of the panel's height, where the Tensor Cores take the rest."""
ROOM_FOR_ACTIVITY = 480.0
"""The height of a panel from which on it has tanks for the Tensor Cores too."""


def _busy(
    race: Race, percents: tuple[float, float], sizes: Sizes, room: Rect
) -> tuple[TankPair, tuple[Shape, ...]]:
    """The tanks of the Tensor Cores' activity, and what stands above them."""
    size = sizes.detail
    heading = (
        Stroke(((room.left, room.top), (room.right, room.top)), "line"),
        Words(room.left, room.top + 1.7 * size, TENSOR_CORES_BUSY, "text", size + 1, 600),
        Words(room.left, room.top + 3.1 * size, OF_THE_TIME, "text2", sizes.detail - 1),
    )
    below = replace(room, top=room.top + 3.9 * size)
    return (
        TankPair(activity_tanks(race, percents), below, 0.8 * size / _DETAIL, whole=100.0, text=percent_text),
        heading,
    )


TENSOR_CORES_BUSY, OF_THE_TIME = "Tensor Cores busy", "of the measured time"


def percent_text(percent: float) -> str:
    """How busy: "62 %"."""
    return f"{percent:.0f}\N{NO-BREAK SPACE}%"


def activity_tanks(race: Race, percents: tuple[float, float]) -> tuple[Tank, Tank]:
    """The tanks of how busy the Tensor Cores were, the full lane's first."""
    full, mixed = (
        replace(tank, amount=percent) for tank, percent in zip(tanks_of(race), percents, strict=True)
    )
    return full, mixed


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
    size = sizes.detail
    shapes, down = _bars(tanks_of(race), sizes, x, top, "Memory used at its highest point")
    strong, plain = race_words.memory_words(race)
    words = ". ".join(part for part in (f"{strong} {plain}", memory_unit_text(*race.peaks_mib)) if part)
    for line in wrapped(words, sizes.lanes, size, most=3) if words else ():
        down += 1.4 * size
        shapes.append(Words(x, down, line, "text2", size))
    return still(tuple(shapes), down + 0.6 * size)


def activity_bars(race: Race, sizes: Sizes, x: float, top: float) -> Part:
    """How busy the Tensor Cores were, as a bar for either run; nothing where that is not known."""
    if race.tensor_percent is None:
        return still((), top)
    pair, heading = activity_tanks(race, race.tensor_percent), f"{TENSOR_CORES_BUSY}, {OF_THE_TIME}"
    shapes, down = _bars(pair, sizes, x, top + sizes.detail, heading, 100.0, percent_text)
    return still(tuple(shapes), down + 0.6 * sizes.detail)


def _bars(
    pair: tuple[Tank, Tank],
    sizes: Sizes,
    x: float,
    top: float,
    heading: str,
    whole: float | None = None,
    text_of: Callable[[float], str] = memory_text,
) -> tuple[list[Shape], float]:
    """A heading, and a bar with its amount for either run; and where they end."""
    size = sizes.detail
    largest = whole or max((tank.amount for tank in pair if tank.amount), default=1.0)
    texts = [NOT_MEASURED if tank.amount is None else text_of(tank.amount) for tank in pair]
    beside = max(text_width(text, size, 600) for text in texts) + 12
    baseline = top + 1.2 * size
    shapes: list[Shape] = [Words(x, baseline, heading, "text", size, 600)]
    down = baseline + 0.8 * size
    for tank, text in zip(pair, texts, strict=True):
        width = (sizes.lanes - 1.4 * size - beside) * (tank.amount or 0.0) / largest
        shapes += tank.look.mark(x + 0.4 * size, down + 0.7 * size, 0.75 * size)
        if width > 0:
            shapes.append(rounded(x + 1.4 * size, down, width, 1.4 * size, 3, tank.look.ink))
        at = x + 1.4 * size + width + (8 if width > 0 else 0)
        shapes.append(Words(at, down + 1.05 * size, text, "text", size, 600))
        down += 2 * size
    return shapes, down
