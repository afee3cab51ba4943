"""The guide's pictures of numerics: ranges of numbers, overflows and divergence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from drawing import EDGE, WIDTH, Drawing

from engine.protocol.ranges import BF16, E4M3, E5M2, FP16, NumberFormat
from resources.looks import LIGHT

FULL, HALF, SHORT, UNSCALED = (LIGHT.look(name) for name in ("fp32", "fp16", "bf16", "fp16-unscaled"))


def precision_map() -> Drawing:
    drawing = Drawing(
        226, "Modules with the dtype that each computed in, forward and backward, and its casts"
    )
    for x, words in ((EDGE, "module"), (236, "forward"), (326, "backward"), (416, "casts")):
        drawing.text(x, 34, words, color=LIGHT.text3)
    rows = (
        ("conv", HALF, "FP16", "2 by autocast"),
        ("norm", HALF, "FP16", ""),
        ("head, kept in FP32", FULL, "FP32", "1"),
        ("(loss)", FULL, "FP32", "1 by autocast"),
        ("(optimizer)", FULL, "FP32", ""),
    )
    for row, (name, look, form, casts) in enumerate(rows):
        y = 46 + 34 * row
        drawing.text(EDGE, y + 18, name, color=LIGHT.text, weight=600 if row < 3 else 400)
        for place in range(1 if name == "(optimizer)" else 2):
            drawing.box(236 + 90 * place, y, 76, 26, look.tint, look.color, radius=4)
            drawing.text(274 + 90 * place, y + 18, form, color=look.color, weight=600, anchor="middle")
        drawing.text(416, y + 18, casts, color=LIGHT.text2)
    return drawing


_LOW, _HIGH = -36, 20
_AXIS = 100


def _exponent(exponent: float) -> float:
    """Where a power of two lies on the axis of the histograms."""
    return _AXIS + (exponent - _LOW) / (_HIGH - _LOW) * (WIDTH - EDGE - _AXIS)


def ranges() -> Drawing:
    drawing = Drawing(366, "Gradients without and with a loss scale against the ranges of four formats")
    zero, infinite = FP16.subnormal_exponent - 1, FP16.top_exponent + 1
    for row, (head, scale) in enumerate((("without a scale", 0), ("× 65,536, which is 2¹⁶", 16))):
        y = 110 + 96 * row
        drawing.text(EDGE, y - 74, head, color=LIGHT.text, size=13, weight=600)
        for exponent in range(-34, -9):
            height = 62 * math.exp(-(((exponent + 22) / 6) ** 2))
            x, is_lost = _exponent(exponent + scale), exponent + scale < zero
            width = _exponent(1) - _exponent(0) - 1.5
            fill, edge = (LIGHT.bg1, LIGHT.text3) if is_lost else (HALF.color, "none")
            drawing.box(x, y - height, width, height, fill, edge, radius=0)
        drawing.line((EDGE, y), (WIDTH - EDGE, y))
        for limit in (zero, infinite):
            drawing.line((_exponent(limit), y - 66), (_exponent(limit), y + 6), LIGHT.text, 1.5)
    drawing.text(_exponent(zero) - 6, 58, "underflow", color=LIGHT.text2, anchor="end")
    drawing.text(_exponent(infinite) - 6, 58, "overflow", color=LIGHT.text2, anchor="end")
    for row, form in enumerate((BF16, FP16, E5M2, E4M3)):
        _span(drawing, 232 + 24 * row, form)
    for exponent in range(-30, 20, 10):
        drawing.text(_exponent(exponent), 340, _power(exponent), color=LIGHT.text3, size=11, anchor="middle")
    drawing.text(EDGE, 357, "pale: fewer digits than the rest", color=LIGHT.text3, size=11)
    return drawing


def _span(drawing: Drawing, y: float, form: NumberFormat) -> None:
    look = {BF16: SHORT, FP16: HALF}.get(form)
    color, dim = (LIGHT.text3, LIGHT.line2) if look is None else (look.color, look.dim)
    least, normal, end = (
        _exponent(min(max(exponent, _LOW), _HIGH))
        for exponent in (form.subnormal_exponent, form.normal_exponent, form.top_exponent + 1)
    )
    drawing.text(EDGE, y + 12, form.label, color=LIGHT.text, weight=600)
    if normal > least:
        drawing.box(least, y, normal - least, 14, dim, radius=2)
    drawing.box(normal, y, end - normal, 14, color, radius=2)


def _power(exponent: int) -> str:
    return "1" if not exponent else "2" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def first_nan() -> Drawing:
    drawing = Drawing(200, "Operations in order: the first with an infinite result, and those after it")
    steps = (
        ("linear", "up to 12", False),
        ("× 6,000", "up to 72,000", True),
        ("softmax", "NaN", True),
        ("loss", "NaN", True),
    )
    for place, (name, result, is_bad) in enumerate(steps):
        x = EDGE + 126 * place
        is_first = place == 1
        edge = LIGHT.text if is_first else LIGHT.line2
        drawing.box(x, 30, 102, 56, HALF.tint if not is_bad or is_first else LIGHT.bg2, edge, radius=6)
        drawing.text(x + 51, 53, name, color=LIGHT.text, weight=600, anchor="middle")
        words = "Inf" if is_first else result
        drawing.text(x + 51, 74, words, color=LIGHT.text if is_bad else HALF.color, anchor="middle")
        if place:
            drawing.arrow((x - 22, 58), (x - 2, 58))
    drawing.arrow((EDGE + 177, 116), (EDGE + 177, 90), LIGHT.text)
    drawing.text(
        EDGE + 126, 134, "the first: finite numbers in, an infinite one out", color=LIGHT.text, weight=600
    )
    drawing.text(EDGE + 126, 152, "72,000 is above 65,504, the largest number of FP16", color=LIGHT.text2)
    drawing.text(EDGE, 182, "then all is NaN: the loss shows that something went wrong, not where")
    return drawing


def divergence() -> Drawing:
    drawing = Drawing(
        262, "Losses of four precisions from the same start: one leaves the band of FP32, a sketch"
    )
    steps, top, left, right = 60, 24.0, float(EDGE), 400.0
    pitch = (right - left) / steps
    for step in range(steps):
        half = _half_band(step)
        drawing.box(left + pitch * step, _loss(step) - half, pitch + 0.3, 2 * half, LIGHT.bg3, radius=0)
    _curve(drawing, [_loss(step) + math.sin(step / 4) * 2 for step in range(steps)], FULL.color, pitch)
    _curve(drawing, [_loss(step) + math.cos(step / 5) * 3 - 1 for step in range(steps)], SHORT.color, pitch)
    apart = [_loss(step) - max(0, step - 24) * 2.2 - math.sin(step / 3) for step in range(steps)]
    _curve(drawing, apart, UNSCALED.color, pitch)
    x = left + pitch * next(step for step in range(steps) if apart[step] < _loss(step) - _half_band(step))
    drawing.line((x, top), (x, 214), LIGHT.text, 1)
    drawing.text(x + 6, top + 10, "diverges here", color=LIGHT.text, weight=600)
    drawing.line((left, 218), (right, 218))
    drawing.text(right, 236, "60 steps", color=LIGHT.text3, anchor="end")
    for y, words, color in (
        (apart[-1], "FP16 unscaled", UNSCALED.color),
        (_loss(steps - 1) - 2, "FP32", FULL.color),
        (_loss(steps - 1) + 16, "BF16 AMP", SHORT.color),
    ):
        drawing.text(right + 8, y + 4, words, color=color, weight=600)
    drawing.text(EDGE, 252, "gray: explained by rounding (a sketch)", color=LIGHT.text3, size=11)
    return drawing


def _loss(step: float) -> float:
    return 200 - 150 * math.exp(-step / 18)


def _half_band(step: float) -> float:
    return 3 + step / 6


def _curve(drawing: Drawing, heights: Sequence[float], color: str, pitch: float) -> None:
    for step in range(len(heights) - 1):
        end = (EDGE + pitch * (step + 1), heights[step + 1])
        drawing.line((EDGE + pitch * step, heights[step]), end, color, 2)


def fp32_modules() -> Drawing:
    drawing = Drawing(226, "Trials with ever fewer of eight modules in FP32, until one is left")
    trials = (
        (range(0), "NaN in step 3"),
        (range(8), "as good as FP32"),
        (range(4, 8), "as good as FP32"),
        (range(6, 8), "NaN in step 3"),
        (range(5, 8), "good: the sixth is needed"),
        (range(5, 6), "as good as FP32: the answer"),
    )
    for row, (kept, result) in enumerate(trials):
        y = 20 + 27 * row
        for module in range(8):
            look = FULL if module in kept else HALF
            drawing.box(EDGE + 32 * module, y, 28, 18, look.color if module in kept else look.tint)
        is_last = row == len(trials) - 1
        drawing.text(
            296, y + 14, result, color=LIGHT.text if is_last else LIGHT.text2, weight=600 if is_last else 400
        )
    drawing.box(EDGE, 195, 12, 12, FULL.color)
    drawing.text(EDGE + 18, 205, "kept in FP32", color=LIGHT.text2)
    drawing.box(EDGE + 112, 195, 12, 12, HALF.tint)
    drawing.text(EDGE + 130, 205, "under autocast (a row is a short run)", color=LIGHT.text2)
    return drawing


NUMERICS_PICTURES: dict[str, Callable[[], Drawing]] = {
    "precision-map": precision_map,
    "ranges": ranges,
    "first-nan": first_nan,
    "divergence": divergence,
    "fp32-modules": fp32_modules,
}
