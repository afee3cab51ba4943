"""The chart of a search: what is in view, where its crosses and words stand."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QImage, QPainter

from engine.experiment.experiment import Experiment, Precision
from engine.protocol.memory_lines import MemoryLine
from engine.protocol.trials import LimitSide, Trial
from gui.charts.text_places import TextPlaces
from gui.limit.chart import MemoryPainter
from gui.limit.chart_content import MemoryContent, failed_place, forecast_points, memory_range
from gui.theme.theme import theme


def side_of(passed: tuple[tuple[int, float], ...], failed: tuple[int, ...] = (), **more: Any) -> LimitSide:
    """FP32 with trials that passed, as (batch, GiB), and batches that did not fit."""
    trials = [Trial(batch_size=batch, fits=True, peak_mib=gib * 1024) for batch, gib in passed]
    trials += [Trial(batch_size=batch, fits=False, cause="memory") for batch in failed]
    return LimitSide(
        label="FP32", experiment=Experiment(precision=Precision.FP32), trials=tuple(trials), **more
    )


def test_crosses_at_nearly_one_place_do_not_hide_each_other() -> None:
    failed = (290, 291, 292, 293)
    side = side_of(((64, 10.0), (289, 23.99)), failed)
    picture = QImage(400, 300, QImage.Format.Format_ARGB32)
    painter = QPainter(picture)
    chart = MemoryPainter(painter, MemoryContent((side,), 24.0), QRectF(40, 20, 340, 250), theme().palette)
    centers = [center for _, _, center in chart.crosses()]
    painter.end()
    for one, other in combinations(centers, 2):
        assert abs(one.x() - other.x()) >= 13 or abs(one.y() - other.y()) >= 13


def test_words_keep_clear_of_each_other_of_markers_and_of_curves() -> None:
    places = TextPlaces(QRectF(0, 0, 100, 100))
    places.cross_not([QPointF(0, 100), QPointF(100, 0)])
    places.take_around(QPointF(20, 20), 10)
    on_curve, on_marker, free = QRectF(40, 40, 20, 20), QRectF(15, 15, 20, 10), QRectF(70, 70, 20, 10)
    assert not places.is_free(on_curve) and not places.is_free(on_marker)
    assert not places.is_free(QRectF(90, 90, 20, 5)), "beyond the edge"
    assert places.first_free([on_curve, on_marker, free]) == free
    assert places.first_free([free]) is None


def test_the_batch_in_trial_is_in_view_however_far_it_is() -> None:
    side = side_of(((8, 0.02), (32, 0.03)), (9_000,), trying=637)
    assert 637 < memory_range(MemoryContent(sides=(side,), capacity_gib=0.25)).batches < 1_000


def test_a_trial_that_failed_stands_over_the_limit_and_in_view() -> None:
    side = side_of(((64, 10.0), (289, 23.99)), (290, 4_000))
    content = MemoryContent((side,), 24.0, "24 GiB card")
    reach = memory_range(content)
    assert reach.batches < 500, "a far failure must not squeeze the rest"
    for batch in side.failed:
        assert 24.0 < failed_place(batch, side, content, reach) < reach.gib


def test_the_forecast_ends_where_it_leaves_the_chart() -> None:
    lines = (MemoryLine(fixed_mib=1_024, per_sample_mib=0), MemoryLine(fixed_mib=0, per_sample_mib=102.4))
    side = side_of(((8, 1.0),), forecast=lines)
    content = MemoryContent((side,), 2.0)
    reach = replace(memory_range(content), batches=100.0)
    points = forecast_points(side, reach)
    assert points[0] == (0.0, 1.0)
    assert points[-1][1] == pytest.approx(reach.gib)
    assert points[-1][0] == pytest.approx(reach.gib * 10, rel=0.02)
