"""The height of the live plots: what a window gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QScrollArea
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision
from engine.protocol.events import Finished, Samples, Summary
from gui.charts.live_plot import LEAST_HEIGHT, MOST_HEIGHT
from gui.train.panel import LivePanel, LiveRun
from gui.window.main_window import MainWindow

Open = Callable[[], MainWindow]


@pytest.fixture
def panel(qtbot: QtBot) -> LivePanel:
    run = LiveRun.of("run", Experiment(precision=Precision.FP32))
    steps = tuple(range(1, 101))
    run.take(
        Samples(
            step=steps,
            seconds=tuple(map(float, steps)),
            loss=tuple(1.0 / step for step in steps),
            samples_per_second=(100.0,) * 100,
            learning_rate=(0.1,) * 100,
        )
    )
    run.take(Finished(summary=Summary(steps=100, recipe="plain", data_wait_fraction=0.1)))
    panel = LivePanel()
    qtbot.addWidget(panel)
    panel.resize(1_120, 640)
    panel.show()
    panel.set_runs([run])
    return panel


def heights(panel: LivePanel) -> set[int]:
    QApplication.processEvents()
    return {plot.height() for plot in panel.plots.plots if plot.isVisible()}


def test_a_low_panel_shows_two_plots_whose_titles_are_a_menu_of_the_four(panel: LivePanel) -> None:
    plots = panel.plots
    assert [plot.isVisible() for plot in plots.plots] == [True, False, False, True]
    menu = plots.speed.header.others
    assert [menu.itemText(row) for row in range(menu.count())] == [
        plot.header.title() for plot in plots.plots
    ]
    assert menu.isVisible() and menu.currentIndex() == 3
    menu.activated.emit(2)
    assert [plot.isVisible() for plot in plots.plots] == [True, False, True, False]
    assert plots.memory.header.others.currentIndex() == 2
    plots.memory.header.others.activated.emit(0)
    assert heights(panel) and plots.loss.x() > plots.memory.x(), "they change places"
    panel.resize(1_120, 900)
    assert all(plot.isVisible() and not plot.header.others.isVisible() for plot in plots.plots)


@pytest.mark.parametrize("height", [300, 400, 640, 1_000, 1_600])
@pytest.mark.parametrize("with_details", [False, True])
def test_a_plot_is_between_its_least_and_its_most_height(
    panel: LivePanel, height: int, with_details: bool
) -> None:
    panel.resize(1_120, height)
    if with_details:
        panel.open_details()
    assert all(LEAST_HEIGHT <= one <= MOST_HEIGHT for one in heights(panel))


def test_the_page_scrolls_where_the_window_is_too_low(panel: LivePanel) -> None:
    bar = panel.findChild(QScrollArea).verticalScrollBar()
    assert heights(panel) and bar.maximum() == 0
    panel.resize(1_120, 270)
    assert heights(panel) == {LEAST_HEIGHT} and bar.maximum() > 0


@pytest.mark.parametrize("keys", [Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier])
def test_the_wheel_is_for_the_page_where_it_scrolls_but_with_ctrl_for_the_plot(
    panel: LivePanel, keys: Qt.KeyboardModifier
) -> None:
    panel.resize(1_120, 270)
    heights(panel)
    canvas, ranges = panel.plots.loss.canvas, []
    panel.plots.loss.x_range_chosen.connect(ranges.append)
    place = QPointF(canvas.area().center())
    event = QWheelEvent(
        place,
        QPointF(canvas.mapToGlobal(place.toPoint())),
        QPoint(),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        keys,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(canvas.viewport(), event)
    # Qt hands on to the page only what is ignored, and only of what comes from a device
    assert bool(ranges) == event.isAccepted() == (keys is Qt.KeyboardModifier.ControlModifier)
