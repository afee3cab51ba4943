"""The form, the runs, the workspace Sweep and the engine together: a sweep from the form to its card."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.experiment.sweep import Axis, Plan, grid_of
from engine.store.store import Store
from gui.window.main_window import MainWindow

WAIT_MS = 60_000


@pytest.fixture
def window(tiny_window: MainWindow) -> MainWindow:
    return tiny_window


@pytest.mark.slow
def test_a_sweep_goes_from_the_form_to_its_cards_and_the_comparison(
    qtbot: QtBot, window: MainWindow, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, works = window.others.sweep_panel, window.experiments.works
    window.show_page("sweep")
    assert not window.setup.run_action.isEnabled() and panel.empty.isVisible()
    panel.empty.button.click()
    assert window.setup.text("batch_size") == "5"
    qtbot.waitUntil(lambda: window.setup.run_action.isEnabled(), timeout=WAIT_MS)
    in_train: list[str] = []
    works.changed.connect(lambda _key: in_train.append(window.live.empty.words()))
    with qtbot.waitSignal(works.began, timeout=WAIT_MS):
        window.setup.run_action.trigger()
    assert window.page == "sweep"
    view = panel.view()
    assert view is not None and panel.head.stop.isVisible() and not panel.resume.isVisible()
    qtbot.waitUntil(lambda: not works.of("sweep"), timeout=WAIT_MS)
    qtbot.waitUntil(lambda: _done(window) == view.grid.size, timeout=WAIT_MS)
    assert any(words.startswith("Pilot of") for words in in_train)
    assert "combinations finished" not in panel.quiet.text() and "is the fastest: " in panel.text()
    assert not panel.resume.isVisible() and "finished" in panel.head.note.whole_text()
    panel.choose((view.grid.size - 1,))
    card = panel.card
    assert card.isVisible() and "baseline" in card.figures.text()
    card.compare.click()
    assert window.page == "results" and len(window.runs.checked()) == 2
    (run_id,) = panel.results.cells[1].run_ids  # type: ignore[union-attr]
    window.runs.sweep_requested.emit(store.runs()[0].sweep)
    assert window.page == "results"
    window.show_page("sweep")
    panel.choose((1,))
    card.use.click()
    assert window.setup.text("batch_size") == str(store.run(run_id).experiment.batch_size)
    card.show_runs.click()
    assert window.page == "compare" and [run.run_id for run in window.live.runs()] == [run_id]
    monkeypatch.setattr("gui.answer.controller.may_delete", lambda *_: True)
    window.show_page("sweep")
    entries = {action.text(): action for action in panel.head.menu.actions()}
    entries["Delete this sweep…"].trigger()
    assert panel.view() is None and panel.empty.isVisible() and store.runs()


def _done(window: MainWindow) -> int:
    results = window.others.sweep_panel.results
    return 0 if results is None else sum(cell.status == "done" for cell in results.cells)


@pytest.mark.slow
def test_a_stopped_sweep_goes_on_and_its_cells_are_held_and_released(
    qtbot: QtBot, window: MainWindow, store: Store, endless: Experiment
) -> None:
    panel, works = window.others.sweep_panel, window.experiments.works
    grid = grid_of(endless.model_dump(mode="json"), [Axis(key="steps", values=(endless.steps, 20))])
    with qtbot.waitSignal(window.experiments.began, timeout=WAIT_MS):
        window.others.open("sweep", window.experiments.submit_sweep("Lengths", grid, Plan()))
    panel.head.stop.click()
    qtbot.waitUntil(lambda: works.running is None, timeout=WAIT_MS)
    assert panel.resume.isVisible() and "unfinished" in panel.head.note.whole_text()
    qtbot.waitUntil(lambda: panel.results is not None, timeout=WAIT_MS)
    panel.choose((0,))
    panel.card.exclude.click()
    panel.choose((1,))
    panel.card.pause.click()
    qtbot.waitUntil(lambda: panel.card.pause.text() == "Resume", timeout=WAIT_MS)
    panel.card.pause.click()
    qtbot.waitUntil(lambda: panel.card.pause.text() == "Pause", timeout=WAIT_MS)
    panel.resume.click()
    qtbot.waitUntil(lambda: not works.of("sweep"), timeout=WAIT_MS)
    assert [len(cell.runs) for cell in store.sweeps.find(works.saved("sweep")[0]).cells][1] == 1
    qtbot.waitUntil(lambda: _done(window) == 1, timeout=WAIT_MS)
