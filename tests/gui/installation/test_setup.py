"""An installation in its thread: told by signals, stopped, and ended with the window."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.installation.installed import engine_here, installation_folder
from engine.installation.request import Installed, InstallRequest, Stage, StageBegan
from gui.installation import setup
from gui.installation.setup import EngineSetup, look_after
from tests.gui.installation.conftest import INSTALLATION, plan_of
from tests.installations import put_installation

CHOICE = InstallRequest("cpu")


def test_an_installation_is_told_event_by_event_and_ends(qtbot, setup, performed):
    told: list[object] = []
    setup.progressed.connect(told.append)
    events = [StageBegan(Stage.TRYING), Installed(INSTALLATION)]
    for event in (*events, None):
        performed.events.put(event)
    with qtbot.waitSignal(setup.ended) as ended:
        setup.start(CHOICE)
        assert setup.is_busy
    assert (told, ended.args, performed.wanted) == (events, [INSTALLATION], [CHOICE])
    assert not setup.is_busy


def test_a_stop_reaches_the_installer_and_is_no_failure(qtbot, setup, performed):
    setup.problem.connect(lambda problem: pytest.fail(problem.message))
    setup.start(CHOICE)
    setup.start(InstallRequest())
    with qtbot.waitSignal(setup.ended) as ended:
        setup.stop()
    assert (performed.is_stopped, ended.args, performed.wanted) == (True, [None], [CHOICE])


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
