"""The headline of a comparison: how many times as fast, why, from what, and with which doubts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QAbstractButton, QLabel
from pytestqt.qtbot import QtBot

from engine.store.record import RunRecord

Trained = Callable[..., RunRecord]


def test_repeats_are_drawn_behind_their_first_run(workspace: Any, trained: Trained) -> None:
    workspace.show(*(trained("fp32", 800.0, settings={"seed": seed}) for seed in range(2)))
    assert [line.is_repeat for line in workspace.panel.curves.lines] == [False, True]


class TestHeadline:
    def test_what_speaks_against_the_figures_is_one_line_until_more_is_asked_for(
        self, workspace: Any, trained: Trained
    ) -> None:
        other = {"batch_size": 64, "optimizer": {"name": "sgd"}}
        elsewhere = trained("fp32", 1.0).environment
        assert elsewhere is not None
        machine = elsewhere.model_copy(update={"device_name": "Another GPU"})
        workspace.show(trained("fp32", 880.0), trained("fp16", 900.0, settings=other, machine=machine))
        assert "Differs from the baseline in optimizer: sgd vs. adamw." in workspace.words
        assert "Another GPU" in workspace.words
        labels = [one for one in workspace.panel.findChildren(QLabel) if "in optimizer: sgd" in one.text()]
        assert not any(one.isVisible() for one in labels)
        more = next(
            one for one in workspace.panel.findChildren(QAbstractButton) if one.text().startswith("and ")
        )
        more.click()
        assert any(one.isVisible() for one in labels)
        with workspace.qtbot.waitSignal(workspace.reader.shown):
            workspace.reader.refresh()
        assert any(one.isVisible() for one in labels), "what is read again must not close it"


class TestWhereItComesFrom:
    def test_runs_that_are_missing_for_it_can_be_queued_once(
        self, qtbot: QtBot, workspace: Any, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 1_000.0), trained("bf16", 4_500.0, settings=workspace.FAST))
        assert "unknown until" in workspace.words
        headline = workspace.panel.headline
        with qtbot.waitSignal(headline.missing_wanted) as asked:
            workspace.press("Queue the 2 missing runs")
        (missing,) = asked.args or ()
        found = [(one.precision.value, one.step.recipe) for one in missing]
        assert found == [("bf16", "plain"), ("fp32", "fast")]
        headline.set_awaited(frozenset(missing[:1]))
        with qtbot.waitSignal(headline.missing_wanted) as asked:
            workspace.press("Queue the missing run")
        assert asked.args == [missing[1:]]
        headline.set_awaited(frozenset(missing))
        assert not workspace.button("Queued").isEnabled()

    def test_what_fills_the_gap_is_found_among_all_saved_runs(self, workspace: Any, trained: Trained) -> None:
        trained("bf16", 1_500.0)
        workspace.show(trained("fp32", 1_000.0), trained("bf16", 4_500.0, settings=workspace.FAST))
        assert "1.50× precision alone" in workspace.words


def test_no_line_lies_on_another_when_the_room_changes_with_the_words(
    qtbot: QtBot, workspace: Any, trained: Trained
) -> None:
    fast = trained("bf16", 4_500.0, settings=workspace.FAST, first_nan_step=3)
    workspace.show(trained("fp32", 1_000.0, first_nan_step=3), fast)
    headline = workspace.panel.headline
    assert any("warm-up excluded" in one.text() for one in headline.findChildren(QLabel) if one.isVisible())

    def is_readable() -> bool:
        lines = [one for one in headline.findChildren(QLabel) if one.isVisible() and one.text()]
        places = [QRect(one.mapTo(headline, QPoint()), one.size()) for one in lines]
        return not any(one.intersects(other) for one, other in combinations(places, 2))

    for width in (1_320, 900, 600):
        workspace.window.resize(width, 700)
        qtbot.waitUntil(is_readable)
