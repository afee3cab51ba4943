"""The live panel: events in, the line on top, details and hints out."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, Phase, PhaseName
from gui.train.panel import LivePanel
from gui.train.strip import subject_of


def status(panel: LivePanel) -> str:
    """What is said of the run, without what it trains."""
    said = panel.strip.status.whole_text()
    subjects = (f"{subject_of(run)} · " for run in panel.runs())
    return next((said.removeprefix(subject) for subject in subjects if said.startswith(subject)), said)


def test_a_run_that_failed_before_its_first_step_says_so_and_what_to_do(panel: LivePanel, live: Any) -> None:
    problem = Problem(
        kind=Kind.OUT_OF_MEMORY, message="The device ran out of memory.", remedy="Lower batch size."
    )
    run = live.run("fp32", live.started(), Failed(problem=problem))
    run.set_status("failed", None, problem)
    panel.set_runs([run])
    panel.open_details()
    assert panel.page.failure.isVisible() and not panel.plots.isVisible()
    assert not panel.race.isVisible()
    assert panel.page.failure.accessibleName() == "The device ran out of memory. Lower batch size."
    assert status(panel) == "FP32 failed"
    texts = panel.details.texts()
    assert texts[texts.index("What to do") + 1] == "Lower batch size."
    assert "The device ran out of memory." in texts
    panel.set_runs(live.pair())
    assert not panel.page.failure.isVisible() and panel.plots.isVisible() and panel.race.isVisible()


def test_a_side_that_failed_says_so_above_the_other_one_that_trains(
    panel: LivePanel, live: Any, qtbot: QtBot
) -> None:
    taken: list[str] = []
    panel.offers_after = lambda _run_ids: [("Try batch 100", lambda: taken.append("100"))]
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It does not fit.", remedy="Lower it.")
    failed = live.run("fp32", live.started(), Failed(problem=problem))
    panel.set_runs([failed, live.run("fp16", live.started("fp16"), live.samples(1, 50))])
    card = panel.page.failure
    assert card.isVisible() and panel.plots.isVisible() and panel.failure == problem
    assert card.accessibleName() == "FP32 failed. It does not fit. Lower it."
    assert panel.race.scene is not None and panel.race.scene.line == ("FP32 failed.", "")
    (remedy,) = card.remedies
    qtbot.mouseClick(remedy, Qt.MouseButton.LeftButton)
    assert taken == ["100"] and remedy.text() == "Try batch 100"
    assert not card.check.isVisible() and not card.again.isVisible(), "the same would run out again"


def test_the_gpus_gauges_stand_in_a_line_where_there_is_room_and_a_cpu_has_none(
    qtbot: QtBot, panel: LivePanel, live: Any
) -> None:
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 50, power_watts=(1_012.4,) * 50))])
    assert panel.gauges.isVisible()
    panel.resize(1120, 500)
    qtbot.waitUntil(lambda: not panel.gauges.isVisible())
    panel.resize(1120, 660)
    qtbot.waitUntil(panel.gauges.isVisible)
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 50, resident_mib=(300.0,) * 50))])
    assert not panel.gauges.isVisible()


def test_new_runs_take_the_place_of_the_old_ones(panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    panel.set_runs([live.run("tf32", live.started("tf32"), live.samples(1, 30))])
    assert panel.race.scene is not None and [lane.name for lane in panel.race.scene.lanes] == ["TF32"]
    assert [entry.name for entry in panel.plots.loss.legend.entries] == ["TF32"]
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
    strip, left = panel.strip, panel.strip.left
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
    panel.set_runs([run])
    assert status(panel) == "FP32 running · compiling, this can take a minute"
    run.phase_began -= 23
    panel.refresh()
    assert status(panel) == "FP32 running · compiling, this can take a minute · 23 s"
    panel.resize(780, 500)
    panel.set_runs([run])
    panel.strip.status.resize(150, 20)
    assert panel.strip.status.text() == "FP32 compiling · 23 s"


def test_a_pause_is_asked_then_there_then_over(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    def shown(asked: bool | None) -> tuple[str, str]:
        panel.set_pause_request(asked)
        return panel.strip.pause.text(), status(panel)

    run = live.pair()[1]
    panel.set_runs([run])
    with qtbot.waitSignal(panel.pause_toggled):
        qtbot.mouseClick(panel.strip.pause, Qt.MouseButton.LeftButton)
    assert shown(True) == ("Resume", "FP16 AMP pausing")
    run.add(Phase(name=PhaseName.PAUSED))
    assert shown(None) == ("Resume", "FP16 AMP paused")
    assert panel.strip.left.text() == "" and panel.strip.stop.isEnabled()
    assert shown(False) == ("Pause", "FP16 AMP resuming")
    run.add(Phase(name=PhaseName.MEASURING))
    assert shown(None) == ("Pause", "FP16 AMP running")


def test_stop_asks_once_and_a_failed_run_tells_why(qtbot: QtBot, panel: LivePanel, live: Any) -> None:
    panel.set_runs(live.pair())
    with qtbot.waitSignal(panel.stop_requested):
        qtbot.mouseClick(panel.strip.stop, Qt.MouseButton.LeftButton)
    assert not panel.strip.stop.isEnabled()
    assert status(panel) == "FP16 AMP stopping, 2 of 2"
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="It did not fit.", remedy="Take less.")
    panel.set_runs([live.run("fp32", live.started(), live.samples(1, 3), Failed(problem=problem))])
    assert status(panel) == "FP32 failed"
    assert "It did not fit." in panel.page.failure.accessibleName() and panel.plots.isVisible()
    assert not panel.strip.stop.isVisible()
