"""Help > Engine: what is there, whether it is whole, and its removal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel, QTableWidget, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.problem import Kind, Problem
from engine.installation.installed import Engine, State
from gui.installation import dialog as engine_dialog
from gui.installation.dialog import EngineDialog
from gui.installation.purpose import Purpose
from gui.installation.setup import EngineSetup
from tests.gui.installation.conftest import INSTALLATION, Performed

READY = Engine(State.READY, INSTALLATION, Path("/data/engine/installations/1/packages"))


@pytest.fixture
def engine() -> Engine:
    return READY


@pytest.fixture
def dialog(qtbot: QtBot, setup: EngineSetup, engine: Engine) -> Iterator[EngineDialog]:
    window = QWidget()
    qtbot.addWidget(window)
    made = EngineDialog(setup, window)
    made.show_engine(engine)
    made.show()
    yield made
    window.close()


def words(dialog: EngineDialog) -> str:
    return "\n".join(part.text() for part in dialog.findChildren(QLabel) if part.isVisible())


def test_versions_size_and_packages_are_shown(dialog: EngineDialog) -> None:
    assert "PyTorch 2.15.0" in words(dialog) and "6.0 GiB in 20,000 files" in words(dialog)
    table = dialog.findChild(QTableWidget)
    cells = [table.item(row, 0).text() for row in range(table.rowCount())]
    assert cells == ["sympy", "torch", "torchvision"]


def test_a_check_finds_it_whole_or_offers_to_repair_it(
    qtbot: QtBot, dialog: EngineDialog, performed: Performed
) -> None:
    dialog.check_button.click()
    qtbot.waitUntil(lambda: dialog.answer() == "Every file is there, and whole.")
    performed.broken = Problem(kind=Kind.NO_ENGINE, message="torch/lib is short.", remedy="Repair it.")
    dialog.check_button.click()
    qtbot.waitUntil(dialog.repair_button.isVisible)
    assert dialog.answer() == "torch/lib is short."
    with qtbot.waitSignal(dialog.page_wanted) as wanted:
        dialog.repair_button.click()
    assert wanted.args == [Purpose.REPAIR]


def test_it_is_removed_only_after_a_question(
    qtbot: QtBot, dialog: EngineDialog, setup: EngineSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    answers = iter((False, True))
    monkeypatch.setattr(
        engine_dialog, "ask", lambda _parent, text, *_buttons: asked.append(text) or next(answers)
    )
    dialog.remove_button.click()
    with qtbot.waitSignal(setup.removed):
        dialog.remove_button.click()
    assert len(asked) == 2 and "runs, presets and datasets stay" in asked[0]
    assert "1.0 GiB" in dialog.answer() and dialog.set_up_button.isVisible()


@pytest.mark.parametrize("engine", [Engine(State.OWN)])
def test_in_a_checkout_it_says_where_pytorch_belongs(dialog: EngineDialog) -> None:
    assert "belongs to the Python environment" in words(dialog)
    assert not any(
        button.isVisible() for button in (dialog.update_button, dialog.check_button, dialog.remove_button)
    )
