"""The advice on profiles names the sides that it is for."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from engine.protocol.profiles import Profiles
from gui.profile.panel import ProfileAdvice


def test_equal_advice_is_given_once_with_its_sides(qtbot: QtBot, profiles: Profiles) -> None:
    view = ProfileAdvice()
    qtbot.addWidget(view)
    view.show_profiles(profiles)
    (advice,) = profiles.measured()[0].advice
    assert view.text().count(advice.message) == 1
    assert "FP32, FP16 AMP" in view.text()
    view.show_profiles(Profiles(sides=profiles.sides[:1]))
    assert advice.evidence in view.text() and "FP32" not in view.text()


def test_without_profiles_it_offers_them(qtbot: QtBot, profiles: Profiles) -> None:
    view = ProfileAdvice()
    qtbot.addWidget(view)
    view.show_profiles(profiles.with_side(0, profile=None).with_side(1, profile=None))
    assert view.text().startswith("What would make a step shorter?")
