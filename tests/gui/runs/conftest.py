"""The runs table with eight runs, of every state, and a mouse."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from unittest.mock import MagicMock

import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Environment, Summary
from engine.store.record import RunRecord, Status
from gui.runs.panel import RunsPanel
from gui.runs.table.columns import NAME
from gui.runs.table.rows import RunRow
from gui.theme.theme import theme

ENVIRONMENT = Environment(
    device_name="A card", device_memory_mib=24_576, torch="2.11", python="3.12", os="Linux", ammeter="0.1"
)


def run(
    number: int,
    precision: Precision = Precision.FP32,
    status: Status = Status.FINISHED,
    *,
    speed: float | None = None,
    peak_mib: float | None = None,
    accuracy: float | None = None,
    batch_size: int = 64,
    problem: Problem | None = None,
    comparison: str | None = "c" * 12,
) -> RunRecord:
    # of the day on which the test runs: midnight may pass during the suite
    noon = datetime.now().astimezone().replace(hour=12, minute=0, second=0, microsecond=0).astimezone(UTC)
    begun = noon + timedelta(minutes=number)
    summary = Summary(
        samples_per_second=speed, peak_allocated_mib=peak_mib, final_validation_accuracy=accuracy
    )
    return RunRecord(
        id=f"{number:012x}",
        number=number,
        name=f"Run {number}",
        status=status,
        created=begun,
        started=None if status is Status.QUEUED else begun,
        ended=None,
        experiment=Experiment(precision=precision, batch_size=batch_size),
        environment=ENVIRONMENT,
        summary=summary if status.is_over else None,
        problem=problem,
        detail="",
        comparison=comparison,
        label=None,
        total_steps=200,
    )


FAULT = Problem(kind=Kind.OUT_OF_MEMORY, message="The card is full.", remedy="Take a smaller batch.")
RUNS = (
    run(1, Precision.FP32, speed=880.4, peak_mib=10_240, accuracy=0.613),
    run(2, Precision.FP16, speed=1_663.9, peak_mib=3_174, accuracy=0.6),
    run(3, Precision.TF32, Status.STOPPED, speed=1_755.0),
    run(4, Precision.BF16, Status.FAILED, problem=FAULT, batch_size=1_024),
    run(5, Precision.FP16, Status.INTERRUPTED),
    run(6, Precision.FP32, Status.RUNNING),
    run(7, Precision.FP16, Status.QUEUED),
    run(8, Precision.BF16, Status.QUEUED),
)


@pytest.fixture
def record() -> Callable[..., RunRecord]:
    """Makes a run of a number, a precision and a status."""
    return run


@pytest.fixture
def experiments() -> MagicMock:
    """The queue and the saved runs, which the panel changes."""
    experiments = MagicMock()
    for name in ("why_not_started", "why_not_resumed", "why_not_profiled"):
        getattr(experiments, name).return_value = "Not here."
    return experiments


@pytest.fixture
def panel(qtbot: QtBot, experiments: MagicMock) -> RunsPanel:
    theme()
    panel = RunsPanel()
    panel.experiments = experiments
    qtbot.addWidget(panel)
    panel.set_runs(RUNS)
    panel.resize(1_120, 320)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


class Rows:
    """The rows of the panel, by the numbers of their runs."""

    def __init__(self, qtbot: QtBot, panel: RunsPanel) -> None:
        self._qtbot, self._panel, self._table = qtbot, panel, panel.table
        self.runs = {run.number: run for run in RUNS}

    def lines(self) -> list[RunRow]:
        """The runs in the order of the table, those below a closed item left out."""
        found, index = [], self._panel.model.index(0, 0)
        while index.isValid():
            row = self._panel.model.row_at(index)
            found += [row] if isinstance(row, RunRow) else []
            index = self._table.indexBelow(index)
        return found

    def numbers(self) -> list[int]:
        return [line.run.number for line in self.lines()]

    def column(self, column: int) -> list[str]:
        return [self._panel.model.text(line, column) for line in self.lines()]

    def index(self, number: int, column: int = NAME) -> QModelIndex:
        index = self._panel.model.index_of(self.runs[number].id, column)
        assert index.isValid()
        return index

    def select(self, number: int) -> None:
        self._table.setCurrentIndex(self.index(number))

    def text(self, number: int, column: int) -> str:
        return str(self.index(number, column).data())

    def add(self, run: RunRecord, column: int) -> str:
        """Adds or changes a run, and returns a cell of its row."""
        self._panel.update_run(run)
        return str(self._panel.model.index_of(run.id, column).data())

    def cell(self, number: int, column: int) -> QPoint:
        self._table.scrollTo(self.index(number))
        return self._table.visualRect(self.index(number, column)).center()

    def button(self, number: int) -> QPoint:
        left, width = self._table.figures_span()
        return QPoint(left + width - 16, self.cell(number, NAME).y())

    def click(self, place: QPoint) -> None:
        self._qtbot.mouseClick(self._table.viewport(), Qt.MouseButton.LeftButton, pos=place)


@pytest.fixture
def rows(qtbot: QtBot, panel: RunsPanel) -> Rows:
    return Rows(qtbot, panel)
