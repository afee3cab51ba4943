"""The memory of both runs: two gauges next to the lanes, or two bars below them on a narrow page.

Below them is the activity of the Tensor Cores, if both runs recorded it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise

from engine.drawing.chart_parts import Rect
from engine.drawing.looks import SideLook
from engine.drawing.shapes import (
    CAPITAL,
    Fill,
    Measure,
    Point,
    Shape,
    Stroke,
    Words,
    hatching,
    rounded,
    shortened,
    text_width,
    wrapped,
)
from engine.race.parts import Part, Sizes
from engine.race.scene import NOT_MEASURED, Instant, Scene
from engine.words.numbers import memory_apart_text, memory_text, memory_unit_text

DESIGN_WIDTH = 216.0  # the width of a pair of gauges at scale 1
_HIGHEST = 0.894
_SMALLEST_TEXT = 13
_ROUND, _PITCH = 10.0, 8.0
_LINE = 1.21  # from one line of text to the next, in sizes of type


@dataclass(frozen=True)
class Gauge:
    """One run's gauge in a replay: its name in parts, its look, and the amount to show. None: not measured.

    The amount is the peak memory in MiB, or how busy the Tensor Cores were, in percent.
    """

    name: tuple[str, ...]
    look: SideLook
    amount: float | None

    @property
    def known(self) -> float | None:
        """Return the amount if it can be drawn. None for invalid values of a damaged file."""
        return self.amount if self.amount is not None and 0 <= self.amount < math.inf else None


@dataclass(frozen=True)
class GaugePair:
    """Two gauges side by side on one scale in the rectangle `room`, with their names below.

    The part that the lower gauge leaves free is hatched. `fill` is the fraction of the amounts to show, 0 to
    1. Their difference is shown once they are final. `absent` replaces an unknown amount. `whole` is the
    amount of a full gauge, for percentages that are not compared.
    """

    pair: tuple[Gauge, Gauge]
    room: Rect
    scale: float = 1.0
    fill: float = 1.0
    is_final: bool = True
    absent: str = NOT_MEASURED
    whole: float | None = None
    text: Callable[[float], str] = memory_text
    width_of: Measure = text_width
    snap: Callable[[float], float] = round

    def length(self, design: float) -> float:
        """Return a length in pixels, given at scale 1."""
        return design * self.scale

    def text_px(self, design: int) -> int:
        """Return a font size, which shrinks less than lengths do."""
        return max(round(design * self.scale), min(design, _SMALLEST_TEXT))

    @cached_property
    def rects(self) -> tuple[Rect, Rect]:
        """Return the rectangles of the gauges."""
        room, snap = self.room, self.snap
        gap = max(room.width / 9, 8.0)
        width = snap((room.width - gap) / 2)
        names = max(self.length(40), 2.2 * self.text_px(14))
        left, top, bottom = snap(room.left), snap(room.top), snap(max(room.bottom - names, room.top + 1))
        second = snap(room.right - width)
        return Rect(left, top, left + width, bottom), Rect(second, top, second + width, bottom)

    @cached_property
    def lower(self) -> int | None:
        """Return which of the two needs less, 0 or 1. None if unknown, or if they need the same."""
        full, mixed = (gauge.known for gauge in self.pair)
        if full is None or mixed is None or self.whole or abs(self.level(0) - self.level(1)) < 1:
            return None
        return 0 if full < mixed else 1

    def level(self, which: int) -> float:
        """Return the y of the surface."""
        rect, reached = self.rects[which], (self.pair[which].known or 0.0) * self.fill
        if not reached:
            return rect.bottom
        if self.whole:
            return self.snap(rect.bottom - rect.height * min(reached / self.whole, 1.0))
        most = max(gauge.known or 0.0 for gauge in self.pair)
        headroom = max((1 - _HIGHEST) * rect.height, self._label_height + 2 * self.length(6))
        return self.snap(rect.bottom - max(rect.height - headroom, 0.0) * reached / most)

    def label_rect(self, which: int) -> Rect:
        """Return the place of the amount, above the surface, or at the top of a gauge that is nearly full."""
        rect, aside = self.rects[which], self.length(6)
        bottom = max(self.level(which) - aside, rect.top + aside + self._label_height)
        return Rect(rect.left + aside, bottom - self._label_height, rect.right - aside, bottom)

    @property
    def _label_height(self) -> float:
        return 1.55 * self.text_px(18)

    def saved_rect(self) -> Rect | None:
        """Return the part of the larger amount that the smaller leaves free."""
        if self.lower is None:
            return None
        rect = self.rects[self.lower]
        return Rect(rect.left, self.level(1 - self.lower), rect.right, self.level(self.lower))

    @property
    def saved_text(self) -> str:
        """Return the difference of the peaks, or "" if there is none or it is unknown."""
        full, mixed = (gauge.known for gauge in self.pair)
        return "" if full is None or mixed is None else memory_apart_text(full, mixed)

    def note_rect(self) -> Rect | None:
        """Return the rectangle of the saved amount. None before the end, or without room."""
        spared = self.saved_rect()
        if spared is None or self.lower is None or not (self.is_final and self.fill >= 1 and self.saved_text):
            return None
        height, aside = 3.25 * self.text_px(16), self.length(10)
        top, bottom = spared.top, self.label_rect(self.lower).top
        if bottom - top < height + 2 * self.length(8):
            return None
        middle = (top + bottom) / 2
        return Rect(spared.left + aside, middle - height / 2, spared.right - aside, middle + height / 2)

    def name_rect(self, which: int) -> Rect:
        """Return the place of the name, below the gauge."""
        rect = self.rects[which]
        top = rect.bottom + self.length(8)
        return Rect(rect.left, top, rect.right, max(self.room.bottom, top + 1))

    def names(self) -> tuple[Shape, ...]:
        """Return the names with their marks, which are the same at every moment."""
        return tuple(shape for which in (0, 1) for shape in self._name(which))

    def shapes(self) -> tuple[Shape, ...]:
        """Return the filled parts of the gauges, and their amounts."""
        pair = (*map(self._gauge, (0, 1)), self._surface(), *map(self._label, (0, 1)))
        parts = (*pair, self._note())
        return tuple(shape for part in parts for shape in part)

    def _gauge(self, which: int) -> list[Shape]:
        rect, look, level = self.rects[which], self.pair[which].look, self.level(which)
        width, height = rect.width - 1, rect.height - 1
        body = rounded(rect.left + 0.5, rect.top + 0.5, width, height, self.length(_ROUND), "bg2")
        shapes: list[Shape] = [body]
        if self.lower == which:
            spared = _above(_below(body.points, self.level(1 - which)), level)
            shapes += self._hatch(spared, body.points[0], "spared")
        filled = _below(body.points, level)
        if filled:
            shapes.append(Fill(filled, look.ink))
        if filled and look.fill != "full":
            # two lanes of one precision: this one is less solid
            shapes += self._hatch(filled, body.points[0], f"{look.ink}-dim")
        return [*shapes, Stroke((*body.points, body.points[0]), "line2")]

    def _hatch(self, outline: Sequence[Point], begin: Point, ink: str) -> list[Stroke]:
        return hatching(outline, begin, ink, _PITCH * max(self.scale, 0.75), max(self.scale, 1.0))

    def _surface(self) -> list[Shape]:
        if self.lower is None:
            return []
        higher, other, width = self.rects[1 - self.lower], self.rects[self.lower], max(self.scale, 1.0)
        y = self.level(1 - self.lower) + 0.5
        left, right = (higher.right, other.right) if self.lower == 1 else (other.left, higher.left)
        return [Stroke(((left, y), (right, y)), "text2", width, (4 * width, 3 * width))]

    def _label(self, which: int) -> list[Shape]:
        # the whole peak from the start: what is reached by now only says how far the replay is
        gauge = self.pair[which]
        if gauge.known is None:
            return self._absent(which)
        rect, text = self.label_rect(which), self.text(gauge.known)
        stands_in_it = self.whole is not None and rect.bottom > self.level(which)
        plate = [self._plate(rect)] if self.lower == which or stands_in_it else []
        size = self._fitted(text, self.text_px(18), 600, rect.width)
        return [*plate, _centred(*rect.middle, text, gauge.look.ink, size, 600)]

    def _absent(self, which: int) -> list[Shape]:
        rect = self.rects[which]
        room, (x, y) = max(rect.width - 8, 1.0), rect.middle
        size = min(self._fitted(word, self.text_px(14), 400, room) for word in self.absent.split())
        lines = wrapped(self.absent, room, size, most=4, width_of=self.width_of)
        first = y - _LINE * size * (len(lines) - 1) / 2
        return [
            _centred(x, first + place * _LINE * size, line, "text3", size) for place, line in enumerate(lines)
        ]

    def _note(self) -> list[Shape]:
        rect = self.note_rect()
        if rect is None:
            return []
        shapes, x = [self._plate(rect)], rect.middle[0]
        for text, design, weight, ink, down in (
            (self.saved_text, 16, 600, "text", 0.325),
            ("left free", 12, 400, "text2", 0.685),
        ):
            size = self._fitted(text, self.text_px(design), weight, rect.width - 4)
            shapes.append(_centred(x, rect.top + down * rect.height, text, ink, size, weight))
        return shapes

    def _plate(self, rect: Rect) -> Shape:
        return rounded(rect.left, rect.top, rect.width, rect.height, self.length(6), "bg1")

    def _name(self, which: int) -> list[Shape]:
        rect, gauge = self.name_rect(which), self.pair[which]
        size = self.text_px(14)
        mark, gap = 0.75 * size, 0.6 * size
        lines = self._lines(gauge.name, size, rect.width - mark - gap)
        if len(lines) > 1:
            # to the middle between the gauges, where there is room to spare
            spare = (self.rects[1].left - self.rects[0].right) / 2 - 1
            rect = replace(rect, left=rect.left - spare * which, right=rect.right + spare * (1 - which))
            size, mark, gap = round(0.85 * size), 0.85 * mark, 0.6 * gap
        room = rect.width - mark - gap
        size = self._fitted(max(lines, key=len), size, 500, room, least=11)
        shown = [shortened(line, room + 1, size, 500, width_of=self.width_of) for line in lines]
        left, middle = rect.middle
        left -= (mark + gap + max(self.width_of(line, size, 500) for line in shown)) / 2
        middle -= _LINE * size * (len(shown) - 1) / 2
        shapes = list(gauge.look.mark(left + mark / 2, middle, mark))
        return shapes + [
            Words(left + mark + gap, middle + (CAPITAL / 2 + place * _LINE) * size, line, "text", size, 500)
            for place, line in enumerate(shown)
        ]

    def _lines(self, name: tuple[str, ...], size: float, room: float) -> tuple[str, ...]:
        whole = ", ".join(name)
        if self.width_of(whole, size, 500) <= room:
            return (whole,)
        if len(name) > 1:
            return name
        words = whole.split()
        fitting = (n for n in range(1, len(words)) if self.width_of(" ".join(words[:n]), size, 500) <= room)
        first = max(fitting, default=1)
        return tuple(filter(None, (" ".join(words[:first]), " ".join(words[first:]))))

    def _fitted(self, text: str, size: int, weight: int, room: float, least: int = 8) -> int:
        width = self.width_of(text, size, weight)
        return size if width <= room else max(int(size * room / width), least)


def _centred(x: float, middle: float, text: str, ink: str, size: float, weight: int = 400) -> Words:
    return Words(x, middle + CAPITAL / 2 * size, text, ink, size, weight, "middle")


def _below(outline: Sequence[Point], level: float) -> tuple[Point, ...]:
    part: list[Point] = []
    for (x, y), (next_x, next_y) in pairwise([*outline, *outline[:1]]):
        if y >= level:
            part.append((x, y))
        if (y < level) is not (next_y < level):
            part.append((x + (next_x - x) * (level - y) / (next_y - y), level))
    return tuple(part)


def _above(outline: Sequence[Point], level: float) -> tuple[Point, ...]:
    return tuple((x, -y) for x, y in _below([(x, -y) for x, y in outline], -level))


_TITLE, _BELOW = "Memory used", "at its peak"
_BUSY_TITLE, _BUSY_BELOW = "Tensor Cores busy", "of the measured time"
_MEMORY_PART = 0.64  # of the panel's height, where the Tensor Cores take the rest
ROOM_FOR_ACTIVITY = 480.0  # the height of a panel from which on it has gauges for the Tensor Cores too


def gauges(scene: Scene, sizes: Sizes, x: float, top: float, height: float) -> Part:
    """Return a panel with the memory gauges of both runs, on one scale, and their meaning in words."""
    area = Rect(x, top, x + sizes.panel, top + height)
    pad = 0.1 * sizes.panel
    title, small, step = 1.25 * sizes.detail + 1, sizes.detail - 1, 1.4 * (sizes.detail - 1)
    has_activity = scene.activity is not None and height >= ROOM_FOR_ACTIVITY
    bottom = top + (_MEMORY_PART * height if has_activity else height)
    strong, lines = scene.memory[0], sizes.lines(scene.memory[1], sizes.panel - 2 * pad, small)
    words_height = 1.3 * title + step * len(lines) if strong else -0.6 * pad
    rule = bottom - pad - words_height - 0.6 * pad
    unit_y = top + pad + 0.85 * title + 2 * step + 2
    room = Rect(x + pad, unit_y + 0.9 * small, area.right - pad, rule - 0.6 * pad)
    made = partial(GaugePair, width_of=sizes.metrics.width_of, snap=sizes.snap)
    peaks = _gauges(scene, scene.end.peaks_mib)
    scale = room.width / DESIGN_WIDTH
    pair = made(peaks, room, scale, is_final=scene.is_final, absent=scene.absent)
    shapes: list[Shape] = [
        rounded(x, top, sizes.panel, height, 12 * pair.scale, "bg1", "line"),
        Words(room.left, top + pad + 0.85 * title, _TITLE, "text", title, 600),
        Words(room.left, unit_y - step, _BELOW, "text2", small),
        *pair.names(),
    ]
    if strong:
        shapes.append(Stroke(((room.left, rule), (room.right, rule)), "line"))
        down = rule + 0.6 * pad + title
        fitted = min(title, title * room.width / sizes.width_of(strong, title, 600))
        shapes.append(Words(room.left, down, strong, "text", fitted, 600))
        shapes += [
            Words(room.left, down + step * (1 + place), line, "text2", small)
            for place, line in enumerate(lines)
        ]
    busy: list[GaugePair] = []
    if scene.activity is not None and has_activity:
        below = Rect(room.left, bottom, room.right, area.bottom - 0.5 * pad)
        # the second pair says how busy the Tensor Cores were
        size, lower = sizes.detail, replace(below, top=below.top + 3.9 * sizes.detail)
        amounts = _gauges(scene, scene.activity)
        busy.append(made(amounts, lower, 0.8 * scale, whole=100.0, text=_percent_text))
        shapes += [
            Stroke(((below.left, below.top), (below.right, below.top)), "line"),
            Words(below.left, below.top + 1.7 * size, _BUSY_TITLE, "text", size + 1, 600),
            Words(below.left, below.top + 3.1 * size, _BUSY_BELOW, "text2", size - 1),
            *busy[0].names(),
        ]

    def moving(instant: Instant) -> tuple[Shape, ...]:
        memory = replace(pair, pair=_gauges(scene, instant.peaks_mib))
        unit = Words(room.left, unit_y, memory_unit_text(*instant.peaks_mib), "text2", small)
        filled = (replace(one, fill=instant.fill).shapes() for one in (memory, *busy))
        return unit, *(shape for shapes in filled for shape in shapes)

    def spoken(instant: Instant) -> str:
        held = [_spoken(_gauges(scene, instant.peaks_mib), f"{_TITLE} {_BELOW}", scene.absent, memory_text)]
        if busy:
            held.append(_spoken(busy[0].pair, f"{_BUSY_TITLE}, {_BUSY_BELOW}", "", _percent_text))
        return " ".join(filter(None, (*held, *scene.memory)))

    moves = Rect(room.left, unit_y - small, room.right, (area if busy else room).bottom)
    return Part(area, tuple(shapes), moving, moves, spoken)


def _gauges(scene: Scene, amounts: tuple[float | None, float | None]) -> tuple[Gauge, Gauge]:
    full, mixed = (
        Gauge(head.short, head.look, amount) for head, amount in zip(scene.heads, amounts, strict=True)
    )
    return full, mixed


def _spoken(pair: tuple[Gauge, Gauge], heading: str, absent: str, text_of: Callable[[float], str]) -> str:
    held = (f"{', '.join(one.name)} {absent if one.known is None else text_of(one.known)}" for one in pair)
    return f"{heading}: {', '.join(held)}."


def _percent_text(percent: float) -> str:
    return f"{percent:.0f}%"


def bars(scene: Scene, sizes: Sizes, top: float) -> Part:
    """Return the memory panel for a narrow page: a bar with its peak for either run, and the words."""
    size, peaks = sizes.detail, scene.end.peaks_mib
    shapes, down = _bars(_gauges(scene, peaks), sizes, top, f"{_TITLE} {_BELOW}")
    words = ". ".join(filter(None, (" ".join(scene.memory), memory_unit_text(*peaks))))
    for line in sizes.lines(words, sizes.lanes, size):
        down += 1.4 * size
        shapes.append(Words(0, down, line, "text2", size))
    return Part(Rect(0, top, sizes.lanes, down + 0.6 * size), tuple(shapes))


def activity_bars(scene: Scene, sizes: Sizes, top: float) -> tuple[Part, ...]:
    """Return a bar of the Tensor Cores' activity for either run, or nothing where it is unknown."""
    if scene.activity is None:
        return ()
    pair, heading = _gauges(scene, scene.activity), f"{_BUSY_TITLE}, {_BUSY_BELOW}"
    shapes, down = _bars(pair, sizes, top + sizes.detail, heading, 100.0, _percent_text)
    return (Part(Rect(0, top, sizes.lanes, down + 0.6 * sizes.detail), tuple(shapes)),)


