"""The headline of a comparison: how many times as fast, why, from what, and with which doubts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from engine.store.record import RunRecord

Trained = Callable[..., RunRecord]


def test_repeats_are_drawn_behind_their_first_run(workspace: Any, trained: Trained) -> None:
    workspace.show(*(trained("fp32", 800.0, settings={"seed": seed}) for seed in range(2)))
    assert [line.is_repeat for line in workspace.panel.curves.lines] == [False, True]


def test_the_small_print_is_one_line_and_its_button_opens_all_of_it(
    qtbot: QtBot, workspace: Any, trained: Trained
) -> None:
    other = {"batch_size": 64, "optimizer": {"name": "sgd"}}
    elsewhere = trained("fp32", 1.0).environment
    assert elsewhere is not None
    machine = elsewhere.model_copy(update={"device_name": "Another GPU"})
    workspace.show(trained("fp32", 880.0), trained("fp16", 900.0, settings=other, machine=machine))
    quiet = workspace.panel.headline.quiet
    assert quiet.height() < 40 and "warm-up excluded" in workspace.words
    sentence = "Differs from the baseline in optimizer: sgd vs. adamw."
    labels = [one for one in quiet.details.findChildren(QLabel) if sentence in one.text()]
    assert labels and "Another GPU" in workspace.words and not quiet.details.is_open
    quiet.info.click()
    qtbot.waitUntil(lambda: all(one.isVisible() for one in labels))
    assert all(one.height() >= one.heightForWidth(one.width()) for one in labels)
    with workspace.qtbot.waitSignal(workspace.reader.shown):
        workspace.reader.refresh()
    assert all(one.isVisible() for one in labels), "what is read again must not close it"
    qtbot.keyClick(quiet.details, Qt.Key.Key_Escape)
    assert not quiet.details.is_open


def test_of_many_outcomes_those_of_the_side_in_the_headline_are_shown(
    workspace: Any, trained: Trained
) -> None:
    def required(option: str, speed: float) -> RunRecord:
        command = {"line": f"python train.py{option}", "require": "speed >= 1.5, memory <= 0.8, loss"}
        return trained("fp32", speed, settings={"command": command})

    def shown() -> list[str]:
        return [row.accessibleName().split(". ")[0] for row in workspace.panel.required.rows]

    workspace.show(required("", 800.0), required(" --amp", 1_600.0), required(" --compile", 900.0))
    names = ("speed >= 1.5", "memory <= 0.8", "loss")
    assert shown() == [f"Cannot tell: {name} (train.py --amp)" for name in names]
    workspace.choose("train.py --compile")
    workspace.qtbot.waitUntil(lambda: len(shown()) == 3)
    assert shown() == [f"Cannot tell: {name} (train.py --compile)" for name in names]
    assert all(f"{name} (train.py --amp)" in workspace.words for name in names)
    workspace.show(trained("fp32", 880.0), trained("fp16", 900.0))
    workspace.qtbot.waitUntil(lambda: not shown())


class TestWhereItComesFrom:
    def test_runs_that_are_missing_for_it_can_be_queued_once(
        self, qtbot: QtBot, workspace: Any, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 1_000.0), trained("bf16", 4_500.0, settings=workspace.FAST))
        assert "to see how the gain splits" in workspace.words
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
        assert "1.50 times as fast from the precision" in workspace.words
