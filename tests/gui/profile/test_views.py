"""The views of a profile: the bars of its parts, the tables of its rows, the roofline; and its contract."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from engine.profile.charts import PartPlace
from engine.protocol.profile import Profiles, StepPart, TimeRow
from gui.profile.views import Bars, Roofline, RowsView


@pytest.fixture
def bars(qtbot: QtBot, profiles: Profiles) -> Bars:
    bars = Bars()
    qtbot.addWidget(bars)
    bars.resize(900, 500)
    bars.show_answer(profiles)
    with qtbot.waitExposed(bars):
        bars.show()
    return bars


def place_of(bars: Bars, part: StepPart) -> PartPlace:
    return next(place for place in bars.spots() if place.part is part)


def test_a_click_on_a_part_of_a_bar_chooses_it(bars: Bars, qtbot: QtBot) -> None:
    place = place_of(bars, StepPart.MEMORY)
    with qtbot.waitSignal(bars.chosen) as chosen:
        qtbot.mouseClick(bars, Qt.MouseButton.LeftButton, pos=QPoint(round(place.x) + 5, round(place.y) + 5))
    assert chosen.args is not None and chosen.args[0].part is StepPart.MEMORY


def test_keys_walk_through_the_parts(bars: Bars, qtbot: QtBot) -> None:
    assert "per step" in bars.accessibleDescription()
    qtbot.keyClick(bars, Qt.Key.Key_Right)
    assert bars.accessibleDescription().startswith("FP32: Matrix work without Tensor Cores, 58.0 ms")
    qtbot.keyClick(bars, Qt.Key.Key_Right)
    with qtbot.waitSignal(bars.chosen) as chosen:
        qtbot.keyClick(bars, Qt.Key.Key_Return)
    assert chosen.args is not None and chosen.args[0].part is StepPart.MEMORY


def test_a_part_tells_its_meaning_and_its_largest_kernels(bars: Bars) -> None:
    tip = bars.tip(place_of(bars, StepPart.MEMORY))
    assert "Memory-bound, 21.0 ms, 25% of the step" in tip
    assert "Element-wise operations" in tip
    assert "10.5 ms  void cudnn::bn_fw_tr_1C11_kernel_NCHW" in tip


def test_a_kernel_tells_what_it_reaches(qtbot: QtBot, profiles: Profiles) -> None:
    roofline = Roofline()
    qtbot.addWidget(roofline)
    roofline.resize(900, 600)
    roofline.show_answer(profiles)
    spot = roofline.stops()[0]
    assert roofline.tip(spot).split("\n")[1:] == [
        "FP32: 34.8 ms, 42% of the step",
        "27.6 TFLOP/s, 118 GB/s, 234 FLOP/byte",
    ]
    qtbot.keyClick(roofline, Qt.Key.Key_Right)
    assert roofline.accessibleDescription().startswith("sm90_xmma_fprop")


@pytest.fixture
def view(qtbot: QtBot, profiles: Profiles) -> RowsView:
    view = RowsView()
    qtbot.addWidget(view)
    view.resize(1060, 500)
    view.show_answer(profiles)
    with qtbot.waitExposed(view):
        view.show()
    return view


def names(view: RowsView) -> list[str]:
    return [row.name.split("_")[0] + row.name[-5:] for row in view.table.rows()]


def cell(view: RowsView, row: int, title: str) -> str:
    titles, *lines = view.table.lines()
    return lines[row][titles.index(title)]


def test_the_other_tables_are_a_click_away_and_modules_tell_their_backward_time(
    view: RowsView, qtbot: QtBot
) -> None:
    qtbot.mouseClick(view.choice.button("modules"), Qt.MouseButton.LeftButton)
    assert view.table.rows()[0].name == "layer1.0.conv2"
    tip = view.table.model().index(0, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert "FP32: 5.80 ms, 7.0% of the step, 53 calls, matrix work" in tip
    assert "4.06 ms of it in the backward pass" in tip


def test_text_and_part_filter_the_rows(view: RowsView, qtbot: QtBot) -> None:
    view.filter.setText("BATCH_norm")
    assert names(view) == ["void cudnn::bntrue>"], "the operation that launched it has the text"
    view.filter.clear()
    view.show_part(StepPart.MATRIX)
    assert len(names(view)) == 1 and view.part.isVisible()
    view.show_part(StepPart.COPIES)
    assert view.table.accessibleDescription() == "No kernel matches the filter."
    qtbot.mouseClick(view.part, Qt.MouseButton.LeftButton)
    assert len(names(view)) == 3 and not view.part.isVisible()


def test_figures_that_nobody_has_are_left_out(view: RowsView, profiles: Profiles) -> None:
    profile = profiles.measured()[0]
    plain = TimeRow(name="aten::mm", part=StepPart.MATRIX, ms=0.0002, calls=2.5)
    bare = profile.model_copy(update={"matrix_units": None, "kernels": (plain,), "modules": ()})
    view.show_answer(Profiles(sides=(profiles.sides[0].model_copy(update={"profile": bare}),)))
    assert view.table.lines() == [
        ["Kernel", "Share", "ms", "Calls"],
        ["aten::mm", "<\u00a00.01%", "< 0.001", "2.50"],
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
