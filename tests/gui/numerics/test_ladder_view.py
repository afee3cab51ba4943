"""The view of the ladder: its rungs, where they part from FP32, and the chosen rung's errors."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.catalog import Precision
from engine.protocol.numerics.numerics import Ladder, ModuleError, Rung
from gui.numerics.ladder import LadderView, error_text


@pytest.fixture
def view(qtbot: QtBot, ladder: Ladder) -> LadderView:
    made = LadderView()
    qtbot.addWidget(made)
    made.resize(1_000, 560)
    made.show_ladder(ladder)
    made.show()
    return made


def texts(view: LadderView, number: int) -> list[str]:
    return view.rungs.lines()[1 + number]


def test_without_a_ladder_the_view_says_what_it_answers_and_asks_for_it(qtbot: QtBot) -> None:
    view = LadderView()
    qtbot.addWidget(view)
    view.show()
    assert "FP32" in view.empty.words()
    with qtbot.waitSignal(view.wanted):
        view.empty.button.click()


def test_each_rung_says_where_it_parts_and_has_a_mark_there(view: LadderView) -> None:
    assert texts(view, 0) == ["FP16 unscaled", "21", "features.1", "0"]
    assert texts(view, 1) == ["FP16 AMP", "never", "–", "1"]
    assert view.sentence.text().startswith("FP16 unscaled parts from FP32 at step 21")
    assert [(mark.x, mark.text) for mark in view.plot.canvas.frame.marks] == [(21, "FP16 unscaled parts")]
    names = [entry.name for entry in view.plot.legend.entries]
    assert names == ["FP32", "FP16 unscaled", "FP16 AMP", "BF16 AMP"]


def test_the_first_rung_that_parts_is_chosen_and_another_shows_its_own_errors(view: LadderView) -> None:
    assert view.rung_sentence.text().startswith("FP16 unscaled parts")
    assert [row.is_first for row in view.errors.rows()] == [False, True, False, False]
    assert view.errors.lines()[2][1] == "0.08 %"
    view.rungs.selectRow(2)
    assert view.rung_sentence.text().startswith("BF16 AMP stays")
    assert not any(row.is_first for row in view.errors.rows())


def test_the_difference_shows_how_far_each_loss_is_from_fp32s(view: LadderView) -> None:
    view.plot.difference.click()
    values = {entry.name: entry.value for entry in view.plot.legend.entries}
    assert values["FP32"] == values["FP16 AMP"] == "0" and values["FP16 unscaled"] != "0"
    low, high = view.plot.canvas.frame.y_range
    assert low < 0 < high and not view.plot.header.log.isEnabled()


def test_a_ladder_whose_losses_and_errors_are_not_finite_is_shown(view: LadderView) -> None:
    losses = (2.0, float("nan"), float("inf"))
    errors = (
        ModuleError(module="", relative_error=float("inf")),
        ModuleError(module="head", relative_error=0.0, explained_error=1e-3),
    )
    rung = Rung(label="FP16 AMP", precision=Precision.FP16, losses=losses, parts_at=2, errors=errors)
    view.show_ladder(Ladder(steps=3, repeats=(losses,), band_low=losses, band_high=losses, rungs=(rung,)))
    view.plot.difference.click()
    view.grab()
    assert [line[1] for line in view.errors.lines()[1:]] == ["∞", "0 %"]
    view.show_ladder(Ladder(steps=3))
    view.grab()
    assert not view.rungs.rows()


def test_errors_are_written_in_per_cent() -> None:
    assert [error_text(error) for error in (0.0, 1e-7, 0.0004, 0.12, 3.0, float("nan"))] == [
        "0 %",
        "1e-5 %",
        "0.04 %",
        "12 %",
        "300 %",
        "NaN",
    ]
