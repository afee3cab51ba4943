"""The pictures of a sweep: words stay within them and apart, every cell has its place, the best is marked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.compare.metrics import ACCURACY, LOSS, PEAK_MEMORY, SPEED
from engine.drawing.shapes import Box, Drawing, Fill, Stroke
from engine.experiment.sweep import Axis, grid_of
from engine.sweep.chart import (
    RATIO_FIGURE,
    CellChart,
    Shades,
    best_of,
    default_axes,
    default_lines,
    default_places,
    labels_that_fit,
    shown_figures,
)
from engine.sweep.heat_map import heat_map
from engine.sweep.lines import lines
from engine.sweep.results import Results
from engine.sweep.scatter import pareto_front, scatter
from engine.sweep.words import notes_of
from tests.drawings import assert_legible, texts_of
from tests.sweeps import small_results

RESULTS = small_results()
FIGURES = shown_figures(RESULTS)
AT = default_places(RESULTS, SPEED)
PICTURES: dict[str, Callable[[tuple[float, float]], CellChart]] = {
    "heat map": lambda size: heat_map(RESULTS, 1, 0, SPEED, AT, size),
    "row": lambda size: heat_map(RESULTS, 1, None, ACCURACY, AT, size),
    "lines": lambda size: lines(RESULTS, 1, 0, SPEED, AT, size),
    "lines of rates": lambda size: lines(RESULTS, 1, 2, RATIO_FIGURE, AT, size),
    "scatter": lambda size: scatter(RESULTS, PEAK_MEMORY, SPEED, ACCURACY, size),
    "scatter of precisions": lambda size: scatter(RESULTS, PEAK_MEMORY, SPEED, None, size),
}


def upright(drawing: Drawing) -> int:
    """How many upright lines it has: the whiskers."""
    strokes = [shape for shape in drawing.shapes if isinstance(shape, Stroke)]
    return sum(len({x for x, _ in stroke.points}) == 1 for stroke in strokes)


@pytest.mark.parametrize("size", [(420.0, 300.0), (1_200.0, 700.0)])
@pytest.mark.parametrize("name", PICTURES)
def test_words_stay_within_the_picture_and_apart(name, size):
    assert_legible(PICTURES[name](size).drawing)


def test_the_heat_map_writes_values_and_ratios_and_says_what_has_none():
    picture = heat_map(RESULTS, 1, 0, SPEED, AT, (800.0, 400.0))
    assert [spot.cell for spot in picture.spots] == [1, 3, 5, 7, 9, 11]
    shown = texts_of(picture.drawing)
    assert {"1,000", "1,300", "1,400", "1.40×", "2,880", "fastest", "failed"} <= set(shown)
    assert (picture.title, picture.note) == (
        "Throughput",
        "samples/s, and ratio to FP32 at the same settings, learning rate 0.01",
    )
    # FP32 has its ratio only as the best of its row: 2,880 are 2.22 times its 1,300
    assert shown.count("1.00×") == 1 and {"best of each row", "at batch 64", "at batch 128", "2.22×"} <= set(
        shown
    )
    spot = picture.spots[-1]
    assert spot.holds(spot.x + 1, spot.y + 1) and not spot.holds(spot.x - 1, spot.y)
    assert "The best is BF16 AMP, batch size 128" in picture.drawing.description


def test_a_disturbed_cell_says_so_in_place_of_its_ratio_and_is_not_judged():
    cells = tuple(replace(cell, is_disturbed=cell.index == 11) for cell in RESULTS.cells)
    shown = texts_of(heat_map(replace(RESULTS, cells=cells), 1, 0, SPEED, AT, (800.0, 400.0)).drawing)
    assert shown[shown.index("2,880") + 1] == "disturbed" and "disturbed, not ranked" in shown
    assert shown[shown.index("fastest") - 1] == "2,080"
    memory = texts_of(heat_map(replace(RESULTS, cells=cells), 1, 0, PEAK_MEMORY, AT, (800.0, 400.0)).drawing)
    assert "disturbed" not in memory


@pytest.mark.parametrize("name", ["lines", "scatter"])
def test_a_disturbed_cell_has_a_hollow_mark_that_the_legend_explains(name: str) -> None:
    def drawn(results: Results) -> Drawing:
        if name == "lines":
            return lines(results, 1, 0, SPEED, AT, (900.0, 400.0)).drawing
        return scatter(results, PEAK_MEMORY, SPEED, None, (900.0, 400.0)).drawing

    cells = tuple(replace(cell, is_disturbed=cell.index == 11) for cell in RESULTS.cells)
    disturbed, quiet = drawn(replace(RESULTS, cells=cells)), drawn(RESULTS)
    note = "disturbed, not ranked"
    assert note in texts_of(disturbed) and note not in texts_of(quiet)

    def hollow(drawing: Drawing) -> list[Fill]:
        shapes = (shape for shape in drawing.shapes if isinstance(shape, Fill))
        return [shape for shape in shapes if shape.ink == "bg1" and shape.edge == "bf16"]

    assert len(hollow(disturbed)) == len(hollow(quiet)) + 1


def test_a_line_is_broken_at_a_disturbed_cell() -> None:
    cells = tuple(replace(cell, is_disturbed=cell.index == 9) for cell in RESULTS.cells)
    drawing = lines(replace(RESULTS, cells=cells), 1, 0, SPEED, AT, (800.0, 400.0)).drawing
    assert [shape.ink for shape in drawing.shapes if isinstance(shape, Stroke) and shape.width == 2.0] == [
        "fp32"
    ]


@pytest.mark.parametrize("name", ["heat map", "lines", "scatter"])
def test_a_cell_that_does_not_fit_is_shown_with_the_words_and_can_be_clicked(name: str) -> None:
    cells = tuple(
        replace(RESULTS.cells[10], index=cell.index, places=cell.places, does_not_fit=True)
        if cell.index == 11
        else cell
        for cell in RESULTS.cells
    )
    results = replace(RESULTS, cells=cells, memory_mib=24 * 1024.0)
    picture = {
        "heat map": heat_map(results, 1, 0, SPEED, AT, (800.0, 400.0)),
        "lines": lines(results, 1, 0, SPEED, AT, (800.0, 400.0)),
        "scatter": scatter(results, PEAK_MEMORY, SPEED, None, (800.0, 400.0)),
    }[name]
    assert "does not fit into 24.0 GiB" in texts_of(picture.drawing)
    assert any(shape.ink == "hatch" for shape in picture.drawing.shapes)
    assert 11 in [spot.cell for spot in picture.spots]


def test_shades_are_even_over_a_round_range_and_the_highest_value_has_the_last():
    shades = Shades([11.0, 20.0, math.nan, 19.0])
    assert [shades.ink(value) for value in (10.0, 15.0, 20.0)] == ["heat-0", "heat-4", "heat-7"]
    wide = Shades([1.3, 87.0])
    assert [wide.ink(value) for value in (1.0, 10.0, 100.0)] == ["heat-0", "heat-4", "heat-7"]
    assert texts_of(wide.bar("ms")) == ["1", "100 ms"]


def test_lines_have_the_looks_of_their_precisions_and_intervals_as_whiskers():
    picture = lines(RESULTS, 1, 0, SPEED, AT, (800.0, 400.0))
    strokes = [shape for shape in picture.drawing.shapes if isinstance(shape, Stroke)]
    assert [(line.ink, len(line.points)) for line in strokes if line.width == 2.0] == [
        ("fp32", 2),
        ("bf16", 3),
    ]
    bf16 = next(line for line in strokes if line.width == 2.0 and line.ink == "bf16")
    # batch sizes are to scale: 64 is a third of the way from 32 to 128
    left, middle, right = (x for x, _ in bf16.points)
    assert (middle - left) / (right - left) == pytest.approx(1 / 3)
    assert upright(picture.drawing) == 5
    fp32 = next(line for line in strokes if line.width == 2.0 and line.ink == "fp32")
    assert fp32.points[0][0] + 9 <= left, "whiskers of two lines at one place stand beside each other"


def test_the_pareto_front_is_what_no_cell_beats():
    front = pareto_front(RESULTS.cells, (PEAK_MEMORY, SPEED))
    assert [cell.index for cell in front] == [6, 7, 8, 9, 11]
    beaten = replace(RESULTS.cells[6], values={PEAK_MEMORY.name: 9.0, SPEED.name: 1.0})
    assert beaten not in pareto_front((beaten, *RESULTS.cells), (PEAK_MEMORY, SPEED))
    named = texts_of(scatter(RESULTS, PEAK_MEMORY, SPEED, None, (1_200.0, 700.0)).drawing)
    assert "Pareto front (5 combinations)" in named and any("batch size 128" in text for text in named)


def test_a_cell_whose_loss_diverged_is_best_in_nothing():
    results = small_results()
    usual = best_of(results.cells, SPEED)
    assert usual is not None and usual.values is not None
    diverged = replace(usual, values={**usual.values, LOSS.name: math.inf})
    cells = tuple(diverged if cell is usual else cell for cell in results.cells)
    best = best_of(cells, SPEED)
    assert best is not None and best.index != usual.index
    assert diverged not in pareto_front(cells, (SPEED, PEAK_MEMORY))
    assert f"The loss diverged in {usual.name}" in " ".join(notes_of(replace(results, cells=cells)))


def test_usual_axes_are_the_longest_and_lines_compare():
    assert default_axes(RESULTS.grid) == (1, 0)
    assert default_lines(RESULTS.grid) == (1, 0)
    devices, batch = Axis(key="devices", values=(1, 2)), Axis(key="batch_size", values=(16, 32, 64))
    precision = Axis(key="precision", values=("fp32", "bf16"))
    for axes, usual in (
        ((devices, batch), (0, 1)),
        ((batch, devices), (1, 0)),
        ((precision, batch, devices), (2, 0)),
        ((devices,), (0, None)),
    ):
        assert default_lines(grid_of({"device": "cpu"}, axes)) == usual


def test_a_sweep_that_has_just_begun_has_pictures_too():
    cells = tuple(
        replace(cell, status="waiting", values={}, intervals={}, ratio=None, ratio_interval=None, run_ids=())
        for cell in RESULTS.cells
    )
    empty = replace(RESULTS, cells=cells)
    size = (600.0, 300.0)
    for picture in (
        heat_map(empty, 1, 0, SPEED, AT, size),
        lines(empty, 1, 0, SPEED, AT, size),
        scatter(empty, PEAK_MEMORY, SPEED, ACCURACY, size),
    ):
        assert picture.drawing.description
    blank = heat_map(empty, 1, 0, SPEED, AT, size).drawing
    assert texts_of(blank).count("waiting") == 6 and any(isinstance(shape, Box) for shape in blank.shapes)


def test_words_of_an_even_axis_are_left_out_evenly():
    places = [10.0 * place for place in range(12)]
    assert labels_that_fit(places, [25.0] * 12) == (0, 3, 6, 9)
    assert labels_that_fit([0.0, 5.0, 40.0], [10.0] * 3) == (0, 2)
