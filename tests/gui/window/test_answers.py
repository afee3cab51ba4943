"""A comparison's page becomes its answer when the last run has ended, without a click."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from engine.store.record import RunRecord
from engine.store.store import Store
from engine.worker.launcher import Launcher
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings

Trained = Callable[..., RunRecord]


@pytest.fixture
def window(
    qtbot: QtBot, only_first_view: None, saved: Store, launcher: Launcher, trained: Trained
) -> MainWindow:
    """A window on a finished comparison, and on a run by itself."""
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
    alone, newest, _ = window.experiments.runs.records()
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


def test_the_empty_page_asks_what_the_form_s_button_answers(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(window.setup.run_action.isEnabled, timeout=60_000)
    assert window.setup.foot.run_button.text() == "Compare 2 precisions"
    assert window.live.empty.words().startswith("What does BF16 AMP gain on this machine?")
    window.experiments.machine = "box"
    window.setup.run_action.changed.emit()
    assert window.live.empty.words().startswith("What does BF16 AMP gain on box?")
    window.close_without_asking()
