"""The line on top: what runs, how far it is, pause and stop."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, Phase, PhaseName
from gui.train.panel import LivePanel


def test_the_strip_says_what_runs_and_how_far_it_is(panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    strip = panel.strip
    assert strip.title.whole_text() == "FP32 against FP16 AMP"
    assert strip.status.whole_text() == "FP16 AMP running, 2 of 2"
    assert strip.step.text() == "step 126 of 200"
    assert strip.progress.fraction() == pytest.approx(0.63)
    assert strip.left.text() == "3 s left"
    panel.set_title("Fashion")
    panel.refresh()
    assert strip.title.whole_text() == "Fashion"


def test_the_time_left_is_that_of_all_work(panel: LivePanel, live: Any) -> None:
    runs = live.pair()
    panel.set_runs(runs)
    panel.strip.set_work_left(90.0, at_least=True)
    runs[1].take(live.samples(127, 10, 1663.0, 3_174.0, grad_scale=(16_384.0,) * 10))
    panel.refresh()
    left = panel.strip.left
    assert left.text() == "at least 1 min 30 s left" and left.toolTip().endswith("for this run 3 s left")
    panel.strip.set_work_left(0.0, at_least=True)
    panel.set_runs(runs)
    assert left.text() == "at least 3 s left"
    panel.strip.set_work_left(None)
    runs[1].take(live.samples(137, 10, 1663.0, 3_174.0, grad_scale=(16_384.0,) * 10))
    panel.refresh()
    assert left.text() == "3 s left"


def test_a_phase_other_than_measuring_is_named(panel: LivePanel, live: Any) -> None:
    run = live.run("fp32", live.started(), Phase(name=PhaseName.VALIDATING))
    panel.set_runs([run])
    assert panel.strip.status.whole_text() == "FP32 running · validating"
    run.take(Phase(name=PhaseName.MEASURING))
    panel.refresh()
    assert panel.strip.status.whole_text() == "FP32 running"


def test_compiling_says_that_it_takes_time_and_for_how_long_it_has(panel: LivePanel, live: Any) -> None:
    run = live.run("fp32", Phase(name=PhaseName.COMPILING))
    panel.set_runs([run])
    status = panel.strip.status
    assert status.whole_text() == "FP32 running · compiling, this can take a minute"
    assert not panel.strip.step.isVisible()
    run.phase_began -= 23
    panel.refresh()
    assert status.whole_text() == "FP32 running · compiling, this can take a minute · 23 s"
    panel.resize(780, 500)
    panel.set_runs([run])
    status.resize(150, 20)
    assert status.text() == "FP32 compiling · 23 s"


def test_what_is_checked_is_named(panel: LivePanel, live: Any) -> None:
    run = live.run("fp32", Phase(name=PhaseName.CHECKING, detail="lstm_tagger.py"))
    panel.set_runs([run])
    assert panel.strip.status.whole_text() == "FP32 running · checking lstm_tagger.py"
    run.take(Phase(name=PhaseName.CHECKING, fraction=0.5))
    panel.refresh()
    assert panel.strip.status.whole_text() == "FP32 running · checking the pictures"


def test_a_download_shows_how_far_it_is(panel: LivePanel, live: Any) -> None:
    panel.set_runs(
        [live.run("fp32", Phase(name=PhaseName.DOWNLOADING, fraction=0.42, detail="CIFAR-100, 161 MiB"))]
    )
    strip = panel.strip
    assert strip.status.whole_text() == "FP32 running · downloading CIFAR-100, 161 MiB"
    assert strip.step.text() == "42 %" and strip.progress.fraction() == pytest.approx(0.42)


def test_a_pause_is_asked_then_there_then_over(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    run = live.pair()[1]
    panel.set_runs([run])
    with qtbot.waitSignal(panel.pause_toggled):
        qtbot.mouseClick(panel.strip.pause, Qt.MouseButton.LeftButton)
    panel.set_pause_asked(True)
    words = [(panel.strip.pause.text(), panel.strip.status.whole_text())]
    run.take(Phase(name=PhaseName.PAUSED))
    panel.set_pause_asked(None)
    words.append((panel.strip.pause.text(), panel.strip.status.whole_text()))
    assert panel.strip.left.text() == "" and panel.strip.stop.isEnabled()
    panel.set_pause_asked(False)
    words.append((panel.strip.pause.text(), panel.strip.status.whole_text()))
    run.take(Phase(name=PhaseName.MEASURING))
    panel.set_pause_asked(None)
    words.append((panel.strip.pause.text(), panel.strip.status.whole_text()))
    assert words == [
        ("Continue", "FP16 AMP pausing"),
        ("Continue", "FP16 AMP paused"),
        ("Pause", "FP16 AMP continuing"),
        ("Pause", "FP16 AMP running"),
    ]


def test_a_failed_run_tells_why(panel: LivePanel, live: Any) -> None:
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Take less.")
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 3), Failed(problem=problem))])
    assert panel.strip.status.whole_text() == "FP32 failed: It did not fit."
    assert not panel.strip.stop.isVisible()


def test_stop_asks_once_and_says_that_it_stops(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    with qtbot.waitSignal(panel.stop_requested):
        qtbot.mouseClick(panel.strip.stop, Qt.MouseButton.LeftButton)
    assert not panel.strip.stop.isEnabled()
    assert panel.strip.status.whole_text() == "FP16 AMP stopping, 2 of 2"