def _bars(
    pair: tuple[Gauge, Gauge],
    sizes: Sizes,
    top: float,
    heading: str,
    whole: float | None = None,
    text_of: Callable[[float], str] = memory_text,
) -> tuple[list[Shape], float]:
    size = sizes.detail
    largest = whole or max((gauge.amount for gauge in pair if gauge.amount), default=1.0)
    texts = [NOT_MEASURED if gauge.amount is None else text_of(gauge.amount) for gauge in pair]
    beside = max(sizes.width_of(text, size, 600) for text in texts) + 12
    baseline = top + 1.2 * size
    shapes: list[Shape] = [Words(0, baseline, heading, "text", size, 600)]
    down = baseline + 0.8 * size
    for gauge, text in zip(pair, texts, strict=True):
        width = (sizes.lanes - 1.4 * size - beside) * (gauge.amount or 0.0) / largest
        shapes += gauge.look.mark(0.4 * size, down + 0.7 * size, 0.75 * size)
        if width > 0:
            shapes.append(rounded(1.4 * size, down, width, 1.4 * size, 3, gauge.look.ink))
        at = 1.4 * size + width + (8 if width > 0 else 0)
        shapes.append(Words(at, down + 1.05 * size, text, "text", size, 600))
        down += 2 * size
    return shapes, down
