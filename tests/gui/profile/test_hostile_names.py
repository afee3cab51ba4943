"""Kernels and operations of a profile from elsewhere may have any names, which are shown as written."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from engine.protocol.profiles import Profiles
from engine.store.saved.study import Study
from gui.profile.panel import ProfilePanel
from gui.session.studies import StudyView
from tests.hostile import MARKUP, markup_in, names_in, poisoned


@pytest.mark.parametrize("tab", ["bars", "rows", "roofline", "advice"])
def test_no_name_of_a_profile_is_rendered(qtbot: QtBot, profiles: Profiles, tab: str) -> None:
    panel = ProfilePanel()
    qtbot.addWidget(panel)
    panel.resize(1080, 700)
    with qtbot.waitExposed(panel):
        panel.show()
    panel.show_view(StudyView.of(Study(answer=poisoned(profiles), device_name=MARKUP)))
    panel.tabs.open(tab)
    assert names_in(panel) > 0 and markup_in(panel) == set()
