"""The view of the fewest FP32 modules says which, what they cost, and what proves it."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from engine.protocol.numerics.numerics import Islands
from gui.numerics.answers import IslandsView
from gui.widgets.table import ResultTable


@pytest.fixture
def view(qtbot: QtBot) -> IslandsView:
    view = IslandsView()
    qtbot.addWidget(view)
    view.resize(660, 380)
    view.show()
    return view


def rows(view: IslandsView) -> list[list[str]]:
    table = next(table for table in view.findChildren(ResultTable) if table.isVisible())
    return table.lines()[1:]


def test_the_answer_its_price_and_its_trials_are_shown(view: IslandsView, islands: Islands) -> None:
    view.show_islands(islands)
    text = view.text()
    for shown in (islands.sentence, "None can be left out", "0.97× that without them", "1.5 MiB more"):
        assert shown in text
    assert rows(view) == [
        ["none", "The loss is NaN from step 3 on.", "–", "0", "1.2"],
        ["features, classifier", "as good as FP32", "0.610", "0", "1.3"],
        ["features.3", "as good as FP32", "0.610", "0", "1.2"],
    ]


def test_use_gives_the_changes(view: IslandsView, islands: Islands, qtbot: QtBot) -> None:
    view.show_islands(islands)
    use = next(one for one in view.findChildren(QPushButton) if one.text() == "Use")
    with qtbot.waitSignal(view.changes_wanted) as changes:
        use.click()
    assert changes.args == [islands.changes]


def test_an_answer_without_modules_has_nothing_to_use(view: IslandsView, islands: Islands) -> None:
    for modules, sentence in (((), "No module must stay in FP32."), (None, "Not even all suffice.")):
        answer = {"modules": modules, "sentence": sentence, "changes": ()}
        view.show_islands(islands.model_copy(update=answer))
        assert view.text().startswith(sentence)
        assert "left out" not in view.text()
        assert not [one for one in view.findChildren(QPushButton) if one.isVisible()]


def test_modules_that_need_no_fp32_are_given_back(view: IslandsView, islands: Islands) -> None:
    answer = {"modules": (), "changes": (("step.fp32_modules", ""),)}
    view.show_islands(islands.model_copy(update=answer))
    assert "Modules kept in FP32: none" in view.text()


def test_many_modules_are_counted_and_a_doubt_is_said(view: IslandsView, islands: Islands) -> None:
    names = tuple(f"layer{place}" for place in range(12))
    view.show_islands(islands.model_copy(update={"modules": names, "is_minimal": False}))
    assert "layer7 and 4 more" in view.text()
    assert "Fewer may do" in view.text()
