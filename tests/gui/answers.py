"""Pages of answers: when what they show can be read."""

from __future__ import annotations

from typing import Any

from pytestqt.qtbot import QtBot

from gui.answer.page import StudyPage


def wait_for_sections(qtbot: QtBot, page: StudyPage[Any]) -> None:
    """Wait until the sections of the tab in front are visible. A new one is shown by the event loop."""
    view = page.tabs.views.get(page.tabs.name())
    if view is not None and page.view() is not None:
        sections = view.sections.values()
        qtbot.waitUntil(lambda: all(section.isVisible() for section in sections))
        parts = [part for section in sections for part in (section.widget, section.table) if part]
        qtbot.waitUntil(lambda: all(part.isVisible() for part in parts))
