"""The page Profile with profiles fed in, side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from engine.experiment.problem import Kind, Problem
from engine.export.kinds import profile
from engine.protocol.profile import Profiles, StepPart
from engine.store.saved.studies import Study
from gui.help.browser import guide_pages
from gui.profile.panel import ProfilePanel
from gui.profile.views import Bars
from gui.session.views import StudyView
from gui.widgets import Button
from tests.hostile import MARKUP, markup_in, names_in, poisoned
from tests.profiles import exchange


def view_of(profiles: Profiles) -> StudyView[Profiles]:
    return StudyView.of(Study(id="abc", answer=profiles))


def test_what_several_devices_exchange_has_a_tab_of_its_own(panel: ProfilePanel, profiles: Profiles) -> None:
    panel.show_view(view_of(profiles))
    assert profile.DEVICES not in panel.tabs.views
    first = profiles.sides[0].profile
    assert first is not None
    several = first.model_copy(update={"exchange": exchange(20.0, 0.0)})
    panel.show_view(view_of(profiles.with_side(0, profile=several)))
    assert list(panel.tabs.views)[-1] == profile.DEVICES


def test_a_problem_that_is_that_of_its_only_side_is_told_once(
    panel: ProfilePanel, profiles: Profiles
) -> None:
    problem = Problem(kind=Kind.REQUEST, message="No module layer9.", remedy="Name another.")
    failed = Profiles(sides=profiles.sides[:1]).with_side(0, profile=None, problem=problem)
    panel.show_view(replace(view_of(failed), problem=problem))
    assert "layer9" in panel.problem.text() and "layer9" not in panel.text()
    assert panel.again.isVisible() and not panel.head.export_button.isEnabled()


def test_a_trace_is_offered_where_there_is_one(panel: ProfilePanel, profiles: Profiles) -> None:
    def trace_action(shown: Profiles) -> QAction:
        panel.show_view(view_of(shown))
        return next(action for action in panel.head.export.actions() if "Traces" in action.text())

    profile = profiles.measured()[1]
    traced = profiles.with_side(1, profile=profile.model_copy(update={"trace": "abc-2.json.gz"}))
    assert trace_action(traced).isEnabled() and not trace_action(profiles).isEnabled()
    assert panel.again.isVisible() and not panel.head.stop.isVisible()


def test_a_remedy_goes_into_the_form_and_a_part_opens_its_kernels(
    panel: ProfilePanel, profiles: Profiles, qtbot: QtBot
) -> None:
    panel.show_view(view_of(profiles))
    sections = panel.tabs.views[profile.STEP].sections
    words = [text.text() for section in sections.values() for text in section.findChildren(QLabel)]
    assert not any("Train in FP16 AMP" in text for text in words), "the other side is in FP16 already"
    (button,) = sections["What limits FP16 AMP"].findChildren(Button)
    with qtbot.waitSignal(panel.changes_wanted) as used:
        button.click()
    assert used.args == [(("step.recipe", "fast"),)]
    bars = sections[profile.BAR].widget
    assert isinstance(bars, Bars)
    bars.chosen.emit(next(place for place in bars.spots() if place.part is StepPart.MEMORY))
    rows = panel.rows()
    assert panel.tabs.name() == profile.OPERATIONS and rows is not None
    assert rows.shown_part is StepPart.MEMORY


def test_with_many_sides_the_largest_gain_leads_and_no_sentence_is_cut(
    panel: ProfilePanel, profiles: Profiles, qtbot: QtBot
) -> None:
    baseline, faster = profiles.sides
    slower = faster.model_copy(update={"experiment": faster.experiment.model_copy(update={"batch_size": 16})})
    panel.show_view(view_of(Profiles(sides=(baseline, slower, faster, faster, faster))))
    assert panel.text().startswith("Why 2.91 times: matrix work fell from 58.0 to 12.0 ms")
    texts = [text for text in panel.findChildren(QLabel) if text.wordWrap() and text.isVisible()]

    def are_whole() -> bool:
        return all(text.height() >= text.heightForWidth(text.width()) for text in texts)

    qtbot.waitUntil(are_whole)
    panel.resize(760, 500)
    qtbot.waitUntil(are_whole)


def test_every_tab_opens_its_page_of_the_guide(panel: ProfilePanel, profiles: Profiles) -> None:
    panel.show_view(view_of(profiles))
    pages: list[str] = []
    panel.guide_wanted.connect(pages.append)
    for tab in panel.tabs.views:
        panel.tabs.open(tab)
        panel.tabs.guide.click()
    assert len(pages) == len(panel.tabs.views) and set(pages) <= {page.name for page in guide_pages()}


def test_a_tab_is_filled_when_it_is_opened(panel: ProfilePanel, profiles: Profiles) -> None:
    panel.show_view(view_of(profiles))
    assert panel.rows() is None
    panel.tabs.open(profile.OPERATIONS)
    panel.show_view(view_of(Profiles(sides=profiles.sides[:1])))
    panel.tabs.open(profile.STEP)
    bars = panel.tabs.views[profile.STEP].sections[profile.BAR].widget
    assert isinstance(bars, Bars)
    assert {place.side for place in bars.spots()} == {0}, "not what was there when it was left"


def test_the_tab_and_the_table_are_remembered(panel: ProfilePanel, profiles: Profiles, qtbot: QtBot) -> None:
    panel.show_view(view_of(profiles))
    panel.tabs.open(profile.OPERATIONS)
    rows = panel.rows()
    assert rows is not None
    rows.open_table("modules")
    other = ProfilePanel()
    qtbot.addWidget(other)
    other.restore(panel.state())
    other.show_view(view_of(profiles))
    rows = other.rows()
    assert other.tabs.name() == profile.OPERATIONS and rows is not None and rows.shown_table() == "modules"
    with pytest.raises(KeyError):
        other.restore({"other": 1})


def test_no_name_of_a_profile_is_rendered(panel: ProfilePanel, profiles: Profiles) -> None:
    panel.show_view(StudyView.of(Study(answer=poisoned(profiles), device_name=MARKUP)))
    for tab in panel.tabs.views:
        panel.tabs.open(tab)
        assert names_in(panel) > 0 and markup_in(panel) == set(), tab
