"""The page Profile with profiles fed in, side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from engine.experiment.problem import Kind, Problem
from engine.protocol.profile import Profiles, StepPart
from engine.store.saved.studies import Study
from gui.help.browser import guide_pages
from gui.profile.panel import ProfilePanel
from gui.session.studies import StudyView
from gui.widgets import Button
from tests.hostile import MARKUP, markup_in, names_in, poisoned
from tests.profiles import exchange


def view_of(profiles: Profiles) -> StudyView[Profiles]:
    return StudyView.of(Study(id="abc", answer=profiles))


def test_what_several_devices_exchange_has_a_tab_of_its_own(panel: ProfilePanel, profiles: Profiles) -> None:
    panel.show_view(view_of(profiles))
    place = panel.tabs.indexOf(panel.devices)
    assert not panel.tabs.isTabVisible(place)
    first = profiles.sides[0].profile
    assert first is not None
    several = first.model_copy(update={"exchange": exchange(20.0, 0.0)})
    panel.show_view(view_of(profiles.with_side(0, profile=several)))
    assert panel.tabs.isTabVisible(place)


def test_a_problem_that_is_that_of_its_only_side_is_told_once(
    panel: ProfilePanel, profiles: Profiles
) -> None:
    problem = Problem(kind=Kind.REQUEST, message="No module layer9.", remedy="Name another.")
    failed = Profiles(sides=profiles.sides[:1]).with_side(0, profile=None, problem=problem)
    panel.show_view(replace(view_of(failed), problem=problem))
    assert "layer9" in panel.head.problem.text() and not panel.failures.text()
    assert panel.again.isVisible() and not panel.head.export_button.isEnabled()


def test_a_trace_is_offered_where_there_is_one(panel: ProfilePanel, profiles: Profiles) -> None:
    def trace_action(shown: Profiles) -> QAction:
        panel.show_view(view_of(shown))
        return next(action for action in panel.head.export.actions() if "Traces" in action.text())

    profile = profiles.measured()[1]
    traced = profiles.with_side(1, profile=profile.model_copy(update={"trace": "abc-2.json.gz"}))
    assert trace_action(traced).isEnabled() and not trace_action(profiles).isEnabled()
    assert panel.again.isVisible() and not panel.head.stop.isVisible()


def test_the_answer_says_what_is_gained_and_what_would_help(
    panel: ProfilePanel, profiles: Profiles, qtbot: QtBot
) -> None:
    panel.show_view(view_of(profiles))
    below = [text.text() for text in panel.answer.findChildren(QLabel)]
    assert any("of which 70 W idle" in text and "J per 1,000 samples" in text for text in below)
    assert "Train in FP16 AMP" not in panel.answer.text(), "the other side is in FP16 already"
    button = next(found for found in panel.answer.findChildren(Button) if found.accessibleDescription())
    with qtbot.waitSignal(panel.changes_wanted) as used:
        button.click()
    assert used.args == [(("step.recipe", "fast"),)]
    panel.bars.part_chosen.emit(StepPart.MEMORY)
    assert panel.tabs.name() == "rows" and panel.rows.shown_part is StepPart.MEMORY


def test_with_many_sides_the_largest_gain_is_large_and_no_sentence_is_cut(
    panel: ProfilePanel, profiles: Profiles, qtbot: QtBot
) -> None:
    baseline, faster = profiles.sides
    slower = faster.model_copy(update={"experiment": faster.experiment.model_copy(update={"batch_size": 16})})
    shown = Profiles(sides=(baseline, slower, faster, faster, faster))
    panel.show_view(view_of(shown))
    assert panel.answer.large.text().count("times as fast as") == 1
    assert panel.answer.text().count("times as fast as") == 4
    texts = [text for text in panel.answer.findChildren(QLabel) if text.wordWrap()]

    def are_whole() -> bool:
        return all(text.height() >= text.heightForWidth(text.width()) for text in texts)

    qtbot.waitUntil(are_whole)
    panel.resize(760, 500)
    qtbot.waitUntil(are_whole)


def test_every_view_opens_its_page_of_the_guide(panel: ProfilePanel, profiles: Profiles) -> None:
    panel.show_view(view_of(profiles))
    pages: list[str] = []
    panel.guide_wanted.connect(pages.append)
    for tab in ("bars", "rows", "roofline", "advice"):
        panel.tabs.open(tab)
        panel.tabs.guide_button.click()
    panel.answer.guide.click()
    assert len(pages) == 5
    assert set(pages) <= {page.name for page in guide_pages()}


def test_a_view_is_filled_when_it_is_looked_at(panel: ProfilePanel, profiles: Profiles) -> None:
    panel.show_view(view_of(profiles))
    assert panel.bars.bars is not None and panel.roofline.roofline is None
    panel.tabs.open("roofline")
    assert panel.roofline.roofline is not None
    of_one = Profiles(sides=profiles.sides[:1])
    panel.show_view(view_of(of_one))
    panel.tabs.open("bars")
    assert {place.side for place in panel.bars.bars.spots()} == {0}, "not what was there when it was left"


def test_the_tab_is_remembered(panel: ProfilePanel) -> None:
    panel.tabs.open("advice")
    panel.rows.open_table("modules")
    state = panel.state()
    panel.tabs.open("bars")
    panel.rows.open_table("kernels")
    panel.restore(state)
    assert panel.tabs.name() == "advice" and panel.rows.shown_table() == "modules"
    with pytest.raises(KeyError):
        panel.restore({"other": 1})


def test_the_advice_for_a_single_side_does_not_name_it(panel: ProfilePanel, profiles: Profiles) -> None:
    (advice,) = profiles.measured()[0].advice
    panel.advice.show_profiles(Profiles(sides=profiles.sides[:1]))
    assert advice.evidence in panel.advice.text() and "FP32" not in panel.advice.text()


def test_every_view_without_a_profile_says_what_it_answers_and_asks_for_it(
    panel: ProfilePanel, profiles: Profiles, qtbot: QtBot
) -> None:
    panel.show_view(view_of(profiles.afresh()))
    # that of several devices waits for a profile of these
    views = [(name, view) for name, view in panel._views.items() if name != "devices"]
    assert len(views) == 4
    for name, view in views:
        panel.tabs.open(name)
        assert view.empty.isVisible() and "?" in view.empty.words(), name
        with qtbot.waitSignal(panel.profile_wanted):
            view.empty.button.click()


def test_no_name_of_a_profile_is_rendered(panel: ProfilePanel, profiles: Profiles) -> None:
    panel.show_view(StudyView.of(Study(answer=poisoned(profiles), device_name=MARKUP)))
    for tab in panel._views:
        panel.tabs.open(tab)
        assert names_in(panel) > 0 and markup_in(panel) == set(), tab
