"""The form, the page of the limit and the engine together: a real limit, and the line on memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import experiment_from
from gui.session.forecaster import Need
from gui.session.request import Request
from gui.setup.check import limit_request
from gui.setup.foot import NeedLine
from gui.window.main_window import MainWindow
from tests.forecasts import forecast_made

WAIT_MS = 60_000
LINEAR = experiment_from(
    {
        "model": "linear",
        "dataset": "synthetic-regression",
        "samples": 20,
        "batch_size": 10,
        "steps": 20,
        "device": "cpu",
        "memory_cap_gib": 1.0,
        "optimizer": {"name": "sgd", "learning_rate": 0.01},
    }
)


@pytest.fixture
def window(ready_window: MainWindow) -> MainWindow:
    assert ready_window.others.limits, "they are made once the window was painted, or now"
    return ready_window


@pytest.mark.slow
def test_a_search_runs_in_the_window_is_opened_again_and_deleted(
    qtbot: QtBot, window: MainWindow, goes_on: Event, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    asked: list[str] = []

    def answer(what: str, yes: bool) -> Callable[..., bool]:
        return lambda *_arguments: asked.append(what) or yes

    monkeypatch.setattr("gui.window.main_window.may_stop", answer("stop", False))
    monkeypatch.setattr("gui.answer.controller.may_delete", answer("delete", True))
    # so few samples that one trial finds the answer: a process for each takes seconds to import torch
    window.setup.use_settings(LINEAR.model_copy(update={"samples": 8, "batch_size": 4}))
    qtbot.mouseClick(window.setup.form.batch.find_max, Qt.MouseButton.LeftButton)
    window.setup.foot.run_button.setFocus()
    assert window.page == "limit"
    assert window.setup.run_action.text() == "Find the largest batch"
    works = window.experiments.works

    def is_running() -> None:
        assert works.in_progress == "limit", works.items()

    qtbot.waitUntil(is_running, timeout=WAIT_MS)
    focused = window.focusWidget()
    assert focused is window.others.limit_panel.head.stop, (
        "the next press of Space must not queue the same again"
    )
    assert window.top_bar.activity.activity().is_busy
    assert window.setup.run_action.text() == "Add to queue" and window.setup.run_action.isEnabled()
    assert not window.close() and asked == ["stop"], "closing asks while a limit is measured"
    window.setup.submit("limit")
    assert window.top_bar.activity.activity().waits == "1 waiting"
    window.others.limit_panel.head.stop.click()
    shown = window.others.limit_panel.view()
    assert shown is not None and shown.is_live, "the limit in progress can be stopped again"
    with qtbot.waitSignal(works.ended, timeout=WAIT_MS):
        goes_on.set()

    assert "FP32 fits at least 8" in window.others.limit_panel.text()
    view = window.others.limit_panel.view()
    assert view is not None and not view.is_live
    assert works.saved("limit") == (view.key,)
    assert window.setup.run_action.text() == "Find the largest batch"
    assert not window.top_bar.activity.activity().is_busy

    window.others.limit_panel.changes_wanted.emit((("batch_size", "8"),))
    assert window.setup.text("batch_size") == "8"

    with qtbot.waitSignal(window.others.limits.written) as written:
        window.others.limit_panel.head.export.asked.emit(home / "trials.csv")
    assert written.args == [home / "trials.csv"]
    rows = (home / "trials.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + view.answer.trial_count and "8,True" in rows[-1]

    assert "Limit, linear: Finding the largest batch" in window.backstage.log.text()
    window.others.limit_panel.head.menu.delete_asked.emit(view.key)
    assert (
        asked == ["stop", "delete"] and not works.saved("limit") and window.others.limit_panel.view() is None
    )


def test_a_cpu_is_searched_under_the_usual_limit_until_another_is_chosen(
    qtbot: QtBot, window: MainWindow
) -> None:
    window.setup.use_settings(LINEAR.model_copy(update={"memory_cap_gib": None}))
    window.show_page("limit")
    assert window.others.limit_panel.memory.value == "1" and window.setup.run_action.isEnabled()
    assert window.setup.foot.need.text().startswith("Uses up to 1.0 of")
    draft, catalog = window.setup.draft, window.experiments.catalog
    assert draft is not None and catalog is not None
    wanted = limit_request(draft, window.setup.outcome(), catalog)
    assert [one.memory_cap_gib for _, one in wanted.experiments] == [1.0]
    assert window.setup.text("memory_cap_gib") == "", "a run that trains is not to be limited by it"
    window.others.limit_panel.memory.box.edited.emit("2")
    assert window.others.limit_panel.memory.value == "2"
    assert window.setup.foot.need.text().startswith("Uses up to 2.0 of")
    assert window.setup.text("memory_cap_gib") == "", "under a cap it would have no speed"
    asked: list[Request] = []
    window.setup.register_handler("limit", asked.append, asked.append)
    window.setup.submit("limit")
    assert [one.memory_cap_gib for _, one in asked[0].experiments] == [2.0]


def test_what_the_form_asks_of_a_limit(window: MainWindow) -> None:
    setup, panel = window.setup, window.others.limit_panel
    setup.use_settings(LINEAR)
    window.show_page("limit")
    panel.memory.box.edited.emit("2")
    assert setup.text("memory_cap_gib") == "2" and panel.memory.value == "2", "the form's cap is the limit"
    window.show_page("compare")
    setup.use_settings(LINEAR.model_copy(update={"batch_size": 5_000}))
    assert not setup.run_action.isEnabled()
    window.show_page("limit")
    assert setup.run_action.isEnabled(), "a batch too large for the data keeps nobody from searching"
    setup.choose_preset("batch-limit")
    assert window.page == "limit" and setup.run_action.text() == "Find the largest batch"
    panel.changes_wanted.emit((("batch_size", "31"),))
    assert setup.text("batch_size") == "31" and "Batch size: 31" in window.notice.text()


def test_the_foot_says_what_the_run_needs_and_follows_the_batch_at_once(
    qtbot: QtBot, window: MainWindow
) -> None:
    need = window.setup.foot.need
    window.experiments.forecaster.set_busy(True)
    window.setup.use_settings(LINEAR)
    assert need.text() == "", "nothing is estimated beside a run"
    wanted = window.setup.outcome().experiments[0][1]
    window.experiments.forecaster._on_forecast(wanted, forecast_made(wanted, 100.0, 10.24))
    assert need.text() == "About 202 MiB of 1.0 GiB fits"
    window.setup.set_text("batch_size", "20")
    assert need.text() == "About 305 MiB of 1.0 GiB fits"
    window.show_page("limit")
    assert need.text().startswith("Uses up to 1.0 of")


@pytest.mark.slow
def test_a_forecast_is_made_by_the_engine_while_it_is_idle(qtbot: QtBot, window: MainWindow) -> None:
    window.setup.use_settings(LINEAR)
    need = window.setup.foot.need

    def is_forecast() -> None:
        assert need.text().startswith("About"), need.text()

    qtbot.waitUntil(is_forecast, timeout=WAIT_MS)


def test_a_need_beyond_the_memory_does_not_fit(qtbot: QtBot) -> None:
    line = NeedLine()
    qtbot.addWidget(line)
    line.show_need(Need(30 * 1024.0), 24 * 1024.0)
    assert line.text() == "About 30.0 of 24.0 GiB does not fit" and line.fraction() == 1.0
    line.show_need(Need(None), 24 * 1024.0)
    assert line.text() == "Estimating memory…"
    line.show_need(None, 24 * 1024.0)
    assert line.text() == ""
