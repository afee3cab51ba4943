"""The panel of Demo in a window of any size, and races to show in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from engine.compare.comparison import compare
from engine.compare.evidence import evidence_from
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, Finished, Samples
from engine.race.race import Race, race_of
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.demo.panel import DemoPanel
from gui.demo.race_view import DemoButton
from gui.theme.theme import set_reduced_motion, theme

Trained = Callable[..., RunRecord]
Raced = Callable[..., Race]


class Room:
    """A panel in a window, as large as asked for."""

    SIZES = ((1440, 848), (1100, 648), (1024, 548), (2560, 1388))

    def __init__(self, qtbot: QtBot) -> None:
        self.qtbot = qtbot
        self.window = QWidget()
        qtbot.addWidget(self.window)
        self.panel = DemoPanel()
        column = QVBoxLayout(self.window)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.panel)
        self.resize(1440, 848)
        with qtbot.waitExposed(self.window):
            self.window.show()
        self.race, self.clock, self.view = self.panel.race, self.panel.race.clock, self.panel.race.view

    def resize(self, width: int, height: int) -> None:
        self.window.resize(width, height)
        QApplication.processEvents()

    def press(self, key: Qt.Key) -> None:
        self.qtbot.keyClick(self.race, key)

    def assert_fits(self) -> None:
        """Asserts that no widget is cut off or hidden in a panel of any size."""
        for size in self.SIZES:
            self.resize(*size)
            assert (self.window.width(), self.window.height()) == size
            assert cut_off(self.panel) == [] and outside(self.panel) == [], size


@pytest.fixture
def room(qtbot: QtBot) -> Iterator[Room]:
    theme().set_mode("dark")
    set_reduced_motion(False)
    room = Room(qtbot)
    yield room
    room.clock.pause()
    set_reduced_motion(None)


@pytest.fixture
def raced(saved: Store) -> Raced:
    """The race of runs, the first one against the others, as it is read from the store."""

    def make(*runs: RunRecord) -> Race:
        curves = {run.id: saved.samples(run.id) for run in runs}
        evidence = [evidence_from(run, saved.events(run.id), curves[run.id]) for run in runs]
        return race_of(compare(evidence), curves)

    return make


@pytest.fixture
def usual(trained: Trained, raced: Raced) -> Race:
    return raced(
        trained("fp32", 1_000.0, peak_allocated_mib=10_445.0),
        trained("fp16", 5_000.0, peak_allocated_mib=3_277.0),
    )


@pytest.fixture
def failed(trained: Trained, raced: Raced, saved: Store) -> Race:
    """Mixed precision fails after 40 of its 200 steps."""
    full, whole = trained("fp32", 1_000.0), trained("fp16", 5_000.0)
    events = [event for event in saved.events(whole.id) if not isinstance(event, Finished)]
    columns = saved.samples(whole.id)
    broken = saved.add(whole.experiment).id
    saved.begin(broken)
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="The card is full.", remedy="Take less.")
    saved.record(broken, [*events, _first(columns, 40), Failed(problem=problem)])
    return raced(full, saved.run(broken))


def _first(columns: dict[str, Any], count: int) -> Samples:
    return Samples(**{name: tuple(values[:count].tolist()) for name, values in columns.items()})


def cut_off(panel: QWidget) -> list[str]:
    """Texts with less room than they need."""
    shown = [one for one in panel.findChildren(QLabel) if one.isVisible()]
    buttons = [one for one in panel.findChildren(DemoButton) if one.isVisible() and one.text()]
    return [
        *(one.text() for one in shown if one.wordWrap() and one.height() < one.heightForWidth(one.width())),
        *(f"{one.text()}: {one.width()}" for one in buttons if one.width() < one.minimumSizeHint().width()),
    ]


def outside(panel: QWidget) -> list[str]:
    """Widgets that reach out of the one they stand in."""
    return [
        f"{type(one).__name__} {one.geometry()} in {one.parentWidget().size()}"
        for one in panel.findChildren(QWidget)
        if one.isVisible() and not one.isWindow() and not one.parentWidget().rect().contains(one.geometry())
    ]
