"""One smoothing for all curves, chosen by a slider and remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.drawing.curve_chart import extend_smoothed, local_line
from engine.experiment.experiment import Precision
from gui.charts.curves import Curve
from gui.charts.header import SmoothButton
from gui.charts.lines import RecordedCurve, SavedCurves, smoothing_words
from gui.charts.live_plot import LivePlot, PlotSpec
from gui.charts.overlay import OverlayPlot
from gui.charts.smoothing import WINDOWS, smoothing
from gui.window.main_window import MainWindow

# the offscreen platform says so whenever a window or a popup is shown
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

STEPS = np.arange(1.0, 201.0)
NOISY = 1.0 + 0.5 * (-1.0) ** STEPS


def trace(values: Sequence[float] | np.ndarray, *, smooths: bool = True) -> RecordedCurve:
    steps = np.arange(1.0, len(values) + 1)
    places = {"step": steps, "seconds": steps, "samples": steps}
    return RecordedCurve(places, np.asarray(values), smooths=smooths)  # type: ignore[arg-type]


def drawn(plot: LivePlot) -> np.ndarray:
    return plot._shown["a"].line


def test_the_slider_goes_from_raw_to_the_widest_and_all_buttons_follow(qtbot: QtBot) -> None:
    first, second = SmoothButton(), SmoothButton()
    for button in (first, second):
        qtbot.addWidget(button)
    assert first.text() == "Smooth 15" and first.isChecked()
    first.slider.setValue(0)
    assert smoothing().steps == 0
    assert (second.text(), second.isChecked(), second.slider.value()) == ("Raw", False, 0)
    qtbot.keyClick(second.slider, Qt.Key.Key_End)
    assert smoothing().steps == WINDOWS[-1] and first.text() == f"Smooth {WINDOWS[-1]}"


def test_a_press_opens_the_slider_and_switches_nothing(qtbot: QtBot) -> None:
    button = SmoothButton()
    qtbot.addWidget(button)
    with qtbot.waitExposed(button):
        button.show()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert button.slider.isVisible() and button.isChecked() and smoothing().steps == 15
    button.menu_of_slider.hide()


def test_a_noisy_live_plot_follows_at_once_and_a_steady_one_does_not(qtbot: QtBot) -> None:
    noisy = LivePlot(PlotSpec("Loss", "", "The loss", smooths=True))
    steady = LivePlot(PlotSpec("Memory", "", "The memory"))
    for plot in (noisy, steady):
        qtbot.addWidget(plot)
        plot.set_curves([Curve("a", Precision.FP32, "FP32", STEPS, NOISY)])
        with qtbot.waitExposed(plot):
            plot.show()
        plot.refresh()
    np.testing.assert_array_equal(drawn(noisy), local_line(NOISY, 15))
    # nobody calls refresh() from here on: the run may be over, and no timer runs
    smoothing().set_steps(75)
    np.testing.assert_array_equal(drawn(noisy), local_line(NOISY, 75))
    smoothing().set_steps(0)
    np.testing.assert_array_equal(drawn(noisy), NOISY)
    assert noisy._shown["a"].dim is None
    np.testing.assert_array_equal(drawn(steady), NOISY)


def test_compared_curves_follow_and_say_so(qtbot: QtBot) -> None:
    plot = OverlayPlot()
    qtbot.addWidget(plot)
    plot.resize(600, 320)
    traces = {"loss": trace(NOISY), "accuracy": trace([], smooths=False)}
    plot.set_lines([SavedCurves("a", Precision.FP32, "FP32", traces)], {"loss": "nats"})  # type: ignore[arg-type]
    assert [entry.value for entry in plot.legend.entries] != ["1.500"]
    smoothing().set_steps(0)
    assert [entry.value for entry in plot.legend.entries] == ["1.500"]


def test_the_button_and_the_title_are_never_cut_short(qtbot: QtBot) -> None:
    plot = OverlayPlot()
    qtbot.addWidget(plot)
    smoothing().set_steps(101)
    button = plot.header.smooth
    for width, text in ((413, "101"), (700, "Smooth 101")):
        plot.resize(width, 320)
        with qtbot.waitExposed(plot):
            plot.show()
        qtbot.waitUntil(lambda text=text: button.text() == text)  # type: ignore[misc]
        qtbot.waitUntil(lambda: button.width() >= button.sizeHint().width())

    box = plot.header.quantities
    for width in (435, 700):
        plot.resize(width, 320)
        qtbot.waitUntil(lambda: box.width() >= box.sizeHint().width())


def test_the_words_say_what_was_done() -> None:
    assert smoothing_words(1, 15) == "smoothed over 15 steps"
    assert smoothing_words(64, 15) == "smoothed over 320 steps"
    assert smoothing_words(1, 0) == "" and smoothing_words(64, 0) == "means of 64 steps"


def test_a_trace_keeps_its_means_and_smooths_them_anew() -> None:
    long = trace(np.tile([1.0, 3.0, 8.0], 1_000))
    raw, fine, coarse = (long.level(8, steps).y for steps in (0, 15, 75))
    assert raw is long.blocks(8).y
    np.testing.assert_array_equal(fine, local_line(raw, 5))
    np.testing.assert_array_equal(coarse, local_line(raw, 10))


def test_it_is_remembered(start: Callable[[], MainWindow], qapp: QApplication) -> None:
    window = start()
    smoothing().set_steps(45)
    window.close_without_asking()
    smoothing().set_steps(15)
    start()
    assert smoothing().steps == 45


def test_it_is_the_line_numpy_fits_to_each_window() -> None:
    noisy = np.random.default_rng(0).normal(size=60)
    smoothed = local_line(noisy, 15)
    for row in range(60):
        window = np.arange(max(0, row - 7), min(60, row + 8))
        fit = np.polyfit(window - row, noisy[window], 1)
        assert smoothed[row] == pytest.approx(fit[1], abs=1e-9)


def test_gaps_stay_gaps_and_do_not_spoil_their_neighbours() -> None:
    line = np.linspace(0, 10, 101)
    line[[0, 40, 41, 100]] = np.nan
    line[60] = np.inf
    smoothed = local_line(line, 15)
    whole = np.isfinite(line)
    np.testing.assert_allclose(smoothed[whole], line[whole], atol=1e-9)
    assert not np.isfinite(smoothed[~whole]).any()


_NAN = float("nan")


# a line cut off by gaps overshoots its window to 1 / 7, and further off there is a 1
@example([{"1": 1.0, "0": 0.0, "m": -1.0}.get(sign, _NAN) for sign in "1.00...0..0..0..0.0....m0.0...."], 31)
@given(st.lists(st.floats(-1e6, 1e6) | st.just(_NAN), max_size=120), st.integers(0, 120))
def test_extending_gives_what_smoothing_all_at_once_gives(values: list[float], cut: int) -> None:
    whole = np.array(values, dtype=np.float64)
    before = local_line(whole[:cut], 15)
    np.testing.assert_allclose(
        extend_smoothed(before, whole, 15), local_line(whole, 15), rtol=1e-6, atol=1e-4, equal_nan=True
    )


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=60), st.sampled_from([9, 15]))
def test_a_smoothed_curve_never_leaves_its_data(values: list[float], window: int) -> None:
    smooth = local_line(np.array(values), window)
    room = 1e-6 * (1 + max(abs(value) for value in values))
    assert smooth.min() >= min(values) - room and smooth.max() <= max(values) + room
