"""The view of advice shows the evidence beside it, and a button where a setting would do it."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from engine.protocol.advice import Advices
from gui.numerics.panel import NumericsAdvice


@pytest.fixture
def view(qtbot: QtBot) -> NumericsAdvice:
    view = NumericsAdvice()
    qtbot.addWidget(view)
    view.show()
    return view


def test_advice_comes_with_its_evidence_and_its_button(
    view: NumericsAdvice, advices: Advices, qtbot: QtBot
) -> None:
    view.show_advices(advices)
    text = view.text()
    for advice in advices.items:
        assert advice.message in text and advice.evidence in text
    assert "Modules: classifier" in text
    (button,) = [one for one in view.findChildren(QPushButton) if one.isVisible()]
    assert button.text() == "Use BF16"
    assert button.toolTip() == "Put into the form: precision: BF16 AMP"
    with qtbot.waitSignal(view.changes_wanted) as changes:
        button.click()
    assert changes.args == [(("precision", "bf16"),)]


def test_no_advice_is_said(view: NumericsAdvice) -> None:
    view.show_advices(Advices())
    assert view.text().startswith("There is nothing to advise.")


def test_without_a_diagnosis_it_offers_one(view: NumericsAdvice, qtbot: QtBot) -> None:
    view.show_advices(None)
    with qtbot.waitSignal(view.wanted):
        next(one for one in view.findChildren(QPushButton) if one.isVisible()).click()
