"""A real installation of stand-in wheels from an index on the loopback: set up, checked, and removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from engine.installation import installed
from engine.installation.installed import State, engine_here
from engine.installation.installer import Installer
from engine.installation.request import InstallRequest, Source
from gui.installation import dialog as engine_dialog
from gui.installation.dialog import EngineDialog
from gui.installation.page import SetupPage
from gui.installation.setup import EngineSetup
from gui.installation.words import Purpose
from tests.engine.installation.conftest import useful, write_wheels
from tests.wheel_index import WheelIndex


@pytest.fixture
def index(tmp_path: Path) -> Iterator[WheelIndex]:
    write_wheels(tmp_path / "wheels", files=4)
    with WheelIndex(tmp_path / "wheels") as index:
        yield index


@pytest.fixture
def real(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineSetup]:
    monkeypatch.setenv("AMMETER_ENGINE", str(tmp_path / "engine"))
    monkeypatch.setattr(installed, "has_own_torch", lambda: False)
    made = EngineSetup(lambda: Installer(None, useful))
    yield made
    made.shut_down()


@pytest.mark.slow
def test_it_is_set_up_found_damaged_and_removed(qtbot, real, index, monkeypatch):
    window = QWidget()
    qtbot.addWidget(window)
    page = SetupPage(real, engine_here(), window)
    page.choice.set_wanted(InstallRequest(source=Source(mirror=index.simple)))
    # Qt's event loop leaves the threads more time than `waitUntil` does
    with qtbot.waitSignal(real.planned, timeout=30_000):
        window.show()
    with qtbot.waitSignal(real.ended, timeout=30_000):
        page.begin_button.click()
    engine = engine_here()
    assert engine.state is State.READY and "is ready" in page.words() and page.train_button.isVisible()
    page.show_engine(engine)

    dialog = EngineDialog(real, window)
    dialog.show_engine(engine)
    dialog.show()
    with qtbot.waitSignal(real.checked):
        dialog.check_button.click()
    assert dialog.answer() == "All files are complete."
    assert engine.packages is not None
    (engine.packages / "torch" / "lib" / "part3.bin").write_bytes(b"short")
    with qtbot.waitSignal(real.checked):
        dialog.check_button.click()
    assert "part3.bin is incomplete" in dialog.answer()
    with qtbot.waitSignal(dialog.page_wanted) as wanted:
        dialog.repair_button.click()
    assert wanted.args == [Purpose.REPAIR]

    dialog = EngineDialog(real, window)
    dialog.show_engine(engine_here())
    answers = iter((False, True))
    monkeypatch.setattr(engine_dialog, "ask", lambda _parent, _text, *_buttons: next(answers))
    dialog.remove_button.click()
    assert engine_here().state is State.READY
    with qtbot.waitSignal(real.removed):
        dialog.remove_button.click()
    assert engine_here().state is State.ABSENT and not dialog.set_up_button.isHidden()
    assert "Your runs are kept" in dialog.answer()
    dialog.close()
