"""The program's own pages of the guide: every key, and every place on this machine."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from PySide6.QtCore import qVersion
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from engine import __version__
from engine.installation.installed import torch_version
from gui.help.browser import guide_pages
from gui.help.dialog import AboutDialog, GuideDialog, make_help
from gui.numerics.panel import NumericsPanel
from gui.setup.question import QUESTIONS
from gui.widgets.actions import PLACES
from gui.window.main_window import GUIDES


def test_every_question_and_place_has_its_page() -> None:
    places = {place.name for place in PLACES} - {"experiment"}
    assert {*QUESTIONS, *places} == GUIDES.keys()
    assert {*GUIDES.values(), *NumericsPanel.guides.values()} <= {page.name for page in guide_pages()}


@pytest.fixture
def guide(qtbot: QtBot, home: Path) -> GuideDialog:
    dialog = make_help()
    qtbot.addWidget(dialog)
    return dialog


def test_the_guide_tells_every_place_and_the_version(guide: GuideDialog, home: Path) -> None:
    guide.show_page("places")
    said = guide.page.toPlainText()
    assert str(home / "ammeter.sqlite") in said
    assert str(home / "checkpoints") in said
    assert f"Ammeter {__version__}" in said


def test_a_place_with_signs_of_markdown_is_told_as_it_is(qtbot, tmp_path, monkeypatch):
    odd = tmp_path / "a_b_c *d* [e] |f| <g>"
    monkeypatch.setenv("AMMETER_HOME", str(odd))
    dialog = make_help()
    qtbot.addWidget(dialog)
    dialog.show_page("places")
    assert str(odd / "ammeter.sqlite") in dialog.page.toPlainText()


def test_it_tells_and_copies_the_versions(qtbot: QtBot) -> None:
    dialog = AboutDialog()
    qtbot.addWidget(dialog)
    texts = [text.text() for text in dialog.findChildren(QLabel)]
    assert {f"Ammeter {__version__}", platform.python_version(), qVersion(), torch_version()} <= set(texts)
    assert any("MIT" in text for text in texts)
    dialog.copy()
    assert QGuiApplication.clipboard().text().splitlines()[0] == f"Ammeter {__version__}"
