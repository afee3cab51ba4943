"""The memory of both runs: two tanks beside the lanes, or two bars below them where the page is narrow.

Below them stands how busy the Tensor Cores were, where both runs know it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.drawing.chart_parts import Rect
from engine.drawing.shapes import Shape, Stroke, Words, rounded
from engine.race.parts import Part, Sizes
from engine.race.scene import Instant, Scene
from engine.race.tanks import DESIGN_WIDTH, NOT_MEASURED, Tank, TankPair
from engine.words.numbers import memory_text, memory_unit_text

_TITLE, _BELOW = "Memory used", "at its highest point"
_BUSY_TITLE, _BUSY_BELOW = "Tensor Cores busy", "of the measured time"
_MEMORY_PART = 0.64
"""Of the panel's height, where the Tensor Cores take the rest."""
ROOM_FOR_ACTIVITY = 480.0
"""The height of a panel from which on it has tanks for the Tensor Cores too."""


def tanks(scene: Scene, sizes: Sizes, x: float, top: float, height: float) -> Part:
    """A panel with the tanks of both runs, on one scale, and what they mean in words."""
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
    pair = TankPair(
        _tanks(scene, scene.end.peaks_mib),
        room,
        room.width / DESIGN_WIDTH,
        is_final=scene.is_final,
        absent=scene.absent,
        width_of=sizes.metrics.width_of,
        snap=sizes.snap,
    )
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
    busy: list[TankPair] = []
    if scene.activity is not None and has_activity:
        below = Rect(room.left, bottom, room.right, area.bottom - 0.5 * pad)
        busy.append(_busy(scene, scene.activity, sizes, below))
        shapes += [*_busy_heading(sizes, below), *busy[0].names()]

    def moving(instant: Instant) -> tuple[Shape, ...]:
        memory = replace(pair, pair=_tanks(scene, instant.peaks_mib))
        unit = Words(room.left, unit_y, memory_unit_text(*instant.peaks_mib), "text2", small)
        filled = (replace(one, fill=instant.fill).shapes() for one in (memory, *busy))
        return unit, *(shape for shapes in filled for shape in shapes)

    def spoken(instant: Instant) -> str:
        held = [_spoken(_tanks(scene, instant.peaks_mib), f"{_TITLE} {_BELOW}", scene.absent, memory_text)]
        if busy:
            held.append(_spoken(busy[0].pair, f"{_BUSY_TITLE}, {_BUSY_BELOW}", "", _percent_text))
        return " ".join(filter(None, (*held, *scene.memory)))

    moves = Rect(room.left, unit_y - small, room.right, (area if busy else room).bottom)
    return Part(area, tuple(shapes), moving, moves, spoken)


def _tanks(scene: Scene, amounts: tuple[float | None, float | None]) -> tuple[Tank, Tank]:
    full, mixed = (
        Tank(head.short, head.look, amount) for head, amount in zip(scene.heads, amounts, strict=True)
    )
    return full, mixed


def _spoken(pair: tuple[Tank, Tank], heading: str, absent: str, text_of: Callable[[float], str]) -> str:
    held = (f"{', '.join(one.name)}: {absent if one.known is None else text_of(one.known)}" for one in pair)
    return f"{heading}: {'; '.join(held)}."


def _busy(scene: Scene, percents: tuple[float, float], sizes: Sizes, room: Rect) -> TankPair:
    """The tanks of the Tensor Cores' activity."""
    return TankPair(
        _tanks(scene, percents),
        replace(room, top=room.top + 3.9 * sizes.detail),
        0.8 * room.width / DESIGN_WIDTH,
        whole=100.0,
        text=_percent_text,
        width_of=sizes.metrics.width_of,
        snap=sizes.snap,
    )


def _busy_heading(sizes: Sizes, room: Rect) -> tuple[Shape, ...]:
    size = sizes.detail
    return (
        Stroke(((room.left, room.top), (room.right, room.top)), "line"),
        Words(room.left, room.top + 1.7 * size, _BUSY_TITLE, "text", size + 1, 600),
        Words(room.left, room.top + 3.1 * size, _BUSY_BELOW, "text2", size - 1),
    )


def _percent_text(percent: float) -> str:
    return f"{percent:.0f}\N{NO-BREAK SPACE}%"


def bars(scene: Scene, sizes: Sizes, top: float) -> Part:
    """The same on a narrow page: a bar with its peak for either run, and the words."""
    size, peaks = sizes.detail, scene.end.peaks_mib
    shapes, down = _bars(_tanks(scene, peaks), sizes, top, f"{_TITLE} {_BELOW}")
    words = ". ".join(filter(None, (" ".join(scene.memory), memory_unit_text(*peaks))))
    for line in sizes.lines(words, sizes.lanes, size):
        down += 1.4 * size
        shapes.append(Words(0, down, line, "text2", size))
    return Part(Rect(0, top, sizes.lanes, down + 0.6 * size), tuple(shapes))


def activity_bars(scene: Scene, sizes: Sizes, top: float) -> tuple[Part, ...]:
    """How busy the Tensor Cores were, as a bar for either run; nothing where that is not known."""
    if scene.activity is None:
        return ()
    pair, heading = _tanks(scene, scene.activity), f"{_BUSY_TITLE}, {_BUSY_BELOW}"
    shapes, down = _bars(pair, sizes, top + sizes.detail, heading, 100.0, _percent_text)
    return (Part(Rect(0, top, sizes.lanes, down + 0.6 * sizes.detail), tuple(shapes)),)


def _bars(
    pair: tuple[Tank, Tank],
    sizes: Sizes,
    top: float,
    heading: str,
    whole: float | None = None,
    text_of: Callable[[float], str] = memory_text,
) -> tuple[list[Shape], float]:
    """A heading, and a bar with its amount for either run; and where they end."""
    size = sizes.detail
    largest = whole or max((tank.amount for tank in pair if tank.amount), default=1.0)
    texts = [NOT_MEASURED if tank.amount is None else text_of(tank.amount) for tank in pair]
    beside = max(sizes.width_of(text, size, 600) for text in texts) + 12
    baseline = top + 1.2 * size
    shapes: list[Shape] = [Words(0, baseline, heading, "text", size, 600)]
    down = baseline + 0.8 * size
    for tank, text in zip(pair, texts, strict=True):
        width = (sizes.lanes - 1.4 * size - beside) * (tank.amount or 0.0) / largest
        shapes += tank.look.mark(0.4 * size, down + 0.7 * size, 0.75 * size)
        if width > 0:
            shapes.append(rounded(1.4 * size, down, width, 1.4 * size, 3, tank.look.ink))
        at = 1.4 * size + width + (8 if width > 0 else 0)
        shapes.append(Words(at, down + 1.05 * size, text, "text", size, 600))
        down += 2 * size
    return shapes, down
