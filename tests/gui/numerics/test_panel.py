"""The page Numerics with results fed in, part by part."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication, QStackedWidget
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.protocol.events import Phase, PhaseName
from engine.protocol.numerics import USUAL_PARTS, Numerics, NumericsResults
from engine.store.saved.studies import Study
from gui.help.browser import guide_pages
from gui.numerics.panel import NumericsPanel
from gui.session.studies import StudyView
from tests.hostile import MARKUP, markup_in, names_in, poisoned

from .conftest import view_of


@pytest.fixture
def begun() -> StudyView[Numerics]:
    return view_of(is_live=True)


def is_awaiting(panel: NumericsPanel, name: str) -> bool:
    page = panel.tabs.widget(list(panel._views).index(name))
    assert isinstance(page, QStackedWidget)
    return page.currentIndex() == 1


def test_parts_appear_as_they_come(
    panel: NumericsPanel, begun: StudyView[Numerics], results: NumericsResults
) -> None:
    phase = Phase(name=PhaseName.NUMERICS, fraction=0.25, detail="step 3 of 12")
    panel.show_view(begun.with_event(phase))
    assert panel.head.stop.isVisible() and panel.head.progress.fraction() == 0.25
    assert "step 3 of 12, 25%" in panel.head.note.whole_text()
    assert is_awaiting(panel, "map") and is_awaiting(panel, "advice") and not is_awaiting(panel, "ladder")
    assert results.map is not None
    panel.show_view(view_of(NumericsResults(map=results.map), is_live=True))
    assert panel.map.tree.map_tree() is not None and not is_awaiting(panel, "map")
    assert is_awaiting(panel, "nan")


def test_a_phase_leaves_a_part_as_it_is_shown(panel: NumericsPanel, results: NumericsResults) -> None:
    assert results.map is not None
    view = view_of(NumericsResults(map=results.map), is_live=True)
    panel.show_view(view)
    tree = panel.map.tree.map_tree()
    panel.show_view(view.with_event(Phase(name=PhaseName.NUMERICS, detail="step 4")))
    assert panel.map.tree.map_tree() is tree


def test_every_view_without_its_part_says_what_it_answers_and_asks_for_it(
    panel: NumericsPanel, results: NumericsResults, qtbot: QtBot
) -> None:
    assert panel.parts() == USUAL_PARTS
    for name, part in panel._views.items():
        panel.show_view(view_of(NumericsResults(map=results.map) if name != "map" else None))
        panel.tabs.open(name)
        offer = part.view.empty
        assert offer.isVisible() and "?" in offer.words(), name
        with qtbot.waitSignal(panel.study_wanted):
            offer.button.click()
        assert panel.tabs.name() == name
    assert panel.parts() == (*USUAL_PARTS, "ladder", "islands")


def test_the_module_that_made_the_nan_is_shown_in_the_map(
    panel: NumericsPanel, results: NumericsResults
) -> None:
    panel.show_view(view_of(results))
    panel.nonfinite.module_chosen.emit("features.3")
    assert panel.tabs.name() == "map" and panel.map.title.whole_text() == "Operations of features.3"


def test_the_choice_and_the_tab_are_remembered(panel: NumericsPanel) -> None:
    panel.choose(("ladder",), only=True)
    panel.tabs.open("advice")
    state = panel.state()
    panel.choose(USUAL_PARTS, only=True)
    panel.tabs.open("map")
    panel.restore(state)
    assert panel.parts() == ("ladder",) and panel.tabs.name() == "advice"
    with pytest.raises(KeyError):
        panel.restore({"tab": "map"})


def test_every_view_has_its_page_in_the_guide(panel: NumericsPanel) -> None:
    pages: list[str] = []
    panel.guide_wanted.connect(pages.append)
    for place in range(panel.tabs.count()):
        panel.tabs.setCurrentIndex(place)
        panel.tabs.guide_button.click()
    assert len(pages) == panel.tabs.count()
    assert set(pages) <= {page.name for page in guide_pages() if page.section == "Tasks"}


def test_what_is_opened_begins_with_its_finding_and_what_to_do(
    panel: NumericsPanel, results: NumericsResults
) -> None:
    panel.show_view(view_of(results))
    assert panel.tabs.name() == "advice" and "96 infinite values" in panel.answer.text()
    QApplication.processEvents()
    before = panel.tabs.mapTo(panel, QPoint())
    panel.tabs.open("nan")
    assert not panel.answer.isVisible(), "that view begins with the same sentence"
    QApplication.processEvents()
    assert panel.tabs.mapTo(panel, QPoint()) == before, "the tabs stay under the mouse"
    panel.show_view(view_of(NumericsResults(ladder=results.ladder)))
    assert panel.answer.text() == "FP16 unscaled diverges from FP32 at step 21. FP16 AMP and BF16 AMP do not."
    panel.show_view(view_of(NumericsResults(map=results.map)))
    assert not panel.answer.isVisible()
    assert results.range is not None
    kept = [row.model_copy(update={"became_zero": 0, "became_nonfinite": 0}) for row in results.range.rows]
    lost = [*kept[:-1], kept[-1].model_copy(update={"quantity": "activation", "became_nonfinite": 9})]
    for rows, own in ((kept, ""), (lost, "overflow")):
        notes = ("In FP8 E4M3, 5% of the activations of features.10 would underflow.",)
        ranges = results.range.model_copy(update={"rows": tuple(rows), "notes": notes})
        panel.show_view(view_of(NumericsResults(range=ranges, map=results.map)))
        panel.tabs.open("map")
        assert panel.answer.isVisible() == bool(own), "what other precisions would lose is no answer"
        assert own in panel.answer.text()


def test_no_name_of_numerics_is_rendered(panel: NumericsPanel, results: NumericsResults) -> None:
    answer = Numerics(experiment=Experiment(model=f"{MARKUP}net"), results=poisoned(results))
    panel.show_view(StudyView.of(Study(answer=answer, device_name=MARKUP)))
    for name in panel._views:
        panel.tabs.open(name)
        assert names_in(panel) > 0 and markup_in(panel) == set(), name
