"""The page Profile."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from gui.profile.panel import ProfilePanel


@pytest.fixture
def panel(qtbot: QtBot) -> ProfilePanel:
    panel = ProfilePanel()
    qtbot.addWidget(panel)
    panel.resize(1080, 700)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel
