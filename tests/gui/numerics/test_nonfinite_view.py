"""The view of the first NaN or Inf says where it was made, what to do, and when nothing was found."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from engine.protocol.numerics.nonfinite import LOSS, NonfiniteSearch
from gui.numerics.answers import MagnitudeLine, NonfiniteView


@pytest.fixture
def view(qtbot: QtBot) -> NonfiniteView:
    view = NonfiniteView()
    qtbot.addWidget(view)
    view.resize(660, 380)
    view.show()
    return view


def button(view: NonfiniteView, name: str) -> QPushButton:
    return next(one for one in view.findChildren(QPushButton) if one.isVisible() and one.text() == name)


def test_the_operation_its_values_and_the_remedy_are_shown(
    view: NonfiniteView, search: NonfiniteSearch
) -> None:
    view.show_search(search)
    text = view.text()
    assert search.first is not None
    for shown in (search.first.sentence, search.sentence, search.first.remedy, "features.3 (Conv2d)"):
        assert shown in text
    for shown in ("FP16 in, FP16 out", "from −812 to 40,120", "96 infinite", "2 steps, from the state after"):
        assert shown in text
    line = view.findChild(MagnitudeLine)
    assert line is not None and line.accessibleName() == "results up to 91,172; FP16 ends at 65,504"


def test_its_buttons_give_the_changes_and_the_module(
    view: NonfiniteView, search: NonfiniteSearch, qtbot: QtBot
) -> None:
    view.show_search(search)
    use = button(view, "Use")
    assert use.toolTip() == "Put into the form: modules kept in FP32: features.3"
    with qtbot.waitSignal(view.changes_wanted) as changes:
        use.click()
    assert changes.args == [(("step.fp32_modules", "features.3"),)]
    with qtbot.waitSignal(view.module_chosen) as module:
        button(view, "Show in the precision map").click()
    assert module.args == ["features.3"]


def test_the_loss_is_no_module_to_show(view: NonfiniteView, search: NonfiniteSearch) -> None:
    assert search.first is not None
    first = search.first.model_copy(update={"module": LOSS, "changes": (), "outputs": ()})
    view.show_search(search.model_copy(update={"first": first}))
    assert not [one for one in view.findChildren(QPushButton) if one.isVisible()]


def test_a_page_may_be_replaced_by_its_own_button(view: NonfiniteView, search: NonfiniteSearch) -> None:
    view.changes_wanted.connect(lambda _: view.show_search(NonfiniteSearch(steps=1, sentence="None now.")))
    view.show_search(search)
    button(view, "Use").click()
    assert view.text().startswith("None now.")


def test_nothing_found_is_not_the_same_as_not_reproduced(view: NonfiniteView) -> None:
    view.show_search(NonfiniteSearch(steps=200, sentence="No NaN or Inf in 200 steps."))
    assert "do no harm" in view.text() and "200 steps" in view.text()
    view.show_search(
        NonfiniteSearch(steps=2, trouble_step=12, reproduced=1, sentence="It could not be reproduced.")
    )
    assert "did not come twice" in view.text() and "in step 12" in view.text()


def test_without_a_search_it_offers_one(view: NonfiniteView, qtbot: QtBot) -> None:
    view.show_search(None)
    assert view.text().startswith("Which operation makes the first NaN or Inf?")
    with qtbot.waitSignal(view.wanted):
        button(view, "Look for it").click()
