"""The form, the page Numerics and the engine together: a real study, kept, opened and deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, experiment_from
from engine.export.kinds.numerics import TITLES
from engine.protocol.numerics import NumericsResults, PrecisionMap
from gui.window.main_window import MainWindow

from .conftest import view_of

WAIT_MS = 60_000
KEY = "step.fp32_modules"
HALF = experiment_from(
    {
        "model": "linear",
        "dataset": "synthetic-regression",
        "samples": 20,
        "batch_size": 4,
        "steps": 3,
        "precision": "bf16",
        "device": "cpu",
        "optimizer": {"name": "sgd", "learning_rate": 0.01},
    }
)


@pytest.fixture
def window(ready_window: MainWindow) -> MainWindow:
    ready_window.setup.use_settings(HALF)
    ready_window.show_page("numerics")
    return ready_window


@pytest.mark.slow
def test_a_diagnosis_runs_in_the_window_is_opened_again_and_deleted(
    qtbot: QtBot, window: MainWindow, goes_on: Event, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gui.answer.controller.may_delete", lambda *_: True)
    panel, works = window.others.numerics_panel, window.experiments.works
    assert window.setup.run_action.text() == "Examine BF16 AMP"
    with qtbot.waitSignal(works.began, timeout=WAIT_MS):
        window.others.numerics.submit(HALF, ("range",))
    assert panel.head.stop.isVisible() and window.setup.run_action.text() == "Add to queue"
    assert window.top_bar.activity.activity().is_busy
    asked: list[object] = []
    monkeypatch.setattr("gui.window.main_window.may_stop", lambda *told: asked.append(told) or False)
    assert not window._may_close() and asked
    window.others.numerics.submit(HALF, ("map",))
    assert window.top_bar.activity.activity().waits == "1 waiting"
    panel.head.stop.click()
    view = panel.view()
    assert view is not None and view.is_live and works.of("numerics") == (view,)
    goes_on.set()
    qtbot.waitUntil(lambda: works.running is None, timeout=WAIT_MS)
    view = panel.view()
    assert view is not None and view.problem is None, view
    assert view.answer.results.range is not None and not panel.head.stop.isVisible()
    panel.show_view(None)
    window.show_page("compare")
    window.others.numerics.open(view.key)
    assert window.page == "numerics"
    shown = panel.view()
    assert shown is not None and shown.answer.results.range == view.answer.results.range
    with qtbot.waitSignal(window.others.numerics.written, timeout=WAIT_MS):
        panel.head.export.asked.emit(home / "numerics.json")
    assert (home / "numerics.json").stat().st_size
    panel.head.menu.actions()[-1].trigger()
    assert panel.view() is None and not works.saved("numerics")


def test_a_module_ticked_in_the_map_is_kept_in_fp32_by_the_form_and_undone(
    start: Callable[[], MainWindow], precision_map: PrecisionMap
) -> None:
    window = start()
    panel = window.others.numerics_panel
    panel.tabs.open(TITLES["map"])
    panel.show_view(view_of(NumericsResults(map=precision_map)))
    view = panel.map
    assert view is not None
    view.tree.kept.emit("features.3", True)
    view.tree.kept.emit("classifier", True)
    assert window.setup.text(KEY) == "features.3, classifier"
    tree = view.tree.map_tree()
    assert tree is not None
    assert "Modules kept in FP32" in window.notice.text() and "classifier" in window.notice.text()
    assert window.notice.offers() == ("Undo",)
    view.tree.kept.emit("features.3", False)
    assert window.setup.text(KEY) == "classifier"
    window.notice.messages()[-1].answered.emit(lambda: window.setup.use_changes(((KEY, ""),)))
    assert window.setup.text(KEY) == ""


def test_a_preset_chooses_the_parts_of_its_numerics(start: Callable[[], MainWindow]) -> None:
    window = start()
    window.setup.choose_preset("debug-divergence")
    panel = window.others.numerics_panel
    assert panel.parts() == ("ladder",) and panel.tabs.name() == TITLES["ladder"]
    assert window.setup.question == "numerics"


@pytest.mark.slow
def test_a_run_that_met_a_nan_offers_to_find_it(qtbot: QtBot, window: MainWindow, tiny: Experiment) -> None:
    fast = tiny.optimizer.model_copy(update={"learning_rate": 1_000.0})
    with qtbot.waitSignal(window.experiments.ended, timeout=WAIT_MS):
        window.experiments.submit("", [("run", tiny.model_copy(update={"optimizer": fast}))])
    assert "is NaN from step" in window.notice.text() and window.notice.offers() == ("Find it",)
    (run,) = window.experiments.runs.records()
    entries = {action.text(): action for action in window.runs.menu_for(run).actions()}
    assert entries["Find the first NaN"].isEnabled()
    entries["Find the first NaN"].trigger()
    panel = window.others.numerics_panel
    view = panel.view()
    assert window.page == "numerics" and panel.tabs.name() == TITLES["nan"]
    assert view is not None and view.answer.run_id == run.id and view.answer.parts == ("nan",)
    with qtbot.waitSignal(window.experiments.works.ended, timeout=WAIT_MS):
        pass
    found = panel.view()
    assert found is not None and found.answer.results.nan is not None, found
    assert found.answer.results.nan.first is not None
    qtbot.waitUntil(panel.tabs.views[TITLES["nan"]].sections[TITLES["nan"]].isVisible)
