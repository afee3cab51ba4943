"""The workspace Timing with a timing fed in, side by side."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Phase, PhaseName, Profiled
from engine.protocol.timing.profile import StepProfile
from engine.protocol.timing.timing import SideFailed, SideStarted, Timing, TimingStarted
from gui.session.orders.order import TimingOrder
from gui.session.orders.timings import TimingView
from gui.timing.panel import TimingPanel


@pytest.fixture
def panel(qtbot: QtBot) -> TimingPanel:
    panel = TimingPanel()
    qtbot.addWidget(panel)
    panel.resize(1080, 700)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


@pytest.fixture
def begun(timing: Timing) -> TimingView:
    """The timing without its profiles, as it begins."""
    waiting = TimingView.of_order(TimingOrder("abc", tuple(side.experiment for side in timing.sides)))
    live = replace(waiting, is_waiting=False, is_live=True)
    return live.after(TimingStarted(timing_id="saved", timing=live.timing)).after(SideStarted(side=0))


def test_without_a_timing_it_says_what_it_answers(panel: TimingPanel, qtbot: QtBot) -> None:
    assert panel.empty.isVisible() and not panel.head.stop.isVisible() and not panel.again.isVisible()
    with qtbot.waitSignal(panel.explain_wanted):
        panel.empty.button.click()


def test_sides_appear_as_their_profiles_come(
    panel: TimingPanel, begun: TimingView, fp32_profile: StepProfile
) -> None:
    panel.show_view(begun.after(Phase(name=PhaseName.PROFILING, fraction=0.5, detail="step 2 of 4")))
    assert panel.head.stop.isVisible() and panel.head.progress.fraction() == 0.25
    assert "FP32, 1 of 2: step 2 of 4, 50" in panel.head.note.whole_text()
    assert not panel.answer.isVisible()
    first = begun.after(Profiled(profile=fp32_profile))
    panel.show_view(first)
    assert panel.answer.isVisible() and panel.energy.isVisible()
    assert "70 W of it idle" in panel.energy.whole_text()
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="Out of memory.", remedy="Use a smaller batch.")
    panel.show_view(first.after(SideStarted(side=1)).after(SideFailed(side=1, problem=problem)))
    assert panel.failures.text() == "FP16 AMP: Out of memory. Use a smaller batch."
    assert panel.answer.isVisible()


def test_a_trace_is_offered_where_there_is_one(panel: TimingPanel, timing: Timing) -> None:
    profile = timing.profiles()[1]
    traced = timing.with_side(1, profile=profile.model_copy(update={"trace": "abc-2.json.gz"}))
    panel.show_view(TimingView(key="abc", created=datetime.now(UTC), timing=traced))
    texts = [action.text() for action in panel.head.export.actions()]
    assert "Trace of FP16 AMP as .json.gz…" in texts and not any("FP32" in text for text in texts)
    panel.show_view(TimingView(key="def", created=datetime.now(UTC), timing=timing))
    assert not any("Trace" in action.text() for action in panel.head.export.actions())
    assert panel.again.isVisible() and not panel.head.stop.isVisible()


def test_the_tab_is_remembered(panel: TimingPanel) -> None:
    panel.open_tab("advice")
    panel.restore(panel.state())
    assert panel.tab() == "advice"
    with pytest.raises(KeyError):
        panel.restore({"other": 1})
