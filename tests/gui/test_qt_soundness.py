"""The installed PySide6 keeps count of Python's references.

Version 6.12.0 drops one to None or True with each signal and each painted frame; Python 3.11 and older abort
when the last is gone. An abort would end the whole test run, so this file runs itself as a program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from PySide6 import __version__ as pyside_version
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication

from engine.experiment.experiment import Precision
from gui.charts.curves import Curve
from gui.charts.live_plot import LivePlot, PlotSpec

SIGNALS = 10_000
FRAMES = 1_000
DONE = "sound"


def test_the_interpreter_survives_10_000_signals_and_1_000_frames() -> None:
    root = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    ended = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    python = ".".join(map(str, sys.version_info[:3]))
    assert ended.stdout.strip() == DONE, (
        f"PySide6 {pyside_version} is not sound on Python {python} (exit status {ended.returncode}): "
        f"exclude that version in pyproject.toml.\n{ended.stderr[-2_000:]}"
    )


class Source(QObject):
    nothing = Signal()
    thing = Signal(object)
    truth = Signal(bool)


def emit_signals() -> None:
    source, heard = Source(), []
    source.nothing.connect(lambda: heard.append(None))
    source.thing.connect(heard.append)
    source.truth.connect(heard.append)
    for _ in range(SIGNALS):
        source.nothing.emit()
        source.thing.emit(None)
        source.truth.emit(True)
    assert len(heard) == 3 * SIGNALS


def paint_frames() -> None:
    """A live plot of four growing curves, painted as often as its data grow."""
    plot = LivePlot(PlotSpec("Training loss", "nats", "The loss of each step", smooths=True))
    plot.resize(320, 160)
    values = 1.0 / np.arange(1, FRAMES + 1)
    steps = np.arange(1.0, FRAMES + 1)
    for count in range(1, FRAMES + 1):
        plot.set_curves(
            [
                Curve(precision.value, precision, precision.label, steps[:count], values[:count])
                for precision in Precision
            ]
        )
        plot.refresh()
        plot.canvas.grab()


if __name__ == "__main__":
    application = QApplication([])
    emit_signals()
    paint_frames()
    sys.stdout.write(DONE)
