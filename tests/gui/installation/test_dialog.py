"""Help > PyTorch: what is there, whether it is whole, and its removal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.problem import Kind, Problem
from engine.installation.installed import Engine, State
from gui.installation.dialog import EngineDialog
from gui.installation.setup import EngineSetup
from tests.gui.installation.conftest import INSTALLATION

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


MANY = Problem(kind=Kind.NO_ENGINE, message="Many files of torch are missing. " * 6, remedy="Repair it.")


@pytest.mark.parametrize("engine", [Engine(State.OWN)])
def test_an_answer_clips_nothing_above_it(qtbot: QtBot, dialog: EngineDialog, setup: EngineSetup) -> None:
    with qtbot.waitExposed(dialog):
        pass
    setup.refused.emit(MANY)
    qtbot.waitUntil(lambda: MANY.remedy in words(dialog))
    wrapped = [part for part in dialog.findChildren(QLabel) if part.isVisible() and part.wordWrap()]
    assert len(wrapped) == 2
    qtbot.waitUntil(lambda: all(part.height() >= part.heightForWidth(part.width()) for part in wrapped))
