"""Runs that come into the window in an archive: chosen, or dragged onto it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from engine.export.content import content_of
from engine.export.formats import COMPARISON
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.runs.importing import Importing
from gui.session.background import Background
from gui.widgets.notice import Notice

Trained = Callable[..., RunRecord]


@dataclass
class Desk:
    """A window of another store that runs are brought to."""

    window: QWidget
    importing: Importing
    background: Background
    notice: Notice
    store: Store
    qtbot: QtBot

    def settle(self) -> None:
        self.qtbot.waitUntil(lambda: not self.background.is_busy)


@pytest.fixture
def desk(qtbot: QtBot, tmp_path: Path) -> Iterator[Desk]:
    window = QWidget()
    qtbot.addWidget(window)
    notice, background = Notice(window), Background()
    with Store(tmp_path / "elsewhere.sqlite") as store:
        importing = Importing(store.path, background, notice, window)
        yield Desk(window, importing, background, notice, store, qtbot)
        background.stop()


@pytest.fixture
def archive(saved: Store, trained: Trained, tmp_path: Path) -> Path:
    runs = [trained("fp32", 880.0).id, trained("fp16", 1_663.0).id]
    return COMPARISON.export(content_of(saved, runs), tmp_path / "runs.ammeter")


def test_what_came_in_is_told_and_can_be_compared(desk: Desk, archive: Path) -> None:
    with desk.qtbot.waitSignal(desk.importing.imported):
        desk.importing.import_archive(archive)
    assert desk.notice.text() == "Imported 2 runs."
    assert desk.notice.offers() == ("Compare them",)
    assert len(desk.store.runs()) == 2
    desk.importing.import_archive(archive)
    desk.settle()
    assert desk.notice.text() == "All 2 runs already exist here."
    assert len(desk.store.runs()) == 2


def test_what_is_no_archive_is_refused_in_a_sentence(desk: Desk, tmp_path: Path) -> None:
    bad = tmp_path / "bad.zip"
    bad.write_bytes(b"PK no")
    desk.importing.import_archive(bad)
    desk.settle()
    assert desk.notice.text().startswith("bad.zip ")
    assert desk.store.runs() == ()


def test_an_archive_can_be_dropped_on_the_window_and_nothing_else(
    desk: Desk, archive: Path, tmp_path: Path
) -> None:
    copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    data, other = QMimeData(), QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(archive))])
    other.setUrls([QUrl.fromLocalFile(str(tmp_path / "notes.txt"))])
    for dragged, is_taken in ((other, False), (data, True)):
        enter = QDragEnterEvent(QPointF(5, 5).toPoint(), copy, dragged, left, none)
        enter.ignore()
        QApplication.sendEvent(desk.window, enter)
        assert enter.isAccepted() is is_taken
    with desk.qtbot.waitSignal(desk.importing.imported):
        QApplication.sendEvent(desk.window, QDropEvent(QPointF(5, 5), copy, data, left, none))
    assert desk.notice.text() == "Imported 2 runs."
