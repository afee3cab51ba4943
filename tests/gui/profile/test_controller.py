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
from engine.protocol.profile import Limits, Profiles, profiles_of
from engine.store.record import RunRecord
from engine.store.saved.studies import Study
from engine.store.store import Store
from gui.window.main_window import MainWindow

WAIT_MS = 60_000


@pytest.fixture
def window(tiny_window: MainWindow) -> MainWindow:
    return tiny_window


@pytest.mark.slow
def test_the_forms_precisions_are_profiled_side_by_side_with_their_traces(
    qtbot: QtBot, window: MainWindow, goes_on: Event, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the limits of this machine take most of the time, and are none of the page's
    limits = Limits(peaks=(), gb_per_second=1e5)
    monkeypatch.setattr("engine.training.profile.profile.measure_limits", lambda *_: limits)
    monkeypatch.setattr("engine.training.profile.recording._LEAST_SECONDS", 0.1)
    panel, works = window.others.profile_panel, window.experiments.works
    window.setup.change(lambda draft: draft.with_precisions(("bf16", "fp32")))
    window.show_page("profile")
    assert window.setup.run_action.text() == "Profile 2 precisions"
    window.setup.foot.run_button.setFocus()
    with qtbot.waitSignal(works.began, timeout=WAIT_MS):
        window.setup.run_action.trigger()
    assert panel.head.stop.hasFocus()
    goes_on.set()
    qtbot.waitUntil(lambda: works.running is None, timeout=WAIT_MS)
    view = panel.view()
    assert view is not None and view.problem is None, view
    first, second = (side.profile for side in view.answer.sides)
    assert first is not None and second is not None
    assert (first.format, second.format) == ("fp32", "bf16")
    assert panel.sentence.isVisible() and "Profiling FP32." in window.backstage.log.text()
    with qtbot.waitSignal(window.others.profiles.written, timeout=WAIT_MS):
        panel.head.export.asked.emit(home / "steps.json.gz")
    assert all((home / name).stat().st_size for name in ("steps.json.gz", "steps-2.json.gz"))
    assert "Perfetto" in window.notice.messages()[-1].remedy.title()


@pytest.mark.slow
def test_a_runs_profile_is_made_once_and_then_opened(
    qtbot: QtBot, window: MainWindow, goes_on: Event, store: Store, tiny: Experiment, profiles: Profiles
) -> None:
    run = finished(store, tiny)
    window.experiments.runs.reload()
    works, panel = window.experiments.works, window.others.profile_panel
    profile_entry(window, run).trigger()
    assert window.page == "profile"
    profile_entry(window, run).trigger()
    assert len(works.of("profile")) == 1, "the one in progress is opened"
    panel.head.stop.click()
    goes_on.set()
    qtbot.waitUntil(lambda: not works.of("profile"), timeout=WAIT_MS)
    made = profiles_of([tiny], [run.id]).with_side(0, profile=profiles.sides[0].profile)
    store.studies.end(store.studies.begin(Study(answer=made)))
    window.show_page("compare")
    profile_entry(window, run).trigger()
    view = panel.view()
    assert window.page == "profile" and view is not None and view.answer == made
    panel.again.click()
    assert len(works.of("profile")) == 1
    panel.head.stop.click()
    qtbot.waitUntil(lambda: not works.of("profile"), timeout=WAIT_MS)


def finished(store: Store, experiment: Experiment) -> RunRecord:
    run = store.add(experiment)
    store.begin(run.id)
    store.record(run.id, [Finished(summary=Summary())])
    return store.run(run.id)


def profile_entry(window: MainWindow, run: RunRecord) -> QAction:
    entries = {action.text(): action for action in window.runs.menu_for(run).actions()}
    return entries["Profile"]


def test_details_that_are_open_offer_to_explain_the_time_once_the_machine_is_known(
    qtbot: QtBot, start: Callable[[], MainWindow], store: Store, tiny: Experiment
) -> None:
    run = finished(store, tiny)
    window = start()
    window.runs.details_requested.emit(run.id)
    assert not window.live.page.details.explain.isEnabled()
    with qtbot.waitSignal(window.experiments.catalog_known, timeout=WAIT_MS):
        window.experiments.start()
    assert window.live.page.details.explain.isEnabled()
