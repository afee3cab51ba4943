"""The waterfall of a tuning: how each change, one after the other, adds to the speed of plain FP32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.drawing.shapes import Box, Drawing, Shape, Stroke, Words, shortened, text_width
from engine.experiment.catalog import Precision
from engine.protocol.tune import Gain, Tuning
from engine.words.numbers import times

_BAR, _ROW, _TOP, _GAP = 22.0, 38.0, 26.0, 12.0
_LOSS = "text3"


@dataclass(frozen=True)
class Step:
    """A bar from a speed to another, as multiples of the plain FP32 loop's; whole bars begin at 0."""

    words: str
    begin: float
    end: float
    ink: str
    value: str
    gain: Gain | None = None

    @property
    def interval(self) -> str:
        """The interval of its gain: "1.45 to 1.55"; "" without one."""
        if self.gain is None or self.gain.speedup_ci is None:
            return ""
        return " to ".join(map(times, self.gain.speedup_ci))

    @property
    def is_whole(self) -> bool:
        return self.gain is None


def waterfall_steps(tuning: Tuning) -> tuple[Step, ...]:
    """The bars from top to bottom: the plain loop, each gain, and the winner; none without gains."""
    if not tuning.gains or tuning.winner is None:
        return ()
    ink = tuning.winner.precision.value
    steps, total = [Step("FP32, plain", 0.0, 1.0, Precision.FP32.value, _factor(1.0))], 1.0
    for gain in tuning.gains:
        before, total = total, total * gain.speedup
        inks = _LOSS if gain.speedup < 1 or not gain.changes else f"{ink}-dim"
        words = gain.words[:1].upper() + gain.words[1:]
        steps.append(Step(words, before, total, inks, _factor(gain.speedup), gain))
    return *steps, Step("Fastest", 0.0, total, ink, _factor(total))


def waterfall_drawing(tuning: Tuning, width: float) -> Drawing:
    """The picture, as high as its bars need. Needs gains."""
    steps = waterfall_steps(tuning)
    widest = max(text_width(step.words, 12, 600) for step in steps)
    left = min(0.4 * width, widest + 16)
    room = max(text_width(_beside(step), 12, 600) for step in steps) + 12
    scale = max(1.0, width - left - room) / max(step.end for step in steps)
    shapes: list[Shape] = [Words(0, 14, _CAPTION, "text3", 11)]
    for place, step in enumerate(steps):
        y = _TOP + _ROW * place
        shapes += _row(step, y, left, scale)
        if place + 1 < len(steps):
            # joins the end of a bar with the beginning of the next
            x = left + step.end * scale
            shapes.append(Stroke(((x, y + _BAR), (x, y + _ROW)), "line2"))
    height = _TOP + _ROW * len(steps) - _ROW + _BAR + _GAP
    shapes.append(Stroke(((left, _TOP - 4), (left, height - _GAP + 4)), "line"))
    return Drawing(width, height, tuple(shapes), _description(steps))


_CAPTION = "Speed as a multiple of the plain FP32 loop's; changes made one after the other"


def _row(step: Step, y: float, left: float, scale: float) -> Iterator[Shape]:
    low, high = sorted((step.begin, step.end))
    weight = 600 if step.is_whole else 400
    yield Words(0, y + _BAR / 2 + 4, shortened(step.words, left - 12, 12, weight), "text", 12, weight)
    yield Box(left + low * scale, y, max(1.0, (high - low) * scale), _BAR, step.ink)
    yield Words(left + high * scale + 8, y + _BAR / 2 + 4, _beside(step), "text", 12, weight)


def _beside(step: Step) -> str:
    return f"{step.value} ({step.interval})" if step.interval else step.value


def _factor(speedup: float) -> str:
    return f"× {times(speedup)}"


def _description(steps: tuple[Step, ...]) -> str:
    return ", ".join(f"{step.words} {_beside(step)}" for step in steps) + "."
