"""The guide's pictures of several runs at once: results, a grid, the queue, and a tuning."""

from __future__ import annotations

from collections.abc import Callable

from drawing import EDGE, WIDTH, Drawing

from resources.looks import LIGHT

FULL, HALF = (LIGHT.look(name) for name in ("fp32", "fp16"))
_SKETCH = "a sketch, not a measurement"


def sweeps() -> Drawing:
    drawing = Drawing(
        238, "A grid of two precisions and four batch sizes; one cell will not fit, and pilots come first"
    )
    batches, left, top, wide, high = ("32", "64", "128", "256"), 96, 40, 66, 34
    for place, batch in enumerate(batches):
        x = left + place * (wide + 6)
        drawing.text(x + wide / 2, 30, f"batch {batch}", color=LIGHT.text3, size=11, anchor="middle")
    speeds = (("1,000", "1,180", "1,260", ""), ("1,310", "1,790", "2,190", "2,400"))
    for row, (look, name, texts) in enumerate(zip((FULL, HALF), ("FP32", "FP16 AMP"), speeds, strict=True)):
        y = top + row * (high + 6)
        drawing.text(EDGE, y + 22, name, color=look.color, size=12, weight=600)
        for place, words in enumerate(texts):
            x = left + place * (wide + 6)
            drawing.box(
                x, y, wide, high, look.tint if words else LIGHT.bg2, look.color if words else LIGHT.line2
            )
            if words:
                drawing.text(x + wide / 2, y + 22, words, color=LIGHT.text, anchor="middle")
            else:
                drawing.line((x + 8, y + high - 8), (x + wide - 8, y + 8), LIGHT.text3, 1.5)
    drawing.text(left + 4 * (wide + 6) + 8, top + 22, "will not fit", color=LIGHT.text3, size=11)
    drawing.text(left + 4 * (wide + 6) + 8, top + 62, "samples/s", color=LIGHT.text3, size=11)
    stages = (
        ("pilots", "a few steps of every cell"),
        ("whole runs", "sides take turns"),
        ("repeats", "where unsure"),
    )
    for place, (head, about) in enumerate(stages):
        x = EDGE + place * 168
        drawing.box(x, 142, 144, 44, LIGHT.bg2, LIGHT.line2, radius=6)
        drawing.text(x + 72, 160, head, color=LIGHT.text, size=13, weight=600, anchor="middle")
        drawing.text(x + 72, 177, about, color=LIGHT.text3, size=11, anchor="middle")
        if place < 2:
            drawing.arrow((x + 148, 164), (x + 165, 164))
    drawing.text(EDGE, 208, "the first answers come early, the exact ones last")
    drawing.text(WIDTH - EDGE, 226, _SKETCH, color=LIGHT.text3, size=11, anchor="end")
    return drawing


def results() -> Drawing:
    drawing = Drawing(190, "A table of results with one comparison opened, and its answer beside it")
    drawing.text(EDGE, 30, "Today", color=LIGHT.text3, size=11)
    drawing.box(1, 38, 269, 84, LIGHT.bg2, LIGHT.bg2)
    drawing.line((2, 38), (2, 122), LIGHT.text, 2)
    rows = (
        (EDGE, "FP32 against FP16 AMP", "1.86×", 600),
        (EDGE + 24, "FP32", "1.00×", 500),
        (EDGE + 24, "FP16 AMP", "1.86×", 500),
        (EDGE, "Profile of both", "1.86×", 500),
        (EDGE, "Largest batch", "1.72×", 500),
    )
    for place, (x, name, ratio, weight) in enumerate(rows):
        y = 56 + place * 28
        drawing.text(x, y, name, color=LIGHT.text, weight=weight)
        drawing.text(258, y, ratio, color=LIGHT.text, weight=600, anchor="end")
    for place, look in enumerate((FULL, HALF)):
        drawing.dot(EDGE + 14, 80 + 28 * place, look.color, 4)
        drawing.box(290, 122 + 28 * place, (112, 170)[place], 18, look.color, look.color)
        drawing.text((410, 468)[place], 135 + 28 * place, ("688", "1,280")[place], color=LIGHT.text)
    drawing.line((270.5, 1), (270.5, 189), LIGHT.line)
    drawing.text(290, 44, "FP16 AMP trained", color=HALF.color, size=16, weight=600)
    drawing.text(290, 68, "1.86 times as fast", color=LIGHT.text, size=16, weight=600)
    for x, name in ((290, "Figures"), (352, "Curves"), (410, "Profile")):
        drawing.text(x, 98, name, color=LIGHT.text if x == 290 else LIGHT.text2)
    drawing.line((290, 105), (334, 105), LIGHT.text, 2)
    return drawing


