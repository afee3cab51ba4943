"""The card of a replay, or of two runs being measured: one design of 1,280 by 720, scaled as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from engine.drawing.blocks import BlockGrid, Tiles
from engine.drawing.chart_parts import Rect
from engine.drawing.looks import SideLook
from engine.drawing.shapes import (
    CAPITAL,
    Drawing,
    Fill,
    Shape,
    Stroke,
    TextLine,
    hatching,
    rounded,
    shortened,
    text_width,
    wrapped,
    wrapped_evenly,
)
from engine.words.numbers import memory_apart_text, memory_text, memory_unit_text

Pair = tuple[float | None, float | None]
"""Values of the full-precision and of the mixed-precision lane, None if unknown."""

BLOCKS = 200  # how many blocks a lane is shown as
WIDTH, HEIGHT = 1_280.0, 720.0
GROUND = "bg0"
_LEFT, _TOP, _LANES = 44.0, 40.0, 897.0
_RIGHT = _LEFT + _LANES
_ROWS, _BLOCK, _GAP = 5, 19.5, 3.0
_LANE_TOPS = (172.0, 530.5)
_HEAD_ABOVE = 15.0  # from a lane's blocks to the baseline of its heading
_PANEL = Rect(980.0, _TOP, 1_236.0, 640.0)
_NUMBER, _NUMBER_MIDDLE = 190.0, 389.0
_CAPTION, _SURE = 34.0, 15.0
_SIGN = "\N{MULTIPLICATION SIGN}"
_SIGN_SIZE, _SIGN_RISE, _SPACING, _BEARING = 0.8, 0.1, -0.04, 0.047  # in sizes of the number's type
_MOST_NUMBER = 0.58  # the most of the lanes' width for the number, the rest is for its caption

NUMBER_AREA = Rect(_LEFT, _NUMBER_MIDDLE - 90, _RIGHT, _NUMBER_MIDDLE + 90)
_FOOT = Rect(_LEFT, 658.0, _PANEL.right, 708.0)


@dataclass(frozen=True)
class LaneHead:
    """The heading of one run on the card. `short` is its name below its gauge, on one or two lines."""

    name: str
    detail: str
    look: SideLook
    short: tuple[str, ...]


@dataclass(frozen=True)
class CardFrame:
    """Everything on the card that changes with time, each pair with the full-precision lane first.

    `lit` are the lit blocks of 200, `words` follow the count of samples. `number` is "" before its first
    value, None if there is no number at all. The gauges are filled to the fraction `fill` of `peaks_mib`.
    """

    lit: tuple[float, float]
    samples: tuple[str, str]
    words: tuple[str, str]
    number: str | None
    caption: tuple[str, str]
    sure: str = ""
    fill: float = 1.0
    peaks_mib: Pair = (None, None)


@dataclass(frozen=True, eq=False)
class RaceCard:
    """The card of two runs: `still` is drawn once, `moving` for each frame.

    `widest` is the longest text of the number. `memory` are a strong and a quiet text below the gauges, whose
    unknown amounts read `absent`. With `tensor_percent` the panel also shows how busy the Tensor Cores were.
    `doubts` stand at the foot, the first with how many more, above `facts`.
    """

    title: str
    sentence: str
    heads: tuple[LaneHead, LaneHead]
    tiles: Tiles
    widest: str = ""
    memory: tuple[str, str] = ("", "")
    absent: str = "not measured"
    tensor_percent: tuple[float, float] | None = None
    doubts: tuple[str, ...] = ()
    facts: str = ""

    @cached_property
    def still(self) -> Drawing:
        """The shapes that do not move."""
        return self._drawing(
            [
                *self._head(),
                *(shape for place in (0, 1) for shape in self._lane_head(place)),
                *(self._blocks(place, 0.0) for place in (0, 1)),
                *_panel(_PANEL, self.memory, has_busy=self.tensor_percent is not None),
                *self._gauge_names(),
                *self._busy(),
                *self._foot(),
            ]
        )

    def moving(self, frame: CardFrame) -> Drawing:
        """Return the lit blocks, the counts, the number and the gauges of a frame."""
        shapes: list[Shape] = [self._blocks(place, frame.lit[place]) for place in (0, 1)]
        for place in (0, 1):
            shapes += self._counter(place, frame)
        shapes += self._number(frame)
        looks = self.heads[0].look, self.heads[1].look
        shapes += _gauges(self._gauge_room, looks, frame.peaks_mib, frame.fill, self.absent)
        return self._drawing(shapes)

    def drawing(self, frame: CardFrame, *, on_page: bool = False) -> Drawing:
        """Return the full card at a frame. With `on_page` it has its own background with round corners."""
        ground = [rounded(0, 0, WIDTH, HEIGHT, 12, GROUND, "line")] if on_page else []
        shapes = (*ground, *self.still.shapes, *self.moving(frame).shapes)
        return Drawing(WIDTH, HEIGHT, shapes, self.description(frame))

    @property
    def hints(self) -> tuple[tuple[Rect, str], ...]:
        """The places of texts that may be cut off or need an explanation, and the whole texts."""
        heads = (
            (Rect(_LEFT, top - 42, _RIGHT, top - 4), f"{head.name} {head.detail}")
            for top, head in zip(_LANE_TOPS, self.heads, strict=True)
        )
        above = Rect(_LEFT, _TOP, _RIGHT, 126.0)
        below = "\n".join(self.doubts)
        return (above, f"{self.title}. {self.sentence}"), *heads, (_FOOT, below)

    def description(self, frame: CardFrame) -> str:
        """Return all of the card in words, for a screen reader."""
        number = f"{frame.number} times" if frame.number else ""
        lanes = (
            f"{', '.join(filter(None, (head.name, head.detail)))}: {samples} {words}."
            for head, samples, words in zip(self.heads, frame.samples, frame.words, strict=True)
        )
        result = f"{' '.join(filter(None, (number, *frame.caption)))}."
        memory = " ".join(filter(None, self.memory))
        parts = (f"{self.title}.", self.sentence, *lanes, result, memory and f"{memory}.", *self.doubts)
        return " ".join(filter(None, parts))

    def _drawing(self, shapes: list[Shape]) -> Drawing:
        return Drawing(WIDTH, HEIGHT, tuple(shapes))

    def _head(self) -> list[Shape]:
        lines = wrapped_evenly(self.sentence, _LANES, 17, most=2) if self.sentence else ()
        return [
            TextLine(_LEFT, 61, shortened(self.title, _LANES, 30, 600), "text", 30, 600),
            *(TextLine(_LEFT, 90 + 22 * row, line, "text2", 17) for row, line in enumerate(lines)),
        ]

    def _lane_head(self, place: int) -> list[Shape]:
        head, baseline = self.heads[place], _LANE_TOPS[place] - _HEAD_ABOVE
        name = shortened(head.name, 0.5 * _LANES, 25, 600)
        # in one column, as the window's display font is narrower
        x = _LEFT + 42 + min(max(text_width(one.name, 25, 600) for one in self.heads), 0.5 * _LANES)
        detail = shortened(head.detail, _RIGHT - 300 - x, 15)
        return [
            *head.look.mark(_LEFT + 8, baseline - CAPITAL * 25 / 2, 16.5),
            TextLine(_LEFT + 28, baseline, name, "text", 25, 600),
            TextLine(x, baseline, detail, "text2", 15),
        ]

    def _counter(self, place: int, frame: CardFrame) -> list[Shape]:
        baseline, words = _LANE_TOPS[place] - _HEAD_ABOVE, frame.words[place]
        x = _RIGHT - text_width(words, 15) - 12
        return [
            TextLine(_RIGHT, baseline, words, "text2", 15, anchor="end"),
            TextLine(x, baseline, frame.samples[place], self.heads[place].look.ink, 25, 600, "end"),
        ]

    def _blocks(self, place: int, lit: float) -> BlockGrid:
        look, columns = self.heads[place].look, BLOCKS // _ROWS
        top = _LANE_TOPS[place]
        return BlockGrid(
            _LEFT, top, columns, _ROWS, _BLOCK, _BLOCK, _GAP, look.ink, self.tiles, lit, fill=look.fill
        )

    def _number(self, frame: CardFrame) -> list[Shape]:
        size, left = _NUMBER, _LEFT
        shapes: list[Shape] = []
        if self.widest:
            width = _laid_out(self.widest)[1]
            size = min(_NUMBER, _MOST_NUMBER * _LANES / width)
            left += width * size + 42
        if frame.number:
            baseline = _NUMBER_MIDDLE + CAPITAL * size / 2
            shapes += [
                TextLine(_LEFT + x * size, baseline - rise * size, letter, "text", part * size, 700, "middle")
                for letter, x, rise, part in _laid_out(frame.number)[0]
            ]
        room = _RIGHT - left
        strong, rest = frame.caption
        lines = wrapped_evenly(rest, room, _CAPTION, most=2) if rest else ()
        sure = wrapped_evenly(frame.sure, room, _SURE, most=2) if frame.sure else ()
        # what is said only at the end has its room from the start, so that nothing jumps
        down = _NUMBER_MIDDLE - 0.625 * _CAPTION * len(lines) + (0.3 if lines else 0.36) * _CAPTION - 6
        shapes.append(TextLine(left, down, shortened(strong, room, _CAPTION, 600), "text", _CAPTION, 600))
        for line in lines:
            down += 1.25 * _CAPTION
            shapes.append(TextLine(left, down, line, "text2", _CAPTION))
        for row, line in enumerate(sure):
            shapes.append(TextLine(left, down + 32 + 1.4 * _SURE * row, line, "text3", _SURE))
        return shapes

    @property
    def _gauge_room(self) -> Rect:
        bottom = _BUSY_TOP - 138 if self.tensor_percent is not None else _PANEL.bottom - 148
        return Rect(_PANEL.left + 26, _TOP + 96, _PANEL.right - 26, bottom)

    def _gauge_names(self) -> list[Shape]:
        return _gauge_names(self._gauge_room, [(head.short, head.look) for head in self.heads])

    def _busy(self) -> list[Shape]:
        looks = [head.look for head in self.heads]
        return [] if self.tensor_percent is None else _busy_bars(_PANEL, looks, self.tensor_percent)

    def _foot(self) -> list[Shape]:
        room, baseline = _FOOT.width, 676.0
        shapes: list[Shape] = []
        if self.doubts:
            others = len(self.doubts) - 1
            more = f" (and {others} more)" if others else ""
            begin = "Caution:"
            x = _LEFT + text_width(begin, 14, 600) + 6
            first = shortened(self.doubts[0], _LEFT + room - x - text_width(more, 14), 14)
            shapes.append(TextLine(_LEFT, baseline, begin, "text", 14, 600))
            shapes.append(TextLine(x, baseline, first + more, "text2", 14))
        if self.facts:
            shapes.append(TextLine(_LEFT, 701, shortened(self.facts, room, 13), "text3", 13))
        return shapes


@lru_cache(maxsize=64)
def _laid_out(text: str) -> tuple[tuple[tuple[str, float, float, float], ...], float]:
    """Return each letter of a number and its ×, with middle, rise and size, and the total width.

    All lengths are in multiples of the font size. Digits after the first are as wide as a 0, so that nothing
    moves while they count.
    """
    # the outline of the first digit is to stand at the edge
    letters, x = [], -_BEARING
    for place, letter in enumerate(text):
        width = text_width("0" if letter.isdigit() and place else letter, 1, 700)
        letters.append((letter, x + width / 2, 0.0, 1.0))
        x += width + _SPACING
    width = _SIGN_SIZE * text_width(_SIGN, 1, 700)
    letters.append((_SIGN, x + 0.03 + width / 2, _SIGN_RISE, _SIGN_SIZE))
    return tuple(letters), x + 0.03 + width


_BUSY_TOP = 530.0
_PAD, _BETWEEN = 26.0, 20.0
_HIGHEST = 0.89  # of a gauge's height, for the larger peak
_ROUND, _PITCH = 10.0, 8.0
_LABEL, _NOTE = 28.0, 52.0  # the height of an amount's plate, and of the note on what is left free


def _panel(area: Rect, memory: tuple[str, str], *, has_busy: bool) -> list[Shape]:
    """Return the ground of the panel, its titles, and the words on memory below the gauges."""
    left, room = area.left + _PAD, area.width - 2 * _PAD
    bottom = _BUSY_TOP if has_busy else area.bottom
    strong, rest = memory
    shapes: list[Shape] = [
        rounded(area.left, area.top, area.width, area.height, 12, "bg1", "line"),
        TextLine(left, area.top + 40, "Memory used", "text", 19, 600),
        TextLine(left, area.top + 61, "at its peak", "text2", 14),
    ]
    if strong or rest:
        rule = bottom - 102
        lines = wrapped_evenly(rest, room, 13, most=3) if rest else ()
        shapes += [
            Stroke(((left, rule), (area.right - _PAD, rule)), "line"),
            TextLine(left, rule + 29, shortened(strong, room, 18, 600), "text", 18, 600),
            *(
                TextLine(left, rule + (50 if strong else 28) + 17 * row, line, "text2", 13)
                for row, line in enumerate(lines)
            ),
        ]
    return shapes


def _gauge_names(room: Rect, names: Sequence[tuple[tuple[str, ...], SideLook]]) -> list[Shape]:
    """Return the names of the runs with their marks, centered below their gauges."""
    shapes: list[Shape] = []
    for rect, (name, look) in zip(_rects(room), names, strict=True):
        size = 14 if len(name) == 1 else 12
        lines = [shortened(line, rect.width + 4, size, 500) for line in name[:2]]
        middle = (rect.left + rect.right) / 2 + 8
        left = middle - max(text_width(line, size, 500) for line in lines) / 2
        shapes += look.mark(left - 12, rect.bottom + 22 - CAPITAL * size / 2, 10)
        shapes += [
            TextLine(left, rect.bottom + 22 + 1.2 * size * row, line, "text", size, 500)
            for row, line in enumerate(lines)
        ]
    return shapes


def _gauges(
    room: Rect, looks: tuple[SideLook, SideLook], peaks_mib: Pair, fill: float, absent: str
) -> list[Shape]:
    """Return the gauges on one scale, filled to the fraction `fill` of the peaks, with the whole amounts.

    What the lower gauge leaves free is hatched, and named once `fill` is 1.
    """
    rects = _rects(room)
    most = max((peak for peak in peaks_mib if peak), default=1.0)
    levels = [
        rect.bottom - _HIGHEST * rect.height * (peak or 0.0) * fill / most
        for rect, peak in zip(rects, peaks_mib, strict=True)
    ]
    full, mixed = peaks_mib
    lower = None if full is None or mixed is None or full == mixed else int(mixed < full)
    shapes: list[Shape] = [TextLine(room.left, room.top - 16, memory_unit_text(*peaks_mib), "text3", 12)]
    for place, (rect, look, level) in enumerate(zip(rects, looks, levels, strict=True)):
        free = rect.top if lower != place else min(levels[1 - place], level)
        shapes += _gauge(rect, look, level, free, is_lower=lower == place)
    if lower is not None:
        surface = min(levels)
        left, right = (rects[0].right, rects[1].right) if lower else (rects[0].left, rects[1].left)
        shapes.append(Stroke(((left, surface), (right, surface)), "text2", dash=(4, 3)))
    for place, (rect, look, level, peak) in enumerate(zip(rects, looks, levels, peaks_mib, strict=True)):
        middle = (rect.left + rect.right) / 2
        if peak is None:
            shapes += _centered(middle, (rect.top + rect.bottom) / 2, wrapped(absent, rect.width - 8, 14), 14)
            continue
        bottom = max(level - 4, rect.top + 6 + _LABEL)
        if lower == place:
            shapes.append(rounded(rect.left + 5, bottom - _LABEL, rect.width - 10, _LABEL, 6, "bg1"))
        shapes.append(TextLine(middle, bottom - 8, memory_text(peak), look.ink, 17, 600, "middle"))
    if lower is not None and full is not None and mixed is not None and fill >= 1:
        top, bottom = min(levels), levels[lower] - 4 - _LABEL
        shapes += _note(rects[lower], top, bottom, memory_apart_text(full, mixed))
    return shapes


def _rects(room: Rect) -> tuple[Rect, Rect]:
    width = (room.width - _BETWEEN) / 2
    left = Rect(room.left, room.top, room.left + width, room.bottom)
    return left, Rect(room.right - width, room.top, room.right, room.bottom)


def _gauge(rect: Rect, look: SideLook, level: float, free: float, *, is_lower: bool) -> list[Shape]:
    shapes: list[Shape] = [rounded(rect.left, rect.top, rect.width, rect.height, _ROUND, "bg2")]
    corner = (rect.left, rect.top)
    if is_lower and level > free:
        shapes += hatching(_band(rect, free, level), corner, "spared", _PITCH)
    # the round corners at the bottom
    outline = rounded(rect.left, rect.top, rect.width, rect.height, _ROUND, look.ink).points
    filled = tuple((x, max(y, level)) for x, y in outline)
    if level < rect.bottom:
        shapes.append(Fill(filled, look.ink))
        if look.fill != "full":
            # two lanes of one precision: this one is less solid
            shapes += hatching(_band(rect, level, rect.bottom), corner, f"{look.ink}-dim", _PITCH)
    return [*shapes, Stroke((*outline, outline[0]), "line2")]


def _band(rect: Rect, top: float, bottom: float) -> tuple[tuple[float, float], ...]:
    return (rect.left, top), (rect.right, top), (rect.right, bottom), (rect.left, bottom)


def _note(rect: Rect, top: float, bottom: float, text: str) -> list[Shape]:
    if not text or bottom - top < _NOTE + 16:
        return []
    middle = (top + bottom) / 2
    x = (rect.left + rect.right) / 2
    return [
        rounded(rect.left + 8, middle - _NOTE / 2, rect.width - 16, _NOTE, 6, "bg1"),
        TextLine(x, middle - 3, text, "text", 15, 600, "middle"),
        TextLine(x, middle + 16, "left free", "text2", 12, anchor="middle"),
    ]


def _centered(x: float, middle: float, lines: Sequence[str], size: float) -> list[Shape]:
    first = middle + CAPITAL * size / 2 - 0.6 * size * (len(lines) - 1)
    return [
        TextLine(x, first + 1.2 * size * row, line, "text3", size, anchor="middle")
        for row, line in enumerate(lines)
    ]


def _busy_bars(area: Rect, looks: Sequence[SideLook], percent: Sequence[float]) -> list[Shape]:
    """Return a bar for each run that is as long as its Tensor Cores were busy."""
    left, right = area.left + _PAD, area.right - _PAD
    shapes: list[Shape] = [
        Stroke(((left, _BUSY_TOP), (right, _BUSY_TOP)), "line"),
        TextLine(left, _BUSY_TOP + 27, "Tensor Cores busy", "text", 15, 600),
    ]
    for row, (look, share) in enumerate(zip(looks, percent, strict=True)):
        top, room = _BUSY_TOP + 42 + 28 * row, right - left - 64
        shapes += look.mark(left + 6, top + 9, 11)
        shapes.append(rounded(left + 20, top, room, 18, 4, "bg2"))
        if share > 0:
            shapes.append(rounded(left + 20, top, max(room * share / 100, 1), 18, 4, look.ink))
        shapes.append(TextLine(right, top + 14, f"{share:.0f}%", "text", 14, 600, "end"))
    return shapes
