"""The tables of profiles: the sides side by side, sorted, filtered and copied."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from engine.protocol.profile import StepPart, TimeRow
from engine.protocol.profiles import Profiles
from gui.profile.rows_view import RowsView


@pytest.fixture
def view(qtbot: QtBot, profiles: Profiles) -> RowsView:
    view = RowsView()
    qtbot.addWidget(view)
    view.resize(1060, 500)
    view.show_profiles(profiles)
    with qtbot.waitExposed(view):
        view.show()
    return view


def names(view: RowsView) -> list[str]:
    return [row.name.split("_")[0] + row.name[-5:] for row in view.table.rows()]


def cell(view: RowsView, row: int, title: str) -> str:
    titles, *lines = view.table.lines()
    return lines[row][titles.index(title)]


def click_heading(view: RowsView, qtbot: QtBot, title: str) -> None:
    header = view.table.horizontalHeader()
    column = view.table.lines()[0].index(title)
    place = QPoint(header.sectionViewportPosition(column) + 10, header.height() - 8)
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_a_kernel_has_its_figures_on_every_side(view: RowsView) -> None:
    assert names(view) == ["sm90cudnn", "void cudnn::bntrue>", "sm90cudnn"]
    assert cell(view, 0, "FP32 ms") == "34.8" and cell(view, 0, "FP16 AMP ms") == ""
    assert cell(view, 0, "FP32 TC") == "no" and cell(view, 2, "FP16 AMP TC") == "yes"
    assert cell(view, 0, "FP32 TFLOP/s") == "27.6" and cell(view, 0, "FP32 GB/s") == "118"
    assert cell(view, 1, "FP32 TC") == "", "Tensor Cores are not made for normalisations"
    assert cell(view, 1, "Ratio") == "1.68×"
    tip = view.table.model().index(1, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert "NCHW&lt;float, float, int" in tip and "launched by aten::cudnn_batch_norm" in tip


def test_the_other_tables_are_a_click_away_and_modules_tell_their_backward_time(
    view: RowsView, qtbot: QtBot
) -> None:
    qtbot.mouseClick(view.choice.button("modules"), Qt.MouseButton.LeftButton)
    assert view.table.rows()[0].name == "layer1.0.conv2"
    tip = view.table.model().index(0, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert "FP32: 5.80 ms, 7.0\u00a0% of the step, 53 calls, matrix work" in tip
    assert "4.06 ms of it backward" in tip


def test_headings_sort_and_what_is_unknown_comes_last(view: RowsView, qtbot: QtBot) -> None:
    given = names(view)
    for expected in (["7.20", "6.25", ""], ["6.25", "7.20", ""]):
        click_heading(view, qtbot, "FP16 AMP ms")
        assert [cell(view, row, "FP16 AMP ms") for row in range(3)] == expected
    click_heading(view, qtbot, "FP16 AMP ms")
    assert names(view) == given


def test_text_and_part_filter_the_rows(view: RowsView, qtbot: QtBot) -> None:
    view.filter.setText("BATCH_norm")
    assert names(view) == ["void cudnn::bntrue>"], "the operation that launched it has the text"
    view.filter.clear()
    view.show_part(StepPart.MATRIX)
    assert len(names(view)) == 1 and view.part.isVisible()
    view.show_part(StepPart.COPIES)
    assert view.table.accessibleDescription() == "No kernel passes the filter."
    qtbot.mouseClick(view.part, Qt.MouseButton.LeftButton)
    assert len(names(view)) == 3 and not view.part.isVisible()


def test_rows_are_copied_below_their_headings(view: RowsView, qtbot: QtBot) -> None:
    view.table.selectRow(1)
    qtbot.keyClick(view.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    headings, row = QGuiApplication.clipboard().text().split("\n")
    assert headings.startswith("Kernel\tFP32 Share\tFP32 ms")
    assert row.split("\t")[0] == view.table.rows()[1].name


def test_figures_that_nobody_has_are_left_out(view: RowsView, profiles: Profiles) -> None:
    profile = profiles.measured()[0]
    plain = TimeRow(name="aten::mm", part=StepPart.MATRIX, ms=0.0002, calls=2.5)
    bare = profile.model_copy(update={"matrix_units": None, "kernels": (plain,), "modules": ()})
    view.show_profiles(Profiles(sides=(profiles.sides[0].model_copy(update={"profile": bare}),)))
    assert view.table.lines() == [
        ["Kernel", "Share", "ms", "Calls"],
        ["aten::mm", "<\u00a00.01\u00a0%", "< 0.001", "2.50"],
    ]
    view.open_table("modules")
    assert view.table.accessibleDescription().startswith("The profile has no modules.")


def test_a_narrow_table_leaves_out_what_its_tooltips_have(view: RowsView) -> None:
    hidden, titles = view.table.isColumnHidden, view.table.lines()[0]
    assert not any(hidden(place) for place in range(len(titles)))
    view.resize(740, 500)
    assert [title for place, title in enumerate(titles) if hidden(place)] == [
        "FP32 Share",
        "FP32 Calls",
        "FP16 AMP Share",
        "FP16 AMP Calls",
    ]


def test_without_a_profile_it_offers_one(view: RowsView, profiles: Profiles, qtbot: QtBot) -> None:
    view.show_profiles(profiles.with_side(0, profile=None).with_side(1, profile=None))
    with qtbot.waitSignal(view.wanted):
        next(button for button in view.findChildren(QPushButton) if button.isVisible()).click()
