"""The memory of both runs: two tanks beside the lanes, or two bars below them where the page is narrow."""

from __future__ import annotations

from dataclasses import dataclass

from engine.drawing.looks import SideLook
from engine.drawing.shapes import (
    Box,
    Shape,
    Stroke,
    Words,
    rounded,
    shortened,
    text_width,
    wrapped,
    wrapped_evenly,
)
from engine.race import words as race_words
from engine.race.headline import short_name
from engine.race.parts import Part, Sizes, still
from engine.race.race import LANES, Moment, Race, Which
from engine.words.numbers import memory_apart_text, memory_text, memory_unit_text

_HATCH = 8.0
_ROUND = 9.0


@dataclass(frozen=True)
class _Tank:
    """One tank: its place, its look, and what it fills to; None where that was not measured."""

    x: float
    top: float
    width: float
    height: float
    head: float
    look: SideLook
    peak_mib: float | None
    largest_mib: float

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def level(self, fill: float = 1.0) -> float:
        """Where the memory reaches to when `fill` of it is there."""
        share = (self.peak_mib or 0.0) / self.largest_mib
        return self.bottom - fill * share * (self.height - self.head)


def tanks(race: Race, sizes: Sizes, x: float, top: float, height: float) -> Part:
    """A panel with a tank for each run, filled as far as its peak memory goes of the larger one."""
    pad = 0.1 * sizes.panel
    size = sizes.detail + 1
    words = _memory_lines(race, sizes, sizes.panel - 2 * pad)
    words_height = 1.55 * size + 1.35 * (sizes.detail - 1) * len(words[1]) if words[0] else -0.6 * pad
    rule = top + height - pad - words_height - 0.6 * pad
    tank_top = top + pad + 4.7 * size
    tank_height = rule - 0.6 * pad - 2.2 * size - tank_top
    unknown = "not measured" if any(race.peaks_mib) else race_words.memory_words(race)[0].lower()
    pair = _pair(race, sizes, (x + pad, tank_top, sizes.panel - 2 * pad, tank_height))
    shapes: list[Shape] = [
        rounded(x, top, sizes.panel, height, 12, "bg1", "line"),
        Words(x + pad, top + pad + 0.9 * size, "Memory used", "text", size + 1, 600),
        Words(x + pad, top + pad + 2.4 * size, "at its highest point", "text2", sizes.detail - 1),
        Words(x + pad, top + pad + 3.7 * size, memory_unit_text(*race.peaks_mib), "text2", sizes.detail - 1),
    ]
    for which, tank in zip(LANES, pair, strict=True):
        shapes.append(rounded(tank.x, tank.top, tank.width, tank.height, _ROUND, "bg2", "line2"))
        shapes += _name(race, which, tank, sizes)
    if words[0]:
        shapes.append(Stroke(((x + pad, rule), (x + sizes.panel - pad, rule)), "line"))
        first = rule + 0.6 * pad + size
        strong = _fitted(words[0], size, sizes.panel - 2 * pad)
        shapes.append(Words(x + pad, first, words[0], "text", strong, 600))
        shapes += [
            Words(x + pad, first + 1.4 * (sizes.detail - 1) * (1 + place), line, "text2", sizes.detail - 1)
            for place, line in enumerate(words[1])
        ]

    def moving(moment: Moment) -> tuple[Shape, ...]:
        fill = race.passed(moment.seconds)
        levels = tuple(shape for tank in pair for shape in _content(tank, fill, unknown, sizes))
        return (*_between(*pair, sizes), *levels) if fill == 1.0 else levels

    return Part(tuple(shapes), moving, top + height)


def _pair(race: Race, sizes: Sizes, place: tuple[float, float, float, float]) -> tuple[_Tank, _Tank]:
    x, top, width, height = place
    looks = race.looks
    each = (width - 0.12 * width) / 2
    largest = max((peak for peak in race.peaks_mib if peak), default=1.0)
    full, mixed = (
        _Tank(
            x + (width - each if which == "mixed" else 0.0),
            top,
            each,
            height,
            2.6 * sizes.detail,
            looks[race.lane(which).side.id],
            peak,
            largest,
        )
        for which, peak in zip(LANES, race.peaks_mib, strict=True)
    )
    return full, mixed


def _name(race: Race, which: Which, tank: _Tank, sizes: Sizes) -> list[Shape]:
    size = sizes.detail - 1
    text = short_name(race, which)
    width = text_width(text, size, 600)
    middle = tank.bottom + 1.54 * size
    if width > tank.width - 1.2 * size:
        # the lanes have the whole of a long name, beside the same mark
        text = shortened(text, tank.width - 1.2 * size, size, 600)
        width = text_width(text, size, 600)
    left = tank.x + (tank.width - 1.2 * size - width) / 2
    baseline = middle + 0.36 * size
    mark = tank.look.mark(left + 0.4 * size, middle, 0.75 * size)
    return [*mark, Words(left + 1.2 * size, baseline, text, "text", size, 600)]


