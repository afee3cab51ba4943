"""What is compared: the runs, the baseline, and the side that the headline is of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from pytestqt.qtbot import QtBot

from engine.compare.comparison import setting_rows
from engine.experiment.experiment import FACTS, Experiment, Precision, all_settings, setting_title
from engine.export.report.report import setting_lines
from engine.store.record import RunRecord
from engine.store.store import Store
from engine.words.names import applying_settings
from gui.runs.table.rows import dragged_runs

Trained = Callable[..., RunRecord]


class TestChoices:
    def test_strict_fp32_is_the_baseline_until_another_is_chosen_or_swapped(
        self, qtbot: QtBot, workspace: Any, trained: Trained
    ) -> None:
        half, tf32, full = trained("fp16", 1_760.0), trained("tf32", 1_755.0), trained("fp32", 880.0)
        workspace.show(half, tf32, full)
        assert "FP16 AMP trained 2.00 times as fast as FP32" in workspace.words
        workspace.choose("TF32")
        assert "TF32 trained 1.99 times as fast as FP32" in workspace.words and "plain" not in workspace.words
        workspace.choose("FP16 AMP")
        with qtbot.waitSignal(workspace.reader.shown):
            workspace.choose("Swap")
        assert "FP32 trained 0.50 times as fast as FP16 AMP" in workspace.words
        workspace.show(half, full)
        workspace.measure_against(full)
        assert workspace.row("Throughput") == ["1,760", "2.00×", "880"]
        workspace.measure_against(half)
        assert workspace.row("Throughput") == ["1,760", "880", "0.50×"]

    def test_choices_hold_while_their_runs_are_there(self, workspace: Any, trained: Trained) -> None:
        runs = [trained("fp32", 880.0), trained("tf32", 1_755.0), trained("fp16", 1_663.0)]
        workspace.show(*runs)
        workspace.measure_against(runs[1])
        workspace.choose("FP32")
        workspace.show(*runs, trained("bf16", 1_600.0))
        assert "FP32 trained 0.50 times as fast as TF32" in workspace.words
        workspace.show(runs[0], runs[2])
        assert "FP16 AMP trained 1.89 times as fast as FP32" in workspace.words
        workspace.show(*runs)
        assert workspace.head.baseline() == runs[0].id

    def test_of_many_sides_the_sentence_is_about_the_best_until_another_is_chosen(
        self, workspace: Any, trained: Trained
    ) -> None:
        precisions = [precision.value for precision in Precision]
        runs = [trained(one, 800.0 + 100 * (place % 6)) for place, one in enumerate(precisions)]
        for count in (3, 6, 8):
            workspace.show(*runs[:count])
            best = max(workspace.panel.comparison.ranked, key=lambda report: report.verdict.speedup)
            assert workspace.head.headline() == best.side.id
            assert f"{best.side.title} trained {best.verdict.speedup:.2f} times as fast" in workspace.words
        workspace.choose("TF32")
        workspace.show(*runs, trained("bf16", 9_000.0, settings=workspace.FAST))
        assert workspace.words.startswith("TF32"), "what a person chose stays"

    def test_settings_that_differ_come_first_then_five_then_all_on_request(
        self, workspace: Any, trained: Trained
    ) -> None:
        base = trained("fp32", 880.0)
        workspace.show(base, trained("fp16", 1_663.0, settings={"batch_size": 128}))
        settings = workspace.panel.settings
        same = [["Model", "small-cnn"], ["Dataset", "fashion"], ["Steps", "200"], ["Optimizations", "plain"]]
        assert settings.table.lines() == [
            *(
                ["Setting", "FP32, batch 64", "FP16 AMP, batch 128"],
                ["Precision", "FP32", "FP16 AMP"],
                ["Batch size", "64", "128"],
            ),
            *([name, value, value] for name, value in (*same, ["Optimizer", "adamw"])),
        ]
        told = settings.show_all.text()
        settings.show_all.click()
        names = [row[0] for row in settings.table.lines()[1:]]
        assert {setting_title(key) for key in (*applying_settings(base.experiment), "device_name")} <= set(
            names
        )
        assert set(names) <= {setting_title(key) for key in (*all_settings(), *FACTS)}
        assert {"Loss scaler", "Steps", "Initial loss scale"} < set(names)
        assert not {"Epochs", "Samples per epoch", "Sequence length", "Momentum"} & set(names)
        assert len(set(names)) == len(names)
        count = len([name for name in names if name not in FACTS.values()])
        assert told == f"Show all {count}"
        comparison = workspace.panel.comparison
        lines = setting_lines(setting_rows(comparison.sides))
        assert count - 2 == sum(line.is_shared for line in lines)


class TestFewRuns:
    def test_with_one_run_it_offers_an_experiment_and_with_more_the_newest(
        self, qtbot: QtBot, workspace: Any, trained: Trained
    ) -> None:
        panel = workspace.panel
        assert not panel.offer.isVisible(), "the empty table invites already"
        for saved, words, wanted in (
            (1, "One run is saved.", panel.experiment_wanted),
            (2, "Click a result to open it", panel.newest_wanted),
        ):
            panel.set_saved_count(saved)
            assert workspace.words.startswith(words)
            with qtbot.waitSignal(wanted):
                panel.offer.click()
        workspace.show(trained("fp32", 880.0))
        assert not panel.offer.isVisible()
        panel.set_saved_count(1)
        assert not workspace.words.startswith("One run is saved.")

    def test_it_can_go_from_one_to_many_to_none_and_back(self, workspace: Any, trained: Trained) -> None:
        runs = [trained("fp32", 880.0), trained("fp16", 1_663.0)]
        workspace.show(runs[0])
        assert "Select another run" in workspace.words
        assert workspace.row("Throughput") == ["880"]
        assert workspace.head.export.isVisible() and not workspace.head.sides.isVisible()
        workspace.show(*runs)
        workspace.show()
        assert not workspace.panel.settings.isVisible() and not workspace.head.sides.isVisible()
        workspace.show(*runs)
        assert workspace.panel.table.isVisible() and "1.89 times" in workspace.words

    def test_runs_that_are_dropped_on_it_are_asked_for(self, qtbot: QtBot, workspace: Any) -> None:
        data = dragged_runs([("abc", "Run 1"), ("def", "Run 2")])
        copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        enter = QDragEnterEvent(QPointF(9, 9).toPoint(), copy, data, left, none)
        workspace.panel.dragEnterEvent(enter)
        assert enter.isAccepted()
        with qtbot.waitSignal(workspace.panel.runs_dropped) as dropped:
            workspace.panel.dropEvent(QDropEvent(QPointF(9, 9), copy, data, left, none))
        assert dropped.args == [("abc", "def")]


class TestReading:
    def test_nothing_is_read_while_nobody_looks(self, workspace: Any, trained: Trained) -> None:
        runs = [trained("fp32", 880.0), trained("fp16", 1_663.0)]
        workspace.runs.reload()
        workspace.reader.set_in_sight(False)
        workspace.reader.set_runs(run.id for run in runs)
        assert workspace.panel.table.texts() == []
        with workspace.qtbot.waitSignal(workspace.reader.shown):
            workspace.reader.set_in_sight(True)
        assert workspace.row("Throughput")[0] == "880"

    def test_what_is_asked_for_last_is_what_is_shown(self, workspace: Any, trained: Trained) -> None:
        first, second, third = trained("fp32", 880.0), trained("fp16", 1_663.0), trained("bf16", 1_000.0)
        workspace.runs.reload()
        with workspace.qtbot.waitSignal(workspace.reader.shown):
            workspace.reader.set_runs([first.id, second.id])
            workspace.reader.set_runs([first.id, third.id])
        assert workspace.row("Throughput") == ["880", "1,000", "1.14×"]

    def test_a_run_that_goes_on_is_read_again(self, workspace: Any, trained: Trained, saved: Store) -> None:
        waiting = saved.add(Experiment.model_validate({"precision": "bf16"}))
        workspace.show(trained("fp32", 880.0), waiting)
        assert "has not started" in workspace.words
        saved.begin(waiting.id)
        with workspace.qtbot.waitSignal(workspace.reader.shown):
            workspace.runs.refresh(waiting.id)
            workspace.reader.refresh()
        assert "is still training" in workspace.words
