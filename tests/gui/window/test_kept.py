"""Each part of the window comes back on its own: a broken one costs only itself."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from PySide6.QtCore import QByteArray

from gui.window.remembered import Kept, Key, Settings, kept_bytes, remember, restore


def test_byte_arrays_pass_as_text(tmp_path: Path) -> None:
    state, brought_back = QByteArray(b"\x00\xff geometry"), []
    part = kept_bytes(Key.GEOMETRY, lambda: state, lambda value: brought_back.append(value) or True)
    path = tmp_path / "window.json"
    remember(Settings(path), [part])
    assert json.loads(path.read_text())["geometry"].isascii()
    restore(Settings.load(path), [part])
    assert brought_back == [state]


def test_a_broken_part_is_logged_and_the_others_come_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, brought_back = tmp_path / "window.json", []
    path.write_text(json.dumps({"geometry": "%%%", "side_splitter": "AAAA", "theme": "dark"}))
    parts = [
        kept_bytes(Key.GEOMETRY, QByteArray, lambda _value: True),
        kept_bytes(Key.SIDE_SPLITTER, QByteArray, lambda _value: False),
        Kept(Key.THEME, lambda: "", brought_back.append),
    ]
    with caplog.at_level(logging.WARNING):
        restore(Settings.load(path), parts)
    assert brought_back == ["dark"]
    assert "geometry" in caplog.text and "side_splitter" in caplog.text
