"""A store of an older format is set aside as the window opens, and the user is told where it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine.store.database import older_stores
from engine.store.store import Store
from gui.window.main_window import MainWindow


@pytest.fixture
def home(home: Path) -> Path:
    path = home / "ammeter.sqlite"
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 16")
    return home


def test_an_older_store_is_set_aside_and_said(home: Path, start: Callable[[], MainWindow]) -> None:
    window = start()
    (aside,) = older_stores(home / "ammeter.sqlite")
    assert str(aside) in window.notice.text() and window.notice.offers() == ("Show in folder",)
