"""The workspace Compare: column and panel side by side, over the runs of a store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest
from gui.compare.column import ComparisonColumn
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QRadioButton, QWidget
from pytestqt.qtbot import QtBot

from engine.store.record import RunRecord
from engine.store.store import Store
from gui.compare.controller import CompareReader
from gui.compare.panel import ComparePanel
from gui.session.background import Background
from gui.session.saved_runs import SavedRuns
from gui.theme.theme import theme


@dataclass
class Workspace:
    """Column and panel side by side, joined as the main window joins them."""

    NO_SPEED: ClassVar = "The run was too short to measure: only 2 whole blocks, and a speed needs 5."
    FAST: ClassVar = {"step": {"recipe": "fast"}}

    qtbot: QtBot
    window: QWidget
    column: ComparisonColumn
    panel: ComparePanel
    reader: CompareReader
    runs: SavedRuns

    def show(self, *runs: RunRecord) -> None:
        self.runs.reload()
        with self.qtbot.waitSignal(self.reader.shown):
            self.reader.set_runs(run.id for run in runs)

    def measure_against(self, run: RunRecord) -> None:
        with self.qtbot.waitSignal(self.reader.shown):
            self.column.set_baseline(run.id)

    @property
    def words(self) -> str:
        return self.panel.headline.text().replace("\N{NO-BREAK SPACE}", " ")

    def row(self, title: str) -> list[str]:
        return next(row[1:] for row in self.panel.table.texts() if row[0] == title)

    def choose(self, radio_text: str) -> None:
        radios = self.column.findChildren(QRadioButton)
        next(one for one in radios if radio_text in one.accessibleName()).click()

    def button(self, text: str) -> QAbstractButton:
        buttons = self.window.findChildren(QAbstractButton)
        return next(one for one in buttons if one.accessibleName() == text)

    def press(self, text: str) -> None:
        self.button(text).click()


@pytest.fixture
def workspace(qtbot: QtBot, saved: Store) -> Iterator[Workspace]:
    theme().set_mode("dark")
    window = QWidget()
    qtbot.addWidget(window)
    column, panel = ComparisonColumn(), ComparePanel()
    column.setFixedWidth(320)
    row = QHBoxLayout(window)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(0)
    row.addWidget(column)
    row.addWidget(panel, 1)
    window.resize(1_100, 700)
    with qtbot.waitExposed(window):
        window.show()
    runs, reading = SavedRuns(saved), Background()
    comparing = CompareReader(saved.path, runs, column, panel, reading)
    comparing.set_in_sight(True)
    yield Workspace(qtbot, window, column, panel, comparing, runs)
    reading.stop()
