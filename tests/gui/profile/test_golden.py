"""The words of the page *Profile*: each of its tabs, and what can end it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Phase, PhaseName
from engine.protocol.profile import Profiles
from engine.store.saved.studies import Study
from gui.profile.panel import ProfilePanel
from gui.session.views import StudyView
from tests.golden import Golden, words_of
from tests.profiles import exchange


@pytest.fixture
def view(profiles: Profiles) -> StudyView[Profiles]:
    """Both sides, of which the first was measured on two devices."""
    first = profiles.measured()[0].model_copy(update={"exchange": exchange(20.0, 0.0)})
    return StudyView.of(Study(id="abc", answer=profiles.with_side(0, profile=first)))


@pytest.mark.parametrize("place", range(4))
def test_the_words_of_a_tab(
    panel: ProfilePanel, view: StudyView[Profiles], golden: Golden, place: int
) -> None:
    panel.show_view(view)
    assert panel.tabs.count() == 4
    panel.tabs.setCurrentIndex(place)
    golden(words_of(panel), panel.tabs.name())


def test_the_words_before_it_while_it_runs_and_after_a_side_failed(
    panel: ProfilePanel, view: StudyView[Profiles], golden: Golden
) -> None:
    before = words_of(panel)
    live = replace(view, study=replace(view.study, answer=view.answer.afresh()), is_live=True)
    panel.show_view(live.with_event(Phase(name=PhaseName.PROFILING, fraction=0.5, detail="step 2 of 4")))
    running = words_of(panel)
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="Out of memory.", remedy="Use a smaller batch.")
    failed = view.answer.with_side(1, profile=None, problem=problem)
    panel.show_view(replace(view, study=replace(view.study, answer=failed, place=1)))
    golden("\n\n---\n\n".join((before, running, words_of(panel))), "page")
