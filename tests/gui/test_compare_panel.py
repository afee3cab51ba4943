"""The workspace Compare: saved runs in words, figures, bars and curves, against the chosen baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QComboBox,
    QHBoxLayout,
    QLabel,
    QRadioButton,
    QStackedWidget,
    QWidget,
)
from pytestqt.qtbot import QtBot

from engine.events import Environment, Failed, Finished, Samples, Started, Summary
from engine.experiment import Experiment
from engine.problem import Kind, Problem
from engine.records.record import RunRecord
from engine.records.store import Store
from gui.panels.compare import ComparePanel
from gui.panels.compare_column import ComparisonColumn
from gui.panels.live_run import LiveRun
from gui.plots.overlay import thinned
from gui.theme import theme
from gui.widgets import Segmented

ENVIRONMENT = Environment(
    device_name="A card", device_memory_mib=24_576, torch="2.11", python="3.12", os="Linux", ammeter="0.1"
)
STEPS = 200
LONG_NAME = "The run from Tuesday night with everything switched on"
NO_SPEED = "The run was too short to measure: only 2 whole blocks, and a speed needs 5."
BUSY = "other programs took 34 % of the processor meanwhile"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "ammeter.sqlite") as opened:
        yield opened


@dataclass
class Trained:
    """Makes runs that were trained, in a store of their own."""

    store: Store

    def __call__(
        self,
        precision: str,
        speed: float | None,
        *,
        losses: Sequence[float] | None = None,
        name: str | None = None,
        stopped: bool = False,
        machine: Environment = ENVIRONMENT,
        settings: dict[str, Any] | None = None,
        **figures: Any,
    ) -> RunRecord:
        wanted = {"precision": precision, "steps": STEPS, **(settings or {})}
        experiment = Experiment.model_validate(wanted)
        losses = tuple(5.0 / step for step in range(1, STEPS + 1)) if losses is None else tuple(losses)
        count = len(losses)
        run_id = self.store.add(experiment, name=name).id
        self.store.begin(run_id)
        begin = Started(
            experiment=experiment,
            environment=machine,
            total_steps=STEPS,
            steps_per_epoch=100,
            parameters=11,
            loss_name="cross-entropy",
            loss_unit="nats",
        )
        samples = Samples(
            step=tuple(range(1, count + 1)),
            seconds=tuple(step * 64 / (speed or 100.0) for step in range(count)),
            loss=losses,
            samples_per_second=(speed or 100.0,) * count,
            learning_rate=(0.1,) * count,
        )
        taken = 64 * count / (speed or 100.0)
        summary = Summary(
            steps=count,
            samples_per_second=speed,
            step_ms=64_000 / speed if speed else None,
            final_train_loss=losses[-1] if losses else None,
            seconds=taken,
            **figures,
        )
        self.store.record(run_id, [begin, samples, Finished(summary=summary, stopped=stopped)])
        return self.store.run(run_id)


@pytest.fixture
def trained(store: Store) -> Trained:
    return Trained(store)


@dataclass
class Workspace:
    """Column and panel side by side, joined as the main window joins them."""

    window: QWidget
    column: ComparisonColumn
    panel: ComparePanel
    show: Callable[..., None]

    @property
    def words(self) -> str:
        return self.panel.headline.text().replace("\N{NO-BREAK SPACE}", " ")

    def row(self, title: str) -> list[str]:
        return next(row[1:] for row in self.panel.table.texts() if row[0] == title)

    def settings(self) -> list[list[str]]:
        """The rows of settings shown, by their tooltips, since what is shown may be shortened."""
        grid = self.column._settings
        rows = []
        for number in range(1, grid.rowCount()):
            cells = [grid.itemAtPosition(number, column) for column in range(3)]
            widgets = [cell.widget() for cell in cells if cell is not None]
            if widgets:
                rows.append([widget.accessibleName() for widget in widgets if widget is not None])
        return rows

    def choose(self, radio_text: str) -> None:
        radios = self.column.findChildren(QRadioButton)
        next(one for one in radios if radio_text in one.accessibleName()).click()


@pytest.fixture
def workspace(qtbot: QtBot, store: Store) -> Workspace:
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
    shown: list[tuple[RunRecord, LiveRun]] = []
    column.changed.connect(lambda: panel.show_runs(column.choice(), shown))

    def show(*runs: RunRecord) -> None:
        shown[:] = [(run, replayed(store, run)) for run in runs]
        column.set_runs(runs)
        panel.show_runs(column.choice(), shown)

    return Workspace(window, column, panel, show)


def replayed(store: Store, record: RunRecord) -> LiveRun:
    live = LiveRun.of(record.id, record.experiment, record.label)
    live.take_all(store.events(record.id))
    live.load(store.samples(record.id))
    return live


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
        assert workspace.words.startswith(
            "FP16 AMP trained 1.89× as fast as FP32, in 31 % of the memory, accuracy 60.0 % against 61.3 %"
        )

    def test_one_run_each_claims_no_interval(self, workspace: Workspace, trained: Trained) -> None:
        steady = {"samples_per_second_ci": (870.0, 890.0)}
        workspace.show(trained("fp32", 880.0, **steady), trained("fp16", 1_663.0, **steady))
        assert "no interval" in workspace.words
        assert "95 %" not in workspace.words

    def test_what_is_slower_is_said_as_plainly(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", 625.0))
        assert "FP16 AMP trained 0.71× as fast as FP32" in workspace.words

    def test_without_a_speed_it_gives_the_reason(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", None, speed_note=NO_SPEED))
        assert workspace.words == (
            f"FP16 AMP and FP32 cannot be compared in speed Run 2 (FP16 AMP) has no speed. {NO_SPEED}"
        )

    def test_a_run_that_waits_has_no_speed_yet(
        self, workspace: Workspace, trained: Trained, store: Store
    ) -> None:
        workspace.show(trained("fp32", 880.0), store.add(Experiment.model_validate({"precision": "bf16"})))
        assert "Run 2 (BF16 AMP) has not run yet." in workspace.words

    def test_a_run_that_failed_has_none_either(
        self, workspace: Workspace, trained: Trained, store: Store
    ) -> None:
        broken = store.add(Experiment.model_validate({"precision": "fp16"})).id
        store.begin(broken)
        problem = Problem(kind=Kind.OUT_OF_MEMORY, message="The card is full.", remedy="Take less.")
        store.record(broken, [Failed(problem=problem)])
        workspace.show(trained("fp32", 880.0), store.run(broken))
        assert "Run 1 (FP16 AMP) has no speed. The run ended early." in workspace.words
        assert workspace.panel.losses.entries()[1].value == "–"

    def test_what_a_measurement_suffered_from_is_said(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", 900.0, speed_note=BUSY))
        assert f"With caution: in “Run 2” {BUSY}." in workspace.words

    def test_a_run_that_was_stopped_is_said(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", 900.0, stopped=True))
        assert "“Run 2” did not train to its end (stopped)." in workspace.words

    def test_settings_that_differ_beside_the_precision_are_named_in_the_forms_words(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        other = {"batch_size": 128, "optimizer": {"name": "sgd"}}
        elsewhere = ENVIRONMENT.model_copy(update={"device_name": "Another card"})
        workspace.show(trained("fp32", 880.0), trained("fp16", 1_663.0, settings=other, machine=elsewhere))
        assert "More than the precision differs (batch size, optimizer, trained on)" in workspace.words

    def test_the_precision_alone_raises_no_caution(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", 1_663.0))
        assert "More than" not in workspace.words
        assert "caution" not in workspace.words

    def test_memory_of_different_kinds_is_not_compared(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(
            trained("fp32", 880.0, peak_resident_mib=900.0), trained("fp16", 1_663.0, peak_allocated_mib=90.0)
        )
        assert "memory" not in workspace.words


class TestChoices:
    def test_strict_fp32_is_the_first_baseline_wherever_it_stands(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(trained("fp16", 1_663.0), trained("bf16", 1_600.0), trained("fp32", 880.0))
        assert "BF16 AMP trained 1.82× as fast as FP32" in workspace.words

    def test_another_baseline_turns_the_ratios_round(self, workspace: Workspace, trained: Trained) -> None:
        full, half = trained("fp32", 880.0), trained("fp16", 1_760.0)
        workspace.show(full, half)
        assert workspace.row("Throughput") == ["880", "1,760", "2.00×"]
        workspace.column.set_baseline(half.id)
        assert workspace.row("Throughput") == ["880", "0.50×", "1,760"]
        assert "FP32 trained 0.50× as fast as FP16 AMP" in workspace.words

    def test_the_headline_speaks_of_the_run_that_is_chosen(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 880.0), trained("tf32", 1_755.0), trained("fp16", 1_663.0))
        assert "FP16 AMP trained" in workspace.words
        workspace.choose("TF32")
        assert "TF32 trained 1.99× as fast as FP32" in workspace.words

    def test_choices_hold_while_their_runs_are_there(self, workspace: Workspace, trained: Trained) -> None:
        runs = [trained("fp32", 880.0), trained("tf32", 1_755.0), trained("fp16", 1_663.0)]
        workspace.show(*runs)
        workspace.column.set_baseline(runs[1].id)
        workspace.choose("FP32")
        workspace.show(*runs, trained("bf16", 1_600.0))
        assert "FP32 trained 0.50× as fast as TF32" in workspace.words
        workspace.show(runs[0], runs[2])
        assert "FP16 AMP trained 1.89× as fast as FP32" in workspace.words

    def test_only_the_settings_that_differ_are_listed_until_all_are_asked_for(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", 1_663.0, settings={"batch_size": 128}))
        assert workspace.settings() == [["Precision", "FP32", "FP16 AMP"], ["Batch size", "64", "128"]]
        everything = workspace.column.findChild(Segmented).button("all")
        everything.click()
        names = [row[0] for row in workspace.settings()]
        assert {"Model", "Optimizer", "Loss scaler", "Trained on", "Steps"} < set(names)
        assert len(set(names)) == len(names)
        same = [one.text() for one in workspace.column.findChildren(QLabel) if "identical" in one.text()]
        assert same == [f"{len(names) - 2} other settings are identical"]


class TestFigures:
    def test_ratios_differences_and_what_is_missing(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(
            trained("fp32", 800.0, final_validation_accuracy=0.613, peak_allocated_mib=10_240.0),
            trained("fp16", 1_600.0, final_validation_accuracy=0.6, peak_allocated_mib=5_120.0),
            trained("bf16", None),
        )
        assert workspace.row("Throughput") == ["800", "1,600", "2.00×", "–", ""]
        assert workspace.row("Step time") == ["80.0", "40.0", "0.50×", "–", ""]
        assert workspace.row("Peak memory") == ["10.00", "5.00", "0.50×", "–", ""]
        assert workspace.row("Accuracy") == ["61.3", "60.0", "−1.3", "–", ""]
        assert workspace.row("Final training loss") == ["0.025", "0.025", "same", "0.025", "same"]
        assert workspace.row("Skipped steps") == ["–", "–", "", "–", ""]

    @pytest.mark.parametrize(
        ("loss", "shown"),
        [(float("nan"), "NaN"), (float("inf"), "∞"), (float("-inf"), "−∞"), (2.15e33, "2.15e33")],
    )
    def test_a_loss_that_diverged_is_readable(
        self, workspace: Workspace, trained: Trained, loss: float, shown: str
    ) -> None:
        losses = [1.0] * 50 + [loss]
        workspace.show(trained("fp32", 880.0), trained("fp16", 1_663.0, losses=losses))
        value, difference = workspace.row("Final training loss")[1:]
        assert value == shown
        assert difference in ("", f"+{shown}")

    def test_bars_are_named_and_one_without_a_speed_says_so(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(
            trained("fp32", 880.0, samples_per_second_ci=(870.0, 890.0)), trained("fp16", None, name="Short")
        )
        first, second = workspace.panel.bars.bars()
        assert (first.value, first.interval) == (880.0, (870.0, 890.0))
        assert (second.value, second.interval) == (None, None)
        assert workspace.panel.bars.accessibleName() == "FP32 Run 1 880, FP16 AMP Short –"


class TestCurves:
    def test_they_are_laid_by_step_or_by_time(
        self, qtbot: QtBot, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 640.0), trained("fp16", 1_280.0))
        plot = workspace.panel.losses
        assert [curve.x[-1] for curve in plot.curves()] == [200, 200]
        time = next(one for one in plot.findChildren(QAbstractButton) if one.text() == "Time")
        qtbot.mouseClick(time, Qt.MouseButton.LeftButton)
        assert [curve.x[-1] for curve in plot.curves()] == pytest.approx([19.9, 9.95])
        assert plot.canvas.frame.x_ticks[-1].text.endswith(" s")
        steps = next(one for one in plot.findChildren(QAbstractButton) if one.text() == "Steps")
        qtbot.mouseClick(steps, Qt.MouseButton.LeftButton)
        assert plot.canvas.frame.x_ticks[-1].text == "200 steps"

    def test_the_legend_reads_off_at_the_crosshair(self, workspace: Workspace, trained: Trained) -> None:
        falling = list(np.linspace(10.0, 1.0, STEPS))
        workspace.show(trained("fp32", 640.0, losses=falling), trained("fp16", 900.0, losses=falling[:100]))
        plot = workspace.panel.losses
        assert [entry.value for entry in plot.entries()] == ["1.000", "5.523"]
        plot.canvas.hovered.emit(150.0)
        assert [entry.value for entry in plot.entries()] == ["3.261", "–"]
        plot.canvas.hovered.emit(None)
        assert [entry.value for entry in plot.entries()] == ["1.000", "5.523"]

    def test_thousands_of_points_are_thinned_to_what_can_be_seen(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        losses = list(np.linspace(3.0, 1.0, 20_000))
        workspace.show(trained("fp32", 640.0, losses=losses), trained("fp16", 900.0, losses=losses))
        x, y = thinned(np.arange(20_000.0), np.asarray(losses))
        assert len(x) == len(y) <= 500
        assert (x[-1], y[-1]) == (19_999.0, 1.0)
        assert workspace.panel.losses.entries()[0].value == "1.000"

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf"), 1e300])
    def test_losses_that_diverge_are_drawn_without_complaint(
        self, workspace: Workspace, trained: Trained, bad: float
    ) -> None:
        some = [bad if step % 7 == 0 else 1.0 / step for step in range(1, 120)]
        workspace.show(trained("fp32", 640.0, losses=some), trained("fp16", 900.0, losses=[bad] * 60))
        for by_time in (True, False):
            workspace.panel.losses.set_by_time(by_time)
            assert not workspace.panel.grab().isNull()

    def test_a_run_of_one_step_at_second_zero_is_a_point(
        self, workspace: Workspace, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 640.0, losses=[2.0]))
        workspace.panel.losses.set_by_time(True)
        low, high = workspace.panel.losses.canvas.frame.x_range
        assert low < high
        assert not workspace.panel.grab().isNull()

    def test_without_samples_it_says_that_nothing_was_recorded(
        self, workspace: Workspace, store: Store
    ) -> None:
        workspace.show(*(store.add(Experiment()) for _ in range(2)))
        assert workspace.panel.losses.canvas.frame.hint == "Nothing was recorded."


class TestFewRuns:
    def test_none_says_what_to_do_at_the_top(self, qtbot: QtBot, workspace: Workspace) -> None:
        workspace.show()
        assert workspace.words.startswith("Tick runs in the table below")
        assert not workspace.panel.table.isVisible()
        large, small = workspace.panel.headline.findChildren(QLabel)
        qtbot.waitUntil(lambda: small.geometry().bottom() < 120)
        assert small.geometry().top() - large.geometry().bottom() < 20

    def test_one_asks_for_another_and_shows_its_figures(self, workspace: Workspace, trained: Trained) -> None:
        workspace.show(trained("fp32", 880.0))
        assert workspace.words == "Tick another run to compare with this one."
        assert workspace.row("Throughput") == ["880"]

    def test_it_can_go_from_many_to_none_and_back(self, workspace: Workspace, trained: Trained) -> None:
        runs = [trained("fp32", 880.0), trained("fp16", 1_663.0)]
        workspace.show(*runs)
        workspace.show()
        assert workspace.settings() == []
        assert not workspace.column.findChild(QComboBox).isEnabled()
        workspace.show(*runs)
        assert workspace.panel.table.isVisible()
        assert "1.89×" in workspace.words


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
            line = four.panel.losses.canvas.getPlotItem().listDataItems()[0].opts["pen"].color().name()
            return icon.pixelColor(icon.rect().center()).name(), line, four.panel.headline.grab().toImage()

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
            one for one in window.findChildren(QWidget) if isinstance(one, QAbstractButton | QComboBox)
        ]
        assert len(controls) >= 8
        for control in controls:
            assert control.accessibleName(), control
            assert control.toolTip(), control.accessibleName()
        for named in (four.panel, four.panel.table, four.panel.bars, four.panel.losses.canvas):
            assert named.accessibleName(), named


def test_fp32_is_the_baseline_in_whatever_order_runs_are_ticked(
    workspace: Workspace, trained: Trained
) -> None:
    fp32, bf16 = trained("fp32", 1_000.0), trained("bf16", 1_500.0)
    workspace.show(bf16)
    assert workspace.column.choice().baseline == bf16.id
    workspace.show(fp32, bf16)
    assert workspace.column.choice().baseline == fp32.id
    assert "1.50×" in workspace.words


def test_a_baseline_that_was_chosen_holds_while_it_is_ticked(workspace: Workspace, trained: Trained) -> None:
    fp32, bf16 = trained("fp32", 1_000.0), trained("bf16", 1_500.0)
    workspace.show(fp32, bf16)
    workspace.column.set_baseline(bf16.id)
    workspace.show(fp32, bf16)
    assert workspace.column.choice().baseline == bf16.id
    workspace.show(fp32)
    workspace.show(fp32, bf16)
    assert workspace.column.choice().baseline == fp32.id


def test_other_experiments_in_the_table_are_named(workspace: Workspace, trained: Trained) -> None:
    runs = [trained("fp32", 1_000.0), trained("bf16", 1_500.0)]
    stranger = trained("bf16", 90.0, name="big", settings={"batch_size": 512})
    workspace.show(runs[0], stranger, runs[1])
    workspace.choose(runs[1].name)
    assert "“big” is another experiment" in workspace.words


def test_runs_that_differ_in_recipe_are_told_apart_and_plain_is_the_baseline(
    workspace: Workspace, trained: Trained
) -> None:
    fast = {"step": {"recipe": "fast"}}
    runs = [
        trained("fp32", 2_000.0, settings=fast),
        trained("fp32", 1_000.0),
        trained("bf16", 1_500.0),
        trained("bf16", 4_500.0, settings=fast),
    ]
    workspace.show(*runs)
    assert workspace.column.choice().baseline == runs[1].id
    workspace.choose(runs[3].name)
    assert "BF16 AMP (fast) trained 4.50× as fast as FP32 (plain)" in workspace.words
    assert "speed recipe" in workspace.words
    assert "another experiment" not in workspace.words and "other experiments" not in workspace.words
    said = {label.text() for label in workspace.column.findChildren(QLabel)}
    assert {"FP32, fast", "BF16 AMP, plain", "BF16 AMP, fast"} <= said


def test_where_all_have_one_recipe_none_is_named(workspace: Workspace, trained: Trained) -> None:
    workspace.show(trained("fp32", 1_000.0), trained("bf16", 1_500.0))
    assert "plain" not in workspace.words


def test_the_last_line_of_the_table_is_seen_whole_also_if_it_was_made_out_of_sight(
    qtbot: QtBot, store: Store, trained: Trained
) -> None:
    pages, panel, column = QStackedWidget(), ComparePanel(), ComparisonColumn()
    qtbot.addWidget(pages)
    qtbot.addWidget(column)
    pages.addWidget(QWidget())
    pages.addWidget(panel)
    pages.resize(1_100, 740)
    pages.show()
    runs = [trained(precision, 1_000.0) for precision in ("fp32", "bf16", "fp32", "bf16")]
    column.set_runs(runs)
    panel.show_runs(column.choice(), [(run, replayed(store, run)) for run in runs])
    pages.setCurrentWidget(panel)
    last = next(one for one in panel.table.findChildren(QLabel) if one.text() == "Skipped steps")

    def is_whole() -> bool:
        bottom = last.mapTo(panel.table, last.rect().bottomLeft()).y()
        return 200 < bottom < panel.table.height()

    qtbot.waitUntil(is_whole)
