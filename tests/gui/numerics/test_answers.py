"""The views whose answer is words: the first NaN or Inf, the fewest FP32 modules, and advice."""

from __future__ import annotations

from typing import TypeVar

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from engine.protocol.numerics import Fp32Modules, NonfiniteSearch
from engine.protocol.ranges import LOSS
from gui.numerics.answers import Fp32ModulesView, NonfiniteView
from gui.widgets.answer_page import AnswerPage

V = TypeVar("V", bound=AnswerPage)


@pytest.fixture
def nonfinite(qtbot: QtBot) -> NonfiniteView:
    return shown(NonfiniteView(), qtbot)


def shown(view: V, qtbot: QtBot) -> V:
    qtbot.addWidget(view)
    view.resize(660, 380)
    view.show()
    return view


def buttons(view: AnswerPage) -> dict[str, QPushButton]:
    return {button.text(): button for button in view.findChildren(QPushButton) if button.isVisible()}


def test_an_answer_without_modules_has_nothing_to_use_and_many_are_counted(
    fp32_modules: Fp32Modules, qtbot: QtBot
) -> None:
    def show(**update: object) -> str:
        view.show_modules(fp32_modules.model_copy(update=update))
        return view.text()

    view = shown(Fp32ModulesView(), qtbot)
    for modules, sentence in (((), "No module needs to stay in FP32."), (None, "Not even all suffice.")):
        text = show(modules=modules, sentence=sentence, changes=())
        assert text.startswith(sentence) and "needed" not in text and not buttons(view)
    kept = show(modules=(), changes=(("step.fp32_modules", ""),))
    assert "Modules kept in FP32: none" in kept, "modules that need no FP32 are given back"
    text = show(modules=tuple(f"layer{place}" for place in range(12)), is_minimal=False)
    assert "layer7 and 4 more" in text and "Fewer may be enough" in text


def test_the_buttons_of_an_operation_work_also_where_they_replace_its_page(
    nonfinite: NonfiniteView, search: NonfiniteSearch, qtbot: QtBot
) -> None:
    nonfinite.show_search(search)
    with qtbot.waitSignal(nonfinite.module_chosen) as module:
        buttons(nonfinite)["Show in the precision map"].click()
    assert module.args == ["features.3"]
    nonfinite.changes_wanted.connect(
        lambda _: nonfinite.show_search(NonfiniteSearch(steps=1, sentence="None now."))
    )
    with qtbot.waitSignal(nonfinite.changes_wanted) as changes:
        buttons(nonfinite)["Use"].click()
    assert changes.args == [(("step.fp32_modules", "features.3"),)]
    assert nonfinite.text().startswith("None now."), "a page may be replaced by its own button"


def test_the_loss_is_no_module_to_show(nonfinite: NonfiniteView, search: NonfiniteSearch) -> None:
    assert search.first is not None
    first = search.first.model_copy(update={"module": LOSS, "changes": (), "outputs": ()})
    nonfinite.show_search(search.model_copy(update={"first": first}))
    assert not buttons(nonfinite)


def test_nothing_found_is_not_the_same_as_not_reproduced(nonfinite: NonfiniteView) -> None:
    nonfinite.show_search(NonfiniteSearch(steps=200, sentence="No NaN or Inf in 200 steps."))
    assert "without harm" in nonfinite.text() and "200 steps" in nonfinite.text()
    nonfinite.show_search(
        NonfiniteSearch(steps=2, trouble_step=12, reproduced=1, sentence="It could not be reproduced.")
    )
    assert "did not recur" in nonfinite.text() and "in step 12" in nonfinite.text()
