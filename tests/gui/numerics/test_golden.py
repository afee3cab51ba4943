"""The words of the page *Numerics*: each part, without and with its results, and what can end it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Phase, PhaseName
from engine.protocol.numerics.numerics import Numerics, NumericsResults
from engine.store.saved.study import Study
from gui.numerics.panel import NumericsPanel
from gui.session.studies import StudyView
from tests.golden import Golden, words_of

PARTS = ("map", "range", "nan", "ladder", "islands", "advice")


@pytest.fixture
def panel(qtbot: QtBot) -> NumericsPanel:
    panel = NumericsPanel()
    qtbot.addWidget(panel)
    panel.resize(1080, 600)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


def view_of(results: NumericsResults | None) -> StudyView[Numerics]:
    answer = Numerics(experiment=Experiment(model="small-cnn"), results=results or NumericsResults())
    return StudyView.of(Study(id="abc", answer=answer))


@pytest.mark.parametrize("part", PARTS)
def test_the_words_of_a_part_with_and_without_results(
    panel: NumericsPanel, results: NumericsResults, golden: Golden, part: str
) -> None:
    panel.show_view(view_of(results))
    panel.tabs.open(part)
    known = words_of(panel)
    panel.show_view(view_of(None))
    panel.tabs.open(part)
    golden(f"{known}\n\n--- without results ---\n\n{words_of(panel)}", part)


def test_the_words_before_it_while_it_runs_and_after_it_failed(panel: NumericsPanel, golden: Golden) -> None:
    before = words_of(panel)
    live = replace(view_of(None), is_live=True)
    panel.show_view(live.with_event(Phase(name=PhaseName.NUMERICS, fraction=0.25, detail="step 3 of 12")))
    running = words_of(panel)
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="Out of memory.", remedy="Use a smaller batch.")
    panel.show_view(replace(view_of(None), problem=problem))
    golden("\n\n---\n\n".join((before, running, words_of(panel))), "page")
