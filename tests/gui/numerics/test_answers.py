"""The views whose answer is words: the first NaN or Inf, the fewest FP32 modules, and advice."""

from __future__ import annotations

from typing import TypeVar

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from engine.protocol.advice import Advices
from engine.protocol.numerics.nonfinite import LOSS, NonfiniteSearch
from engine.protocol.numerics.numerics import Fp32Modules
from gui.numerics.answers import Fp32ModulesView, MagnitudeLine, NonfiniteView
from gui.numerics.panel import NumericsAdvice
from gui.widgets.answer_page import AnswerPage
from gui.widgets.table import ResultTable

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


def test_advice_comes_with_its_evidence_and_its_button(advices: Advices, qtbot: QtBot) -> None:
    view = shown(NumericsAdvice(), qtbot)
    view.show_advices(advices)
    text = view.text()
    for advice in advices.items:
        assert advice.message in text and advice.evidence in text
    assert "Modules: classifier" in text
    ((words, button),) = buttons(view).items()
    assert (words, button.toolTip()) == ("Use BF16", "Put into the form: precision: BF16 AMP")
    with qtbot.waitSignal(view.changes_wanted) as changes:
        button.click()
    assert changes.args == [(("precision", "bf16"),)]
    view.show_advices(Advices())
    assert view.text().startswith("No advice.")


def test_the_fp32_modules_their_price_and_their_trials_are_shown(islands: Fp32Modules, qtbot: QtBot) -> None:
    view = shown(Fp32ModulesView(), qtbot)
    view.show_modules(islands)
    for words in (islands.sentence, "All of them are needed", "0.97× that without them", "1.5 MiB more"):
        assert words in view.text()
    table = next(table for table in view.findChildren(ResultTable) if table.isVisible())
    assert table.lines()[1:] == [
        ["none", "The loss is NaN from step 3 on.", "–", "0", "1.2"],
        ["features, classifier", "as good as FP32", "0.610", "0", "1.3"],
        ["features.3", "as good as FP32", "0.610", "0", "1.2"],
    ]
    with qtbot.waitSignal(view.changes_wanted) as changes:
        buttons(view)["Use"].click()
    assert changes.args == [islands.changes]


def test_an_answer_without_modules_has_nothing_to_use_and_many_are_counted(
    islands: Fp32Modules, qtbot: QtBot
) -> None:
    def show(**update: object) -> str:
        view.show_modules(islands.model_copy(update=update))
        return view.text()

    view = shown(Fp32ModulesView(), qtbot)
    for modules, sentence in (((), "No module needs to stay in FP32."), (None, "Not even all suffice.")):
        text = show(modules=modules, sentence=sentence, changes=())
        assert text.startswith(sentence) and "needed" not in text and not buttons(view)
    kept = show(modules=(), changes=(("step.fp32_modules", ""),))
    assert "Modules kept in FP32: none" in kept, "modules that need no FP32 are given back"
    text = show(modules=tuple(f"layer{place}" for place in range(12)), is_minimal=False)
    assert "layer7 and 4 more" in text and "Fewer may be enough" in text


def test_the_operation_its_values_and_the_remedy_are_shown_and_its_buttons_work(
    nonfinite: NonfiniteView, search: NonfiniteSearch, qtbot: QtBot
) -> None:
    nonfinite.show_search(search)
    assert search.first is not None
    told = (search.first.sentence, search.sentence, search.first.remedy, "features.3 (Conv2d)")
    figures = ("FP16 in, FP16 out", "from −812 to 40,120", "96 infinite", "2 steps, from the state after")
    for words in (*told, *figures):
        assert words in nonfinite.text()
    line = nonfinite.findChild(MagnitudeLine)
    assert line is not None and line.accessibleName() == "results up to 91,172, FP16 maximum 65,504"
    with qtbot.waitSignal(nonfinite.module_chosen) as module:
        buttons(nonfinite)["Show in the precision map"].click()
    assert module.args == ["features.3"]
    use = buttons(nonfinite)["Use"]
    assert use.toolTip() == "Put into the form: modules kept in FP32: features.3"
    nonfinite.changes_wanted.connect(
        lambda _: nonfinite.show_search(NonfiniteSearch(steps=1, sentence="None now."))
    )
    with qtbot.waitSignal(nonfinite.changes_wanted) as changes:
        use.click()
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
