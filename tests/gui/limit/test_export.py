"""The trials of a limit as a table on the clipboard, and the limit as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from engine.export.formats import LIMIT
from gui.limit.panel import LimitPanel
from gui.widgets import buttons


def test_the_table_is_copied_as_a_spreadsheet_takes_it(panel: LimitPanel, qtbot: QtBot, limits: Any) -> None:
    panel.show_view(limits.both())
    panel.copy_table()
    lines = QGuiApplication.clipboard().text().splitlines()
    assert len(lines) == 12 and lines[5].split("\t")[:3] == ["FP32", "289", "Largest fit"]


def test_what_was_copied_is_said(panel: LimitPanel, qtbot: QtBot, limits: Any) -> None:
    panel.show_view(limits.both())
    with qtbot.waitSignal(panel.copied) as copied:
        panel.copy_table()
    assert copied.args == ["The table is on the clipboard."]


def test_a_file_in_any_format_is_asked_for(
    panel: LimitPanel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    menu = panel.export
    assert [action.text() for action in menu.actions()][: len(LIMIT.formats)] == [
        f"{form.title}…" for form in LIMIT.formats
    ]
    monkeypatch.setattr(buttons, "ask_where", lambda _parent, _title, name, _kind: tmp_path / name)
    with qtbot.waitSignal(panel.export.asked) as asked:
        menu.actions()[0].trigger()
    assert asked.args == [tmp_path / "limit.html"]
