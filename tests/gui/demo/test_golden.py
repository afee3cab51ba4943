"""The words of the place *Demo*: its pages and the race, at its start, in its middle and at its end."""

from __future__ import annotations

from typing import Any

import pytest

from engine.race.race import Race
from tests.golden import Golden, words_of
from tests.gui.demo.test_pages import measuring


def test_the_words_of_the_pages(room: Any, golden: Golden) -> None:
    room.panel.show_welcome()
    pages = [words_of(room.panel)]
    for page in (measuring(0, phase="compiling"), measuring(100), measuring(200, 100)):
        room.panel.show_measuring(page)
        pages.append(words_of(room.panel))
    room.panel.show_refusal("The run “x” has no steps to replay.", "Choose another run.")
    golden("\n\n---\n\n".join([*pages, words_of(room.panel)]), "pages")


@pytest.mark.parametrize("which", ["usual", "failed"])
def test_the_words_of_a_race(room: Any, request: pytest.FixtureRequest, golden: Golden, which: str) -> None:
    race: Race = request.getfixturevalue(which)
    room.panel.show_race(race, None)
    moments = []
    for at in (0.0, race.seconds / 2, race.seconds):
        room.clock.seek(at)
        moments.append(words_of(room.panel))
    golden("\n\n---\n\n".join(moments), f"race-{which}")
