"""The words of the page *Numerics*: each part, without and with its results, and what can end it."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from engine.experiment.problem import Kind, Problem
from engine.export.kinds.numerics import TITLES
from engine.protocol.events import Phase, PhaseName
from engine.protocol.numerics import NumericsResults
from gui.numerics.panel import NumericsPanel
from tests.golden import Golden, words_of

from .conftest import view_of

PARTS = ("nan", "map", "range", "ladder", "islands", "advice")


@pytest.mark.parametrize("part", PARTS)
def test_the_words_of_a_part_with_and_without_results(
    panel: NumericsPanel, results: NumericsResults, golden: Golden, part: str
) -> None:
    panel.show_view(view_of(results))
    panel.tabs.open(TITLES[part])
    QApplication.processEvents()
    known = words_of(panel)
    panel.show_view(view_of())
    panel.tabs.open(TITLES[part])
    golden(f"{known}\n\n--- without results ---\n\n{words_of(panel)}", part)


def test_the_words_before_it_while_it_runs_and_after_it_failed(panel: NumericsPanel, golden: Golden) -> None:
    before = words_of(panel)
    live = view_of(is_live=True)
    panel.show_view(live.with_event(Phase(name=PhaseName.NUMERICS, fraction=0.25, detail="step 3 of 12")))
    running = words_of(panel)
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="Out of memory.", remedy="Use a smaller batch.")
    panel.show_view(view_of(problem=problem))
    golden("\n\n---\n\n".join((before, running, words_of(panel))), "page")
