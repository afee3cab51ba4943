"""The trials of a search as a table on the clipboard, as CSV, and its chart as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QGuiApplication, QImage
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from engine.export.formats import LIMIT
from gui.limit.panel import MemoryLimitPanel
from gui.limit.words import picture_heading
from gui.theme.theme import theme
from gui.widgets import saved_menu


def test_the_table_is_copied_as_a_spreadsheet_takes_it(
    panel: MemoryLimitPanel, qtbot: QtBot, searches: Any
) -> None:
    panel.show_search(searches.both())
    panel.export.copy()
    lines = QGuiApplication.clipboard().text().splitlines()
    assert len(lines) == 12 and lines[5].split("\t")[:3] == ["FP32", "289", "Largest fit"]


def test_what_was_copied_is_said(panel: MemoryLimitPanel, qtbot: QtBot, searches: Any) -> None:
    panel.show_search(searches.both())
    with qtbot.waitSignal(panel.copied) as copied:
        panel.export.copy()
    assert copied.args == ["The table is on the clipboard."]


def test_a_file_in_any_format_is_asked_for(
    panel: MemoryLimitPanel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    menu = panel.export.menu
    assert [action.text() for action in menu.actions()][: len(LIMIT.formats)] == [
        f"{form.title}…" for form in LIMIT.formats
    ]
    monkeypatch.setattr(saved_menu, "ask_where", lambda _parent, _title, name, _kind: tmp_path / name)
    with qtbot.waitSignal(panel.export.asked) as asked:
        menu.actions()[0].trigger()
    assert asked.args == [tmp_path / "search.html"]


def test_the_chart_is_saved_larger_than_it_is_shown(
    panel: MemoryLimitPanel, tmp_path: Path, searches: Any
) -> None:
    panel.show_search(searches.both())
    panel.export.save_png(tmp_path / "chart.png")
    picture = QImage(str(tmp_path / "chart.png"))
    assert picture.width() > 2 * panel.chart.width()
    title, facts = picture_heading(searches.both().answer, on_gpu=True)
    assert title == "Peak memory by batch size, small-cnn on fashion, in GiB"
    assert facts.startswith("On a 24 GiB card. FP32 fits 289, ")
    above = range(2 * 16, picture.height() - 2 * panel.chart.height() - 2 * 16)
    ink = {picture.pixelColor(x, y).name() for x in range(32, 600) for y in above}
    assert theme().palette.text.lower() in ink
    colors = {picture.pixelColor(x, y).name() for x in range(0, 800, 3) for y in range(60, 600, 3)}
    assert theme().palette.look(Precision.FP32).color.lower() in colors


def test_a_file_that_cannot_be_written_is_told_and_leaves_nothing(
    panel: MemoryLimitPanel, qtbot: QtBot, tmp_path: Path, searches: Any
) -> None:
    panel.show_search(searches.both())
    with qtbot.waitSignal(panel.export_failed) as failed:
        panel.export.save_png(tmp_path / "no such folder" / "file")
    assert failed.args[0].startswith(f"There is no folder {tmp_path / 'no such folder'}. ")
    assert list(tmp_path.glob("no*")) == []
