"""The installed PySide6 keeps count of Python's references.

Version 6.12.0 drops one to None or True with each signal and each painted frame; Python 3.11 and older abort
when the last is gone. Newer ones never count these.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
from PySide6 import __version__ as pyside_version
from PySide6.QtCore import QObject, Signal
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from gui.charts.curves import Curve
from gui.charts.live_plot import LivePlot, PlotSpec

SIGNALS = 1_000
FRAMES = 30
pytestmark = pytest.mark.skipif(sys.version_info >= (3, 12), reason="None and True are not counted")


def dropped(work: Callable[[], object]) -> int:
    """How many references to None and True there are less after `work`, done once before."""
    work()
    before = sys.getrefcount(None) + sys.getrefcount(True)
    work()
    return before - sys.getrefcount(None) - sys.getrefcount(True)


UNSOUND = f"exclude PySide6 {pyside_version} for this Python in pyproject.toml"


class Source(QObject):
    nothing = Signal()
    thing = Signal(object)
    truth = Signal(bool)


def test_signals_drop_no_reference(qtbot: QtBot) -> None:
    source, heard = Source(), []
    source.nothing.connect(lambda: heard.append(1))
    source.thing.connect(lambda thing: heard.append(2))
    source.truth.connect(lambda truth: heard.append(3))

    def emit() -> None:
        for _ in range(SIGNALS):
            source.nothing.emit()
            source.thing.emit(None)
            source.truth.emit(True)

    assert dropped(emit) < SIGNALS / 10, UNSOUND
    assert len(heard) == 2 * 3 * SIGNALS


@pytest.mark.slow
def test_painted_frames_drop_no_reference(qtbot: QtBot) -> None:
    plot = LivePlot(PlotSpec("Training loss", "nats", "The loss of each step", smooths=True))
    qtbot.addWidget(plot)
    plot.resize(320, 160)
    values = 1.0 / np.arange(1, FRAMES + 1)
    steps = np.arange(1.0, FRAMES + 1)

    def paint() -> None:
        for count in range(1, FRAMES + 1):
            plot.set_curves(
                [
                    Curve(precision.value, precision, precision.label, steps[:count], values[:count])
                    for precision in Precision
                ]
            )
            plot.refresh()
            plot.canvas.grab()

    assert dropped(paint) < FRAMES / 10, UNSOUND
