"""A curve on a page hides nothing: what shot up in one step of a hundred thousand is still seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.drawing.curve_chart import thinned
from engine.export.content import Content, content_of
from engine.export.report.charts import Charts, loss_curves
from engine.store.store import Store

Trained = Callable[..., str]


def test_the_band_holds_the_highest_and_the_lowest_of_a_long_run(
    exports_store: Store, trained: Trained
) -> None:
    losses = np.ones(20_000)
    losses[12_345], losses[777] = 9.0, -3.0
    run_id = trained(steps=20_000, losses=losses)
    (curve,) = loss_curves(content_of(exports_store, [run_id]))
    assert np.nanmax(curve.high.values) == 9.0 and np.nanmin(curve.low.values) == -3.0
    assert len(curve.high.values) <= 300 and len(curve.line.values) <= 160
    assert curve.line.steps[-1] > 19_900


def test_the_line_goes_from_end_to_end_but_where_the_loss_is_no_number(
    exports_store: Store, trained: Trained
) -> None:
    run_id = trained(steps=1_000, losses=np.linspace(5.0, 1.0, 1_000))
    (curve,) = loss_curves(content_of(exports_store, [run_id]))
    np.testing.assert_allclose(curve.line.values[[0, -1]], [5.0, 1.0], atol=0.01)
    losses = np.concatenate([np.linspace(2, 1, 60), np.full(40, np.nan)])
    (curve,) = loss_curves(content_of(exports_store, [trained(losses=losses)]))
    assert np.isfinite(curve.line.values[curve.line.steps <= 60]).all()
    assert np.isnan(curve.line.values[curve.line.steps > 60]).all()


def test_every_kind_of_run_can_be_drawn(hostile: Content) -> None:
    charts = Charts(hostile)
    for by in ("step", "seconds", "samples"):
        drawing, frame = charts.curve_drawing("loss", by, 400.0)
        assert drawing.shapes and frame.x_high > 0
    loss = charts.chart("loss")
    assert loss is not None
    # the queued run has no curve, and the one with nothing but NaN has one without a line
    assert [side.precision.value for side, _ in loss.legend] == ["fp32", "fp16", "bf16", "tf32", "default"]


def test_loss_and_accuracy_share_their_place_across(pair: Content) -> None:
    charts = Charts(pair)
    frames = [charts.curve_drawing(name, "seconds", 600.0)[1] for name in ("loss", "accuracy")]
    assert len({(frame.left, frame.right, frame.x_high) for frame in frames}) == 1


def test_a_thinned_curve_has_the_means_of_what_is_finite_in_each_block() -> None:
    values = np.array([1.0, 3.0, np.nan, 5.0, np.inf, np.nan, 7.0])
    (places,), means = thinned((np.arange(7.0),), values, 2)
    np.testing.assert_array_equal(places, [0.5, 2.5, 4.5, 6.0])
    np.testing.assert_array_equal(means, [2.0, 5.0, np.nan, 7.0])
