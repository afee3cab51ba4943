"""The workspace Numerics shows the parts of a diagnosis in tabs."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from gui.help.pages import guide_pages
from gui.numerics.panel import NumericsPanel


def test_every_view_has_its_page_in_the_guide(qtbot: QtBot) -> None:
    panel = NumericsPanel()
    qtbot.addWidget(panel)
    pages: list[str] = []
    panel.guide_wanted.connect(pages.append)
    for place in range(panel.tabs.count()):
        panel.tabs.setCurrentIndex(place)
        panel.guide_button.click()
    assert len(set(pages)) == panel.tabs.count()
    assert set(pages) <= {page.name for page in guide_pages() if page.section == "Numerics"}
