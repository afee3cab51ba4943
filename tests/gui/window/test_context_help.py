"""The guide opens at the page about what is in sight."""

from __future__ import annotations

from gui.help.browser import guide_pages
from gui.setup.question import QUESTIONS
from gui.widgets.actions import PLACES
from gui.window.main_window import GUIDES


def test_every_question_and_place_has_its_page_of_the_guide() -> None:
    places = {place.name for place in PLACES} - {"experiment"}
    assert {*QUESTIONS, *places} == GUIDES.keys()
    assert set(GUIDES.values()) <= {page.name for page in guide_pages()}
