"""The page Tune: options, the tuning as it goes on, and what is done with its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.export.kinds import tune
from engine.protocol.tune import Tuning
from engine.store.saved.studies import Study
from engine.store.store import Store
from gui.charts.painter import DrawingView
from gui.window.main_window import MainWindow
from tests.engine.tune.test_result import TUNING

WAIT_MS = 60_000


@pytest.fixture
def tuned(tiny: Experiment) -> Tuning:
    """A tuning that is over: BF16 with larger batches is the fastest."""
    winner = tiny.model_copy(update={"batch_size": 5})
    return TUNING.model_copy(update={"experiment": tiny, "phase": "over", "rounds": 2, "winner": winner})


def put(store: Store, tuning: Tuning) -> Study[Tuning]:
    return store.studies.end(store.studies.begin(Study(answer=tuning, device_name="A card")))


def test_what_a_search_found_is_shown_used_and_exported(
    qtbot: QtBot, start: Callable[[], MainWindow], store: Store, tuned: Tuning, home: Path
) -> None:
    key = put(store, tuned).id
    window = start()
    window.show_page("tune")
    panel, fastest = window.others.tune_panel, window.others.fastest
    assert panel.view() is not None
    result = panel.tabs.views[tune.RESULT].sections
    assert result[tune.GAINS].findChildren(DrawingView) and not panel.resume.isVisibleTo(window)
    candidates = result[tune.CANDIDATES].table
    assert [row[-1] for row in candidates.lines()] == ["State", "Fastest", "Eliminated in round 1"]
    panel.head.settings.click()
    assert window.setup.text("batch_size") == "5"
    with qtbot.waitSignal(fastest.written, timeout=WAIT_MS):
        fastest.export(home / "fastest.py")
    assert "torch" in (home / "fastest.py").read_text()
    works = window.experiments.works
    works.delete(key)
    assert panel.view() is None and panel.empty.isVisibleTo(window)


def test_a_search_shows_what_it_tries_and_its_runs_are_told_like_any_other(
    start: Callable[[], MainWindow], store: Store, tuned: Tuning, tiny: Experiment
) -> None:
    window = start()
    window.show_page("tune")
    panel, works = window.others.tune_panel, window.experiments.works
    begun = tuned.model_copy(update={"phase": "halving", "winner": None, "proof": None, "gains": ()})
    study = put(store, begun)
    key = study.id
    window.others.fastest._show(works.resume(key))
    assert "waiting" in panel.head.note.whole_text() and panel.head.stop.isVisibleTo(window)
    run = store.add(tiny)
    works._on_began(key)
    works._on_event(key, replace(study, doing="Short runs, run 7, BF16 AMP, fast"))
    assert "run 7, BF16 AMP, fast" in panel.head.note.whole_text()
    assert window.experiments.running is None and window.experiments.in_progress == "tune"
    works._on_event(key, replace(study, doing="Proof, run 8, FP32, plain", trains=run.id))
    assert window.experiments.running == run.id
    works._on_event(key, replace(study, answer=tuned))
    assert window.experiments.running is None
    works._on_ended(key, None)
    assert "finished" in panel.head.note.whole_text()


def test_the_options_say_what_may_change_and_are_remembered(start: Callable[[], MainWindow]) -> None:
    options = start().others.tune_panel.options
    options.boxes["loader"].setChecked(False)
    assert not options.plan().coarse_formats
    options.coarse.setChecked(True)
    options.guard.setCurrentIndex(1)
    options.cap.setCurrentIndex(options.cap.findData(8.0))
    plan = options.plan()
    assert (
        plan.coarse_formats
        and "loader" not in plan.kinds
        and plan.guard == "none"
        and options.memory_cap_gib() == 8.0
    )
    other = type(options)()
    other.restore(options.state())
    assert other.plan() == plan and other.memory_cap_gib() == 8.0
    other.deleteLater()


def test_the_exchange_of_gradients_may_change_where_several_devices_train(
    start: Callable[[], MainWindow],
) -> None:
    window = start()
    box = window.others.tune_panel.options.boxes["exchange"]
    for devices, is_hidden in (("1", True), ("2", False), ("1", True)):
        window.setup.set_text("devices", devices)
        assert box.isHidden() is is_hidden
