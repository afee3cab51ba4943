"""The box in the heading of the runs table ticks all runs that are shown, or none of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.store.record import RunRecord, Status
from gui.runs.panel import RunsPanel
from gui.runs.table.columns import Column

# the offscreen platform says so whenever a window or a popup is shown
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

ALL, SOME, NONE = Qt.CheckState.Checked, Qt.CheckState.PartiallyChecked, Qt.CheckState.Unchecked


def record(number: int, model: str, status: Status = Status.FINISHED) -> RunRecord:
    return RunRecord(
        id=f"{number:012x}",
        number=number,
        created=datetime(2026, 1, 1, tzinfo=UTC),
        started=None,
        ended=None,
        experiment=Experiment(model=model),
        environment=None,
        detail="",
        comparison=None,
        label=None,
        total_steps=None,
        name=f"Run {number}",
        status=status,
        summary=None,
        problem=None,
    )


RUNS = (
    record(1, "resnet18"),
    record(2, "small-cnn"),
    record(3, "resnet50"),
    record(4, "resnet18", Status.QUEUED),
)
ONE, TWO, THREE = (run.id for run in RUNS[:3])


@pytest.fixture
def panel(qtbot: QtBot) -> RunsPanel:
    panel = RunsPanel()
    qtbot.addWidget(panel)
    panel.set_runs(RUNS)
    panel.resize(1_100, 300)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


def press(panel: RunsPanel, qtbot: QtBot, column: Column = Column.TICK) -> None:
    header = panel.table.horizontalHeader()
    place = QPoint(header.sectionViewportPosition(column) + 20, header.height() // 2)
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_it_ticks_all_that_can_be_ticked_and_then_none(panel: RunsPanel, qtbot: QtBot) -> None:
    assert panel.model.ticks() is NONE
    panel.set_checked([TWO])
    assert panel.model.ticks() is SOME
    press(panel, qtbot)
    assert panel.checked() == (ONE, TWO, THREE) and panel.model.ticks() is ALL
    press(panel, qtbot)
    assert panel.checked() == () and panel.model.ticks() is NONE


def test_with_a_filter_it_is_about_what_is_shown(panel: RunsPanel, qtbot: QtBot) -> None:
    panel.set_checked([TWO])
    panel.filter.setText("resnet")
    qtbot.waitUntil(lambda: len(panel.model.found) == 3)
    assert panel.model.ticks() is NONE
    press(panel, qtbot)
    assert panel.checked() == (ONE, TWO, THREE)
    press(panel, qtbot)
    assert panel.checked() == (TWO,)


def test_it_sorts_by_nothing_and_the_other_headings_still_do(panel: RunsPanel, qtbot: QtBot) -> None:
    before = panel.state()
    press(panel, qtbot)
    assert panel.state() == before
    press(panel, qtbot, Column.NAME)
    assert panel.state()["table"]["column"] == "NAME" and panel.model.ticks() is ALL


def test_the_box_shows_all_some_and_none(panel: RunsPanel) -> None:
    header = panel.table.horizontalHeader()
    pictures = []
    for ticked in ((), (ONE,), (ONE, TWO, THREE)):
        panel.set_checked(ticked)
        box = header.grab().toImage().copy(0, 0, 40, header.height())
        pictures.append(box)
    assert pictures[0] != pictures[1] != pictures[2] != pictures[0]


def test_without_runs_that_can_be_ticked_it_does_nothing(panel: RunsPanel, qtbot: QtBot) -> None:
    panel.filter.setText("nothing has this")
    qtbot.waitUntil(lambda: panel.model.rowCount() == 0)
    panel.model.toggle_all()
    assert panel.checked() == () and panel.model.ticks() is NONE
