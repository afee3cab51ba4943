"""The form, the runs, the page Profile and the engine together: real profiles, kept and deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from PySide6.QtGui import QAction
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.protocol.events import Finished, Summary
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.window.main_window import MainWindow

WAIT_MS = 60_000


@pytest.fixture
def window(tiny_window: MainWindow) -> MainWindow:
    return tiny_window


@pytest.mark.slow
def test_the_forms_precisions_are_profiled_side_by_side_opened_again_and_deleted(
    qtbot: QtBot, window: MainWindow, goes_on: Event, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gui.session.study_page.may_delete", lambda *_: True)
    panel, profiles = window.others.profile_panel, window.experiments.profiles
    window.setup.change(lambda draft: draft.with_precisions(("bf16", "fp32")))
    window.show_page("profile")
    assert window.setup.run_action.text() == "Profile 2 precisions"
    window.setup.foot.run_button.setFocus()
    with qtbot.waitSignal(profiles.began, timeout=WAIT_MS):
        window.setup.run_action.trigger()
    assert panel.head.stop.hasFocus() and not window.setup.run_action.isEnabled()
    assert window.top_bar.activity.activity().is_busy
    asked: list[object] = []
    monkeypatch.setattr("gui.window.main_window.may_stop", lambda *told: asked.append(told[1]) or False)
    assert not window._may_close() and asked == ["profile"]
    goes_on.set()
    qtbot.waitUntil(lambda: profiles.running is None, timeout=WAIT_MS)
    view = panel.view()
    assert view is not None and view.problem is None, view
    first, second = (side.profile for side in view.answer.sides)
    assert first is not None and second is not None
    assert (first.format, second.format) == ("fp32", "bf16")
    assert panel.answer.isVisible() and "Profiling FP32." in window.backstage.log.text()
    with qtbot.waitSignal(window.others.profiles.written, timeout=WAIT_MS):
        panel.head.export.asked.emit(home / "steps.json.gz")
    assert all((home / name).stat().st_size for name in ("steps.json.gz", "steps-2.json.gz"))
    assert "Perfetto" in window.notice.messages()[-1].remedy.title()
    panel.head.menu.actions()[-1].trigger()
    assert panel.view() is None and not profiles.saved()


@pytest.mark.slow
def test_a_runs_profile_is_made_once_and_then_opened(
    qtbot: QtBot, window: MainWindow, goes_on: Event, tiny: Experiment
) -> None:
    goes_on.set()
    with qtbot.waitSignal(window.experiments.ended, timeout=WAIT_MS):
        window.experiments.submit("", [("run", tiny)])
    (run,) = window.experiments.runs.records()
    profiles, panel = window.experiments.profiles, window.others.profile_panel
    profile_entry(window, run).trigger()
    assert window.page == "profile"
    profile_entry(window, run).trigger()
    assert len(profiles.unfinished()) == 1, "what goes on already is opened"
    qtbot.waitUntil(lambda: not profiles.unfinished(), timeout=WAIT_MS)
    made = panel.view()
    assert made is not None and made.answer.run_ids == (run.id,) and made.answer.is_known
    window.show_page("compare")
    panel.show_view(None)
    window.others.profiles.profile_runs((run.id,))
    assert panel.view() == made and not profiles.unfinished()
    panel.again.click()
    assert len(profiles.unfinished()) == 1
    panel.head.stop.click()
    qtbot.waitUntil(lambda: not profiles.unfinished(), timeout=WAIT_MS)


@pytest.mark.slow
def test_a_run_that_goes_on_or_trained_elsewhere_says_why_it_is_not_profiled(
    qtbot: QtBot, window: MainWindow, store: Store, endless: Experiment
) -> None:
    with qtbot.waitSignal(window.experiments.began, timeout=WAIT_MS):
        window.experiments.submit("", [("run", endless)])
    (run,) = window.experiments.runs.records()
    entry = profile_entry(window, run)
    assert not entry.isEnabled() and entry.toolTip() == "“run, linear, batch 10” has not ended yet."
    window.runs.details_requested.emit(run.id)
    assert not window.live.details.explain.isEnabled()
    window.experiments.stop()
    qtbot.waitUntil(lambda: window.experiments.running is None, timeout=WAIT_MS)
    (run,) = window.experiments.runs.records()
    assert profile_entry(window, run).isEnabled()
    qtbot.waitUntil(window.live.details.explain.isEnabled, timeout=WAIT_MS)
    window.runs.set_checked([run.id])
    with qtbot.waitSignal(window.others.comparisons.reader.shown):
        window.show_page("results")
    profile_entry(window, run).trigger()
    view = window.others.profile_panel.view()
    assert window.page == "profile" and view is not None and view.answer.run_ids == (run.id,)


def profile_entry(window: MainWindow, run: RunRecord) -> QAction:
    entries = {action.text(): action for action in window.runs.menu_for(run).actions()}
    return entries["Profile"]


def test_details_that_are_open_offer_to_explain_the_time_once_the_machine_is_known(
    qtbot: QtBot, start: Callable[[], MainWindow], store: Store, tiny: Experiment
) -> None:
    run = store.add(tiny)
    store.begin(run.id)
    store.record(run.id, [Finished(summary=Summary())])
    window = start()
    window.runs.details_requested.emit(run.id)
    assert not window.live.details.explain.isEnabled()
    with qtbot.waitSignal(window.experiments.catalog_known, timeout=WAIT_MS):
        window.experiments.start()
    assert window.live.details.explain.isEnabled()
