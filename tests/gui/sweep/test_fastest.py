"""Find the fastest in the window: options, the search as it goes on, and what is done with its outcome."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.protocol.tuning import Gain, Proof, Tuning, TuningTrial
from engine.store.store import Store
from engine.sweep.fastest.events import TrialStarted, TuningKnown, TuningStarted
from gui.sweep.fastest.page import Waterfall
from gui.sweep.fastest.words import candidates
from gui.window.main_window import MainWindow

WAIT_MS = 60_000


@pytest.fixture
def tuned(tiny: Experiment) -> Tuning:
    """A tuning that is over: BF16 won."""
    winner = {"precision": "bf16", "step.recipe": "fast"}
    plain = {"round": 1, "steps": 10, "seconds": 1.0, "changes": {}, "words": "FP32, plain"}
    return Tuning(
        experiment=tiny,
        phase="over",
        candidates=12,
        rounds=2,
        trials=(
            TuningTrial.model_validate({**plain, "samples_per_second": 100.0}),
            TuningTrial.model_validate(
                {
                    **plain,
                    "round": 2,
                    "changes": winner,
                    "words": "BF16 AMP, fast",
                    "samples_per_second": 210.0,
                }
            ),
        ),
        winner=tiny.model_copy(update={"batch_size": 5}),
        winner_changes=winner,
        gains=(Gain(words="BF16 AMP", changes={"precision": "bf16"}, speedup=2.1, speedup_ci=(2.0, 2.2)),),
        proof=Proof(
            baseline_ids=(),
            winner_ids=(),
            speedup=2.1,
            speedup_ci=(2.0, 2.2),
            is_loss_alike=True,
            sentence="The winner trains 2.1 times as fast as plain FP32 (2.0 to 2.2).",
        ),
        not_tried=("torch.compile: it needs a GPU.",),
        runs=9,
        seconds=90.0,
    )


def test_what_a_search_found_is_shown_used_and_exported(
    qtbot: QtBot, start: Callable[[], MainWindow], store: Store, tuned: Tuning, home: Path
) -> None:
    key = store.tunings.add(tuned, device_name="A card")
    window = start()
    window.show_page("tune")
    panel, fastest = window.others.tune_panel, window.others.fastest
    assert panel.view() is not None
    text = panel.page.text()
    assert "2.1 times as fast" in text and "9 runs" in text and "torch.compile" in text
    assert panel.page.findChildren(Waterfall) and not panel.go_on.isVisibleTo(window)
    assert [candidate.state for candidate in candidates(tuned)] == ["winner", "out after round 1"]
    panel.page.use_wanted.emit()
    assert window.setup.text("batch_size") == "5"
    with qtbot.waitSignal(fastest.written, timeout=WAIT_MS):
        fastest.export(home / "fastest.py")
    assert "torch" in (home / "fastest.py").read_text()
    assert [action.text() for action in panel.head.menu.actions()] == ["Search again", "Delete this search…"]
    tunings = window.experiments.tunings
    tunings.delete(key)
    assert panel.view() is None and "Which settings" in panel.page.text()


def test_a_search_shows_what_it_tries_and_its_runs_are_told_like_any_other(
    start: Callable[[], MainWindow], store: Store, tuned: Tuning, tiny: Experiment
) -> None:
    window = start()
    window.show_page("tune")
    panel, tunings = window.others.tune_panel, window.experiments.tunings
    begun = tuned.model_copy(update={"phase": "halving", "winner": None, "proof": None, "gains": ()})
    key = store.tunings.add(begun, device_name="A card")
    window.others.fastest._show(tunings.carry_on(key))
    assert "waiting" in panel.head.note.whole_text() and panel.head.stop.isVisibleTo(window)
    run = store.add(tiny)
    tunings._begin(key)
    tunings._pass_on(key, TuningStarted(key, begun))
    tunings._pass_on(key, TrialStarted("halving", "BF16 AMP, fast", 7))
    assert "run 7, BF16 AMP, fast" in panel.head.note.whole_text()
    assert window.experiments.running is None and window.experiments.in_progress == "tuning"
    tunings._pass_on(key, TrialStarted("proof", "FP32, plain", 8, run.id))
    assert window.experiments.running == run.id
    tunings._pass_on(key, TuningKnown(tuned))
    assert window.experiments.running is None
    words = [label.text() for label in panel.page.findChildren(QLabel)]
    assert "What was not tried" in words
    tunings._end(key, None)
    assert "finished" in panel.head.note.whole_text()


def test_the_options_say_what_may_change_and_are_remembered(start: Callable[[], MainWindow]) -> None:
    options = start().others.tune_panel.options
    options.boxes["loader"].setChecked(False)
    options.guard.setCurrentIndex(1)
    options.cap.setCurrentIndex(options.cap.findData(8.0))
    plan = options.plan()
    assert "loader" not in plan.kinds and plan.guard == "none" and options.memory_cap_gib() == 8.0
    other = type(options)()
    other.restore(options.state())
    assert other.plan() == plan and other.memory_cap_gib() == 8.0
    other.deleteLater()
