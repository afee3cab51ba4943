"""Help > Doctor: it tells while it looks, shows what is wrong first, and copies a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from engine.protocol.events import Check
from gui.installation.doctor_page import DoctorDialog, Look

GOOD = Check(name="System", status="ok", detail="Debian")
BAD = Check(name="Build", status="problem", detail="It does not fit.", remedy="Install the other.")
Make = Callable[..., DoctorDialog]


@pytest.fixture
def made(qtbot: QtBot) -> Iterator[Make]:
    dialogs: list[DoctorDialog] = []

    def make(*looks: Look) -> DoctorDialog:
        dialog = DoctorDialog([(f"Look {number}…", look) for number, look in enumerate(looks)])
        qtbot.addWidget(dialog)
        dialogs.append(dialog)
        dialog.show()
        return dialog

    yield make
    for dialog in dialogs:
        dialog.stop()


def rows(dialog: DoctorDialog) -> list[str]:
    names = [widget.accessibleName() for widget in dialog.findChildren(QWidget)]
    return [name for name in names if name.startswith(("Problem: ", "Note: ", "OK: "))]


def test_it_shows_each_look_as_it_comes_and_what_is_wrong_first(qtbot: QtBot, made: Make) -> None:
    may_end = Event()

    def waits(_is_unwanted: Callable[[], bool]) -> tuple[Check, ...]:
        assert may_end.wait(30)
        return (BAD,)

    dialog = made(lambda _: (GOOD,), waits)
    dialog.look()
    assert dialog.words() == "Look 0…" and not dialog.copy_button.isEnabled()
    qtbot.waitUntil(lambda: dialog.words() == "Look 1…")
    assert dialog.checks == (GOOD,)
    may_end.set()
    qtbot.waitUntil(lambda: dialog.words() == "1 problem")
    qtbot.waitUntil(
        lambda: (
            rows(dialog)[-2:] == ["Problem: Build. It does not fit. Install the other.", "OK: System. Debian"]
        )
    )
    dialog.copy_button.click()
    assert "| Build | **problem** | It does not fit. |" in QGuiApplication.clipboard().text()


def test_closed_it_gives_up_and_looks_anew_when_asked(qtbot: QtBot, made: Make) -> None:
    answers: list[bool] = []

    def looks(is_unwanted: Callable[[], bool]) -> tuple[Check, ...]:
        if answers:
            return (GOOD,)
        qtbot_given_up = Event()
        while not is_unwanted():
            qtbot_given_up.wait(0.01)
        answers.append(True)
        return (BAD,)

    dialog = made(looks)
    dialog.look()
    dialog.close()
    qtbot.waitUntil(lambda: not dialog.is_looking)
    assert answers and dialog.checks == ()
    dialog.look()
    qtbot.waitUntil(lambda: dialog.words() == "No problems found")
    assert dialog.checks == (GOOD,)


def test_a_mistake_of_ours_is_a_row_too(qtbot: QtBot, made: Make, caplog: pytest.LogCaptureFixture) -> None:
    def fails(_is_unwanted: Callable[[], bool]) -> tuple[Check, ...]:
        raise ValueError("on purpose")

    dialog = made(fails)
    dialog.look()
    qtbot.waitUntil(lambda: dialog.words() == "1 problem")
    assert "on purpose" in dialog.checks[0].detail
