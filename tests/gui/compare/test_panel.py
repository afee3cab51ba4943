"""The workspace Compare: saved runs in words, figures and bars, against the chosen baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import pytest
from PySide6.QtCore import QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QRadioButton,
    QStackedWidget,
    QWidget,
)
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.charts.painter import Bar, axis_end
from gui.compare.column import ComparisonColumn
from gui.compare.controller import Comparing
from gui.compare.panel import ComparePanel
from gui.runs.line import dragged_runs
from gui.session.background import Background
from gui.session.saved_runs import SavedRuns
from gui.theme.theme import theme
from gui.widgets import Segmented
from resources.looks import MARK_FILLS

Trained = Callable[..., RunRecord]

LONG_NAME = "The run from Tuesday night with everything switched on"
NO_SPEED = "The run was too short to measure: only 2 whole blocks, and a speed needs 5."
BUSY = "other programs took 34 % of the processor meanwhile"
FAST = {"step": {"recipe": "fast"}}
CLIPPED = {"step": {"clip_norm": 1.0}}


@dataclass
class Workspace:
    """Column and panel side by side, joined as the main window joins them."""

    qtbot: QtBot
    window: QWidget
    column: ComparisonColumn
    panel: ComparePanel
    comparing: Comparing
    runs: SavedRuns

    def show(self, *runs: RunRecord) -> None:
        self.runs.reload()
        with self.qtbot.waitSignal(self.comparing.shown):
            self.comparing.set_runs(run.id for run in runs)

    def measure_against(self, run: RunRecord) -> None:
        with self.qtbot.waitSignal(self.comparing.shown):
            self.column.set_baseline(run.id)

    @property
    def words(self) -> str:
        return self.panel.headline.text().replace("\N{NO-BREAK SPACE}", " ")

    def row(self, title: str) -> list[str]:
        return next(row[1:] for row in self.panel.table.texts() if row[0] == title)

    def choose(self, radio_text: str) -> None:
        radios = self.column.findChildren(QRadioButton)
        next(one for one in radios if radio_text in one.accessibleName()).click()

    def button(self, text: str) -> QAbstractButton:
        buttons = self.window.findChildren(QAbstractButton)
        return next(one for one in buttons if one.accessibleName() == text)

    def press(self, text: str) -> None:
        self.button(text).click()


@pytest.fixture
def workspace(qtbot: QtBot, saved: Store) -> Iterator[Workspace]:
    theme().set_mode("dark")
    window = QWidget()
    qtbot.addWidget(window)
    column, panel = ComparisonColumn(), ComparePanel()
    column.setFixedWidth(320)
    row = QHBoxLayout(window)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(0)
    row.addWidget(column)
    row.addWidget(panel, 1)
    window.resize(1_100, 700)
    with qtbot.waitExposed(window):
        window.show()
    runs, reading = SavedRuns(saved), Background()
    comparing = Comparing(saved.path, runs, column, panel, reading)
    comparing.set_in_sight(True)
    yield Workspace(qtbot, window, column, panel, comparing, runs)
    reading.stop()


def cut_off(window: QWidget) -> list[str]:
    """The texts that have less room than they need, and do not say so by an ellipsis."""
    found = []
    for one in window.findChildren(QLabel):
        if not one.isVisible() or not one.text() or one.text().endswith("…"):
            continue
        needed = one.heightForWidth(one.width()) if one.wordWrap() else one.minimumSizeHint().height()
        wide = 0 if one.wordWrap() else one.fontMetrics().horizontalAdvance(one.text())
        if one.height() < needed or one.width() < wide:
            found.append(f"{one.text()}: {one.width()} of {wide}, {one.height()} of {needed}")
    return found


class TestHeadline:
    def test_it_says_how_many_times_as_fast_and_in_how_much_memory(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(
            trained("fp32", 880.0, peak_allocated_mib=10_000.0, final_validation_accuracy=0.613),
            trained("fp16", 1_663.0, peak_allocated_mib=3_100.0, final_validation_accuracy=0.6),
        )
        assert workspace.words == (
            "FP16 AMP trained 1.89 times as fast as FP32 (one run each, so no interval)"
            " in 31 % of the memory, with 60.0 % against 61.3 % accuracy (no spread known)"
        )

    def test_repeats_give_an_interval_and_a_spread(
        self, workspace: Workspace, trained: Trained, saved: Store
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
        assert "95 % interval" in workspace.words
        assert "with the same accuracy (60.5 % against 61.0 %, within spread)" in workspace.words
        assert workspace.row("Accuracy") == ["61.0", "60.5", "same"]
        assert [line.is_repeat for line in workspace.panel.curves.lines()] == [False, True] * 2

    def test_what_is_slower_is_said_as_plainly(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", 625.0, data_wait_fraction=0.5))
        assert "FP16 AMP trained 0.71 times as fast as FP32" in workspace.words
        assert "It was slower here, likely since" in workspace.words

    def test_without_a_speed_it_gives_the_reason(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", None, losses=[2.0], speed_note=NO_SPEED))
        assert workspace.words.startswith(
            "The speeds of FP16 AMP and FP32 cannot be compared “Run 2” (FP16 AMP)"
        )
        assert "only 2 whole blocks, and a speed needs 5." in workspace.words

    def test_a_run_that_waits_has_no_speed_yet(
        self, workspace: Workspace, trained: Trained, saved: Store
    ) -> None:
        workspace.show(trained("fp32", 880.0), saved.add(Experiment.model_validate({"precision": "bf16"})))
        assert "“Run 2” (BF16 AMP) has not run yet." in workspace.words

    def test_a_run_that_failed_has_none_either(
        self, workspace: Workspace, trained: Trained, saved: Store
    ) -> None:
        broken = saved.add(Experiment.model_validate({"precision": "fp16"})).id
        saved.begin(broken)
        problem = Problem(kind=Kind.OUT_OF_MEMORY, message="The card is full.", remedy="Take less.")
        saved.record(broken, [Failed(problem=problem)])
        workspace.show(trained("fp32", 880.0), saved.run(broken))
        assert "“Run 1” (FP16 AMP) failed: The card is full." in workspace.words
        assert [entry.value for entry in workspace.panel.curves.entries()] == ["–", "0.025"]

    def test_what_speaks_against_the_figures_is_one_line_until_more_is_asked_for(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        other = {"batch_size": 64, "optimizer": {"name": "sgd"}}
        elsewhere = trained("fp32", 1.0).environment
        assert elsewhere is not None
        machine = elsewhere.model_copy(update={"device_name": "Another card"})
        workspace.show(trained("fp32", 880.0), trained("fp16", 900.0, settings=other, machine=machine))
        assert "Unlike the baseline in optimizer name: sgd against adamw." in workspace.words
        assert "Another card" in workspace.words
        labels = [one for one in workspace.panel.findChildren(QLabel) if "optimizer name" in one.text()]
        assert not any(one.isVisible() for one in labels)
        more = next(
            one for one in workspace.panel.findChildren(QAbstractButton) if one.text().startswith("and ")
        )
        more.click()
        assert any(one.isVisible() for one in labels)

    def test_the_precision_alone_raises_no_caution(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", 1_663.0))
        assert "With caution" not in workspace.words

    def test_memory_of_different_kinds_is_not_compared(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(
            trained("fp32", 880.0, peak_resident_mib=900.0), trained("fp16", 1_663.0, peak_allocated_mib=90.0)
        )
        assert "memory" not in workspace.words


class TestWhereItComesFrom:
    def test_the_gain_is_split_between_precision_and_recipe(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(
            trained("fp32", 1_000.0),
            trained("bf16", 1_500.0),
            trained("bf16", 4_500.0, settings=FAST),
        )
        assert "BF16 AMP (fast) trained 4.50 times as fast as FP32 (plain)" in workspace.words
        assert "1.50× precision alone times 3.00× fast recipe on top gives 4.50×" in workspace.words

    def test_runs_that_are_missing_for_it_can_be_queued(
        self, qtbot: QtBot, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 1_000.0), trained("bf16", 4_500.0, settings=FAST))
        assert "not known yet" in workspace.words
        with qtbot.waitSignal(workspace.panel.missing_wanted) as asked:
            workspace.press("Queue the 2 missing runs")
        (missing,) = asked.args or ()
        found = [(one.precision.value, one.step.recipe) for one in missing]
        assert found == [("bf16", "plain"), ("fp32", "fast")]

    def test_what_is_queued_already_is_not_offered_again(
        self, qtbot: QtBot, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 1_000.0), trained("bf16", 4_500.0, settings=FAST))
        with qtbot.waitSignal(workspace.panel.missing_wanted) as asked:
            workspace.press("Queue the 2 missing runs")
        (missing,) = asked.args or ()
        workspace.panel.set_awaited(frozenset(missing[:1]))
        with qtbot.waitSignal(workspace.panel.missing_wanted) as asked:
            workspace.press("Queue the missing run")
        assert asked.args == [missing[1:]]
        workspace.panel.set_awaited(frozenset(missing))
        assert not workspace.button("Queued").isEnabled()

    def test_what_fills_the_gap_is_found_among_all_saved_runs(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        trained("bf16", 1_500.0)
        workspace.show(trained("fp32", 1_000.0), trained("bf16", 4_500.0, settings=FAST))
        assert "1.50× precision alone" in workspace.words


class TestWhatWasTrained:
    @staticmethod
    def lines(workspace: Workspace) -> list[QLabel]:
        labels = workspace.panel.headline.findChildren(QLabel)
        return [one for one in labels if one.isVisible() and "warm-up excluded" in one.text()]

    def test_it_stands_beside_a_short_doubt_or_begins_a_row_where_the_headline_does(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.window.resize(1_600, 700)
        workspace.show(trained("fp32", 880.0), trained("fp16", 900.0))
        (alone,) = self.lines(workspace)
        assert alone.mapTo(workspace.panel.headline, QPoint()).x() == 0
        workspace.show(trained("fp32", 880.0), trained("fp16", 900.0, settings=CLIPPED))
        (beside,) = self.lines(workspace)
        doubt = next(
            one for one in workspace.panel.findChildren(QLabel) if one.text().startswith("With caution")
        )
        places = [one.mapTo(workspace.panel.headline, QPoint()) for one in (doubt, beside)]
        assert places[0].y() == places[1].y() and places[0].x() < places[1].x()

    def test_no_line_lies_on_another_when_the_room_changes_with_the_words(
        self, qtbot: QtBot, workspace: Workspace, trained: Trained
    ) -> None:
        fast = trained("bf16", 4_500.0, settings=FAST, first_nan_step=3)
        workspace.show(trained("fp32", 1_000.0, first_nan_step=3), fast)
        with qtbot.waitSignal(workspace.panel.missing_wanted) as asked:
            workspace.press("Queue the 2 missing runs")
        (missing,) = asked.args or ()
        headline = workspace.panel.headline

        def is_readable() -> bool:
            lines = [one for one in headline.findChildren(QLabel) if one.isVisible() and one.text()]
            places = [QRect(one.mapTo(headline, QPoint()), one.size()) for one in lines]
            return not any(one.intersects(other) for one, other in combinations(places, 2))

        for width in range(1_320, 1_400, 10):
            workspace.window.resize(width, 700)
            qtbot.waitUntil(is_readable)
            for awaited in ((), missing):
                workspace.panel.set_awaited(frozenset(awaited))
            workspace.window.resize(width - 10, 700)
            qtbot.waitUntil(is_readable)


class TestChoices:
    def test_strict_fp32_is_the_first_baseline_wherever_it_stands(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(trained("fp16", 1_663.0), trained("bf16", 1_600.0), trained("fp32", 880.0))
        assert "BF16 AMP trained 1.82 times as fast as FP32" in workspace.words

    def test_another_baseline_turns_the_ratios_round(self, workspace: Workspace, trained: Trained) -> None:
        full, half = trained("fp32", 880.0), trained("fp16", 1_760.0)
        workspace.show(full, half)
        assert workspace.row("Throughput") == ["880", "1,760", "2.00×"]
        workspace.measure_against(half)
        assert workspace.row("Throughput") == ["880", "0.50×", "1,760"]
        assert "FP32 trained 0.50 times as fast as FP16 AMP" in workspace.words

    def test_baseline_and_headline_can_be_swapped(
        self, qtbot: QtBot, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 880.0), trained("tf32", 1_000.0), trained("fp16", 1_760.0))
        with qtbot.waitSignal(workspace.comparing.shown):
            workspace.press("Swap")
        assert "FP32 trained 0.50 times as fast as FP16 AMP" in workspace.words

    def test_the_headline_speaks_of_the_side_that_is_chosen(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 880.0), trained("tf32", 1_755.0), trained("fp16", 1_663.0))
        assert "FP16 AMP trained" in workspace.words
        workspace.choose("TF32")
        assert "TF32 trained 1.99 times as fast as FP32" in workspace.words

    def test_choices_hold_while_their_runs_are_there(self, workspace: Workspace, trained: Trained) -> None:
        runs = [trained("fp32", 880.0), trained("tf32", 1_755.0), trained("fp16", 1_663.0)]
        workspace.show(*runs)
        workspace.measure_against(runs[1])
        workspace.choose("FP32")
        workspace.show(*runs, trained("bf16", 1_600.0))
        assert "FP32 trained 0.50 times as fast as TF32" in workspace.words
        workspace.show(runs[0], runs[2])
        assert "FP16 AMP trained 1.89 times as fast as FP32" in workspace.words
        workspace.show(*runs)
        assert workspace.column.baseline() == runs[0].id

    def test_only_the_settings_that_differ_are_listed_until_all_are_asked_for(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", 1_663.0, settings={"batch_size": 128}))
        settings = workspace.column.settings
        assert settings.texts() == [["Precision", "FP32", "FP16 AMP"], ["Batch size", "64", "128"]]
        everything = workspace.column.findChild(Segmented).button("all")
        everything.click()
        names = [row[0] for row in settings.texts()]
        assert {"Model", "Optimizer", "Loss scaler", "Trained on", "Steps"} < set(names)
        assert len(set(names)) == len(names)
        same = [one.text() for one in workspace.column.findChildren(QLabel) if "identical" in one.text()]
        assert same == [f"{len(names) - 2} other settings are identical"]

    def test_where_all_have_one_recipe_none_is_named(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(trained("fp32", 1_000.0), trained("bf16", 1_500.0))
        assert "plain" not in workspace.words


class TestBars:
    def test_a_whisker_that_dwarfs_the_bars_is_cut(self) -> None:
        bars = [
            Bar(Precision.FP32, "FP32", "", 100.0, (10.0, 9_000.0)),
            Bar(Precision.BF16, "BF16 AMP", "", 200.0, (190.0, 210.0)),
        ]
        assert axis_end(bars) == 300.0
        assert axis_end(bars[1:]) == 210.0

    def test_where_no_run_has_a_speed_the_panel_says_why(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(*(trained(one, None, speed_note=NO_SPEED) for one in ("fp32", "fp16")))
        chart = workspace.panel.bars.chart
        assert chart.accessibleName() == f"None of these runs has a speed. {NO_SPEED}"
        assert not chart.grab().isNull()

    def test_sides_of_one_precision_have_marks_of_their_own_everywhere(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        recipes = ("plain", "fast", "channels_last")
        workspace.show(*(trained("fp16", 100.0, settings={"step": {"recipe": one}}) for one in recipes))
        assert [bar.fill for bar in workspace.panel.bars.chart.bars()] == list(MARK_FILLS)
        assert [entry.fill for entry in workspace.panel.curves.entries()] == list(MARK_FILLS)
        assert [bar.is_fast for bar in workspace.panel.bars.chart.bars()] == [False, True, False]

    def test_the_headline_first_speaks_of_a_side_that_has_a_speed(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", 1_663.0), trained("bf16", None))
        assert "FP16 AMP trained 1.89 times as fast as FP32" in workspace.words


class TestFigures:
    def test_ratios_differences_and_what_is_missing(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(
            trained("fp32", 800.0, final_validation_accuracy=0.613, peak_allocated_mib=10_240.0),
            trained("fp16", 1_600.0, final_validation_accuracy=0.6, peak_allocated_mib=5_120.0),
            trained("bf16", None),
        )
        assert workspace.row("Throughput") == ["800", "1,600", "2.00×", "–", ""]
        assert workspace.row("Step time") == ["80.0", "40.0", "0.50×", "–", ""]
        assert workspace.row("Peak memory") == ["10.0", "5.00", "0.50×", "–", ""]
        assert workspace.row("Accuracy") == ["61.3", "60.0", "−1.3", "–", ""]
        assert workspace.row("Mean loss, last epoch") == ["0.025", "0.025", "0.000", "0.025", "0.000"]
        assert workspace.row("Skipped steps") == ["–", "–", "", "–", ""]
        said = [one.text() for one in workspace.panel.table.findChildren(QLabel)]
        assert any("no spread known" in text for text in said)

    @pytest.mark.parametrize(
        ("loss", "shown"),
        [(float("nan"), "NaN"), (float("inf"), "∞"), (float("-inf"), "−∞"), (2.15e33, "2.15e33")],
    )
    def test_a_loss_that_diverged_is_readable(
        self, workspace: Workspace, trained: Trained, loss: float, shown: str
    ) -> None:
        losses = [1.0] * 50 + [loss]
        workspace.show(trained("fp32", 880.0), trained("fp16", 1_663.0, losses=losses))
        value, difference = workspace.row("Mean loss, last epoch")[1:]
        assert value == shown
        assert difference in ("", f"+{shown}")

    def test_how_long_it_took_to_an_accuracy_is_told_when_one_is_typed(
        self, qtbot: QtBot, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(
            trained("fp32", 640.0, accuracies=(0.4, 0.6)), trained("fp16", 1_280.0, accuracies=(0.7, 0.8))
        )
        edit = workspace.panel.table.findChild(QLineEdit)
        edit.setText("60")
        with qtbot.waitSignal(workspace.comparing.shown):
            qtbot.keyClick(edit, Qt.Key.Key_Return)
        assert workspace.row("Time to 60 % accuracy") == ["10.0", "2.50", "0.25×"]
        assert workspace.row("Samples to 60 % accuracy") == ["6,400", "3,200", "0.50×"]
        edit.setText("much")
        with qtbot.waitSignal(workspace.comparing.shown):
            qtbot.keyClick(edit, Qt.Key.Key_Return)
        assert edit.property("problem") == "true"

    def test_bars_are_named_and_one_without_a_speed_says_so(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", None, settings=FAST))
        first, second = workspace.panel.bars.chart.bars()
        assert (first.value, second.value, second.interval) == (880.0, None, None)
        assert first.interval == pytest.approx((880.0, 880.0))
        assert workspace.panel.bars.chart.accessibleName() == "FP32 plain 880, FP16 AMP fast –"


class TestFewRuns:
    def test_none_says_what_to_do_at_the_top(self, qtbot: QtBot, workspace: Workspace) -> None:
        assert workspace.words.startswith("There is nothing to compare yet.")
        workspace.panel.set_saved(2)
        assert workspace.words.startswith("Tick runs in the table below")
        assert not workspace.panel.table.isVisible()
        assert not workspace.button("HTML").isEnabled() and workspace.button("More").isEnabled()
        large, small = (one for one in workspace.panel.headline.findChildren(QLabel) if one.isVisible())
        qtbot.waitUntil(lambda: small.geometry().bottom() < 120)
        assert small.geometry().top() - large.geometry().bottom() < 20

    def test_with_no_run_or_one_it_offers_an_experiment_and_with_more_the_newest(
        self, qtbot: QtBot, workspace: Workspace, trained: Trained
    ) -> None:
        panel = workspace.panel
        for saved, words, wanted in (
            (0, "There is nothing to compare yet.", panel.experiment_wanted),
            (1, "One run is saved.", panel.experiment_wanted),
            (2, "Tick runs in the table below", panel.newest_wanted),
        ):
            panel.set_saved(saved)
            assert workspace.words.startswith(words)
            with qtbot.waitSignal(wanted):
                panel.offer.click()
        workspace.show(trained("fp32", 880.0))
        assert not panel.offer.isVisible()
        panel.set_saved(1)
        assert not workspace.words.startswith("One run is saved.")

    def test_the_column_asks_for_two_and_then_for_one_more(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        def told() -> set[str]:
            return {one.text() for one in workspace.column.findChildren(QLabel) if one.isVisible()}

        assert {"Tick two runs or more in the table below, or drag them here.", "no run is ticked"} <= told()
        workspace.show(trained("fp32", 880.0))
        assert "Tick one more run in the table below, or drag it here." in told()

    def test_one_asks_for_another_and_shows_its_figures(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(trained("fp32", 880.0))
        assert "Tick another run to compare with this one" in workspace.words
        assert workspace.row("Throughput") == ["880"]
        assert workspace.button("HTML").isEnabled()

    def test_it_can_go_from_many_to_none_and_back(self, workspace: Workspace, trained: Trained) -> None:
        runs = [trained("fp32", 880.0), trained("fp16", 1_663.0)]
        workspace.show(*runs)
        workspace.show()
        assert workspace.column.settings.texts() == []
        assert not workspace.column.findChild(QComboBox).isEnabled()
        workspace.show(*runs)
        assert workspace.panel.table.isVisible()
        assert "1.89 times" in workspace.words

    def test_runs_that_are_dropped_on_it_are_asked_for(self, qtbot: QtBot, workspace: Workspace) -> None:
        data = dragged_runs([("abc", "Run 1"), ("def", "Run 2")])
        copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        enter = QDragEnterEvent(QPointF(9, 9).toPoint(), copy, data, left, none)
        workspace.panel.dragEnterEvent(enter)
        assert enter.isAccepted()
        with qtbot.waitSignal(workspace.panel.runs_dropped) as dropped:
            workspace.panel.dropEvent(QDropEvent(QPointF(9, 9), copy, data, left, none))
        assert dropped.args == [("abc", "def")]


class TestReading:
    def test_nothing_is_read_while_nobody_looks(self, workspace: Workspace, trained: Trained) -> None:
        runs = [trained("fp32", 880.0), trained("fp16", 1_663.0)]
        workspace.runs.reload()
        workspace.comparing.set_in_sight(False)
        workspace.comparing.set_runs(run.id for run in runs)
        assert workspace.panel.table.texts() == []
        with workspace.qtbot.waitSignal(workspace.comparing.shown):
            workspace.comparing.set_in_sight(True)
        assert workspace.row("Throughput")[0] == "880"

    def test_what_is_asked_for_last_is_what_is_shown(self, workspace: Workspace, trained: Trained) -> None:
        first, second, third = trained("fp32", 880.0), trained("fp16", 1_663.0), trained("bf16", 1_000.0)
        workspace.runs.reload()
        with workspace.qtbot.waitSignal(workspace.comparing.shown):
            workspace.comparing.set_runs([first.id, second.id])
            workspace.comparing.set_runs([first.id, third.id])
        assert workspace.row("Throughput") == ["880", "1,000", "1.14×"]

    def test_a_run_that_goes_on_is_read_again(
        self, workspace: Workspace, trained: Trained, saved: Store
    ) -> None:
        waiting = saved.add(Experiment.model_validate({"precision": "bf16"}))
        workspace.show(trained("fp32", 880.0), waiting)
        assert "has not run yet" in workspace.words
        saved.begin(waiting.id)
        with workspace.qtbot.waitSignal(workspace.comparing.shown):
            workspace.runs.refresh(waiting.id)
            workspace.comparing.refresh()
        assert "is still running" in workspace.words


class TestLooks:
    @pytest.fixture
    def four(self, workspace: Workspace, trained: Trained) -> Workspace:
        workspace.show(
            trained("fp32", 12_880.0, name=LONG_NAME, peak_allocated_mib=10_400.0),
            trained("tf32", 21_755.0, peak_allocated_mib=10_400.0),
            trained("fp16", 31_663.0, name=LONG_NAME, peak_allocated_mib=3_170.0),
            trained("bf16", 31_600.0, peak_allocated_mib=3_170.0),
        )
        return workspace

    def test_the_other_theme_recolours_words_icons_and_curves(self, four: Workspace) -> None:
        box = four.column.findChild(QComboBox)

        def colours() -> tuple[object, ...]:
            icon = box.itemIcon(0).pixmap(12, 12).toImage()
            plot, words = four.panel.curves.canvas.grab().toImage(), four.panel.headline.grab().toImage()
            return icon.pixelColor(icon.rect().center()).name(), plot, words

        dark = colours()
        theme().set_mode("light")
        light = colours()
        theme().set_mode("dark")
        assert all(one != other for one, other in zip(dark, light, strict=True))
        assert colours() == dark

    @pytest.mark.parametrize("size", [(1_440, 800), (1_100, 700), (960, 560)])
    def test_no_text_is_cut_off(self, qtbot: QtBot, four: Workspace, size: tuple[int, int]) -> None:
        window = four.window
        window.resize(*size)
        qtbot.waitUntil(lambda: (window.width(), window.height()) == size)
        # laying text out anew may take another turn of the event loop
        qtbot.waitUntil(lambda: not cut_off(window), timeout=2_000)
        last = four.panel.table.texts()[-1][0]
        title = next(one for one in four.panel.table.findChildren(QLabel) if one.text() == last)
        four.panel.ensureWidgetVisible(title)
        qtbot.waitUntil(lambda: title.visibleRegion().boundingRect().height() == title.height() > 0)

    def test_every_control_says_what_it_is(self, four: Workspace) -> None:
        window = four.window
        controls = [
            one
            for one in window.findChildren(QWidget)
            if isinstance(one, QAbstractButton | QComboBox | QLineEdit)
        ]
        assert len(controls) >= 16
        for control in controls:
            assert control.accessibleName(), control
            assert control.toolTip(), control.accessibleName()
        panel = four.panel
        for named in (panel, panel.table, panel.bars.chart, panel.curves.canvas):
            assert named.accessibleName(), named


def test_the_last_line_of_the_table_is_seen_whole_also_if_it_was_made_out_of_sight(
    qtbot: QtBot, workspace: Workspace, trained: Trained
) -> None:
    pages, panel = QStackedWidget(), workspace.panel
    qtbot.addWidget(pages)
    pages.addWidget(QWidget())
    pages.addWidget(panel)
    pages.resize(1_100, 740)
    pages.show()
    workspace.show(*(trained(precision, 1_000.0) for precision in ("fp32", "bf16", "tf32", "fp16")))
    pages.setCurrentWidget(panel)
    last = next(one for one in panel.table.findChildren(QLabel) if one.text() == "Skipped steps")

    def is_whole() -> bool:
        bottom = last.mapTo(panel.table, last.rect().bottomLeft()).y()
        return 200 < bottom < panel.table.height()

    qtbot.waitUntil(is_whole)
