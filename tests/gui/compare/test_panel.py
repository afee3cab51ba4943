"""The panel of Compare: figures in its table and as bars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QLineEdit
from pytestqt.qtbot import QtBot

from engine.drawing.bar_chart import Bar, axis_end
from engine.drawing.looks import SideLook
from engine.experiment.experiment import Precision
from engine.export.report.published import WARNING
from engine.protocol.summary import RankMetrics
from engine.store.record import RunRecord
from resources.looks import MARK_FILLS

Trained = Callable[..., RunRecord]


class TestFigures:
    def test_ratios_differences_and_what_is_missing(self, workspace: Any, trained: Trained) -> None:
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
        assert any("the variation of accuracy and loss is unknown" in text for text in said)

    def test_a_run_on_several_devices_has_a_row_for_each(self, workspace: Any, trained: Trained) -> None:
        workspace.show(trained("fp32", 800.0))
        assert not workspace.panel.devices.isVisible()
        ranks = tuple(
            RankMetrics(device=f"cuda:{rank}", step_ms=40.0, peak_mib=1_024.0 + 100 * rank)
            for rank in range(2)
        )
        workspace.show(trained("fp32", 800.0), trained("fp16", 1_600.0, ranks=ranks))
        assert workspace.panel.devices.isVisible()
        headings, first, second = workspace.panel.devices.table.lines()
        assert headings[2:5] == ["Device", "Throughput", "Step time"]
        assert first[1:3] == ["FP16 AMP", "Rank 0, cuda:0"] and first[4] == "40.0 ms"
        assert second[2] == "Rank 1, cuda:1" and second[6] == "1.1 GiB, largest"

    @pytest.mark.parametrize(
        ("loss", "shown"),
        [(float("nan"), "NaN"), (float("inf"), "∞"), (float("-inf"), "−∞"), (2.15e33, "2.15e33")],
    )
    def test_a_loss_that_diverged_is_readable(
        self, workspace: Any, trained: Trained, loss: float, shown: str
    ) -> None:
        losses = [1.0] * 50 + [loss]
        workspace.show(trained("fp32", 880.0), trained("fp16", 1_663.0, losses=losses))
        value, difference = workspace.row("Mean loss, last epoch")[1:]
        assert value == shown
        assert difference in ("", f"+{shown}")

    def test_how_long_it_took_to_an_accuracy_is_told_when_one_is_typed(
        self, qtbot: QtBot, workspace: Any, trained: Trained
    ) -> None:
        workspace.show(
            trained("fp32", 640.0, accuracies=(0.4, 0.6)), trained("fp16", 1_280.0, accuracies=(0.7, 0.8))
        )
        edit = workspace.panel.table.findChild(QLineEdit)
        edit.setText("60")
        with qtbot.waitSignal(workspace.reader.shown):
            qtbot.keyClick(edit, Qt.Key.Key_Return)
        assert workspace.row("Time to 60% accuracy") == ["10.0", "2.50", "0.25×"]
        assert workspace.row("Samples to 60% accuracy") == ["6,400", "3,200", "0.50×"]
        edit.setText("much")
        with qtbot.waitSignal(workspace.reader.shown):
            qtbot.keyClick(edit, Qt.Key.Key_Return)
        assert edit.property("problem") == "true"

    def test_bars_are_named_and_one_without_a_speed_says_so(self, workspace: Any, trained: Trained) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", None, settings=workspace.FAST))
        first, second = workspace.panel.bars.chart.bars
        assert (first.value, second.value, second.interval) == (880.0, None, None)
        assert first.interval == pytest.approx((880.0, 880.0))
        assert workspace.panel.bars.chart.accessibleName() == "FP32 plain 880, FP16 AMP fast –"


class TestBars:
    def test_a_whisker_that_dwarfs_the_bars_is_cut(self) -> None:
        look = SideLook("fp32", "o", (), "full")
        bars = [
            Bar(look, "FP32", "", 100.0, "100", (10.0, 9_000.0)),
            Bar(look, "BF16 AMP", "", 200.0, "200", (190.0, 210.0)),
        ]
        assert axis_end(bars) == 300.0
        assert axis_end(bars[1:]) == 210.0

    def test_where_no_run_has_a_speed_the_panel_says_why(self, workspace: Any, trained: Trained) -> None:
        workspace.show(*(trained(one, None, speed_note=workspace.NO_SPEED) for one in ("fp32", "fp16")))
        chart = workspace.panel.bars.chart
        assert chart.accessibleName() == f"No speed was measured in these runs. {workspace.NO_SPEED}"
        assert not chart.grab().isNull()

    def test_sides_of_one_precision_have_marks_of_their_own_everywhere(
        self, workspace: Any, trained: Trained
    ) -> None:
        recipes = ("plain", "fast", "channels_last")
        workspace.show(*(trained("fp16", 100.0, settings={"step": {"recipe": one}}) for one in recipes))
        assert [bar.look.fill for bar in workspace.panel.bars.chart.bars] == list(MARK_FILLS)
        assert [entry.fill for entry in workspace.panel.curves.legend.entries] == list(MARK_FILLS)
        assert [bar.is_fast for bar in workspace.panel.bars.chart.bars] == [False, True, False]

    def test_the_headline_first_speaks_of_a_side_that_has_a_speed(
        self, workspace: Any, trained: Trained
    ) -> None:
        workspace.show(trained("fp32", 880.0), trained("fp16", 1_663.0), trained("bf16", None))
        assert "FP16 AMP trained 1.89 times as fast as FP32" in workspace.words


@pytest.mark.parametrize("width", [560, 780, 1_400])
@pytest.mark.parametrize("count", [1, 2, len(Precision)])
def test_bars_and_all_settings_have_the_height_that_they_need(
    workspace: Any, trained: Trained, squeezed: Any, count: int, width: int
) -> None:
    workspace.window.resize(width, 500)
    workspace.show(*(trained(precision.value, 800.0) for precision in list(Precision)[:count]))
    panel = workspace.panel
    for _ in range(2):
        workspace.qtbot.waitUntil(lambda: not squeezed(panel.figures))
        panel.settings.show_all.click()
    assert panel.settings.show_all.text().startswith("Show all")


RESNET = {"model": "resnet50", "dataset": "synthetic", "image_size": 224, "batch_size": 256}


def test_a_card_with_ratio_and_warning_opens_for_a_model_that_others_published(
    workspace: Any, trained: Trained
) -> None:
    workspace.show(trained("tf32", 1_876.0, settings=RESNET), trained("fp16", 2_470.0, settings=RESNET))
    card = workspace.panel.published
    assert card.isVisible() and not card.is_open and card.texts() == []
    workspace.press("Published results")
    a100 = [row for row in card.texts() if row[0] == "A100 80 GB"]
    assert [row[1:5] for row in a100] == [
        ["TF32", "256", "938", "2.00×"],
        ["FP16 AMP", "256", "2,470", "1.00×"],
    ]
    assert {row[-2] for row in a100} == {"2021"}
    said = [one.text() for one in card.findChildren(QLabel) if one.isVisible()]
    assert any(WARNING in text for text in said) and any("https://github.com/NVIDIA" in text for text in said)
    workspace.press("Published results")
    assert card.texts() == []


def test_a_model_that_nobody_published_has_no_card(workspace: Any, trained: Trained) -> None:
    workspace.show(trained("fp32", 800.0))
    assert not workspace.panel.published.isVisible()
