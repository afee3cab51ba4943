"""What the window remembers survives a restart, and a broken file never keeps the window from opening."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from PySide6.QtCore import QByteArray

from gui.window.remembered import Kept, Key, Settings, kept_bytes, remember, restore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings" / "window.json"


def saved(path: Path, **values: object) -> Settings:
    settings = Settings.load(path)
    for key, value in values.items():
        settings.set(key, value)
    assert settings.save()
    return settings


def test_values_of_their_type_come_back_and_no_other_file_is_left(path: Path) -> None:
    saved(path, theme="dark", dock_open=False, form={"changes": {"batch_size": "128"}})
    settings = Settings.load(path)
    assert settings.get("theme", "system") == "dark"
    assert settings.get("dock_open", True) is False
    assert settings.get("form", {}) == {"changes": {"batch_size": "128"}}
    saved(path, ticked_runs="not a list")
    assert Settings.load(path).get(Key.TICKED_RUNS, ["default"]) == ["default"]
    saved(path, theme="light")
    saved(path, theme="dark")
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["window.json", "window.json.bak"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1, 2]", b"\xff\xfe\x00", b"null", b"[" * 100_000, b"9" * 5_000]
)
def test_a_broken_file_is_read_from_its_backup(path: Path, content: bytes) -> None:
    saved(path, theme="light")
    saved(path, theme="dark")
    path.write_bytes(content)
    settings = Settings.load(path)
    assert settings.get("theme", "system") == "light"
    # a broken file never replaces a good backup
    settings.save()
    path.write_bytes(content)
    assert Settings.load(path).get("theme", "system") == "light"
    path.with_name("window.json.bak").write_bytes(content)
    assert Settings.load(path).get("theme", "system") == "system"


def test_a_folder_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    settings = Settings.load(blocked / "window.json")
    settings.set("theme", "dark")
    assert not settings.save()
    assert "could not be saved" in caplog.text


def test_without_a_path_it_lies_in_the_configuration_folder(home: Path) -> None:
    settings = Settings.load()
    settings.set("theme", "dark")
    assert settings.save()
    assert (home / "window.json").is_file()


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
    assert brought_back == ["dark"] and Settings.load(path).get("side_splitter", "") == "AAAA"
    assert "geometry" in caplog.text and "side_splitter" in caplog.text
