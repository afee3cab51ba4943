"""Draw the guide's pictures, resources/guide/pictures, in the light theme's colors.

    python packaging/guide/make_pictures.py [FOLDER]

The window shows them in its own theme by replacing light with dark colors, so a picture may use only the
colors of tokens.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

from drawing import EDGE, WIDTH, Drawing
from numerics_pictures import NUMERICS_PICTURES
from own_pictures import OWN_PICTURES
from study_pictures import STUDY_PICTURES

from resources.looks import LIGHT

TARGET = Path(__file__).resolve().parents[2] / "resources" / "guide" / "pictures"
FP32, TF32, FP16, BF16, FP8 = (LIGHT.look(name) for name in ("fp32", "tf32", "fp16", "bf16", "fp8"))

# Each format: its colour, the bits of its exponent and mantissa, those that are kept but not used, the
# smallest normal number and the smallest of all, and the largest (IEEE 754, and torch.finfo).
FORMATS = {
    "FP32": (FP32, 8, 23, 0, 2.0**-126, 2.0**-149, (2 - 2.0**-23) * 2.0**127),
    "TF32": (TF32, 8, 10, 13, 2.0**-126, None, (2 - 2.0**-10) * 2.0**127),
    "FP16": (FP16, 5, 10, 0, 2.0**-14, 2.0**-24, 65_504.0),
    "BF16": (BF16, 8, 7, 0, 2.0**-126, 2.0**-133, (2 - 2.0**-7) * 2.0**127),
    "FP8": (FP8, 4, 3, 0, 2.0**-6, 2.0**-9, 448.0),
}


def bits(drawing: Drawing, name: str, x: float, y: float, pitch: float) -> None:
    """Draw a cell per bit: sign gray, exponent pale, mantissa in full color, unused bits empty."""
    look, exponent, mantissa, unused, *_ = FORMATS[name]
    fills = [LIGHT.text3, *[look.dim] * exponent, *[look.color] * mantissa, *[LIGHT.bg1] * unused]
    for place, fill in enumerate(fills):
        edge = LIGHT.line2 if fill == LIGHT.bg1 else "none"
        drawing.box(x + place * pitch, y, pitch - 2, 22, fill, edge)


def formats() -> Drawing:
    drawing = Drawing(188, "The bits of FP32, TF32, BF16 and FP16, one cell per bit")
    for row, name in enumerate(("FP32", "TF32", "BF16", "FP16")):
        y = 18 + 36 * row
        drawing.text(EDGE, y + 16, name, color=LIGHT.text, size=13, weight=600)
        bits(drawing, name, 76, y, 13)
    drawing.text(76, 174, "one cell per bit: sign, exponent (pale), mantissa (full color)", color=LIGHT.text3)
    return drawing


def one_format(name: str) -> Drawing:
    """Draw the bits of a format, and the range of its numbers on a logarithmic line."""
    look, exponent, mantissa, unused, normal, smallest, largest = FORMATS[name]
    drawing = Drawing(206, f"{name}: {exponent} bits of exponent, {mantissa} of mantissa, and its range")
    bits(drawing, name, EDGE, 20, 15)
    drawing.text(EDGE + 15, 62, f"exponent, {exponent} bits", color=LIGHT.text2)
    x = EDGE + 15 * (1 + exponent)
    drawing.text(max(x, EDGE + 130), 62, f"mantissa, {mantissa} bits", color=LIGHT.text2)
    if unused:
        drawing.text(WIDTH - EDGE, 62, f"{unused} bits not used in matmuls", color=LIGHT.text3, anchor="end")
    _range(drawing, look.color, look.dim, normal, smallest, largest)
    return drawing


def _place(value: float) -> float:
    """Where a number lies on the line from 10^-46 to 10^40."""
    return EDGE + (math.log10(value) + 46) / 86 * (WIDTH - 2 * EDGE)


def _range(
    drawing: Drawing, color: str, dim: str, normal: float, smallest: float | None, largest: float
) -> None:
    y = 128
    drawing.text(EDGE, 100, "range", color=LIGHT.text, size=13, weight=600)
    drawing.line((EDGE, y + 24), (WIDTH - EDGE, y + 24))
    for power in range(-40, 40, 10):
        x = _place(10.0**power)
        drawing.line((x, y + 24), (x, y + 29))
        drawing.text(x, y + 44, _power(power), color=LIGHT.text3, size=11, anchor="middle")
    start, end = _place(normal), _place(largest)
    if smallest is not None:
        drawing.box(_place(smallest), y, start - _place(smallest), 14, dim, radius=2)
    drawing.box(start, y, end - start, 14, color, radius=2)
    told = "pale: subnormal, with fewer digits" if smallest is not None else ""
    drawing.text(WIDTH - EDGE, y + 66, told, color=LIGHT.text3, size=11, anchor="end")


def _power(power: int) -> str:
    if power == 0:
        return "1"
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def autocast() -> Drawing:
    drawing = Drawing(218, "What autocast runs in 16 bits, in FP32, and in the dtype of the input")
    columns = (
        ("in 16 bits", FP16.tint, FP16.color, ("matmuls, linear", "convolutions", "attention")),
        ("dtype of the input", LIGHT.bg2, LIGHT.text2, ("ReLU, GELU", "batch norm", "pooling, dropout")),
        ("in FP32", FP32.tint, FP32.color, ("softmax, sums", "layer norm, group norm", "losses, exp, log")),
    )
    for place, (head, fill, color, what) in enumerate(columns):
        x = EDGE + place * 163
        drawing.box(x, 20, 154, 112, fill, radius=6)
        drawing.text(x + 12, 44, head, color=color, size=13, weight=600)
        for row, words in enumerate(what):
            drawing.text(x + 12, 72 + 22 * row, words, color=LIGHT.text)
    drawing.box(EDGE, 148, WIDTH - 2 * EDGE, 50, LIGHT.bg1, FP32.color, radius=6)
    drawing.text(EDGE + 12, 169, "always FP32, in memory", color=FP32.color, size=13, weight=600)
    drawing.text(EDGE + 12, 188, "weights, gradients, optimizer state", color=LIGHT.text)
    return drawing


def scaler() -> Drawing:
    drawing = Drawing(286, "The loop of loss scaling: scale, backward, check, then step or skip")
    for place, words in enumerate(("loss × scale", "backward", "gradients ÷ scale")):
        x = EDGE + 12 + place * 166
        drawing.box(x, 20, 136, 36, LIGHT.bg2, LIGHT.line2, radius=6)
        drawing.text(x + 68, 43, words, color=LIGHT.text, weight=500, anchor="middle")
        if place:
            drawing.arrow((x - 30, 38), (x, 38))
    drawing.arrow((432, 56), (432, 82))
    drawing.text(432, 98, "any infinite or NaN?", color=LIGHT.text, weight=500, anchor="middle")
    drawing.line((354, 94), (142, 94), LIGHT.text3, 1.5)
    drawing.arrow((142, 93), (142, 126))
    drawing.arrow((432, 106), (432, 126))
    _outcome(drawing, EDGE + 12, LIGHT.line2, LIGHT.bg1, "yes: skip the step", "scale × 0.5")
    _outcome(drawing, 280, FP16.color, FP16.tint, "no: make the step", "2,000 in a row: scale × 2")
    for x in (142, 390):
        drawing.line((x, 198), (x, 222), LIGHT.text3, 1.5)
    drawing.line((390, 222), (14, 222), LIGHT.text3, 1.5)
    drawing.line((14, 222), (14, 38), LIGHT.text3, 1.5)
    drawing.arrow((14, 38), (EDGE + 12, 38))
    drawing.text(EDGE + 12, 246, "the scale starts at 65,536, and each turn of the loop is one step")
    drawing.text(EDGE + 12, 264, "these are the defaults of PyTorch and of Ammeter", color=LIGHT.text3)
    return drawing


def _outcome(drawing: Drawing, x: float, edge: str, fill: str, head: str, then: str) -> None:
    drawing.box(x, 126, 220, 72, fill, edge, radius=6)
    drawing.text(x + 14, 152, head, color=LIGHT.text, size=13, weight=600)
    drawing.text(x + 14, 178, then, color=LIGHT.text)


def helps() -> Drawing:
    drawing = Drawing(262, "The parts of a step in three kinds of training, a sketch")
    cases = (
        ("Large matmuls", (300, 30, 0), (104, 30, 0)),
        ("Small model", (24, 190, 0), (16, 200, 0)),
        ("Waiting for data", (60, 30, 220), (24, 30, 256)),
    )
    for row, (name, full, mixed) in enumerate(cases):
        y = 22 + 62 * row
        drawing.text(EDGE, y + 25, name, color=LIGHT.text, size=13, weight=600)
        for place, (parts, look) in enumerate(((full, FP32), (mixed, FP16))):
            x = 150.0
            for part, fill in zip(parts, (look.color, LIGHT.text3, LIGHT.bg3), strict=True):
                if part:
                    drawing.box(x, y + 20 * place, part - 2, 16, fill, radius=2)
                    x += part
    legend = (
        ("matmuls, FP32", FP32.color),
        ("matmuls, 16 bits", FP16.color),
        ("all other work", LIGHT.text3),
        ("waiting", LIGHT.bg3),
    )
    x = EDGE
    for words, fill in legend:
        drawing.box(x, 213, 10, 10, fill, radius=2)
        drawing.text(x + 16, 222, words, color=LIGHT.text2, size=11)
        x += 34 + 6.2 * len(words)
    drawing.text(EDGE, 246, "a sketch, not a measurement", color=LIGHT.text3, size=11)
    return drawing


def run() -> Drawing:
    drawing = Drawing(232, "Which part of a run each metric is taken from")
    parts = (("warm-up", 86, LIGHT.bg3), ("measured steps", 300, FP32.dim), ("validation", 94, LIGHT.bg3))
    x = float(EDGE)
    for words, width, fill in parts:
        drawing.box(x, 22, width - 2, 28, fill)
        drawing.text(x + width / 2 - 1, 41, words, color=LIGHT.text, weight=500, anchor="middle")
        x += width
    spans = (
        ("speed, step time, waiting for data", 106, 300),
        ("peak memory on a GPU", 106, 300),
        ("accuracy", 406, 94),
        ("training time, skipped steps", EDGE, 386),
        ("peak memory on a CPU", EDGE, 480),
    )
    for row, (words, x, width) in enumerate(spans):
        y = 70 + 32 * row
        drawing.line((x, y), (x + width - 2, y), FP32.color, 3)
        anchor = "end" if x > WIDTH / 2 else "start"
        drawing.text(x + width - 2 if anchor == "end" else x, y + 17, words, anchor=anchor)
    return drawing


def speed() -> Drawing:
    drawing = Drawing(204, "Blocks of ten steps after the warm-up, and the median of their speeds")
    heights = (58, 84, 96, 92, 97, 94, 70, 96, 95)
    drawing.box(EDGE, 20, 66, 132, LIGHT.shade, radius=4)
    for place, height in enumerate(heights):
        x = EDGE + 11 + place * 50 + (18 if place else 0)
        drawing.box(x, 152 - height, 42, height, FP32.color if place else LIGHT.text3, radius=2)
    median = statistics.median(heights[1:])
    drawing.line((98, 152 - median - 0.5), (WIDTH - EDGE, 152 - median - 0.5), LIGHT.text, 2)
    drawing.text(WIDTH - EDGE, 42, "the speed: the median block", color=LIGHT.text, weight=600, anchor="end")
    drawing.text(EDGE, 174, "warm-up,", color=LIGHT.text3)
    drawing.text(EDGE, 190, "not counted", color=LIGHT.text3)
    drawing.text(WIDTH - EDGE, 174, "one bar: a block of ten steps", anchor="end")
    drawing.text(WIDTH - EDGE, 190, "a slow block barely moves the median", anchor="end")
    return drawing


def memory() -> Drawing:
    drawing = Drawing(226, "Allocated, reserved and device-used memory, each within the next")
    drawing.box(EDGE, 18, 480, 190, LIGHT.bg1, LIGHT.line2, radius=6)
    drawing.text(EDGE + 12, 38, "the GPU, with other programs", color=LIGHT.text2)
    drawing.box(EDGE + 12, 48, 380, 148, FP32.tint, radius=6)
    drawing.text(EDGE + 24, 68, "reserved by PyTorch, used or not", color=LIGHT.text2)
    drawing.box(EDGE + 24, 78, 320, 106, FP32.color, radius=6)
    drawing.text(EDGE + 36, 98, "allocated for tensors", color=LIGHT.prifg, size=13, weight=600)
    parts = (("weights", 54), ("gradients", 64), ("optimizer", 64), ("activations", 74), ("other", 44))
    x = EDGE + 36.0
    for words, width in parts:
        drawing.box(x, 112, width - 4, 60, LIGHT.bg1, radius=4)
        drawing.text(x + width / 2 - 2, 146, words, color=LIGHT.text, size=11, anchor="middle")
        x += width
    return drawing


def accuracy() -> Drawing:
    drawing = Drawing(170, "Accuracies of five repeats of two precisions, whose ranges overlap, a sketch")
    rows = (("FP32", FP32, (212, 262, 300, 334, 402)), ("BF16 AMP", BF16, (190, 246, 286, 340, 372)))
    for row, (name, look, places) in enumerate(rows):
        y = 40 + 44 * row
        drawing.text(EDGE, y + 4, name, color=look.color, size=13, weight=600)
        drawing.line((places[0], y), (places[-1], y), look.dim, 8)
        mean = sum(places) / len(places)
        drawing.line((mean, y - 14), (mean, y + 14), LIGHT.text, 2)
        for x in places:
            drawing.dot(x, y, look.color)
    drawing.line((130, 116), (WIDTH - EDGE, 116))
    drawing.text(WIDTH - EDGE, 134, "accuracy", color=LIGHT.text3, anchor="end")
    drawing.text(EDGE, 154, "a dot is a run, the line is the mean: the means differ less than the runs")
    return drawing


def waiting() -> Drawing:
    drawing = Drawing(150, "Three steps of training, each after a wait for its batch")
    x = float(EDGE)
    for wait, work in ((34, 120), (56, 120), (30, 120)):
        drawing.box(x, 40, wait - 2, 30, LIGHT.bg3)
        drawing.box(x + wait, 40, work - 2, 30, FP32.color)
        drawing.text(x + wait + work / 2, 60, "one step’s work", color=LIGHT.prifg, anchor="middle")
        x += wait + work
    drawing.text(EDGE, 28, "the device waits", color=LIGHT.text2)
    drawing.arrow((EDGE + 15, 33), (EDGE + 15, 41), LIGHT.text3)
    drawing.line((EDGE, 88), (WIDTH - EDGE, 88))
    drawing.text(WIDTH - EDGE, 105, "time", color=LIGHT.text3, anchor="end")
    said = "waiting for data: the pale part of the measured time, here 25%"
    drawing.text(EDGE, 130, said, color=LIGHT.text)
    return drawing


def turns() -> Drawing:
    drawing = Drawing(160, "Six runs that alternate, each alone on the machine and in a process of its own")
    order = (("FP32", FP32), ("AMP", FP16), ("AMP", FP16), ("FP32", FP32), ("FP32", FP32), ("AMP", FP16))
    for place, (words, look) in enumerate(order):
        x = EDGE + 81 * place
        drawing.box(x, 46, 72, 40, look.tint, look.color, radius=6)
        drawing.text(x + 36, 71, words, color=look.color, size=13, weight=600, anchor="middle")
        if place % 2 == 0:
            drawing.text(x, 34, f"repeat {place // 2 + 1}", color=LIGHT.text3)
            drawing.line((x, 98), (x + 153, 98), LIGHT.text3)
    drawing.text(EDGE, 122, "one after another, never at the same time, in alternating order:")
    drawing.text(EDGE, 140, "a machine that gets warm slows both alike")
    return drawing


def recipe() -> Drawing:
    drawing = Drawing(226, "Two precisions with two optimizations, and the two ways between them")
    corners = (
        (EDGE + 10, 24, "FP32, plain", FP32),
        (318, 24, "AMP, plain", FP16),
        (EDGE + 10, 156, "FP32, fast", FP32),
        (318, 156, "AMP, fast", FP16),
    )
    for x, y, words, look in corners:
        drawing.box(x, y, 172, 46, look.tint, look.color, radius=6)
        drawing.text(x + 86, y + 28, words, color=look.color, size=13, weight=600, anchor="middle")
    for y in (47, 179):
        drawing.arrow((EDGE + 186, y), (314, y))
        drawing.text(258, y - 8, "the precision", color=LIGHT.text, anchor="middle")
    for x in (EDGE + 96, 404):
        drawing.arrow((x, 74), (x, 152))
        drawing.text(x + 10, 117, "optimizations", color=LIGHT.text)
    return drawing


PICTURES: dict[str, Callable[[], Drawing]] = {
    "formats": formats,
    **{name.lower(): partial(one_format, name) for name in FORMATS},
    "autocast": autocast,
    "loss-scaling": scaler,
    "when-it-helps": helps,
    "metrics": run,
    "speed": speed,
    "memory": memory,
    "accuracy": accuracy,
    "data-wait": waiting,
    "alternating-runs": turns,
    "optimizations": recipe,
    **NUMERICS_PICTURES,
    **STUDY_PICTURES,
    **OWN_PICTURES,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=TARGET)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
