"""Three and more sides in a report: the ranking, and the charts of their loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.drawing.curve_chart import Points
from engine.drawing.loss_charts import difference_to_baseline, mean_curves, time_to_loss
from engine.drawing.shapes import TextLine
from engine.export.content import Content, content_of
from engine.export.report.charts import Charts, loss_curves
from engine.export.report.pages import page
from engine.export.report.report import report_of
from engine.export.writers.text import markdown
from engine.store.store import Store
from tests.golden import Golden

Trained = Callable[..., str]
STEPS = 100
SPEEDS = {"fp32": 700.0, "bf16": 1_300.0, "fp16": 1_250.0, "fp16-unscaled": 1_200.0, "bf16-pure": 1_900.0}


def losses(precision: str, seed: int) -> Any:
    apart = {"fp16-unscaled": 0.2}.get(precision, 0.0)
    return np.linspace(5.0, 1.5, STEPS) + apart * np.linspace(0, 1, STEPS) + 0.02 * (seed - 1)


@pytest.fixture
def five(exports_store: Store, trained: Trained) -> Content:
    """Five precisions, three runs each, one of them disturbed."""
    note = {"bf16-pure": "other programs used 34% of the GPU during the run"}
    ids = [
        trained(
            precision,
            seed=seed,
            speed=speed + seed,
            losses=losses(precision, seed),
            speed_note=note.get(precision),
        )
        for seed in range(3)
        for precision, speed in SPEEDS.items()
    ]
    return content_of(exports_store, ids)


def labels(content: Content, name: Any, by: Any = "step") -> list[str]:
    chart = Charts(content).chart(name, by)
    assert chart is not None and not chart.legend
    drawing = chart.draw(540.0)
    texts = [shape for shape in drawing.shapes if isinstance(shape, TextLine)]
    assert all(0 <= text.x <= drawing.width and 0 <= text.y <= drawing.height for text in texts)
    return [text.text for text in texts]


def test_the_words_of_a_ranking(five: Content, golden: Golden) -> None:
    words = markdown(report_of(five))
    golden(words[: words.index("### Environment")], "five-sides")


def test_a_page_has_the_ranking_with_marks_and_the_difference_to_the_baseline(five: Content) -> None:
    text = page(five)
    assert text.count('class="mark"') >= 10 and text.count('<table class="ranking">') == 2
    assert "Difference to FP32" in text and "shaded: variation between runs of FP32" in text


def test_a_pair_keeps_its_table_of_metrics(pair: Content) -> None:
    text = page(pair)
    assert "Difference to" not in text and '<table class="figures">' in text


def test_each_side_is_labeled_with_its_end_and_a_disturbed_one_has_no_time(five: Content) -> None:
    timed = labels(five, "loss", "seconds")
    assert "BF16 AMP" in timed and "Pure BF16" not in timed
    assert "4.92 s" in timed, "the mean of the three runs"
    chart = Charts(five).chart("loss", "seconds")
    assert chart is not None and chart.against == "" and "without Pure BF16, disturbed" in chart.unit
    apart = labels(five, "difference")
    assert "Pure BF16" in apart and "+0.200" in apart and apart.count("FP32") == 1


def test_a_side_of_another_batch_size_has_no_difference_at_the_same_step(
    exports_store: Store, trained: Trained
) -> None:
    ids = [trained("fp32"), trained("bf16"), trained("fp16", batch_size=128)]
    assert labels(content_of(exports_store, ids), "difference").count("FP16 AMP") == 0
    content = content_of(exports_store, [trained("fp32", batch_size=size) for size in (8, 16, 32)])
    curves = loss_curves(content)
    assert difference_to_baseline(content.comparison, curves, "") is None
    assert time_to_loss(content.comparison, (), "") is None


def test_repeats_are_averaged_up_to_the_end_of_the_shortest(exports_store: Store, trained: Trained) -> None:
    ids = [trained("fp32", seed=seed, losses=np.full(STEPS, 1.0 + 2 * seed)) for seed in range(2)]
    first, second = loss_curves(content_of(exports_store, ids))
    cut = Points(*(getattr(second.line, axis)[:40] for axis in ("steps", "seconds", "samples", "values")))
    (mean,) = mean_curves((first, replace(second, line=cut)))
    assert mean.line.steps[-1] == cut.steps[-1] < first.line.steps[-1]
    np.testing.assert_allclose(mean.line.values, 2.0)


@pytest.mark.parametrize("empty", [("fp32",), ("bf16",), ("fp32", "bf16")])
def test_runs_without_points_leave_the_charts_to_the_others(five: Content, empty: tuple[str, ...]) -> None:
    nothing = Points(*(np.empty(0) for _ in range(4)))
    curves = [
        replace(curve, line=nothing)
        if curve.side.precision.value in empty and curve.repeat in (0, len(empty))
        else curve
        for curve in loss_curves(five)
    ]
    assert len(mean_curves(curves)) == 5
    for chart in (
        difference_to_baseline(five.comparison, curves, ""),
        time_to_loss(five.comparison, curves, ""),
    ):
        assert chart is not None and chart.draw(540.0, 260.0).shapes
    none = [replace(curve, line=nothing) for curve in curves if curve.side.precision.value == "fp32"]
    others = [curve for curve in curves if curve.side.precision.value != "fp32"]
    assert difference_to_baseline(five.comparison, [*none, *others], "") is None
