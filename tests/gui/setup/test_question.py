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
    QTest.keyClick(box.list.rows, Qt.Key.Key_Down)
    QTest.keyClick(box.list.rows, Qt.Key.Key_Down)
    QTest.keyClick(box.list.rows, Qt.Key.Key_Return)
    assert asked["show_page"] == [("numerics",)] and panel.question == "numerics" and not box.list.isVisible()
    QTest.keyClick(box, Qt.Key.Key_Down)
    QTest.keyClick(box.list.rows, Qt.Key.Key_Escape)
    assert not box.list.isVisible() and panel.question == "numerics"


def test_several_values_turn_a_comparison_into_a_sweep_and_back(panel: SetupPanel, asked: Any) -> None:
    panel.set_text("batch_size", "32, 64")
    assert panel.question == "sweep" and panel.foot.run_button.text() == "Compare 4 combinations"
    panel.set_question("compare")
    ((told, undo),) = asked["notify_change"]
    assert panel.text("batch_size") == "32" and "first" in told
    undo()
    assert panel.question == "sweep" and panel.form.batch_size.text() == "32, 64"


def test_what_a_question_does_not_ask_cannot_be_wrong(panel: SetupPanel) -> None:
    panel.set_text("batch_size", "none")
    assert not panel.run_action.isEnabled()
    panel.set_question("limit")
    assert panel.run_action.isEnabled()
    panel.set_question("profile")
    assert not panel.run_action.isEnabled()


def test_one_solid_button(panel: SetupPanel) -> None:
    foot = panel.foot

    def kinds() -> tuple[str, str]:
        return foot.run_button.property("kind"), foot.queue_button.property("kind")

    assert kinds() == ("primary", "secondary")
    panel.foot.set_facts(page_offers=True)
    assert kinds() == ("secondary", "secondary")
    panel.set_busy("A run is training. Add this one to the queue.")
    assert not foot.run_button.isVisible() and kinds()[1] == "primary"
    panel.set_busy(None)
    panel.foot.set_facts(page_offers=False)
    assert foot.run_button.isVisible() and kinds() == ("primary", "secondary")


def test_the_question_comes_back(panel: SetupPanel) -> None:
    panel.set_question("tune")
    state = panel.state()
    panel.set_question("compare")
    panel.restore({key: value for key, value in state.items() if key != "question"})
    assert panel.question == "compare"
    panel.restore(state)
    assert panel.question == "tune"
