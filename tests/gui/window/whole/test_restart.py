"""What the window looked like when it was closed, and settings that cannot be restored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from gui.theme.theme import theme
from gui.window.main_window import MainWindow

Open = Callable[[], MainWindow]


@pytest.mark.slow
def test_what_the_window_looked_like_survives_a_restart(
    qtbot: QtBot, window: MainWindow, open_window: Open
) -> None:
    theme().set_mode("light")
    window.body.setSizes([400, 900])
    side = window.body.sizes()[0]
    window.show_page("results")
    again = open_window()
    assert theme().mode == "light"
    assert again.page == "results"
    again.show_page("experiment")
    qtbot.waitUntil(lambda: again.body.sizes()[0] == side != 320)
    theme().set_mode("dark")


def test_broken_settings_do_not_keep_the_window_from_opening(
    qtbot: QtBot, open_window: Open, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (home / "window.json").write_text(
        '{"form": {"preset": 5}, "workspace": "nowhere", "geometry": "%", "theme": 3}'
    )
    window = open_window()
    assert window.page == "compare"
    assert window.setup.form.editor("preset").value() == "fashion"
    assert "could not be restored" in caplog.text


def test_the_geometry_of_another_screen_is_passed_over_quietly(
    open_window: Open, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (home / "window.json").write_text('{"geometry": "AAAA", "workspace": "results"}')
    assert open_window().page == "results"
    assert caplog.text == ""
