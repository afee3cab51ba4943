"""The question on top of the form: the list, the fields that follow it, and its one button."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from gui.setup.panel import SetupPanel


def test_the_list_is_used_by_keyboard(panel: SetupPanel, asked: Any) -> None:
    box = panel.question_box
    QTest.keyClick(box, Qt.Key.Key_Down)
    assert box.list.isVisible()
    for _ in range(3):
        QTest.keyClick(box.list.rows, Qt.Key.Key_Down)
    QTest.keyClick(box.list.rows, Qt.Key.Key_Return)
    assert (
        asked["page_wanted"] == [("numerics",)] and panel.question == "numerics" and not box.list.isVisible()
    )
    QTest.keyClick(box, Qt.Key.Key_Down)
    QTest.keyClick(box.list.rows, Qt.Key.Key_Escape)
    assert not box.list.isVisible() and panel.question == "numerics"


def test_what_a_question_does_not_ask_cannot_be_wrong(panel: SetupPanel) -> None:
    panel.set_text("batch_size", "none")
    assert not panel.run_action.isEnabled()
    panel.set_question("limit")
    assert panel.run_action.isEnabled()
    panel.set_question("profile")
    assert not panel.run_action.isEnabled()


def test_the_question_comes_back(panel: SetupPanel) -> None:
    panel.set_question("tune")
    state = panel.state()
    panel.set_question("compare")
    panel.restore({key: value for key, value in state.items() if key != "question"})
    assert panel.question == "compare"
    panel.restore(state)
    assert panel.question == "tune"
