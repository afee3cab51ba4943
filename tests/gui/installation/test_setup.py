"""Plans in a thread, and the care for what is installed."""

from __future__ import annotations

from pathlib import Path

from pytestqt.qtbot import QtBot

from engine.installation.installed import engine_here, installation_folder
from engine.installation.request import InstallRequest
from gui.installation import setup
from gui.installation.setup import EngineSetup, look_after
from tests.gui.installation.conftest import plan_of
from tests.installations import put_installation

CHOICE = InstallRequest("cpu")


def test_only_the_last_choice_is_answered(qtbot: QtBot, setup: EngineSetup) -> None:
    answers: list[object] = []
    setup.planned.connect(answers.append)
    setup.plan(InstallRequest("cu130"))
    with qtbot.waitSignal(setup.planned):
        setup.plan(CHOICE)
    assert answers == [plan_of(CHOICE)]


def test_files_are_looked_at_once_after_each_start_of_the_machine(no_engine, monkeypatch):
    packages = put_installation(no_engine)
    record = packages / "torch-2.11.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("torch/__init__.py,,0\n")
    assert look_after(engine_here()) is None
    (packages / "torch" / "__init__.py").write_text("damaged")
    assert look_after(engine_here()) is None
    monkeypatch.setattr(setup.psutil, "boot_time", lambda: 4e9)
    problem = look_after(engine_here())
    assert problem is not None and "torch/__init__.py is incomplete" in problem.message


def test_an_installation_that_was_replaced_while_in_use_is_removed(no_engine: Path) -> None:
    put_installation(no_engine, "old")
    put_installation(no_engine, "new")
    look_after(engine_here())
    assert not installation_folder(no_engine, "old").exists()
    assert installation_folder(no_engine, "new").exists()
