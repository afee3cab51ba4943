"""Live plots: what is drawn and what is read off."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from gui.charts.curves import Curve, marker_rows, staircase
from gui.charts.lines import nearest_row
from gui.charts.live_plot import LivePlot, PlotSpec
from gui.charts.smoothing import smoothing
from gui.theme.theme import theme

LOSS = PlotSpec("Training loss", "nats", "The loss of each step", smooths=True)
SCALE = PlotSpec("Loss scale", "log2 axis", "The loss scale", powers_of_two=True)
SPEED = PlotSpec("Throughput", "img/s", "Samples a second", smooths=True, shows_warmup=True)


def curve(y: object, *, key: str = "a", precision: Precision = Precision.FP32, **more: object) -> Curve:
    values = np.asarray(y, dtype=np.float64)
    x = np.arange(1, len(values) + 1, dtype=np.float64)
    return Curve(key, precision, precision.label, x, values, **more)  # type: ignore[arg-type]


@pytest.fixture
def plot(qtbot: QtBot) -> LivePlot:
    return made(qtbot, LOSS)


def made(qtbot: QtBot, spec: PlotSpec) -> LivePlot:
    theme().set_mode("dark")
    plot = LivePlot(spec)
    qtbot.addWidget(plot)
    plot.resize(540, 228)
    plot.show()
    return plot


def colors_in(plot: LivePlot) -> set[str]:
    image = plot.canvas.grab().toImage()
    return {
        image.pixelColor(x, y).name().upper() for x in range(image.width()) for y in range(image.height())
    }


def draw(plot: LivePlot, *curves: Curve) -> None:
    plot.set_curves(curves)
    plot.refresh()


def readout(plot: LivePlot) -> list[str]:
    return [entry.value for entry in plot.legend.entries]


class TestCurves:
    def test_a_staircase_keeps_only_its_corners(self) -> None:
        x = np.arange(1.0, 8.0)
        corners = staircase(x, np.array([4.0, 4, 4, 2, 2, 8, 8]))
        np.testing.assert_array_equal(corners[0], [1, 4, 4, 6, 6, 7])
        np.testing.assert_array_equal(corners[1], [4, 4, 2, 2, 8, 8])

    def test_markers_are_40_steps_apart_or_more_and_staggered(self) -> None:
        first = marker_rows(10_000, 10_000, Precision.FP32)
        assert (np.diff(first) >= 40).all() and 3 <= len(first) <= 8
        few = marker_rows(200, 200, Precision.FP16)
        assert (np.diff(few) >= 40).all() and few[0] != marker_rows(200, 200, Precision.FP32)[0]
        assert len(marker_rows(3, 3, Precision.FP32)) == 0

    def test_a_place_is_read_at_its_nearest_row(self) -> None:
        points = curve([5.0, 6.0, 7.0])
        assert [nearest_row(points.x, place) for place in (0.0, 1.4, 1.6, 3.4)] == [0, 0, 1, 2]
        assert nearest_row(points.x, 9.0) is None
        assert nearest_row(curve([]).x, 1.0) is None


class TestLivePlot:
    @pytest.mark.parametrize(
        "values",
        [
            [],
            [2.5],
            [float("nan")],
            [float("nan"), float("inf"), 3.0, float("-inf"), 2.0],
            [float("nan")] * 50,
            [0.0] * 30,
            [-4.0, -2.0, -3.0],
            [1e300, 1e-300, 1.0],
        ],
        ids=["none", "one", "nan", "mixed", "all nan", "zeros", "negative", "huge"],
    )
    @pytest.mark.parametrize("log", [False, True], ids=["linear", "log"])
    @pytest.mark.parametrize("spec", [LOSS, SCALE], ids=["loss", "scale"])
    def test_any_values_can_be_drawn(
        self, qtbot: QtBot, values: list[float], log: bool, spec: PlotSpec
    ) -> None:
        plot = made(qtbot, spec)
        plot.header.log.setChecked(log)
        plot.set_capacity(100.0, "card capacity")
        plot.warmup = 2.0
        draw(plot, curve(values, shadow=np.asarray(values, dtype=np.float64)))
        assert not plot.grab().isNull()
        plot.set_crosshair(1.0)
        assert len(readout(plot)) == 1

    def test_lines_raw_trace_and_markers_have_the_precisions_colours(self, plot: LivePlot) -> None:
        noisy = 5 + np.random.default_rng(0).normal(0, 1, 300)
        draw(plot, curve(noisy, precision=Precision.FP16))
        look = theme().palette.look(Precision.FP16)
        assert {look.color, look.dim, theme().palette.grid} <= colors_in(plot)
        theme().set_mode("light")
        light = theme().palette.look(Precision.FP16)
        drawn = colors_in(plot)
        assert {light.color, light.dim, "#FFFFFF"} <= drawn and look.color not in drawn

    def test_the_legend_reads_off_at_the_crosshair_and_else_the_latest(self, plot: LivePlot) -> None:
        smoothing().set_steps(0)
        draw(plot, curve(np.arange(100.0)), curve([1.0, 2.0], key="b", precision=Precision.BF16))
        assert readout(plot) == ["99.0", "2.0"] and plot.legend.place == "latest"
        plot.set_crosshair(50.0)
        assert readout(plot) == ["49.0", "–"] and plot.legend.place == "step 50"
        plot.set_by("seconds")
        assert plot.legend.place == "50.0 s"
        draw(plot, curve([1.0, float("nan")], key="c"))
        plot.set_crosshair(None)
        assert readout(plot) == ["NaN"], "in words"

    def test_the_pointer_or_arrow_keys_give_a_place_and_none_when_it_is_left(
        self, qtbot: QtBot, plot: LivePlot
    ) -> None:
        draw(plot, curve(np.ones(200)))
        middle = plot.canvas.area().center().toPoint()
        with qtbot.waitSignal(plot.hovered) as heard:
            qtbot.mouseMove(plot.canvas.viewport(), middle)
        assert heard.args[0] == pytest.approx(106.5, abs=1)
        assert plot.canvas.place_at(QPointF(2, 2)) is None
        with qtbot.waitSignal(plot.hovered, check_params_cb=lambda place: place is None):
            qtbot.mouseMove(plot.canvas.viewport(), QPoint(2, 2))
        plot.set_crosshair(100.0)
        with qtbot.waitSignal(plot.hovered, check_params_cb=lambda place: 100 < place < 105):
            qtbot.keyClick(plot.canvas, Qt.Key.Key_Right)
        with qtbot.waitSignal(plot.hovered, check_params_cb=lambda place: place is None):
            qtbot.keyClick(plot.canvas, Qt.Key.Key_Escape)

    def test_following_shows_the_whole_run_and_the_total_to_come_until_a_range_is_chosen(
        self, qtbot: QtBot, plot: LivePlot
    ) -> None:
        plot.total = 200.0
        draw(plot, curve(np.ones(50)))
        frame = plot.canvas.frame
        assert frame.x_range[0] == 0 and 200 < frame.x_range[1] < 220
        assert frame.x_ticks[-1].text == "200 steps"
        plot.total = None
        draw(plot, curve(np.arange(1000.0)))
        view = plot.canvas.getPlotItem().getViewBox()
        with qtbot.waitSignal(plot.x_range_chosen) as heard:
            # as the wheel does
            view.scaleBy(x=0.5)
            view.sigRangeChangedManually.emit([True, False])
        low, high = heard.args[0]
        assert high - low == pytest.approx(532, abs=2)
        plot.set_x_range((100.0, 200.0))
        plot.refresh()
        assert plot.canvas.frame.x_range == (100.0, 200.0) and plot.canvas.frame.y_range[1] < 250
        assert not plot.header.follow.isChecked()
        with qtbot.waitSignal(plot.x_range_chosen, check_params_cb=lambda chosen: chosen is None):
            plot.header.follow.click()

    def test_log_changes_what_is_drawn_but_not_what_is_read(self, plot: LivePlot) -> None:
        draw(plot, curve(np.full(100, 10.0)))
        linear = plot.canvas.frame.y_range
        plot.header.log.setChecked(True)
        plot.refresh()
        low, high = plot.canvas.frame.y_range
        assert linear[0] == 0 and low < 1 < high and readout(plot) == ["10.0"]

    def test_a_far_capacity_is_pinned_and_a_near_one_is_in_scale(self, plot: LivePlot) -> None:
        plot.set_curves([curve(np.full(100, 10.0))])
        plot.set_capacity(139.8, "card capacity 139.8 GiB")
        plot.refresh()
        capacity = plot.canvas.frame.capacity
        assert capacity is not None and capacity.position is None
        assert plot.canvas.frame.y_range[1] < 20
        plot.set_capacity(12.0, "card capacity 12.0 GiB")
        plot.refresh()
        capacity = plot.canvas.frame.capacity
        assert capacity is not None and capacity.position == pytest.approx(12.0)
        assert plot.canvas.frame.y_range[1] > 12

    def test_skipped_steps_stand_at_the_bottom_of_the_grad_scale(self, qtbot: QtBot) -> None:
        plot = made(qtbot, SCALE)
        draw(plot, curve([65536.0] * 100, precision=Precision.FP16, skips=np.array([50.0])))
        color = theme().palette.look(Precision.FP16).color
        assert plot.canvas.frame.skips == ((50.0, color),)
        area = plot.canvas.area()
        place = QPoint(round(area.left() + 50 / 106.5 * area.width()), round(area.bottom()) - 5)
        assert plot.canvas.grab().toImage().pixelColor(place) == QColor(color)
        assert readout(plot) == ["65,536"]

    def test_a_hundred_thousand_points_are_drawn_as_a_few(self, plot: LivePlot) -> None:
        noisy = np.random.default_rng(0).normal(5, 1, 100_000)
        draw(plot, curve(noisy))
        items = plot.canvas.getPlotItem().listDataItems()
        drawn = [len(item.getData()[0]) for item in items if item.getData()[0] is not None]
        assert drawn and max(drawn) < 3000
