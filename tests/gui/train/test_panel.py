"""The live panel: events in, the line on top, details and hints out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.compare.failure import Failure
from engine.experiment.command import Command
from engine.protocol.events import Failed, Phase, PhaseName
from engine.store.store import Store
from gui.train.panel import LivePanel
from gui.train.strip import subject_of
from tests.failures import OUT_OF_MEMORY, Failures

FULL = OUT_OF_MEMORY


@pytest.fixture
def failure(store: Store, home: Path) -> Failure:
    failures = Failures(store, home)
    return failures.read(failures.case("gpu", home))


def status(panel: LivePanel) -> str:
    """What is said of the run, without what it trains."""
    said = panel.page.strip.status.whole_text()
    subjects = (f"{subject_of(run)} · " for run in panel.runs())
    return next((said.removeprefix(subject) for subject in subjects if said.startswith(subject)), said)


def test_a_run_that_failed_before_its_first_step_says_so_and_what_to_do(
    panel: LivePanel, live: Any, failure: Failure
) -> None:
    run = live.run("fp32", live.started(), Failed(problem=FULL))
    run.set_status("failed", None, FULL)
    panel.set_failure(failure)
    panel.set_runs([run])
    panel.open_details()
    page = panel.page
    assert page.failure.isVisible() and not page.plots.isVisible() and not page.race.isVisible()
    assert page.failure.card.accessibleName().startswith("Batch 8,000 does not fit in the GPU's")
    assert status(panel) == "FP32 failed"
    assert FULL.message in page.details.texts()
    panel.set_runs(live.pair())
    assert not page.failure.isVisible() and page.plots.isVisible() and page.race.isVisible()


def test_a_side_that_failed_says_so_above_the_other_one_that_trains(
    panel: LivePanel, live: Any, failure: Failure, qtbot: QtBot
) -> None:
    failed = live.run("fp32", live.started(), Failed(problem=FULL))
    panel.set_failure(failure)
    panel.set_runs([failed, live.run("fp16", live.started("fp16"), live.samples(1, 50))])
    page = panel.page
    assert page.failure.isVisible() and page.plots.isVisible() and panel.failure == FULL
    assert page.race.scene is not None and page.race.scene.line == ("FP32 failed.", "")
    button = page.failure.card.remedies[0]
    with qtbot.waitSignal(panel.remedy_wanted) as wanted:
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert wanted.args == [failure.remedies[0]]


def test_the_gpus_gauges_stand_in_a_line_where_there_is_room_and_a_cpu_has_none(
    qtbot: QtBot, panel: LivePanel, live: Any
) -> None:
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 50, power_watts=(1_012.4,) * 50))])
    assert panel.page.gauges.isVisible()
    panel.resize(1120, 500)
    qtbot.waitUntil(lambda: not panel.page.gauges.isVisible())
    panel.resize(1120, 660)
    qtbot.waitUntil(panel.page.gauges.isVisible)
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 50, resident_mib=(300.0,) * 50))])
    assert not panel.page.gauges.isVisible()


def test_new_runs_take_the_place_of_the_old_ones(panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    panel.set_runs([live.run("tf32", live.started("tf32"), live.samples(1, 30))])
    assert panel.page.race.scene is not None and [lane.name for lane in panel.page.race.scene.lanes] == [
        "TF32"
    ]
    assert [entry.name for entry in panel.page.plots.loss.legend.entries] == ["TF32"]
    panel.set_runs([])
    panel.refresh()
    assert panel.runs() == ()


def test_the_strip_says_what_runs_how_far_it_is_and_how_long_all_work_takes(
    panel: LivePanel, live: Any
) -> None:
    def train_on(first: int) -> None:
        runs[1].add(live.samples(first, 10, 1663.0, 3_174.0, grad_scale=(16_384.0,) * 10))
        panel.refresh()

    runs = live.pair()
    panel.set_runs(runs)
    strip, left = panel.page.strip, panel.page.strip.left
    assert strip.title.whole_text() == "FP32 and FP16 AMP"
    assert status(panel) == "FP16 AMP running, 2 of 2"
    assert left.text() == "3 s left"
    panel.set_title("Fashion")
    strip.set_work_left(90.0, at_least=True)
    train_on(127)
    assert strip.title.whole_text() == "Fashion"
    assert left.text() == "at least 1 min 30 s left" and left.toolTip().endswith("This run: 3 s left")
    strip.set_work_left(0.0, at_least=True)
    panel.set_runs(runs)
    assert left.text() == "at least 3 s left"
    strip.set_work_left(None)
    train_on(137)
    assert left.text() == "3 s left"


def test_a_phase_other_than_measuring_is_named(panel: LivePanel, live: Any) -> None:
    for phase, words in (
        (Phase(name=PhaseName.VALIDATING), " · validating"),
        (Phase(name=PhaseName.MEASURING), ""),
        (Phase(name=PhaseName.WAITING, detail="waiting for a free node"), " · waiting for a free node"),
        (Phase(name=PhaseName.CHECKING, fraction=0.5), " · checking the images · 50%"),
        (
            Phase(name=PhaseName.DOWNLOADING, fraction=0.42, detail="CIFAR-100, 161 MiB"),
            " · downloading CIFAR-100, 161 MiB · 42%",
        ),
    ):
        panel.set_runs([live.run("fp32", phase)])
        assert status(panel) == f"FP32 running{words}"


def test_compiling_says_that_it_takes_time_and_for_how_long_it_has(panel: LivePanel, live: Any) -> None:
    run = live.run("fp32", Phase(name=PhaseName.COMPILING))
    run.phase_began += 10
    panel.set_runs([run])
    assert status(panel) == "FP32 running · compiling, this can take a minute"
    run.phase_began -= 33
    panel.refresh()
    shown = status(panel)
    assert shown.startswith("FP32 running · compiling, this can take a minute · ")
    # a busy machine is slower
    assert 23 <= int(shown.removesuffix(" s").split()[-1]) < 40
    panel.resize(780, 500)
    panel.set_runs([run])
    panel.page.strip.status.resize(150, 20)
    assert re.fullmatch(r"FP32 compiling · [23]\d s", panel.page.strip.status.text())


def test_a_pause_is_asked_then_there_then_over(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    def shown(asked: bool | None) -> tuple[str, str]:
        panel.set_pause_request(asked)
        return panel.page.strip.pause.text(), status(panel)

    run = live.pair()[1]
    panel.set_runs([run])
    with qtbot.waitSignal(panel.pause_toggled):
        qtbot.mouseClick(panel.page.strip.pause, Qt.MouseButton.LeftButton)
    assert shown(True) == ("Resume", "FP16 AMP pausing")
    run.add(Phase(name=PhaseName.PAUSED))
    assert shown(None) == ("Resume", "FP16 AMP paused")
    assert panel.page.strip.left.text() == "" and panel.page.strip.stop.isEnabled()
    assert shown(False) == ("Pause", "FP16 AMP resuming")
    run.add(Phase(name=PhaseName.MEASURING))
    assert shown(None) == ("Pause", "FP16 AMP running")


def test_a_script_is_not_paused(panel: LivePanel, live: Any) -> None:
    run = live.pair()[1]
    run.experiment = run.experiment.model_copy(update={"command": Command(line="python train.py")})
    panel.set_runs([run])
    pause = panel.page.strip.pause
    assert not pause.isEnabled() and pause.toolTip().startswith("A script cannot be paused.")


def test_stop_asks_once_and_a_failed_run_tells_why(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    with qtbot.waitSignal(panel.stop_requested):
        qtbot.mouseClick(panel.page.strip.stop, Qt.MouseButton.LeftButton)
    assert not panel.page.strip.stop.isEnabled()
    assert status(panel) == "FP16 AMP stopping, 2 of 2"
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 3), Failed(problem=FULL))])
    assert status(panel) == "FP32 failed" and panel.page.plots.isVisible()
    assert not panel.page.strip.stop.isVisible()
