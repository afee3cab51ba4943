"""A comparison's page becomes its answer when the last run has ended, without a click."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed
from engine.store.record import RunRecord
from engine.store.store import Store
from engine.worker.launcher import Launcher
from gui.compare.scripts import PrintedLines, RequiredMetrics
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings

Trained = Callable[..., RunRecord]


@pytest.fixture
def window(
    qtbot: QtBot, only_first_view: None, saved: Store, launcher: Launcher, trained: Trained
) -> MainWindow:
    """A window on a finished comparison, one of scripts, and on a run by itself."""
    scripts = saved.add_comparison("Scripts")
    for option, speed in (("", 688.0), (" --amp", 1_280.0)):
        command = {"line": f"python train.py{option}", "folder": "/my code", "require": "speed >= 1.05"}
        trained("fp32", speed, comparison=scripts, printed="step 1", settings={"command": command})
    comparison = saved.add_comparison("FP32 against BF16 AMP")
    for precision, speed in (("fp32", 688.0), ("bf16", 1_280.0)):
        trained(precision, speed, comparison=comparison, accuracies=(0.5, 0.61))
    trained("fp16", 900.0)
    window = MainWindow(
        saved, launcher, Settings(saved.path.with_name("window.json"), {"workspace": "experiment"})
    )
    qtbot.addWidget(window)
    window.resize(1_440, 900)
    window.show()
    return window


def test_the_sentence_and_the_quiet_line_stand_above_the_figures_over_time(
    window: MainWindow, qtbot: QtBot
) -> None:
    alone, newest, *_ = window.experiments.runs.records()
    window.in_view.open(newest.id)
    qtbot.waitUntil(lambda: window.live.answer() is not None)
    page = window.live.page
    assert page.answer.text().startswith("BF16 AMP trained 1.86 times as fast as FP32")
    assert "One run each: no confidence interval" in page.answer.text()
    assert page.plots.loss.legend.place == "at the end" and not page.plots.loss.header.follow.isVisible()
    assert page.strip.status.whole_text().startswith("finished ")
    assert (
        page.strip.by.value() == "seconds" and page.strip.export.isVisible() and page.strip.replay.isVisible()
    )
    assert not page.strip.stop.isVisible() and not page.strip.pause.isVisible()
    page.strip.replay.click()
    assert window.page == "show"
    page.strip.by.changed.emit("step")
    window.in_view.open(alone.id)
    assert window.live.answer() is None and not page.answer.isVisible()
    window.in_view.open(newest.id)
    qtbot.waitUntil(lambda: window.live.answer() is not None)
    assert page.strip.by.value() == "step", "the axis stays as the user chose it"
    window.close_without_asking()


def test_scripts_end_on_their_requirements_metrics_and_printed_lines(
    window: MainWindow, qtbot: QtBot
) -> None:
    alone, *_, script = window.experiments.runs.records()
    window.in_view.open(script.id)
    qtbot.waitUntil(lambda: window.live.answer() is not None)
    page = window.live.page
    above, below = page.findChild(RequiredMetrics), page.findChild(PrintedLines)
    assert above is not None and below is not None
    assert above.isVisible() and below.isVisible() and above.y() < page.plots.y() < below.y()
    assert [row.accessibleName().split(":")[0] for row in above.required.rows] == ["Cannot tell"]
    assert [card.lines() for card in below.cards] == [["step 1"]] * 2
    assert page.strip.command.isVisible() and not page.strip.profile.isVisible()
    page.strip.command.click()
    assert QGuiApplication.clipboard().text() == (
        "ammeter script 'python train.py' 'python train.py --amp' --steps 190 --warmup 10 --repeats 1 "
        "--require 'speed >= 1.05' --folder '/my code'"
    )
    window.in_view.open(alone.id)
    assert not above.isVisible() and not below.isVisible() and page.strip.profile.isVisible()
    window.close_without_asking()


@pytest.mark.parametrize(
    ("speeds", "reason"),
    [
        ({"": (700.0, 701.0, None), " --amp": (1_300.0, 1_301.0, 1_302.0)}, "train.py failed."),
        ({"": (700.0, 701.0, 702.0), " --amp": (1_300.0, 1_301.0, None)}, "train.py --amp failed."),
        ({"": (None, None), " --amp": (1_300.0, 1_301.0)}, "train.py failed."),
    ],
    ids=["one-of-the-baseline", "one-of-the-side", "all-of-the-baseline"],
)
def test_a_requirement_is_not_met_if_a_run_of_scripts_failed(
    window: MainWindow,
    saved: Store,
    trained: Trained,
    qtbot: QtBot,
    speeds: dict[str, tuple[float | None, ...]],
    reason: str,
) -> None:
    comparison = saved.add_comparison("Scripts")
    problem = Problem(kind=Kind.WORKER_DIED, message="It died.", remedy="")
    for seed, turn in enumerate(zip(*speeds.values(), strict=True)):
        for option, speed in zip(speeds, turn, strict=True):
            command = {"line": f"python train.py{option}", "require": "speed >= 1.05"}
            settings = {"command": command, "steps": 200, "seed": seed}
            if speed is None:
                run_id = saved.add(Experiment.model_validate(settings), comparison=comparison).id
                saved.begin(run_id)
                saved.record(run_id, [Failed(problem=problem)])
            else:
                run_id = trained("fp32", speed, comparison=comparison, settings=settings).id
    window.experiments.runs.reload()
    window.in_view.open(run_id)
    qtbot.waitUntil(lambda: window.live.answer() is not None)
    above = window.live.page.findChild(RequiredMetrics)
    assert above is not None
    assert [row.accessibleName() for row in above.required.rows] == [f"No: speed >= 1.05. {reason}"]
    window.close_without_asking()


def test_the_empty_page_asks_what_the_form_s_button_answers(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(window.setup.run_action.isEnabled, timeout=60_000)
    assert window.setup.foot.run_button.text() == "Compare 2 precisions"
    assert window.live.empty.words().startswith("What does BF16 AMP gain on this machine?")
    window.experiments.machine = "box"
    window.setup.run_action.changed.emit()
    assert window.live.empty.words().startswith("What does BF16 AMP gain on box?")
    window.close_without_asking()
