"""The words of the page that installs PyTorch, of its dialog, and of the doctor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.problem import Kind, Problem
from engine.installation.installed import Engine, State
from engine.installation.request import Fetched, Installed, InstallRequest, Stage, StageBegan
from engine.protocol.events import Check
from gui.installation.dialog import EngineDialog
from gui.installation.doctor_page import DoctorDialog
from gui.installation.page import SetupPage
from gui.installation.progress import InstallProgress, SetupChip
from gui.installation.setup import EngineSetup
from tests.golden import Golden, words_of
from tests.gui.installation.conftest import GIB, INSTALLATION, Performed

READY = Engine(State.READY, INSTALLATION, Path("/data/engine"))


def shown_page(qtbot: QtBot, setup: EngineSetup) -> SetupPage:
    """The page, once the request for the best build is resolved."""
    page = SetupPage(setup, Engine(State.ABSENT))
    qtbot.addWidget(page)
    with qtbot.waitSignal(setup.found):
        page.show()
    qtbot.waitUntil(page.begin_button.isEnabled)
    return page


def test_the_words_from_the_choice_to_the_first_training(
    qtbot: QtBot, setup: EngineSetup, performed: Performed, golden: Golden
) -> None:
    page = shown_page(qtbot, setup)
    page.resize(1_300, 700)
    chip = SetupChip(page)
    page.progress_changed.connect(chip.show_progress)
    words = [words_of(page)]
    page.begin_button.click()
    half = Fetched(GIB, 2 * GIB, 61.0, "torch")
    for event in (StageBegan(Stage.FETCHING), half):
        performed.events.put(event)
    qtbot.waitUntil(lambda: "50" in page.progress.accessibleName())
    words.append(words_of(page))
    assert chip.text().strip() == "50%, about 1 min 1 s left"
    page.resize(960, 560)
    chip.show_progress(InstallProgress().after(half))
    assert chip.text().strip() == "50%" and chip.accessibleName() == page.progress.accessibleName()
    for last in (Installed(INSTALLATION), None):
        performed.events.put(last)
    qtbot.waitUntil(page.train_button.isVisible)
    golden("\n\n---\n\n".join([*words, words_of(page)]), "page")
    assert chip.isHidden() and performed.wanted == [InstallRequest()] and page.state() == {}
    with qtbot.waitSignal(page.train_wanted):
        page.train_button.click()


def test_the_words_of_a_failed_installation(
    qtbot: QtBot, setup: EngineSetup, performed: Performed, golden: Golden
) -> None:
    page = shown_page(qtbot, setup)
    page.begin_button.click()
    performed.events.put(
        Problem(kind=Kind.DOWNLOAD, message="There is no network.", remedy="Connect to one.")
    )
    qtbot.waitUntil(page.again_button.isVisible)
    golden(words_of(page), "failed")
    page.again_button.click()
    qtbot.waitUntil(lambda: performed.wanted == [InstallRequest(), InstallRequest()])
    assert page.progress.isVisible()


@pytest.mark.parametrize(
    "engine", [READY, Engine(State.OWN), Engine(State.ABSENT)], ids=lambda one: one.state
)
def test_the_words_of_the_dialog(qtbot: QtBot, setup: EngineSetup, golden: Golden, engine: Engine) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    dialog = EngineDialog(setup, window)
    dialog.show_engine(engine)
    dialog.show()
    golden(words_of(dialog), f"dialog-{engine.state.value}")
    window.close()


def test_the_words_of_the_doctor(qtbot: QtBot, golden: Golden) -> None:
    checks = (
        Check(name="System", status="ok", detail="Debian"),
        Check(name="Build", status="problem", detail="It does not fit.", remedy="Install the other."),
    )
    looks: list[tuple[str, Callable[[Callable[[], bool]], tuple[Check, ...]]]] = [("Look…", lambda _: checks)]
    dialog = DoctorDialog(looks)
    qtbot.addWidget(dialog)
    dialog.show()
    dialog.look()
    qtbot.waitUntil(lambda: "It does not fit." in words_of(dialog))
    golden(words_of(dialog), "doctor")
    dialog.stop()
