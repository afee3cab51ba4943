"""The runs of an older version are set aside; its preset, settings and archive open as they were.

`home_of_0_1.zip` was written by the version at commit 4e34cfc, whose modules had other names: an FP32 and a
BF16 run of 72 steps, a preset, and a closed window. Its store has format 16.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.experiment.presets import preset
from engine.export.archive.reader import import_archive
from engine.store.database import older_stores
from engine.store.store import Store
from gui.theme.theme import theme
from gui.window.main_window import MainWindow

FP32, BF16 = "07b6de1fc00e", "02490cfac8ee"


@pytest.fixture
def home(home: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).with_name("home_of_0_1.zip")) as older:
        older.extractall(home)
    return home


@pytest.fixture
def as_dark() -> Iterator[None]:
    yield
    theme().set_mode("dark")


def test_its_archive_arrives_whole(home: Path, tmp_path: Path) -> None:
    with Store(tmp_path / "other" / "ammeter.sqlite") as other:
        assert [run.id for run in import_archive(other, home / "runs.zip").added] == [FP32, BF16]


def test_its_preset_and_its_window_come_back(
    home: Path, start: Callable[[], MainWindow], as_dark: None
) -> None:
    kept = preset("kept-from-before")
    ((_, experiment),) = kept.experiments(has_gpu=False)
    assert kept.title == "Kept from before" and experiment.batch_size == 48
    window = start()
    assert window.page == "results" and theme().mode == "light"
    (aside,) = older_stores(home / "ammeter.sqlite")
    assert str(aside) in window.notice.text() and window.notice.offers() == ("Show in folder",)
    values = window.setup.state()["settings"]
    assert values["batch_size"] == "96"
    assert window.others.limit_panel.state()["margin"] == 0.1
