"""How many pictures and classes a folder has, counted in a thread and only where that is due."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from engine.experiment.own.folders import Count, TextCount
from gui.setup import data
from gui.setup.data import FolderCount, FolderCounter, folder_words


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    for name in ("cats/0.jpg", "cats/1.jpg", "dogs/0.jpg"):
        (tmp_path / "pets" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pets" / name).write_bytes(b"")
    return tmp_path / "pets"


@pytest.fixture
def counter(qtbot: QtBot, qapp: object) -> Iterator[FolderCounter]:
    owner = QObject()
    counter = FolderCounter(owner)
    yield counter
    counter.stop()


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (None, ""),
        (Count(0, 0, 0), "no pictures in class folders"),
        (Count(1, 0, 1), "1 picture, 1 class"),
        (Count(1_200, 34, 3), "1,234 pictures, 3 classes"),
        (TextCount(1, 3 * 2**20), "1 file, 3.0 MiB of text"),
        (TextCount(0, 0), "no text"),
    ],
)
def test_what_it_holds_is_said_in_words(count: FolderCount | None, words: str) -> None:
    assert folder_words(count, False) == words


def test_a_folder_is_counted_and_another_is_counted_anew(
    counter: FolderCounter, qtbot: QtBot, pets: Path
) -> None:
    counter.want(str(pets))
    assert counter.count() is None and counter.is_counting()
    qtbot.waitUntil(lambda: counter.count() == Count(3, 0, 2))
    counter.want(str(pets / "gone"))
    assert counter.count() is None


def test_the_same_folder_has_pictures_or_text(counter: FolderCounter, qtbot: QtBot, pets: Path) -> None:
    (pets / "notes.txt").write_text("purring")
    counter.want(str(pets))
    qtbot.waitUntil(lambda: counter.count() == Count(3, 0, 2))
    counter.want(str(pets), is_text=True)
    assert counter.count() is None
    qtbot.waitUntil(lambda: counter.count() == TextCount(1, 7))


def test_nothing_is_counted_beside_a_run(counter: FolderCounter, qtbot: QtBot, pets: Path) -> None:
    counter.hold(True)
    counter.want(str(pets))
    assert not counter.is_counting()
    counter.hold(False)
    qtbot.waitUntil(lambda: counter.count() == Count(3, 0, 2))


def test_a_known_folder_is_read_again_only_where_something_came_or_went(
    counter: FolderCounter, qtbot: QtBot, pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    usual = data.count_pictures

    def counting(path: str, is_given_up: Callable[[], bool]) -> Count | None:
        read.append(path)
        return usual(path, is_given_up)

    monkeypatch.setattr(data, "count_pictures", counting)

    def look() -> None:
        counter.want(None)
        with qtbot.waitSignals([counter.changed, counter.changed]):
            counter.want(str(pets))

    look()
    look()
    assert len(read) == 1
    (pets / "dogs" / "1.jpg").write_bytes(b"")
    os.utime(pets / "dogs", (1.0, 2.0))
    look()
    assert len(read) == 2 and counter.count() == Count(4, 0, 2)


def test_another_path_gives_the_count_up(
    counter: FolderCounter, qtbot: QtBot, pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up: list[str] = []

    def endless(path: str, is_given_up: Callable[[], bool]) -> Count | None:
        while path.endswith("pets") and not is_given_up():
            pass
        given_up.append(path)
        return Count(1, 0, 1)

    monkeypatch.setattr(data, "count_pictures", endless)
    with qtbot.waitSignal(counter.changed):
        counter.want(str(pets))
    counter.want(str(pets / "cats"))
    qtbot.waitUntil(lambda: counter.count() == Count(1, 0, 1))
    assert given_up == [str(pets), str(pets / "cats")]
