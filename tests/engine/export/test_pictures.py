"""Pictures: SVG is XML with text in it, PNG is twice as fine, and both say what was measured on what."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from engine.drawing.bar_chart import ChartBar, bar_chart
from engine.drawing.bitmap import write_bitmap
from engine.drawing.chart_parts import span_of
from engine.drawing.curve_chart import block_means
from engine.drawing.looks import SideLook, side_looks
from engine.drawing.shapes import Box, Dot, Drawing, Fill, Stroke, TextLine
from engine.drawing.svg import svg_file
from engine.export.content import Content, content_of
from engine.export.formats import COMPARISON
from engine.export.report.charts import Charts, loss_curves, picture, write_picture
from engine.export.report.report import report_of
from engine.store.store import Store
from engine.words.numbers import linear_ticks
from resources.looks import LIGHT, MARK_FILLS

Trained = Callable[..., str]
SVG = "{http://www.w3.org/2000/svg}"


def test_svg_is_xml_with_real_text_and_the_settings(hostile: Content, tmp_path: Path) -> None:
    root = ElementTree.parse(COMPARISON.export(hostile, tmp_path / "x.svg")).getroot()
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert any(text.startswith("Throughput") for text in texts)
    assert any(text.startswith("a card") for text in texts)
    told = json.loads(root.findtext(f"{SVG}metadata") or "")
    assert json.loads(told["Description"])["model"] == "small-cnn"
    assert not list(root.iter(f"{SVG}script"))


@pytest.mark.parametrize("name", ["throughput", "loss", "accuracy", "memory"])
def test_any_chart_can_be_had_alone(pair: Content, tmp_path: Path, name: str) -> None:
    write_picture(pair, tmp_path / "x.svg", charts=(name,))  # type: ignore[arg-type]
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    titles = {"Throughput", "Training loss", "Validation accuracy", "Peak memory"}
    shown = titles & {element.text for element in root.iter(f"{SVG}text")}
    assert len(shown) == 1


def test_png_is_sharp_and_says_what_it_shows(hostile: Content, tmp_path: Path) -> None:
    drawing = picture(hostile, report_of(hostile))
    write_picture(hostile, tmp_path / "x.png")
    with Image.open(tmp_path / "x.png") as shot:
        assert shot.size == (round(2 * drawing.width), round(2 * drawing.height))
        assert shot.info["Title"] == "FP16 AMP against FP32"
        assert json.loads(shot.info["Description"])["device_name"] == "a card"
        # the baseline's blue and the other's orange are there
        colors = {color for _count, color in shot.getcolors(1_000_000) or ()}
    assert {(0x00, 0x64, 0xA6), (0xBF, 0x57, 0x00)} <= colors


def test_sides_of_one_precision_are_told_apart_by_their_marks(exports_store: Store, trained: Trained) -> None:
    ids = [trained("fp16", step={"recipe": recipe}) for recipe in ("plain", "fast", "channels_last")]
    sides = content_of(exports_store, ids).comparison.sides
    looks = [side_looks(sides)[side.id] for side in sides]
    assert [look.fill for look in looks] == list(MARK_FILLS)
    assert len({look.mark(0, 0, 8) for look in looks}) == len(looks)
    assert len({(look.ink, look.symbol, look.dash) for look in looks}) == 1


def test_a_whisker_that_dwarfs_the_bars_is_cut(exports_store: Store, trained: Trained) -> None:
    ids = [
        trained(precision, speed=speed, seed=seed)
        for precision, speeds in (("fp32", (300.0, 900.0)), ("fp16", (1_000.0, 1_010.0)))
        for seed, speed in enumerate(speeds)
    ]
    content = content_of(exports_store, ids)
    interval = content.comparison.metrics[0].cells[0].interval
    assert interval is not None and interval[1] > 100_000
    chart = Charts(content).chart("throughput")
    assert chart is not None
    drawing = chart.draw(720)
    longest = max(shape.width for shape in drawing.shapes if isinstance(shape, Box))
    assert longest > 200
    across = [x for shape in drawing.shapes if isinstance(shape, Stroke) for x, _ in shape.points]
    assert max(across) <= drawing.width


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
    (places,), means = block_means((np.arange(7.0),), values, 2)
    np.testing.assert_array_equal(places, [0.5, 2.5, 4.5, 6.0])
    np.testing.assert_array_equal(means, [2.0, 5.0, np.nan, 7.0])


EDGES = (0.0, 1.0, -1.0, 5e-324, 1e-300, 1e30, 1e150, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan)


@pytest.mark.parametrize("value", [1.0, *EDGES])
def test_bars_of_any_numbers_are_painted(value: float, tmp_path: Path) -> None:
    look = SideLook("fp32", "o", (), "full")
    intervals = [(low, high) for low in EDGES for high in EDGES]
    bars = tuple(
        ChartBar(look, "A", "", number, "?", interval) for number in (1.0, value) for interval in intervals
    )
    drawing = bar_chart(bars[:3] + bars[-len(intervals) :], 600, "")
    assert not re.search("nan|inf", svg_file(drawing, LIGHT, ""))
    write_bitmap(drawing, LIGHT, tmp_path / "x.png", {})
    largest = (1.0, 1e30)
    write_bitmap(
        bar_chart((ChartBar(look, "A", "", 1.0, "?", largest),), 600, ""), LIGHT, tmp_path / "y.png", {}
    )


@pytest.mark.parametrize("low", EDGES)
def test_an_axis_of_any_numbers_has_finite_places_and_few_ticks(low: float) -> None:
    for high in EDGES:
        span = span_of((low, high), 0.0, 100.0)
        assert math.isfinite(span.place(span.low)) and math.isfinite(span.place(span.high))
        assert len(span.ticks(5)) < 30 and len(linear_ticks(low, high, 5)) < 30


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 1e30, -1e300])
def test_no_shape_is_too_far_outside_to_be_painted(wrong: float, tmp_path: Path) -> None:
    points = ((1.0, 1.0), (wrong, 5.0), (5.0, wrong))
    shapes = (
        *(Stroke(points, "text"), Stroke(points, "text", 2.0, (2.0, 2.0)), Fill(points, "text", "line2")),
        *(Box(wrong, 1, 5, 5, "text"), Box(1, 1, wrong, 5, "text"), Dot(1, wrong, 5, "text")),
        TextLine(wrong, 5, "x", "text", 11),
    )
    drawing = Drawing(50, 50, shapes)
    assert not re.search("nan|inf|\\d{6}", svg_file(drawing, LIGHT, ""))
    write_bitmap(drawing, LIGHT, tmp_path / "x.png", {})


def test_a_loss_of_any_size_has_a_curve(exports_store: Store, trained: Trained, tmp_path: Path) -> None:
    ids = [trained("fp32"), trained("fp16", losses=np.array([*EDGES, *([2.0] * 88)]))]
    drawing = picture(content := content_of(exports_store, ids), report_of(content))
    assert not re.search(r"\b(nan|inf)\b", svg_file(drawing, LIGHT, ""))
    write_picture(content, tmp_path / "x.png")
