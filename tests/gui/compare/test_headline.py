"""The headline of a comparison: how many times as fast, why, from what, and with which doubts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QAbstractButton, QLabel
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed
from engine.store.record import RunRecord
from engine.store.store import Store

Trained = Callable[..., RunRecord]


class TestHeadline:
    def test_repeats_give_an_interval_and_a_spread(
        self, workspace: Any, trained: Trained, saved: Store
    ) -> None:
        group = saved.add_comparison("repeats")
        runs = [
            trained(precision, speed, comparison=group, settings={"seed": seed}, accuracies=(accuracy,))
            for precision, speed, seed, accuracy in (
                ("fp32", 1_000.0, 0, 0.60),
                ("fp16", 1_900.0, 0, 0.61),
                ("fp32", 1_010.0, 1, 0.62),
                ("fp16", 1_890.0, 1, 0.60),
            )
        ]
        workspace.show(*runs)
        assert "95% interval" in workspace.words
        assert "at the same accuracy" in workspace.words
        assert "accuracy: 60.5% vs. 61.0%, within the variation between runs" in workspace.words
        assert workspace.row("Accuracy") == ["61.0", "60.5", "same"]
        assert [line.is_repeat for line in workspace.panel.curves.lines] == [False, True] * 2

    def test_without_a_speed_it_gives_the_reason(
        self, workspace: Any, trained: Trained, saved: Store
    ) -> None:
        full = trained("fp32", 880.0)
        workspace.show(full, trained("fp16", None, losses=[2.0], speed_note=workspace.NO_SPEED))
        assert workspace.words.startswith("The speeds of FP16 AMP and FP32 cannot be compared FP16 AMP")
        assert "only 2 whole blocks, and a speed needs 5 · " in workspace.words
        workspace.show(full, saved.add(Experiment.model_validate({"precision": "bf16"})))
        assert "BF16 AMP has not run yet." in workspace.words
        broken = saved.add(Experiment.model_validate({"precision": "fp16"})).id
        saved.begin(broken)
        problem = Problem(kind=Kind.OUT_OF_MEMORY, message="The GPU is full.", remedy="Take less.")
        saved.record(broken, [Failed(problem=problem)])
        workspace.show(full, saved.run(broken))
        assert "FP16 AMP failed: The GPU is full." in workspace.words
        assert [entry.value for entry in workspace.panel.curves.legend.entries] == ["0.025", "–"]

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

    def test_the_precision_alone_raises_no_caution_and_memory_of_different_kinds_is_not_compared(
        self, workspace: Any, trained: Trained
    ) -> None:
        workspace.show(
            trained("fp32", 880.0, peak_resident_mib=900.0), trained("fp16", 1_663.0, peak_allocated_mib=90.0)
        )
        assert "Caution" not in workspace.words and "memory" not in workspace.words


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
