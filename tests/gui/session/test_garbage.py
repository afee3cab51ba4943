"""Garbage is collected in the window's thread alone."""

from __future__ import annotations

import gc
from collections.abc import Callable
from weakref import ref

import pytest
from pytestqt.qtbot import QtBot

from gui.session.garbage import collect_due
from gui.window import app
from gui.window.main_window import MainWindow


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def nothing_due() -> None:
    gc.collect()


def test_garbage_goes_once_python_would_collect_it() -> None:
    garbage = ref(Cycle())
    collect_due()
    assert garbage() is not None, "a few objects are not worth it"
    kept = [[] for _ in range(gc.get_threshold()[0] + 1)]
    collect_due()
    assert garbage() is None and kept


@pytest.mark.slow
def test_the_open_window_collects_and_no_thread_does_it_by_itself(
    qtbot: QtBot, start: Callable[[], MainWindow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(app, "_COLLECT_MS", 10)
    gc.disable()  # as the program does first
    app._make_rest(start())
    garbage = ref(Cycle())
    kept = [[] for _ in range(gc.get_threshold()[0] + 1)]
    qtbot.waitUntil(lambda: garbage() is None and bool(kept))
    assert not gc.isenabled()
