"""The roofline: marks below the roofs, words that neither leave the picture nor overlap."""

from __future__ import annotations

from itertools import combinations

import pytest

from engine.drawing.shapes import Drawing, Stroke, Words, text_width
from engine.experiment.experiment import experiment_from
from engine.profile.roofline import roofline_drawing, roofline_marks, short_name
from engine.protocol.profile import Bar, Limits, Peak, StepPart, StepProfile, TimeRow
from engine.protocol.profiles import Profiles, ProfileSide

LIMITS = Limits(
    peaks=tuple(
        Peak(format=name, tflops=tflops)
        for name, tflops in (("fp32", 50.0), ("tf32", 350.0), ("fp16", 700.0), ("bf16", 695.0))
    ),
    gb_per_second=3_000.0,
)


def side(precision: str, count: int = 12, limits: Limits | None = LIMITS) -> ProfileSide:
    kernels = tuple(
        TimeRow(
            name=f"void ns{place}::a_kernel_named_{place}<float, {place}>",
            part=StepPart.MATRIX,
            ms=1.0 / (place + 1),
            calls=1,
            flops=2e9 * 2**place / (place + 1),
            moved_bytes=1e9 / (place + 1),
        )
        for place in range(count)
    )
    profile = StepProfile(
        device_type="cuda",
        steps=5,
        samples=64,
        step_ms=10.0,
        recorded_ms=10.0,
        bar=Bar.of(((StepPart.MATRIX, 10.0),)),
        format=precision,
        kernels=kernels,
        limits=limits,
    )
    return ProfileSide(experiment=experiment_from({"precision": precision}), profile=profile)


BOTH = Profiles(sides=(side("fp32"), side("fp16", 6)))


def boxes(drawing: Drawing) -> dict[tuple[str, float, float], tuple[float, float, float, float]]:
    found = {}
    for shape in drawing.shapes:
        if isinstance(shape, Words):
            width = text_width(shape.text, shape.size, shape.weight)
            left = shape.x - {"start": 0.0, "middle": width / 2, "end": width}[shape.anchor]
            found[shape.text, shape.x, shape.y] = (left, shape.y - 8, left + width, shape.y + 2)
    return found


@pytest.mark.parametrize(("width", "height"), [(420.0, 300.0), (1_000.0, 520.0)])
def test_words_neither_leave_the_picture_nor_overlap(width, height):
    found = boxes(roofline_drawing(BOTH, width, height))
    for (text, *_), (left, top, right, bottom) in found.items():
        assert left >= -0.5 and right <= width + 0.5 and top >= 0 and bottom <= height, text
    for (one, first), (other, second) in combinations(found.items(), 2):
        apart = (
            first[2] <= second[0] or second[2] <= first[0] or first[3] <= second[1] or second[3] <= first[1]
        )
        assert apart, (one[0], other[0])


def test_every_format_has_a_roof_at_its_peak_and_marks_are_where_they_belong():
    drawing = roofline_drawing(BOTH, 800.0, 400.0)
    roofs = {shape.ink: shape.points[0][1] for shape in drawing.shapes if isinstance(shape, Stroke)}
    assert roofs["fp16"] < roofs["bf16"] < roofs["tf32"] < roofs["fp32"]
    marks = roofline_marks(BOTH, 800.0, 400.0)
    assert len(marks) == 18
    rising = sorted(marks, key=lambda mark: mark.row.tflops or 0.0)
    assert [mark.y for mark in rising] == sorted((mark.y for mark in marks), reverse=True)
    assert max(marks, key=lambda mark: mark.size).row.ms == 1.0
    assert all(mark.holds(mark.x, mark.y) and not mark.holds(mark.x + 30, mark.y) for mark in marks)


def test_what_is_missing_is_said():
    bare = Profiles(sides=(side("fp32", 0, None),))
    texts = [shape.text for shape in roofline_drawing(bare, 600.0, 300.0).shapes if isinstance(shape, Words)]
    assert "No limits were measured." in texts
    assert "No kernel's FLOPs and bytes can be counted here." in texts
    assert roofline_marks(Profiles(), 600.0, 300.0) == ()


def test_names_are_short():
    assert short_name("void at::native::(anonymous namespace)::softmax_warp<float, 3>(int)") == "softmax_warp"
    assert short_name("aten::mm") == "mm"
    assert short_name("sm80_xmma_gemm_f16") == "sm80_xmma_gemm_f16"
