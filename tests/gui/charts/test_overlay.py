"""The curves that are laid over one another: what is drawn of long runs, and how they are looked into."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from gui.charts.lines import RecordedCurve, SavedCurves, rows_a_point, y_range
from gui.charts.overlay import OverlayPlot

STEPS = 200


def trace(values: Sequence[float], pace: float = 0.1, *, smooths: bool = True) -> RecordedCurve:
    steps = np.arange(1.0, len(values) + 1)
    x = {"step": steps, "seconds": (steps - 1) * pace, "samples": steps * 64}
    return RecordedCurve(x, np.asarray(values, dtype=np.float64), smooths=smooths)


def line(
    key: str,
    values: Sequence[float],
    pace: float = 0.1,
    *,
    precision: Precision = Precision.FP32,
    accuracies: Sequence[float] = (),
    is_repeat: bool = False,
) -> SavedCurves:
    traces = {"loss": trace(values, pace), "accuracy": trace(accuracies, smooths=False)}
    return SavedCurves(key, precision, key, traces, is_repeat=is_repeat)


def falling(count: int = STEPS) -> list[float]:
    return list(np.linspace(10.0, 1.0, STEPS)[:count])


@pytest.fixture
def plot(qtbot: QtBot) -> OverlayPlot:
    shown = OverlayPlot()
    qtbot.addWidget(shown)
    shown.resize(600, 320)
    shown.show()
    return shown


class TestTrace:
    def test_a_long_one_is_drawn_in_means_of_blocks_that_begin_at_its_start(self) -> None:
        long = trace([1.0, 3.0] * 50_000, smooths=False)
        level = long.level(512, 15)
        assert len(level.y) == 196
        assert level.y == pytest.approx(np.full(196, 2.0))
        assert level.x["step"][0] == pytest.approx(256.5)
        assert level.x["samples"][0] == pytest.approx(64 * 256.5)

    @pytest.mark.parametrize(("rows", "point"), [(0, 1), (200, 1), (256, 1), (257, 2), (100_000, 512)])
    def test_no_more_points_than_can_be_seen(self, rows: int, point: int) -> None:
        assert rows_a_point(rows) == point
        assert rows <= 256 * point

    def test_what_is_no_number_is_left_out_of_the_means_and_leaves_a_gap_alone(self) -> None:
        level = trace([1.0, np.nan, np.inf, 3.0, np.nan, np.nan, 5.0, 5.0], smooths=False).level(2, 15)
        assert level.y == pytest.approx([1.0, 3.0, np.nan, 5.0], nan_ok=True)

    def test_it_is_read_off_where_it_reaches(self) -> None:
        straight = trace(falling(100))
        assert straight.value_at("step", 50.0, 1, 15) == pytest.approx(falling()[49])
        assert straight.value_at("step", 150.0, 1, 15) is None
        assert straight.value_at("step", None, 1, 15) == pytest.approx(falling()[99])

    def test_one_that_ended_in_nan_says_so(self) -> None:
        value = trace([*falling(100), np.nan]).value_at("step", None, 1, 15)
        assert value is not None and np.isnan(value)


class TestPlot:
    def test_curves_are_laid_by_step_by_time_or_by_samples(self, plot: OverlayPlot) -> None:
        plot.set_lines([line("one", falling()), line("other", falling(), 0.05)], {})
        ends = {}
        for by in ("step", "seconds", "samples"):
            plot.header.choose(by=by)
            ends[by] = (plot.canvas.frame.x_range[1] / 1.02, plot.canvas.frame.x_ticks[-1].text)
        assert [ends[by][0] for by in ends] == pytest.approx([200.0, 19.9, 12_800.0])
        assert [text.split()[-1] for _, text in ends.values()] == ["steps", "s", "samples"]
        assert plot.canvas.frame.notes == ()
        plot.header.choose(by="seconds")
        assert [note.text for note in plot.canvas.frame.notes] == ["19.9 s", "10.0 s"], "how long each took"
        assert not plot.grab().isNull()

    def test_accuracy_is_offered_where_a_run_has_one(self, plot: OverlayPlot) -> None:
        plot.set_lines([line("one", falling(), accuracies=(40.0, 60.0)), line("other", falling())], {})
        plot.header.choose(quantity="accuracy")
        assert [entry.value for entry in plot.legend.entries] == ["60.0", "–"]
        plot.set_lines([line("other", falling())], {})
        assert plot.header.quantity == "loss"

    def test_the_legend_reads_off_at_the_crosshair_and_leaves_out_repeats(self, plot: OverlayPlot) -> None:
        plot.set_lines([line("one", falling()), line("short", falling(100))], {})
        assert [entry.value for entry in plot.legend.entries] == ["1.000", "5.523"]
        plot.canvas.hovered.emit(150.0)
        assert [entry.value for entry in plot.legend.entries] == ["3.261", "–"]
        plot.canvas.hovered.emit(None)
        assert [entry.value for entry in plot.legend.entries] == ["1.000", "5.523"]
        plot.set_lines([line("one", falling()), line("again", falling(), is_repeat=True)], {})
        assert [entry.name for entry in plot.legend.entries] == ["one"]
        assert len(plot.canvas.getPlotItem().items) == 3

    def test_a_part_is_looked_at_closely_and_the_whole_comes_back(self, plot: OverlayPlot) -> None:
        long = [5.0 + np.sin(step / 5.0) for step in range(20_000)]
        plot.set_lines([line("long", long)], {})
        plot.canvas.x_range_chosen.emit((1_000.0, 1_100.0))
        assert plot.canvas.frame.x_range == (1_000.0, 1_100.0)
        low, high = plot.canvas.frame.y_range
        assert high - low > 1.4
        plot.canvas.x_range_chosen.emit((-500.0, -400.0))
        assert plot.canvas.frame.x_range == (0.0, 100.0)
        plot.canvas.whole_asked.emit()
        assert plot.canvas.frame.x_range == (0.0, 20_400.0)

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf"), 1e300])
    def test_losses_that_diverge_and_a_single_step_are_drawn_without_complaint(
        self, plot: OverlayPlot, bad: float
    ) -> None:
        some = [bad if step % 7 == 0 else 1.0 / step for step in range(1, 120)]
        for lines in ([line("some", some), line("all", [bad] * 60)], [line("one", [2.0])]):
            plot.set_lines(lines, {})
            for by in ("samples", "step", "seconds"):
                plot.header.choose(by=by)
                assert not plot.grab().isNull()
        low, high = plot.canvas.frame.x_range
        assert low < high, "a run of one step at second zero is a point"


def test_a_curve_that_shoots_up_does_not_flatten_the_others() -> None:
    calm, wild = np.linspace(6.0, 1.0, 50), np.array([6.0, 5.0, 1e30])
    bounds = y_range([calm, wild])
    assert bounds is not None and 6.0 < bounds[1] < 20.0
