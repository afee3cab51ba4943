"""Waiting for the window from a script ends, one way or the other."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from gui.window.app import run_until


def test_it_waits_until_it_is_true(qtbot: QtBot) -> None:
    asked: list[int] = []
    run_until(lambda: asked.append(1) or len(asked) > 3, asked_every_ms=1, within_seconds=60)
    assert len(asked) >= 4


def test_what_never_comes_is_an_error(qtbot: QtBot) -> None:
    with pytest.raises(TimeoutError, match="was not met"):
        run_until(lambda: False, asked_every_ms=1, within_seconds=0.01)
