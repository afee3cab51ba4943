"""The bars tell what their parts are, and a click on a part filters the tables."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from engine.profile.bar_picture import PartPlace
from engine.protocol.profile import StepPart
from engine.protocol.profiles import Profiles
from gui.profile.pictures import Bars, BarsView


@pytest.fixture
def view(qtbot: QtBot, profiles: Profiles) -> BarsView:
    view = BarsView()
    qtbot.addWidget(view)
    view.resize(900, 500)
    view.show_profiles(profiles)
    with qtbot.waitExposed(view):
        view.show()
    return view


@pytest.fixture
def bars(view: BarsView) -> Bars:
    assert view.bars is not None
    return view.bars


def place_of(bars: Bars, part: StepPart) -> PartPlace:
    return next(place for place in bars.spots() if place.part is part)


def test_a_click_on_a_part_of_a_bar_chooses_it(view: BarsView, bars: Bars, qtbot: QtBot) -> None:
    place = place_of(bars, StepPart.MEMORY)
    with qtbot.waitSignal(view.part_chosen) as chosen:
        qtbot.mouseClick(bars, Qt.MouseButton.LeftButton, pos=QPoint(round(place.x) + 5, round(place.y) + 5))
    assert chosen.args == [StepPart.MEMORY]


def test_keys_walk_through_the_parts(view: BarsView, bars: Bars, qtbot: QtBot) -> None:
    assert "a step" in bars.accessibleDescription()
    qtbot.keyClick(bars, Qt.Key.Key_Right)
    assert bars.accessibleDescription().startswith("FP32: Matrix work without Tensor Cores, 58.0 ms")
    qtbot.keyClick(bars, Qt.Key.Key_Right)
    with qtbot.waitSignal(view.part_chosen) as chosen:
        qtbot.keyClick(bars, Qt.Key.Key_Return)
    assert chosen.args == [StepPart.MEMORY]


def test_a_part_tells_its_meaning_and_its_largest_kernels(bars: Bars) -> None:
    tip = bars.tip(place_of(bars, StepPart.MEMORY))
    assert "Memory-bound, 21.0 ms, 25\u00a0% of the step" in tip
    assert "Element-wise operations" in tip
    assert "10.5 ms  void cudnn::bn_fw_tr_1C11_kernel_NCHW" in tip


def test_without_a_profile_it_offers_one(view: BarsView, qtbot: QtBot) -> None:
    view.show_profiles(None)
    with qtbot.waitSignal(view.wanted):
        next(button for button in view.findChildren(QPushButton) if button.isVisible()).click()
