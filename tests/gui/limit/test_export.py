"""The trials of a search as a table on the clipboard, as CSV, and its chart as a picture."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QGuiApplication, QImage
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from gui.limit.panel import MemoryLimitPanel
from gui.limit.words import picture_heading
from gui.theme.theme import theme


def test_the_table_is_copied_as_a_spreadsheet_takes_it(
    panel: MemoryLimitPanel, qtbot: QtBot, searches: Any
) -> None:
    panel.show_search(searches.both())
    panel.export.copy()
    lines = QGuiApplication.clipboard().text().splitlines()
    assert len(lines) == 12 and lines[5].split("\t")[:3] == ["FP32", "289", "Largest fit"]


def test_the_trials_are_saved_with_their_figures_in_full(
    panel: MemoryLimitPanel, tmp_path: Path, searches: Any
) -> None:
    panel.show_search(searches.both())
    panel.export.save_csv(tmp_path / "trials.csv")
    with (tmp_path / "trials.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 11 and rows[4]["batch_size"] == "289" and rows[4]["fits"] == "True"
    assert float(rows[4]["peak_mib"]) == pytest.approx(6_100.0 + 63.9 * 289)
    assert rows[2]["cause"] == "memory" and rows[2]["peak_mib"] == ""


def test_what_was_copied_or_saved_is_said(
    panel: MemoryLimitPanel, qtbot: QtBot, tmp_path: Path, searches: Any
) -> None:
    panel.show_search(searches.both())
    with qtbot.waitSignal(panel.copied) as copied:
        panel.export.copy()
    assert copied.args == ["The table is on the clipboard."]
    with qtbot.waitSignal(panel.exported) as saved:
        panel.export.save_csv(tmp_path / "trials.csv")
    assert saved.args == [tmp_path / "trials.csv"]


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
    for save in (panel.export.save_csv, panel.export.save_png):
        with qtbot.waitSignal(panel.export_failed) as failed:
            save(tmp_path / "no such folder" / "file")
        assert failed.args[0].startswith(f"There is no folder {tmp_path / 'no such folder'}. ")
    assert list(tmp_path.glob("no*")) == []
