"""The page *Install PyTorch*: from the choice to the first training, and what can come between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.experiment.problem import Kind, Problem, ProblemError
from engine.installation.installed import Engine, State
from engine.installation.request import Installed, InstallPlan, InstallRequest, Source
from gui.installation.page import SetupPage
from gui.installation.setup import EngineSetup
from gui.installation.words import Purpose, network_text, without_password
from tests.gui.installation.conftest import BARE, GIB, INSTALLATION, Performed, plan_of

NO_NETWORK = Problem(kind=Kind.DOWNLOAD, message="There is no network.", remedy="Connect to one.")
READY = Engine(State.READY, INSTALLATION, Path("/data/engine"))


@pytest.fixture
def engine() -> Engine:
    return Engine(State.ABSENT)


@pytest.fixture
def page(qtbot: QtBot, setup: EngineSetup, engine: Engine) -> SetupPage:
    made = SetupPage(setup, engine)
    qtbot.addWidget(made)
    with qtbot.waitSignal(setup.found):
        made.show()
    return made


def resolved(qtbot: QtBot, page: SetupPage) -> None:
    qtbot.waitUntil(page.begin_button.isEnabled)


def press(qtbot: QtBot, button: object) -> None:
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def test_a_stop_keeps_the_choice_for_the_next_start(qtbot, page, setup, performed):
    page.choice.options.extras["timm"].click()
    resolved(qtbot, page)
    press(qtbot, page.begin_button)
    qtbot.waitUntil(lambda: bool(performed.wanted))
    with qtbot.waitSignal(setup.ended):
        press(qtbot, page.progress.stop_button)
    assert performed.stops == performed.wanted
    assert page.begin_button.text() == "Resume" and "kept" in page.words()
    later = SetupPage(setup, Engine(State.ABSENT))
    qtbot.addWidget(later)
    later.restore(page.state())
    assert later.purpose is Purpose.RESUME
    assert later.choice.options.chosen_extras() == ("timm",)


def test_another_build_is_chosen_after_a_warning_and_another_source(qtbot, page, setup, performed, tmp_path):
    page.choice.builds.setFocus()
    qtbot.keyClick(page.choice.builds, Qt.Key.Key_End)
    assert "No AMD GPU was found. You can still install it" in page.choice.texts()
    options = page.choice.options
    press(qtbot, page.choice.more)
    qtbot.keyClicks(options.place, "ftp://x")
    qtbot.waitUntil(lambda: "https://" in (options.problem() or ""))
    assert not page.begin_button.isEnabled()
    options.place.clear()
    qtbot.keyClicks(options.place, str(tmp_path))
    resolved(qtbot, page)
    press(qtbot, page.begin_button)
    qtbot.waitUntil(lambda: performed.wanted == [InstallRequest("rocm6.4", Source(folder=tmp_path))])
    performed.events.put(Installed(INSTALLATION))
    performed.events.put(None)
    qtbot.waitUntil(page.train_button.isVisible)
    later = SetupPage(setup, READY)
    qtbot.addWidget(later)
    later.restore(page.state())
    later.offer(Purpose.UPDATE)
    assert later.choice.options.source() == Source(folder=tmp_path), "the source is kept for the next time"


@pytest.mark.parametrize("answer", [lambda wanted: plan_of(wanted, free_bytes=GIB)])
@pytest.mark.parametrize("found", [BARE])
def test_without_room_nothing_begins(qtbot: QtBot, page: SetupPage) -> None:
    assert "No GPU found" in page.choice.texts()
    qtbot.waitUntil(lambda: "Not enough disk space: 8.0 GiB needed, 1.0 GiB free." in page.choice.texts())
    assert not page.begin_button.isEnabled()


def refuse(wanted: InstallRequest) -> InstallPlan:
    raise ProblemError(NO_NETWORK)


@pytest.mark.parametrize("answer", [refuse])
def test_a_size_that_cannot_be_looked_up_can_be_looked_up_again(qtbot, page, setup):
    resolved(qtbot, page)
    assert page.begin_button.text() == "Try again" and "There is no network." in page.choice.texts()
    with qtbot.waitSignal(setup.plan_failed):
        press(qtbot, page.begin_button)


@pytest.mark.parametrize("engine", [READY])
@pytest.mark.parametrize(
    ("answer", "button"),
    [(plan_of, "Update"), (lambda wanted: replace(plan_of(wanted), torch="2.16.0"), "Update to 2.16.0")],
)
def test_a_newer_pytorch_is_looked_for(qtbot, page, setup, button, found, answer):
    with qtbot.waitSignal(setup.planned):
        page.offer(Purpose.UPDATE)
    assert (page.begin_button.text(), page.begin_button.isEnabled()) == (button, button != "Update")
    with qtbot.waitSignal(page.left):
        press(qtbot, page.leave_button)


@pytest.mark.parametrize("engine", [Engine(State.BROKEN, INSTALLATION, problem=NO_NETWORK)])
def test_a_broken_engine_is_mended_by_one_button(qtbot: QtBot, page: SetupPage, performed: Performed) -> None:
    resolved(qtbot, page)
    assert (page.begin_button.text(), page.purpose) == ("Repair", Purpose.REPAIR)
    press(qtbot, page.begin_button)
    qtbot.waitUntil(lambda: bool(performed.wanted))


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, ""),
        ({"HTTPS_PROXY": "http://me:secret@proxy:3128"}, "Proxy http://proxy:3128 (HTTPS_PROXY)"),
        ({"https_proxy": "me:secret@proxy:3128"}, "Proxy proxy:3128 (https_proxy)"),
        ({"SSL_CERT_FILE": "/own.pem"}, "Certificates from /own.pem (SSL_CERT_FILE)"),
    ],
)
def test_proxy_and_certificates_in_force_are_told(environment: dict[str, str], words: str) -> None:
    assert network_text(environment) == words


def test_a_mirror_is_remembered_without_its_password() -> None:
    assert without_password("https://me:secret@wheels.example/simple") == "https://wheels.example/simple"
