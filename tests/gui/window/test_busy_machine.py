"""A busy machine is told over the form's button, and a run can wait until it is quiet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from engine.experiment.presets import all_presets
from gui.session.request import Request
from gui.setup.panel import SetupPanel
from gui.window.busy_machine import BusyMachineMonitor
from tests.gui.setup.conftest import catalog, device

BUSY = "This machine is busy: other programs use 45% of the CPU, mostly firefox."


@dataclass
class Around:
    """Whether looks are allowed, and what was made ready."""

    may_look: bool = True
    ready: list[Request] = field(default_factory=list)


@pytest.fixture
def panel(qtbot: QtBot) -> SetupPanel:
    panel = SetupPanel()
    qtbot.addWidget(panel)
    panel.set_presets(all_presets())
    panel.choose_preset("fashion")
    panel.set_catalog(catalog(device("cpu", *Precision)))
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


@pytest.fixture
def around() -> Around:
    return Around()


@pytest.fixture
def quiet(panel: SetupPanel, around: Around) -> Iterator[BusyMachineMonitor]:
    made = BusyMachineMonitor(panel, lambda: around.may_look, around.ready.append)
    yield made
    made.stop()


def twice(quiet: BusyMachineMonitor, sentence: str) -> None:
    for _ in range(2):
        quiet.on_checked(sentence)


def test_two_looks_must_agree_that_the_machine_is_busy(quiet: BusyMachineMonitor, panel: SetupPanel) -> None:
    quiet.on_checked(BUSY)
    assert not panel.foot.busy.isVisible() and not panel.foot.wait_button.isVisible()
    quiet.on_checked(BUSY)
    assert panel.foot.busy.isVisible() and panel.foot.busy.text() == BUSY
    assert panel.foot.wait_button.isVisible() and panel.foot.run_button.isEnabled()
    quiet.on_checked("")
    assert panel.foot.busy.isVisible(), "a single quiet look may be a breath"
    quiet.on_checked("")
    assert not panel.foot.busy.isVisible() and not panel.foot.wait_button.isVisible()


def test_a_run_that_waits_begins_by_itself_as_it_was_asked_for(
    quiet: BusyMachineMonitor, panel: SetupPanel, around: Around
) -> None:
    twice(quiet, BUSY)
    asked = panel.request()
    panel.foot.wait_button.click()
    assert quiet.is_waiting and panel.foot.busy.text().startswith("Training starts when this machine is idle")
    assert panel.foot.wait_button.text() == "Do not wait"
    panel.set_text("memory_cap_gib", "2")
    quiet.on_checked(BUSY)
    quiet.on_checked("")
    assert around.ready == []
    quiet.on_checked("")
    assert around.ready == [asked] and not quiet.is_waiting
    assert not panel.foot.wait_button.isVisible()


def test_waiting_is_called_off_by_the_button_or_by_training_at_once(
    quiet: BusyMachineMonitor, panel: SetupPanel, around: Around
) -> None:
    twice(quiet, BUSY)
    panel.foot.wait_button.click()
    panel.foot.wait_button.click()
    assert not quiet.is_waiting and panel.foot.busy.text() == BUSY
    panel.foot.wait_button.click()
    panel.run_action.trigger()
    assert not quiet.is_waiting
    twice(quiet, "")
    assert around.ready == []


def test_nothing_is_looked_at_beside_a_run_and_what_waits_goes_on_waiting(
    quiet: BusyMachineMonitor, panel: SetupPanel, around: Around
) -> None:
    twice(quiet, BUSY)
    panel.foot.wait_button.click()
    around.may_look = False
    quiet.check()
    for _ in range(3):
        quiet.on_checked("")
    assert around.ready == [] and quiet.is_waiting
    around.may_look = True
    twice(quiet, "")
    assert len(around.ready) == 1


def test_a_form_that_cannot_run_has_nothing_to_wait_for(quiet: BusyMachineMonitor, panel: SetupPanel) -> None:
    twice(quiet, BUSY)
    panel.set_busy("A run is training.")
    assert not panel.foot.wait_button.isVisible()
    panel.set_busy(None)
    assert panel.foot.wait_button.isVisible()
    panel.set_question("limit")
    assert panel.foot.busy.isVisible() and not panel.foot.wait_button.isVisible()


def test_looks_are_taken_in_a_thread(
    quiet: BusyMachineMonitor, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet.check()
    qtbot.waitUntil(lambda: quiet._watch is not None)
    looked: list[str] = []
    monkeypatch.setattr(quiet, "on_checked", looked.append)
    quiet.check()
    qtbot.waitUntil(lambda: len(looked) == 1)
