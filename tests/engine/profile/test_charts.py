"""The names, tables, bars and roofline of profiles' sides."""

from __future__ import annotations

from typing import Any

import pytest

from engine.drawing.shapes import Stroke
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.profile.charts import bars_drawing, part_places, roofline_drawing, roofline_points, short_name
from engine.profile.names import part_meaning, part_title, side_names
from engine.profile.tables import side_rows
from engine.protocol.profile import Bar, Limits, Peak, Profiles, ProfileSide, StepPart, StepProfile, TimeRow
from tests.drawings import assert_legible, texts_of

PEAKS = {"fp32": 50.0, "tf32": 350.0, "fp16": 700.0, "bf16": 695.0}
LIMITS = Limits(
    peaks=tuple(Peak(format=name, tflops=tflops) for name, tflops in PEAKS.items()), gb_per_second=3_000.0
)


def profile(device: str = "cuda", units: str | None = "Tensor Cores", **figures: Any) -> StepProfile:
    bar = figures.get("bar", Bar.of([(StepPart.MATRIX, 10.0)]))
    known = {"steps": 3, "samples": 64, "format": "fp32", "bar": bar, "matrix_units": units, **figures}
    return StepProfile(device_type=device, step_ms=bar.total_ms, recorded_ms=bar.total_ms, **known)


def side(found: StepProfile | None = None, problem: Problem | None = None, **settings: Any) -> ProfileSide:
    return ProfileSide(experiment=Experiment.model_validate(settings), profile=found, problem=problem)


def sides(*known: ProfileSide) -> Profiles:
    return Profiles(sides=known)


def row(name: str, ms: float, **figures: float) -> TimeRow:
    return TimeRow(name=name, part=StepPart.MATRIX, ms=ms, calls=1, **figures)


def test_rows_of_one_name_stand_side_by_side_the_longest_first():
    fp32 = side(profile(kernels=(row("norm", 4.0), row("sgemm", 9.0))))
    fp16 = side(profile(kernels=(row("norm", 2.0), row("hgemm", 3.0))), precision="fp16")
    known = sides(fp32, fp16)
    rows = [
        (row.name, [cell and cell.ms for cell in row.cells], row.ratio) for row in side_rows(known, "kernels")
    ]
    assert rows == [("sgemm", [9.0, None], None), ("norm", [4.0, 2.0], 2.0), ("hgemm", [None, 3.0], None)]
    assert side_rows(known, "modules") == ()
    # a side without a profile has no cells, and one side no ratio
    for others in ((), (side(),)):
        first, *_ = side_rows(sides(fp16, *others), "kernels")
        assert first.cells[1:] == (None,) * len(others) and first.ratio is None


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (({"precision": "fp32"}, {"precision": "fp16"}), ("FP32", "FP16 AMP")),
        (({"batch_size": 64}, {"batch_size": 128}), ("FP32, batch 64", "FP32, batch 128")),
        (({"precision": "fp32"}, {"precision": "fp32"}), ("FP32", "FP32 (2)")),
    ],
)
def test_sides_are_named_by_what_differs(settings, names):
    assert side_names(sides(*(side(**{"precision": "fp32", **each}) for each in settings))) == names


def test_every_part_has_a_title_and_a_meaning_that_fit_the_device():
    card, processor = profile(), profile("cpu", None)
    assert all(
        part_title(part, each) and part_meaning(part, each) for part in StepPart for each in (card, processor)
    )
    assert part_title(StepPart.MATRIX, processor) == "Matrix work"


BARS = sides(
    side(profile(bar=Bar.of([(StepPart.MATRIX, 60.0), (StepPart.MEMORY, 20.0)])), precision="fp32"),
    side(profile(bar=Bar.of([(StepPart.MATRIX_UNITS, 10.0), (StepPart.DATA, 0.02)])), precision="fp16"),
)


def test_the_sides_share_a_scale_and_a_bar_is_filled_by_its_parts():
    matrix, memory, units, _ = part_places(BARS, 800)
    assert matrix.width == pytest.approx(6 * units.width)
    assert memory.x == pytest.approx(matrix.x + matrix.width) and matrix.x == units.x


@pytest.mark.parametrize("width", [420, 1_200])
def test_nothing_is_drawn_beyond_the_picture_of_bars(width):
    many = Profiles(sides=BARS.sides * 4)
    height = bars_drawing(many, width).height
    for place in part_places(many, width):
        assert place.x + place.width <= width + 1 and place.y + place.height <= height


def test_a_side_that_failed_says_why_in_the_place_of_its_bar():
    failed = side(problem=Problem(kind=Kind.OUT_OF_MEMORY, message="No room.", remedy="Make some."))
    drawing = bars_drawing(sides(*BARS.sides, failed), 800)
    assert "No room." in texts_of(drawing) and drawing.description.endswith("FP32 (2): No room.")


def roofline_side(precision: str, count: int, limits: Limits | None = LIMITS) -> ProfileSide:
    kernels = tuple(
        row(
            f"void ns{place}::a_kernel_named_{place}<float, {place}>",
            1.0 / (place + 1),
            flops=2e9 * 2**place / (place + 1),
            moved_bytes=1e9 / (place + 1),
        )
        for place in range(count)
    )
    return side(profile(format=precision, kernels=kernels, limits=limits), precision=precision)


BOTH = sides(roofline_side("fp32", 12), roofline_side("fp16", 6))


@pytest.mark.parametrize(("width", "height"), [(420.0, 300.0), (1_000.0, 520.0)])
def test_words_of_the_roofline_neither_leave_the_picture_nor_overlap(width, height):
    assert_legible(roofline_drawing(BOTH, width, height))


def test_every_format_has_a_roof_at_its_peak_and_marks_are_where_they_belong():
    drawing = roofline_drawing(BOTH, 800.0, 400.0)
    roofs = {shape.ink: shape.points[0][1] for shape in drawing.shapes if isinstance(shape, Stroke)}
    assert roofs["fp16"] < roofs["bf16"] < roofs["tf32"] < roofs["fp32"]
    marks = roofline_points(BOTH, 800.0, 400.0)
    assert len(marks) == 18
    rising = sorted(marks, key=lambda mark: mark.row.tflops or 0.0)
    assert [mark.y for mark in rising] == sorted((mark.y for mark in marks), reverse=True)
    assert max(marks, key=lambda mark: mark.size).row.ms == 1.0
    assert all(mark.holds(mark.x, mark.y) and not mark.holds(mark.x + 30, mark.y) for mark in marks)


def test_the_roofline_says_what_is_missing():
    bare = texts_of(roofline_drawing(sides(roofline_side("fp32", 0, None)), 600.0, 300.0))
    assert {"No limits were measured.", "The FLOPs and bytes of these kernels cannot be counted."} <= set(
        bare
    )
    assert roofline_points(Profiles(), 600.0, 300.0) == ()


def test_names_are_short():
    assert short_name("void at::native::(anonymous namespace)::softmax_warp<float, 3>(int)") == "softmax_warp"
    assert short_name("aten::mm") == "mm"
    assert short_name("sm80_xmma_gemm_f16") == "sm80_xmma_gemm_f16"
