"""The chart of a search: what is in view, where its crosses and words stand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import pytest

from engine.drawing.chart_parts import Rect, TextPlaces
from engine.drawing.shapes import Fill
from engine.experiment.catalog import Precision
from engine.limit.memory_chart import MemoryContent, failed_place, forecast_points, memory_chart, memory_range
from engine.protocol.trials import MemoryLine
from tests.drawings import assert_legible, placed_words


@dataclass(frozen=True)
class Side:
    """FP32 with trials that passed, as (batch, GiB), and batches that did not fit."""

    passed: tuple[tuple[int, float], ...]
    failed: tuple[int, ...] = ()
    label: str = "FP32"
    precision: Precision = Precision.FP32
    trying: int | None = None
    answer: int | None = None
    lines: tuple[MemoryLine, ...] = ()
    throughputs: tuple[tuple[int, float], ...] = ()


def test_crosses_at_nearly_one_place_do_not_hide_each_other():
    side = Side(((64, 10.0), (289, 23.99)), (290, 291, 292, 293))
    drawing = memory_chart(MemoryContent((side,), 24.0), (400.0, 300.0))
    outlines = [
        shape.points for shape in drawing.shapes if isinstance(shape, Fill) and len(shape.points) == 12
    ]
    crosses = [(sum(x for x, _ in points) / 12, sum(y for _, y in points) / 12) for points in outlines]
    # that in the legend, and those of the trials
    assert len(crosses) == 5
    for one, other in combinations(crosses, 2):
        assert abs(one[0] - other[0]) >= 13 or abs(one[1] - other[1]) >= 13


def test_words_keep_clear_of_each_other_of_markers_and_of_curves():
    places = TextPlaces(Rect(0, 0, 100, 100))
    places.avoid_curve([(0, 100), (100, 0)])
    places.reserve_marker((20, 20), 10)
    on_curve, on_marker, free = Rect(40, 40, 60, 60), Rect(15, 15, 35, 25), Rect(70, 70, 90, 80)
    assert not places.is_free(on_curve) and not places.is_free(on_marker)
    assert not places.is_free(Rect(90, 90, 110, 95)), "beyond the edge"
    assert places.first_free([on_curve, on_marker, free]) == free
    assert places.first_free([free]) is None


@pytest.mark.parametrize("size", [(220.0, 160.0), (340.0, 300.0), (680.0, 480.0), (1_800.0, 900.0)])
def test_a_finished_search_has_its_answers_and_their_ratio_in_any_size(size):
    sides = (
        Side(((64, 10.0), (128, 14.0), (289, 23.99)), (290,), answer=289),
        Side(((64, 6.0), (561, 23.9)), (562, 9_000), "FP16 AMP", Precision.FP16, answer=561),
    )
    content = MemoryContent(sides, 24.0, ("24 GiB card", " (simulated)"), (289, 561, "1.94× the batch"))
    drawing = memory_chart(content, size)
    words = dict(placed_words(drawing))
    assert {"289", "561", "9,000 →", "did not fit"} <= set(words)
    assert_legible(drawing, may_meet=size[0] < 680)
    if size[0] >= 680:
        assert {
            "24 GiB card (simulated)",
            "1.94× the batch",
            "does not fit",
            "Batch size, samples",
        } <= set(words)


def test_the_batch_in_trial_is_in_view_however_far_it_is():
    side = Side(((8, 0.02), (32, 0.03)), (9_000,), trying=637)
    assert 637 < memory_range(MemoryContent(sides=(side,), capacity_gib=0.25)).batches < 1_000


def test_a_trial_that_failed_stands_over_the_limit_and_in_view():
    side = Side(((64, 10.0), (289, 23.99)), (290, 4_000))
    content = MemoryContent((side,), 24.0, ("24 GiB card", ""))
    reach = memory_range(content)
    assert reach.batches < 500, "a far failure must not squeeze the rest"
    for batch in side.failed:
        assert 24.0 < failed_place(batch, side, content, reach) < reach.top


def test_the_forecast_ends_where_it_leaves_the_chart():
    lines = (MemoryLine(fixed_mib=1_024, per_sample_mib=0), MemoryLine(fixed_mib=0, per_sample_mib=102.4))
    side = Side(((8, 1.0),), lines=lines)
    reach = replace(memory_range(MemoryContent((side,), 2.0)), batches=100.0)
    points = forecast_points(side, reach)
    assert points[0] == (0.0, 1.0)
    assert points[-1][1] == pytest.approx(reach.top)
    assert points[-1][0] == pytest.approx(reach.top * 10, rel=0.02)


@pytest.mark.parametrize("size", [(220.0, 160.0), (340.0, 300.0), (680.0, 480.0), (1_800.0, 900.0)])
def test_a_chart_of_throughput_marks_the_largest_batch_of_each_side(size):
    sides = (
        Side(
            ((64, 10.0),), (290,), answer=289, throughputs=((64, 39_000.0), (256, 88_000.0), (289, 90_000.0))
        ),
        Side((), (), "FP16 AMP", Precision.FP16, None, 561, (), ((64, 60_000.0), (561, 190_000.0))),
    )
    content = MemoryContent(sides, shows_forecast=False, shows_throughput=True)
    drawing = memory_chart(content, size)
    words = dict(placed_words(drawing))
    assert {"289", "561", "FP32", "FP16 AMP", "200,000"} <= set(words)
    assert not {"did not fit", "does not fit", "forecast"} & set(words)
    assert_legible(drawing, may_meet=size[0] < 680)
    assert 561 < memory_range(content).batches < 800