def queue() -> Drawing:
    drawing = Drawing(210, "A queue: a run in progress, a sweep and a limit that wait, and one that is held")
    rows = (
        ("running", "FP16 AMP, batch 64", "until 22:14"),
        ("waiting", "Sweep of 12 cells", "22:14 to 01:40"),
        ("waiting", "Largest batch", "01:40 to 01:55"),
        ("held", "ResNet-50, 5 repeats", "–"),
    )
    for place, (state, name, time) in enumerate(rows):
        y = 18 + place * 38
        is_running, is_held = state == "running", state == "held"
        fill = HALF.tint if is_running else LIGHT.bg2
        drawing.box(EDGE, y, WIDTH - 2 * EDGE, 30, fill, HALF.color if is_running else LIGHT.line2, radius=6)
        for dot in range(3):
            drawing.box(EDGE + 10, y + 9 + dot * 5, 10, 2, LIGHT.text3, radius=1)
        ink = LIGHT.text3 if is_held else LIGHT.text
        drawing.text(EDGE + 34, y + 20, name, color=ink, weight=500)
        drawing.text(EDGE + 300, y + 20, state, color=HALF.color if is_running else LIGHT.text3)
        drawing.text(WIDTH - EDGE - 12, y + 20, time, color=ink, anchor="end")
    drawing.text(EDGE, 192, "drag a line to another place; what is held waits for you")
    return drawing


def tune() -> Drawing:
    drawing = Drawing(254, "What each change gained in order: precision, recipe, batch, loader")
    steps = (
        ("plain FP32", 1.0),
        ("BF16", 1.6),
        ("fast recipe", 1.5),
        ("batch 128", 1.15),
        ("2 loaders", 1.1),
    )
    left, wide, gap, bottom, unit = 40.0, 74.0, 18.0, 196.0, 50.0
    total = 1.0
    for place, (name, gain) in enumerate(steps):
        x = left + place * (wide + gap)
        before, total = (0.0, 1.0) if place == 0 else (total, total * gain)
        top, foot = bottom - total * unit, bottom - before * unit
        look = FULL if place == 0 else HALF
        drawing.box(x, top, wide, foot - top, look.tint, look.color)
        words = "1×" if place == 0 else f"×{gain:g}"
        drawing.text(x + wide / 2, top - 7, words, color=look.color, size=12, weight=600, anchor="middle")
        drawing.text(x + wide / 2, bottom + 18, name, color=LIGHT.text2, size=11, anchor="middle")
        if place:
            drawing.line((x - gap, foot), (x, foot), LIGHT.text3)
    drawing.line((left - 8, bottom), (WIDTH - EDGE, bottom), LIGHT.line2)
    drawing.text(EDGE, 240, f"together {total:.1f} times as fast, proven by repeats in turns")
    drawing.text(EDGE, 28, _SKETCH, color=LIGHT.text3, size=11)
    return drawing


SWEEP_PICTURES: dict[str, Callable[[], Drawing]] = {
    "results": results,
    "sweeps": sweeps,
    "queue": queue,
    "tune": tune,
}
