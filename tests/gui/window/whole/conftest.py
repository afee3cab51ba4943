"""The window with the real engine, opened again and again, and what it trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.store.store import Store
from engine.worker.launcher import Launcher
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings

WAIT_MS = 60_000

Open = Callable[[], MainWindow]


@pytest.fixture
def open_window(
    qtbot: QtBot, launcher: Launcher, home: Path, seen_before: Callable[[Path], Settings]
) -> Iterator[Open]:
    """Opens windows on one store, as starting the program again does; the one before is closed first."""
    opened: list[tuple[MainWindow, Store]] = []

    def close_last() -> None:
        if opened:
            window, store = opened.pop()
            window.close_without_asking()
            store.close()
            window.deleteLater()

    def start() -> MainWindow:
        close_last()
        store = Store(home / "ammeter.sqlite")
        window = MainWindow(store, launcher, seen_before(home))
        opened.append((window, store))
        over = {record.id for record in window.experiments.runs.records() if record.status.is_over}
        window.experiments.ended.connect(over.add)
        window.setProperty("over", over)
        window.show()
        return window

    yield start
    close_last()


@pytest.fixture
def window(qtbot: QtBot, open_window: Open) -> MainWindow:
    window = open_window()

    def knows_the_machine() -> None:
        assert window.setup.run_action.isEnabled(), window.setup.foot.text()

    qtbot.waitUntil(knows_the_machine, timeout=WAIT_MS)
    return window


class Training:
    """Queues runs in a window, and waits for them."""

    def __init__(self, qtbot: QtBot) -> None:
        self._qtbot = qtbot

    def submit(self, window: MainWindow, *experiments: Experiment) -> tuple[str, ...]:
        return window.experiments.submit("test", [(str(n), one) for n, one in enumerate(experiments)])

    def wait_for_steps(self, window: MainWindow, run_id: str) -> None:
        def has_trained() -> None:
            run = window.experiments.runs.live(run_id)
            assert run.step > 0, f"no step yet: {run.label} is {run.status}"

        self._qtbot.waitUntil(has_trained, timeout=WAIT_MS)

    def wait_for_end(self, window: MainWindow, runs: int) -> None:
        """Gives each run its own time, since the next begins when the one before is over.

        The store knows of a run's end before its last events have reached the window: both are waited for.
        """

        def are_over(count: int) -> None:
            statuses = [record.status for record in window.experiments.runs.records()]
            over = sum(status.is_over for status in statuses)
            assert over >= count, f"{count} of {runs} runs were to be over: {statuses}"
            assert len(window.property("over")) >= count, "the window has not been told"

        for count in range(1, runs + 1):
            self._qtbot.waitUntil(partial(are_over, count), timeout=WAIT_MS)
        assert len(window.experiments.runs.records()) == runs


@pytest.fixture
def training(qtbot: QtBot) -> Training:
    return Training(qtbot)
