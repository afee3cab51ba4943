"""The page of answers: what it keeps while an answer grows, and what it forgets with another study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest
from pytestqt.qtbot import QtBot

from engine.drawing.shapes import Drawing
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.export.document import Picture, Section
from engine.protocol.profile import Profiles, profiles_of
from engine.store.saved.studies import Study
from gui.answer.page import AnswerTabs
from gui.answer.sections import DocumentView
from gui.profile.panel import ProfilePanel
from gui.session.views import StudyView
from gui.sweep.panel import SweepPanel
from gui.widgets import Button

PROBLEM = Problem(kind=Kind.INTERNAL, message="The process ended.", remedy="See the log.")
PICTURE = Picture("chart", lambda width: Drawing(width, 20.0, ()), "Chart")


def table(title: str, *names: str) -> Section:
    return Section(title, headings=("Name",), rows=tuple((name,) for name in names))


@pytest.fixture
def tabs(qtbot: QtBot) -> AnswerTabs:
    made = AnswerTabs("A study", dict.fromkeys("ABC", ""), lambda name: DocumentView(name, {}))
    qtbot.addWidget(made)
    made.show()
    return made


def show(tabs: AnswerTabs, names: str) -> str:
    tabs.set_tabs(dict.fromkeys(names))
    return tabs.name()


def test_a_tab_that_was_wanted_does_not_take_the_place_of_one_that_was_opened_since(tabs: AnswerTabs) -> None:
    tabs.open("C")
    assert show(tabs, "A") == "A" and show(tabs, "AC") == "C", "it is opened once it is there"
    assert show(tabs, "AB") == "A"
    tabs.setCurrentIndex(1)
    assert show(tabs, "ABC") == "B"
    with pytest.raises(KeyError):
        tabs.restore("a tab of an older version")


def test_a_new_tab_leaves_the_focus_where_it_is(qtbot: QtBot, tabs: AnswerTabs) -> None:
    show(tabs, "B")
    button = Button("Press", "strip", "Press", parent=tabs.views["B"])
    button.show()
    tabs.activateWindow()
    button.setFocus()
    qtbot.waitUntil(button.hasFocus)
    show(tabs, "ABC")
    assert button.hasFocus() and [tabs.tabText(place) for place in range(3)] == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("shown", "lines"),
    [
        ([table("T", "x"), table("T", "y")], ["Name", "y"]),
        ([table("T", "x"), Section("T", ("Nothing was found.",))], None),
        ([table("T", "x"), replace(table("T", "x"), pictures=(PICTURE,), is_drawn=True)], None),
        ([replace(table("T", "x"), pictures=(PICTURE,), is_drawn=True), table("T", "x")], ["Name", "x"]),
        ([table("T", *map(str, range(50))), table("T", "x")], ["Name", "x"]),
    ],
    ids=["other rows", "no rows", "drawn", "no longer drawn", "few rows after many"],
)
def test_a_section_shows_the_rows_of_its_study_only(
    qtbot: QtBot, shown: Sequence[Section], lines: list[str] | None
) -> None:
    view = DocumentView("A tab", {})
    qtbot.addWidget(view)
    view.show()
    for section in shown:
        view.show_sections([section], None)
    last = view.sections["T"]
    is_shown = last.table is not None and last.table.isVisibleTo(last)
    assert is_shown == (lines is not None) and not last.grows
    if last.table is not None and is_shown:
        assert [cell for line in last.table.lines() for cell in line] == lines


def is_in_order(view: DocumentView, titles: str) -> bool:
    places = {title: section.y() for title, section in view.sections.items()}
    return sorted(places, key=places.__getitem__) == list(titles)


def test_sections_are_in_the_order_of_the_study_that_is_shown(qtbot: QtBot) -> None:
    view = DocumentView("A tab", {})
    qtbot.addWidget(view)
    view.resize(400, 400)
    view.show()
    for titles in ("AB", "BCA", "CAB"):
        view.show_sections([table(title, "x") for title in titles], None)
        qtbot.waitUntil(partial(is_in_order, view, titles))


def test_a_study_that_failed_no_longer_waits_for_its_results(qtbot: QtBot) -> None:
    panel = ProfilePanel()
    qtbot.addWidget(panel)
    study: Study[Profiles] = Study(answer=profiles_of([Experiment()]))
    panel.show_view(replace(StudyView.of(study), is_live=True))
    assert "Waiting for the first results" in panel.text()
    panel.show_view(replace(StudyView.of(study), problem=PROBLEM))
    assert "Waiting" not in panel.text() and PROBLEM.message in panel.problem.text()


@pytest.mark.parametrize(("make", "more"), [(SweepPanel, {}), (ProfilePanel, {"table": "kernels"})])
def test_a_tab_of_an_older_version_is_not_remembered(
    qtbot: QtBot, make: Callable[[], SweepPanel | ProfilePanel], more: dict[str, str]
) -> None:
    panel = make()
    qtbot.addWidget(panel)
    with pytest.raises(KeyError):
        panel.restore({"tab": "scatter", **more})
    state = panel.state()
    panel.restore(state)
    assert panel.state() == state and state["tab"] == ""
