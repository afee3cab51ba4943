"""The page Numerics with results fed in, part by part."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.export.kinds.numerics import TITLES
from engine.protocol.events import Phase, PhaseName
from engine.protocol.numerics import USUAL_PARTS, NonfiniteSearch, Numerics, NumericsResults
from engine.store.saved.studies import Study
from gui.numerics.panel import NumericsPanel
from gui.session.views import StudyView
from gui.widgets import EmptyState
from tests.hostile import MARKUP, markup_in, names_in, poisoned

from .conftest import view_of


@pytest.fixture
def begun() -> StudyView[Numerics]:
    return view_of(is_live=True)


def offer_of(panel: NumericsPanel, part: str) -> EmptyState:
    """Return what the tab of a part shows in place of sections."""
    panel.tabs.open(TITLES[part])
    view = panel.tabs.views[TITLES[part]]
    assert not view.sections and view.empty is not None and view.empty.isVisible(), part
    return view.empty


def test_parts_appear_as_they_come(
    panel: NumericsPanel, begun: StudyView[Numerics], results: NumericsResults
) -> None:
    phase = Phase(name=PhaseName.NUMERICS, fraction=0.25, detail="step 3 of 12")
    panel.show_view(begun.with_event(phase))
    assert panel.head.stop.isVisible() and panel.head.progress.fraction() == 0.25
    assert "step 3 of 12, 25%" in panel.head.note.whole_text()
    assert not offer_of(panel, "map").button.isVisible() and not offer_of(panel, "advice").button.isVisible()
    assert offer_of(panel, "ladder").button.isVisible(), "it was not asked for"
    panel.tabs.open(TITLES["map"])
    view = view_of(NumericsResults(map=results.map), is_live=True)
    panel.show_view(view)
    shown = panel.map
    assert shown is not None
    tree = shown.tree.map_tree()
    assert tree is not None
    panel.show_view(view.with_event(Phase(name=PhaseName.NUMERICS, detail="step 4")))
    panel.show_view(view_of(NumericsResults(map=results.map, range=results.range), is_live=True))
    assert panel.map is shown and shown.tree.map_tree() is tree, "what is known stays as it is shown"
    assert not offer_of(panel, "nan").button.isVisible()
    panel.show_view(view_of(NumericsResults(map=results.map, range=results.range)))
    assert offer_of(panel, "nan").button.isVisible(), "a study that was stopped offers what it lacks"


def test_every_tab_without_its_part_says_what_it_answers_and_asks_for_it(
    panel: NumericsPanel, results: NumericsResults, qtbot: QtBot
) -> None:
    assert panel.parts() == USUAL_PARTS
    for part in ("nan", "map", "range", "ladder", "islands", "advice"):
        panel.show_view(view_of(NumericsResults(map=None if part == "map" else results.map)))
        offer = offer_of(panel, part)
        assert "?" in offer.words()
        with qtbot.waitSignal(panel.study_wanted):
            offer.button.click()
        assert panel.tabs.name() == TITLES[part]
    assert panel.parts() == (*USUAL_PARTS, "ladder", "islands")


def test_the_buttons_of_an_answer_show_a_module_and_fill_the_form(
    panel: NumericsPanel, results: NumericsResults, qtbot: QtBot
) -> None:
    panel.show_view(view_of(results))
    sections = panel.tabs.views[TITLES["nan"]].sections
    with qtbot.waitSignal(panel.changes_wanted) as changes:
        button_in(sections["What to do"], "Use these settings").click()
    assert changes.args == [(("step.fp32_modules", "features.3"),)]
    button_in(sections[TITLES["nan"]], "Show in the precision map").click()
    assert panel.tabs.name() == TITLES["map"]
    assert panel.map is not None and panel.map.title.whole_text() == "Operations of features.3"


def button_in(part: QWidget, text: str) -> QPushButton:
    return next(button for button in part.findChildren(QPushButton) if button.text() == text)


def test_the_choice_and_the_tab_are_remembered(panel: NumericsPanel) -> None:
    panel.choose(("ladder",), only=True)
    panel.tabs.open(TITLES["advice"])
    state = panel.state()
    panel.choose(USUAL_PARTS, only=True)
    panel.tabs.open(TITLES["map"])
    panel.restore(state)
    assert panel.parts() == ("ladder",) and panel.tabs.name() == TITLES["advice"]
    with pytest.raises(KeyError):
        panel.restore({"tab": "map"})


def test_every_tab_has_its_page_in_the_guide(panel: NumericsPanel) -> None:
    assert {*TITLES.values()} == panel.guides.keys()


def test_a_study_opens_at_what_it_found_and_the_tabs_stay_under_the_mouse(
    panel: NumericsPanel, results: NumericsResults
) -> None:
    panel.show_view(view_of(results))
    assert panel.tabs.name() == TITLES["nan"] and "features.3" in panel.text()
    QApplication.processEvents()
    before = panel.tabs.mapTo(panel, QPoint())
    for title in TITLES.values():
        panel.tabs.open(title)
        QApplication.processEvents()
        assert panel.tabs.mapTo(panel, QPoint()) == before, title
    search = NonfiniteSearch(steps=10, sentence="No NaN or Inf in 10 steps.")
    other = Study(id="other", answer=view_of(NumericsResults(nan=search, ladder=results.ladder)).answer)
    panel.tabs.open(TITLES["advice"])
    panel.show_view(StudyView.of(other))
    assert panel.tabs.name() == TITLES["ladder"], "a search that found nothing comes last"


def test_no_name_of_numerics_is_rendered(panel: NumericsPanel, results: NumericsResults) -> None:
    answer = Numerics(experiment=Experiment(model=f"{MARKUP}net"), results=poisoned(results))
    panel.show_view(StudyView.of(Study(answer=answer, device_name=MARKUP)))
    for name in panel.tabs.views:
        panel.tabs.open(name)
        assert names_in(panel) > 0 and markup_in(panel) == set(), name
