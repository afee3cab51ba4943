"""The roofline names its kernels with their figures, and says what is missing."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from engine.protocol.profiles import Profiles
from gui.profile.pictures import RooflineView


def test_a_kernel_tells_what_it_reaches(qtbot: QtBot, profiles: Profiles) -> None:
    view = RooflineView()
    qtbot.addWidget(view)
    view.resize(900, 600)
    view.show_profiles(profiles)
    assert view.roofline is not None
    spot = view.roofline.stops()[0]
    assert view.roofline.tip(spot).split("\n")[1:] == [
        "FP32: 34.8 ms, 42\u00a0% of the step",
        "27.6 TFLOP/s, 118 GB/s, 234 FLOPs per byte",
    ]
    assert "FP16 reach 711 TFLOP/s on this device" in view.text()
    qtbot.keyClick(view.roofline, Qt.Key.Key_Right)
    assert view.roofline.accessibleDescription().startswith("sm90_xmma_fprop")


def test_without_limits_and_flops_it_says_so(qtbot: QtBot, profiles: Profiles) -> None:
    view = RooflineView()
    qtbot.addWidget(view)
    bare = profiles.measured()[0].model_copy(update={"limits": None, "flops": None, "kernels": ()})
    view.show_profiles(profiles.with_side(0, profile=bare).with_side(1, profile=None))
    assert "not known" in view.text() and "No limits were measured" in view.text()
    assert "cannot be counted in FP32" in view.text()


def test_without_a_profile_it_offers_one(qtbot: QtBot) -> None:
    view = RooflineView()
    qtbot.addWidget(view)
    view.show()
    with qtbot.waitSignal(view.wanted):
        next(button for button in view.findChildren(QPushButton) if button.isVisible()).click()
