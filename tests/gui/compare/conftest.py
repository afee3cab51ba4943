"""A comparison: head and panel, over the runs of a store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QWidget
from pytestqt.qtbot import QtBot

from engine.store.record import RunRecord
from engine.store.store import Store
from gui.compare.controller import CompareReader
from gui.compare.head import ItemHead
from gui.compare.panel import ComparePanel
from gui.session.saved_runs import SavedRuns
from gui.theme.theme import theme
from gui.widgets.boxes import in_column, wide


@dataclass
class Workspace:
    """Head and panel, joined as Results joins them."""

    NO_SPEED: ClassVar = "The run was too short to measure: only 2 whole blocks, and a speed needs 5."
    FAST: ClassVar = {"step": {"recipe": "fast"}}

    qtbot: QtBot
    window: QWidget
    head: ItemHead
    panel: ComparePanel
    reader: CompareReader
    runs: SavedRuns

    def show(self, *runs: RunRecord) -> None:
        self.runs.reload()
        with self.qtbot.waitSignal(self.reader.shown):
            self.reader.set_runs(run.id for run in runs)

    def measure_against(self, run: RunRecord) -> None:
        with self.qtbot.waitSignal(self.reader.shown):
            self.head.set_baseline(run.id)

    @property
    def words(self) -> str:
        return self.panel.headline.text().replace("\N{NO-BREAK SPACE}", " ")

    def row(self, title: str) -> list[str]:
        return next(row[1:] for row in self.panel.table.texts() if row[0].partition(",")[0] == title)

    def sides(self) -> list[QAction]:
        """What the menu of the sides offers."""
        menu = self.head.sides.menu()
        menu.aboutToShow.emit()
        return menu.actions()

    def choose(self, words: str) -> None:
        """Chooses the side that the sentence is about."""
        next(one for one in reversed(self.sides()) if one.text().startswith(words)).trigger()

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
    head, panel = ItemHead(), ComparePanel()
    in_column(head, wide(panel), parent=window)
    window.resize(780, 700)
    with qtbot.waitExposed(window):
        window.show()
    runs = SavedRuns(saved)
    comparing = CompareReader(saved.path, runs, head, panel)
    comparing.set_in_sight(True)
    yield Workspace(qtbot, window, head, panel, comparing, runs)
    comparing.stop()
