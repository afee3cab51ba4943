"""The advice of a timing names the sides that it is for."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from engine.protocol.profile.profiles import Timing
from gui.profile.panel import TimingAdvice


def test_equal_advice_is_given_once_with_its_sides(qtbot: QtBot, timing: Timing) -> None:
    view = TimingAdvice()
    qtbot.addWidget(view)
    view.show_timing(timing)
    (advice,) = timing.profiles()[0].advice
    assert view.text().count(advice.message) == 1
    assert "FP32, FP16 AMP" in view.text()
    view.show_timing(Timing(sides=timing.sides[:1]))
    assert advice.evidence in view.text() and "FP32" not in view.text()


def test_without_profiles_it_offers_them(qtbot: QtBot, timing: Timing) -> None:
    view = TimingAdvice()
    qtbot.addWidget(view)
    view.show_timing(timing.with_side(0, profile=None).with_side(1, profile=None))
    assert view.text().startswith("What would make a step shorter?")