def _content(tank: _Tank, fill: float, unknown: str, sizes: Sizes) -> list[Shape]:
    if tank.peak_mib is None:
        middle, at = tank.x + tank.width / 2, tank.top + tank.height / 2
        room = tank.width - 10
        size = min(_fitted(word, sizes.small, room) for word in unknown.split())
        return [
            Words(middle, at + 1.3 * place * size, line, "text3", size, anchor="middle")
            for place, line in enumerate(wrapped(unknown, room, size, most=4))
        ]
    level = tank.level(fill)
    depth = tank.bottom - level
    shapes: list[Shape] = []
    if depth > 0:
        shapes.append(rounded(tank.x, level, tank.width, depth, _ROUND, tank.look.ink))
        shapes.append(Box(tank.x, level, tank.width, max(0.0, depth - _ROUND), tank.look.ink))
    text = memory_text(tank.peak_mib)
    size = _fitted(text, sizes.detail + 1, tank.width - 10)
    plate = rounded(tank.x + 1.5, level - 2.1 * size, tank.width - 3, 1.8 * size, 5, "bg2")
    middle = tank.x + tank.width / 2
    label = Words(middle, level - 0.85 * size, text, tank.look.ink, size, 600, "middle")
    return [*shapes, plate, label]


def _between(full: _Tank, mixed: _Tank, sizes: Sizes) -> list[Shape]:
    """How far apart the levels are; what the tank that needs less leaves free is hatched."""
    if full.peak_mib is None or mixed.peak_mib is None:
        return []
    higher, lower = sorted((full, mixed), key=_Tank.level)
    level = higher.level()
    free = lower.level() - level
    if free < 1:
        return []
    shapes = _hatch(lower.x + 1, level, lower.width - 2, free)
    ends = (higher.x + higher.width, lower.x + lower.width) if lower is mixed else (lower.x, higher.x)
    shapes.append(Stroke(((ends[0], level), (ends[1], level)), "text2", 1.0, (4.0, 3.0)))
    size = sizes.detail
    above_label = free - 2.3 * size
    if above_label > 3.6 * size:
        apart = memory_apart_text(full.peak_mib, mixed.peak_mib)
        shapes += _plate(lower, level + above_label / 2, apart, sizes)
    return shapes


def _plate(tank: _Tank, middle: float, text: str, sizes: Sizes) -> list[Shape]:
    size, small = _fitted(text, sizes.detail, tank.width - 20), sizes.detail - 3
    centre = tank.x + tank.width / 2
    return [
        rounded(tank.x + 6, middle - 1.6 * size, tank.width - 12, 3.2 * size, 6, "bg1"),
        Words(centre, middle - 0.2 * size, text, "text", size, 600, "middle"),
        Words(centre, middle + 1.1 * size, "left free", "text2", small, anchor="middle"),
    ]


def _hatch(x: float, top: float, width: float, height: float) -> list[Shape]:
    """Lines that rise at 45 degrees, cut at the edges of the rectangle."""
    lines: list[Shape] = []
    count = int((width + height) / _HATCH)
    for number in range(1, count + 1):
        along = number * _HATCH
        start = (x + max(0.0, along - height), top + min(height, along))
        end = (x + min(width, along), top + max(0.0, along - width))
        lines.append(Stroke((start, end), "hatch"))
    return lines


def _fitted(text: str, size: float, room: float) -> float:
    return min(size, size * room / text_width(text, size, 600))


def _memory_lines(race: Race, sizes: Sizes, room: float) -> tuple[str, tuple[str, ...]]:
    strong, plain = race_words.memory_words(race)
    return (
        strong,
        wrapped_evenly(plain, room, sizes.detail - 1, most=3) if plain else (),
    )


def bars(race: Race, sizes: Sizes, x: float, top: float) -> Part:
    """The same on a narrow page: a bar for each run with its peak, and the words."""
    size, looks = sizes.detail, race.looks
    largest = max((peak for peak in race.peaks_mib if peak), default=1.0)
    texts = ["not measured" if peak is None else memory_text(peak) for peak in race.peaks_mib]
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
    told = ". ".join(part for part in (f"{strong} {plain}", memory_unit_text(*race.peaks_mib)) if part)
    for line in wrapped(told, sizes.lanes, size, most=3) if told else ():
        down += 1.4 * size
        shapes.append(Words(x, down, line, "text2", size))
    return still(tuple(shapes), down + 0.6 * size)
