"""The window without an engine: a page says what is missing, all else works, and training begins there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.installation.installed import State, engine_here
from engine.installation.request import Fetched, Installed, InstallRequest
from engine.store.record import RunRecord, Status
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.installation.dialog import EngineDialog
from gui.installation.progress import SetupChip
from gui.session.experiments import WAITS_FOR_ENGINE
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings
from tests.gui.installation.conftest import Performed
from tests.installations import put_installation

Open = Callable[..., MainWindow]


@pytest.fixture
def performed() -> Performed:
    return Performed()


@pytest.fixture
def open_window(qtbot: QtBot, store: Store, no_engine: Path, performed: Performed) -> Iterator[Open]:
    """Opens a window on a machine without torch; keywords are what it remembers."""
    opened: list[MainWindow] = []
    with Launcher(Target.THREAD) as launcher:

        def open_one(used: Store = store, **remembered: object) -> MainWindow:
            settings = Settings(no_engine / "window.json", dict(remembered))
            window = MainWindow(used, launcher, settings, make_installer=performed.another)
            opened.append(window)
            qtbot.addWidget(window)
            with qtbot.waitSignal(window.painted):
                window.show()
            return window

        yield open_one
        for window in opened:
            window.close_without_asking()


@pytest.mark.slow
def test_the_first_start_tells_one_story_which_ends_with_a_run(
    qtbot: QtBot, open_window: Open, no_engine: Path, performed: Performed, tiny: Experiment
) -> None:
    window = open_window()
    page = window.engine.page
    assert window.page == "compare" and page.isVisible() and not window.notice.messages()
    assert window.setup.foot.text() == "PyTorch is not installed." and not window.setup.run_action.isEnabled()
    qtbot.waitUntil(page.begin_button.isEnabled)
    assert "RTX 4090" in window.top_bar.device.accessibleName()
    window.setup.use_settings(tiny)
    page.begin_button.click()
    assert window.setup.foot.text() == "PyTorch is being installed."
    put_installation(no_engine)
    installation = engine_here().installation
    assert installation is not None
    for event in (Installed(installation), None):
        performed.events.put(event)
    qtbot.waitUntil(page.train_button.isVisible)
    assert "PyTorch is not installed" not in window.top_bar.device.accessibleName()
    with qtbot.waitSignal(window.experiments.ended, timeout=60_000):
        page.train_button.click()
    assert [run.status for run in window.experiments.runs.records()] == [Status.FINISHED]
    assert not window.setup.foot.engine_button.isVisible()


def test_what_needs_the_engine_leads_to_its_page_from_everywhere(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(workspace="results")

    def ask_in_help() -> None:
        window.engine.show_dialog()
        window.findChildren(EngineDialog)[-1].set_up_button.click()

    asked = (
        ask_in_help,
        window.others.demo.start,
        partial(window.setup.submit, "limit"),
        window.setup.foot.engine_button.click,
    )
    for ask in asked:
        window.show_page("limit")
        assert window.setup.foot.engine_button.isVisible()
        ask()
        assert window.page == "compare" and window.engine.page.isVisible()
    assert not window.notice.messages()


def test_saved_runs_stay_in_sight_and_the_page_is_a_click_away(
    open_window: Open, saved: Store, trained: Callable[..., RunRecord]
) -> None:
    run = trained("fp32", 880.0)
    window = open_window(saved)
    assert window.engine.page.isVisible()
    window.runs.open_requested.emit(run.id)
    assert window.live.page.isVisible() and not window.engine.page.isVisible()
    window.setup.foot.engine_button.click()
    assert window.engine.page.isVisible() and not window.setup.foot.engine_button.isVisible()


def test_a_broken_engine_is_told_where_its_page_is_not_in_sight_and_repaired_by_one_button(
    qtbot: QtBot, open_window: Open, no_engine: Path, performed: Performed
) -> None:
    packages = put_installation(no_engine)
    (packages / "torch" / "__init__.py").unlink()
    window = open_window(workspace="results")
    (message,) = window.notice.messages()
    assert "torch is missing" in message.text and message.offers == ("Repair",)
    window.engine.repair()
    qtbot.waitUntil(lambda: bool(performed.wanted))
    assert performed.wanted[0].backend == "cpu" and window.engine.page.isVisible()
    assert not window.notice.messages()


def test_a_worker_that_died_has_the_engines_files_looked_at(
    qtbot: QtBot, open_window: Open, no_engine: Path
) -> None:
    packages = put_installation(no_engine)
    (packages.parent / "whole").touch()
    window = open_window(workspace="results")
    died = Problem(kind=Kind.WORKER_DIED, message="The training process ended.", remedy="")
    window.experiments.problem.emit(died)
    qtbot.waitUntil(lambda: ("Repair",) in [message.offers for message in window.notice.messages()])


@pytest.mark.slow
def test_an_engine_that_was_set_up_elsewhere_is_taken_when_the_window_is_back_in_front(
    qtbot: QtBot, open_window: Open, no_engine: Path
) -> None:
    window = open_window()
    put_installation(no_engine)
    with qtbot.waitSignal(window.experiments.catalog_known, timeout=60_000):
        window.engine.use_installed()
    assert window.experiments.engine.state is State.READY and not window.engine.page.isVisible()


@pytest.mark.slow
def test_an_installation_waits_for_what_is_measured_and_what_is_queued_waits_for_it(
    qtbot: QtBot, open_window: Open, no_engine: Path, performed: Performed, tiny: Experiment
) -> None:
    put_installation(no_engine)
    window = open_window()
    experiments, installing = window.experiments, window.engine.installing
    with qtbot.waitSignal(experiments.began, timeout=60_000):
        experiments.submit("", [("", tiny.model_copy(update={"steps": 1_000_000}))])
    installing.start(InstallRequest("cpu"))
    installing.stop()
    assert not installing.is_busy and not performed.wanted
    window.engine.repair()
    assert installing.is_waiting and "Waiting" in window.engine.page.progress.accessibleName()
    (second,) = experiments.submit("", [("", tiny)])
    with qtbot.waitSignal(experiments.ended, timeout=60_000):
        experiments.stop()
    qtbot.waitUntil(lambda: bool(performed.wanted))
    run = experiments.runs.record(second)
    assert run is not None and experiments.why_not_started(run) == WAITS_FOR_ENGINE
    assert experiments.is_idle and window.setup.run_action.text() == "Add to queue"
    with qtbot.waitSignal(experiments.ended, timeout=60_000) as ended:
        installing.stop()
    assert ended.args == [second]


def test_the_top_bar_tells_elsewhere_how_far_the_installation_is(
    qtbot: QtBot, open_window: Open, performed: Performed
) -> None:
    window = open_window()
    page = window.engine.page
    qtbot.waitUntil(page.begin_button.isEnabled)
    page.begin_button.click()
    performed.events.put(Fetched(1, 4, None, "torch"))
    window.show_page("results")
    chip = window.top_bar.findChild(SetupChip)
    qtbot.waitUntil(lambda: chip.accessibleName() == "Downloading PyTorch: 25%")
    assert chip.isVisible() and not page.isVisible()
    chip.click()
    assert page.isVisible()
