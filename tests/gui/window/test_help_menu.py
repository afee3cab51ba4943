"""The entries of Help over the whole window, and a window that is closed while the doctor looks."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from gui.help.about import AboutDialog
from gui.help.dialog import GuideDialog
from gui.installation import doctor_page
from gui.installation.doctor_page import DoctorDialog
from gui.window.main_window import MainWindow

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def test_each_entry_opens_once_and_the_window_closes_while_the_doctor_looks(
    qtbot: QtBot, tiny_window: MainWindow
) -> None:
    for _ in range(2):
        for action in tiny_window.top_bar.help_menu.actions():
            if not action.text().startswith("Engine"):
                action.trigger()
    for kind in (GuideDialog, AboutDialog, DoctorDialog):
        (dialog,) = tiny_window.findChildren(kind)
        assert dialog.isVisible()
    doctor = tiny_window.findChild(DoctorDialog)
    assert doctor.is_looking
    tiny_window.top_bar.help_menu.actions()[3].trigger()
    tiny_window.close_without_asking()
    assert not doctor.is_looking and not doctor.isVisible()


def test_while_something_is_measured_no_step_is_trained() -> None:
    (check,) = doctor_page._worker(lambda: True, lambda: False)
    assert check.status == "note" and "disturb" in check.detail
