"""The guide's pictures of profiles, sweeps, the queue, tuning and multiple GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from drawing import EDGE, WIDTH, Drawing

from resources.looks import LIGHT

FULL, HALF = (LIGHT.look(name) for name in ("fp32", "fp16"))
_SKETCH = "a sketch, not a measurement"


def step_time() -> Drawing:
    drawing = Drawing(
        226, "The parts of a step in FP32 and in FP16 AMP on one scale: matrix work shrinks, waiting does not"
    )
    sides = (
        (FULL, "FP32, a step", (("matrix work", 226), ("memory-bound", 122), ("opt.", 40), ("waits", 64))),
        (HALF, "FP16 AMP", (("Tensor Cores", 84), ("memory-bound", 98), ("opt.", 40), ("waits", 64))),
    )
    for row, (look, name, parts) in enumerate(sides):
        y = 18 + 78 * row
        drawing.text(EDGE, y + 14, name, color=look.color, size=13, weight=600)
        x = float(EDGE)
        fills = (
            (look.tint, look.color),
            (LIGHT.bg2, look.color),
            (LIGHT.bg3, "none"),
            (LIGHT.bg1, LIGHT.text3),
        )
        for (words, width), (fill, edge) in zip(parts, fills, strict=True):
            drawing.box(x, y + 22, width - 3, 34, fill, edge)
            drawing.text(x + width / 2 - 1.5, y + 43, words, color=LIGHT.text, size=11, anchor="middle")
            x += width
    drawing.text(EDGE, 186, "16-bit numbers shrink matrix work most, memory-bound work somewhat,")
    drawing.text(EDGE, 203, "and the optimizer and the waits not at all")
    drawing.text(WIDTH - EDGE, 218, _SKETCH, color=LIGHT.text3, size=11, anchor="end")
    return drawing


def kernels() -> Drawing:
    drawing = Drawing(214, "A module calls operations, and these launch kernels on the device")
    columns = (
        ("module", "your code", ("encoder.fc",)),
        ("operations", "called by PyTorch", ("aten::copy_", "aten::addmm")),
        ("kernels", "run by the GPU", ("elementwise_kernel", "sm90_xmma_gemm_f16")),
    )
    for place, (head, about, names) in enumerate(columns):
        x = EDGE + 168 * place
        drawing.text(x, 34, head, color=LIGHT.text, size=13, weight=600)
        drawing.text(x, 52, about, color=LIGHT.text3, size=11)
        for row, name in enumerate(names):
            y = 70 + 46 * row if len(names) > 1 else 93
            is_product = place > 0 and row == 1
            fill, edge = (HALF.tint, HALF.color) if is_product else (LIGHT.bg2, LIGHT.line2)
            drawing.box(x, y, 144, 34, fill, edge, radius=6)
            drawing.text(x + 72, y + 22, name, color=LIGHT.text, size=11, weight=500, anchor="middle")
            if place == 2:
                drawing.arrow((x - 24, y + 17), (x - 3, y + 17))
    drawing.line((EDGE + 144, 110), (EDGE + 154, 110), LIGHT.text3, 1.5)
    drawing.line((EDGE + 154, 87), (EDGE + 154, 133), LIGHT.text3, 1.5)
    for y in (87, 133):
        drawing.arrow((EDGE + 154, y), (EDGE + 165, y))
    drawing.text(EDGE, 180, "a cast by autocast, then the matmul on Tensor Cores:")
    drawing.text(EDGE, 198, "the time of both kernels counts for their operations and for the module")
    return drawing


_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 488.0, 40.0, 222.0
_BANDWIDTH, _PEAKS = 2.0, ((HALF, "FP16", 600.0), (FULL, "FP32", 40.0))
"""TB/s and TFLOP/s of the sketch."""


def _across(intensity: float) -> float:
    """Return the x of an arithmetic intensity, from 0.1 to 10,000 FLOP/byte."""
    return _LEFT + (math.log10(intensity) + 1) / 5 * (_RIGHT - _LEFT)


def _up(tflops: float) -> float:
    """Where TFLOP/s lie, from 0.1 to 3,000."""
    return _BOTTOM - (math.log10(tflops) + 1) / 4.5 * (_BOTTOM - _TOP)


def roofline() -> Drawing:
    drawing = Drawing(
        282, "A roofline: the memory roof, the compute ceilings of two formats, and three kernels"
    )
    for power in range(-1, 5):
        x, words = _across(10.0**power), f"{10.0**power:,g}"
        drawing.line((x, _TOP), (x, _BOTTOM), LIGHT.line)
        drawing.text(x, _BOTTOM + 17, words, color=LIGHT.text3, size=11, anchor="middle")
    for tflops in (1, 10, 100, 1000):
        drawing.line((_LEFT, _up(tflops)), (_RIGHT, _up(tflops)), LIGHT.line)
        drawing.text(_LEFT - 8, _up(tflops) + 4, f"{tflops:,}", color=LIGHT.text3, size=11, anchor="end")
    drawing.text(EDGE, 28, "TFLOP/s", color=LIGHT.text3, size=11)
    drawing.text(_RIGHT, _BOTTOM + 34, "FLOP/byte", color=LIGHT.text3, size=11, anchor="end")
    highest = _PEAKS[0][2]
    drawing.line(
        (_across(0.1), _up(0.1 * _BANDWIDTH)), (_across(highest / _BANDWIDTH), _up(highest)), LIGHT.text2, 2
    )
    drawing.text(_across(0.55), _up(4), "memory", color=LIGHT.text2, weight=600, anchor="end")
    for (look, name, peak), lift in zip(_PEAKS, (-7, 16), strict=True):
        ridge = _across(peak / _BANDWIDTH)
        drawing.line((ridge, _up(peak)), (_RIGHT, _up(peak)), look.color, 2)
        drawing.text(_RIGHT, _up(peak) + lift, f"{name} peak", color=look.color, weight=600, anchor="end")
    marks = (
        (1.0, 1.6, 12, 22, "depthwise convolution: at the memory roof"),
        (500.0, 400.0, -44, 24, "large matmul: at its peak"),
        (60.0, 6.0, 12, 4, "small matmul: far below both"),
    )
    for intensity, tflops, right, down, words in marks:
        drawing.dot(_across(intensity), _up(tflops), HALF.color, 6)
        drawing.text(_across(intensity) + right, _up(tflops) + down, words, color=LIGHT.text)
    drawing.text(EDGE, 270, _SKETCH, color=LIGHT.text3, size=11)
    return drawing


def energy() -> Drawing:
    drawing = Drawing(
        226, "Power over time in FP32 and AMP: the area is the energy, its lower part the idle device's"
    )
    base, scale, idle = 168.0, 0.3, 70
    drawing.text(EDGE, 32, "power", color=LIGHT.text3, size=11)
    x = float(EDGE)
    for look, name, width, watts in ((FULL, "FP32", 264, 400), (HALF, "FP16 AMP", 132, 430)):
        top, low = base - scale * watts, base - scale * idle
        drawing.box(x, top, width, low - top, look.tint, look.color, radius=0)
        drawing.box(x, low, width, base - low, LIGHT.bg3, LIGHT.line2, radius=0)
        drawing.text(x + 12, top + 24, name, color=look.color, size=13, weight=600)
        drawing.text(x + 12, low - 10, "above idle", color=LIGHT.text)
        drawing.text(x + 12, base - 6, "idle", color=LIGHT.text2, size=11)
        x += width + 24
    drawing.line((EDGE, base), (WIDTH - EDGE, base), LIGHT.text3)
    drawing.text(WIDTH - EDGE, base + 17, "time for 1,000 samples", color=LIGHT.text3, size=11, anchor="end")
    drawing.text(EDGE, 208, "the area is the energy: as much power for half the time is half the energy")
    drawing.text(WIDTH - EDGE, 32, _SKETCH, color=LIGHT.text3, size=11, anchor="end")
    return drawing


def sweeps() -> Drawing:
    drawing = Drawing(
        238, "A grid of two precisions and four batch sizes: one does not fit, and pilots come first"
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
        ("pilots", "a few steps of each"),
        ("full runs", "alternating"),
        ("repeats", "where unsure"),
    )
    for place, (head, about) in enumerate(stages):
        x = EDGE + place * 168
        drawing.box(x, 142, 144, 44, LIGHT.bg2, LIGHT.line2, radius=6)
        drawing.text(x + 72, 160, head, color=LIGHT.text, size=13, weight=600, anchor="middle")
        drawing.text(x + 72, 177, about, color=LIGHT.text3, size=11, anchor="middle")
        if place < 2:
            drawing.arrow((x + 148, 164), (x + 165, 164))
    drawing.text(EDGE, 208, "first estimates come early, precise results last")
    drawing.text(WIDTH - EDGE, 226, _SKETCH, color=LIGHT.text3, size=11, anchor="end")
    return drawing


def results() -> Drawing:
    drawing = Drawing(190, "A table of results with one comparison opened, and its answer")
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
    for x, name in ((290, "Metrics"), (352, "Curves"), (410, "Profile")):
        drawing.text(x, 98, name, color=LIGHT.text if x == 290 else LIGHT.text2)
    drawing.line((290, 105), (334, 105), LIGHT.text, 2)
    return drawing


def queue() -> Drawing:
    drawing = Drawing(210, "A queue: a run in progress, a sweep and a search that wait, and a paused run")
    rows = (
        ("running", "FP16 AMP, batch 64", "until 22:14"),
        ("waiting", "Sweep of 12 combinations", "22:14 to 01:40"),
        ("waiting", "Largest batch", "01:40 to 01:55"),
        ("paused", "ResNet-50, 5 repeats", "–"),
    )
    for place, (state, name, time) in enumerate(rows):
        y = 18 + place * 38
        is_running, is_held = state == "running", state == "paused"
        fill = HALF.tint if is_running else LIGHT.bg2
        drawing.box(EDGE, y, WIDTH - 2 * EDGE, 30, fill, HALF.color if is_running else LIGHT.line2, radius=6)
        for dot in range(3):
            drawing.box(EDGE + 10, y + 9 + dot * 5, 10, 2, LIGHT.text3, radius=1)
        ink = LIGHT.text3 if is_held else LIGHT.text
        drawing.text(EDGE + 34, y + 20, name, color=ink, weight=500)
        drawing.text(EDGE + 300, y + 20, state, color=HALF.color if is_running else LIGHT.text3)
        drawing.text(WIDTH - EDGE - 12, y + 20, time, color=ink, anchor="end")
    drawing.text(EDGE, 192, "drag a row to another place (a paused job waits for you)")
    return drawing


def tune() -> Drawing:
    drawing = Drawing(254, "The gain of each change in order: precision, optimizations, batch, loader")
    steps = (
        ("plain FP32", 1.0),
        ("BF16", 1.6),
        ("optimizations", 1.5),
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
    drawing.text(EDGE, 240, f"together {total:.1f} times as fast, verified by alternating repeats")
    drawing.text(EDGE, 28, _SKETCH, color=LIGHT.text3, size=11)
    return drawing


def devices() -> Drawing:
    drawing = Drawing(
        226, "Two GPUs, each with batches of its own, and the mean of their gradients between them"
    )
    for rank, (y, batches) in enumerate(((24, "batches 1, 3, 5, …"), (156, "batches 2, 4, 6, …"))):
        drawing.box(EDGE + 10, y, 142, 46, LIGHT.bg1, LIGHT.text3, radius=6)
        drawing.text(EDGE + 81, y + 28, batches, color=LIGHT.text, anchor="middle")
        drawing.arrow((EDGE + 156, y + 23), (228, y + 23))
        drawing.box(232, y, 172, 46, FULL.tint, FULL.color, radius=6)
        name = f"rank {rank}, cuda:{rank}"
        drawing.text(318, y + 28, name, color=FULL.color, size=13, weight=600, anchor="middle")
    drawing.arrow((318, 113), (318, 74))
    drawing.arrow((318, 113), (318, 152))
    drawing.text(328, 110, "the mean of", color=LIGHT.text)
    drawing.text(328, 126, "their gradients", color=LIGHT.text)
    return drawing


def scaling() -> Drawing:
    drawing = Drawing(236, "Efficiency falls as GPUs are added, and faster in FP16 AMP than in FP32")
    left, right, top, bottom = 60.0, 430.0, 40.0, 184.0
    counts, shares = (1, 2, 4, 8), ((FULL, "FP32", (100, 96, 92, 87)), (HALF, "FP16 AMP", (100, 90, 80, 68)))

    def place(number: int, share: float) -> tuple[float, float]:
        return left + number * (right - left) / 3, bottom - (share - 50) / 50 * (bottom - top)

    for share in (50, 75, 100):
        down = place(0, share)[1]
        drawing.line((left, down), (right, down), LIGHT.text3 if share == 100 else LIGHT.line)
        drawing.text(left - 10, down + 4, f"{share}%", color=LIGHT.text3, size=11, anchor="end")
    drawing.text(right + 12, top + 4, "ideal", color=LIGHT.text3, size=11)
    for look, name, values in shares:
        points = [place(number, share) for number, share in enumerate(values)]
        for before, after in pairwise(points):
            drawing.line(before, after, look.color, 2)
        for x, y in points:
            drawing.dot(x, y, look.color, 4)
        drawing.text(right + 12, points[-1][1] + 4, name, color=look.color, size=12, weight=600)
    for number, count in enumerate(counts):
        drawing.text(
            place(number, 50)[0], bottom + 20, str(count), color=LIGHT.text2, size=11, anchor="middle"
        )
    drawing.text(left, bottom + 40, "GPUs (the speed of each, as a share of one alone)")
    drawing.text(WIDTH - EDGE, 20, _SKETCH, color=LIGHT.text3, size=11, anchor="end")
    return drawing


def exchange() -> Drawing:
    drawing = Drawing(212, "A step on two GPUs: the slower one computes longer, and the other waits for it")
    rows = (
        ("rank 0", (("computing", 190), ("waiting for rank 1", 130), ("all-reduce", 70))),
        ("rank 1, slowest", (("computing", 320), ("all-reduce", 70))),
    )
    fills = {
        "computing": (FULL.tint, FULL.color),
        "waiting for rank 1": (LIGHT.bg1, LIGHT.text3),
        "all-reduce": (LIGHT.bg3, FULL.color),
    }
    for row, (name, parts) in enumerate(rows):
        y = 18 + 70 * row
        drawing.text(EDGE, y + 14, name, color=FULL.color, size=13, weight=600)
        x = float(EDGE)
        for words, width in parts:
            drawing.box(x, y + 22, width - 3, 34, *fills[words])
            drawing.text(x + width / 2 - 1.5, y + 43, words, color=LIGHT.text, size=11, anchor="middle")
            x += width
    drawing.text(
        EDGE, 182, "all-reduce ends on both at once: the shortest is the transfer, the rest is a wait"
    )
    drawing.text(WIDTH - EDGE, 204, _SKETCH, color=LIGHT.text3, size=11, anchor="end")
    return drawing


STUDY_PICTURES: dict[str, Callable[[], Drawing]] = {
    "step-time": step_time,
    "kernels": kernels,
    "roofline": roofline,
    "energy": energy,
    "results": results,
    "sweeps": sweeps,
    "queue": queue,
    "tune": tune,
    "devices": devices,
    "communication": exchange,
    "scaling": scaling,
}
