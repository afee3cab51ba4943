"""A workload file that is dragged onto the window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import QApplication

from gui.window.body import ModelDrops
from gui.window.main_window import MainWindow

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def dragged(*paths: Path) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return data


def enter(window: MainWindow, data: QMimeData) -> bool:
    copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    event = QDragEnterEvent(QPointF(5, 5).toPoint(), copy, data, left, none)
    event.ignore()
    QApplication.sendEvent(window, event)
    return event.isAccepted()


def test_a_dropped_file_becomes_the_model(start: Callable[[], MainWindow], tmp_path: Path) -> None:
    window = start()
    frame = window.findChild(ModelDrops).frame  # type: ignore[union-attr]
    path = tmp_path / "net.py"
    path.write_text("def model(): ...\ndef batch(size): ...\n")
    data = dragged(path)
    assert enter(window, data) and frame.isVisibleTo(window) and frame.size() == window.size()
    QApplication.sendEvent(window, QDragLeaveEvent())
    assert not frame.isVisibleTo(window)
    enter(window, data)
    copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(window, QDropEvent(QPointF(5, 5), copy, data, left, none, QEvent.Type.Drop))
    assert window.setup.text("model") == "net.py" and not frame.isVisibleTo(window)


def test_other_drags_are_left_to_others(start: Callable[[], MainWindow], tmp_path: Path) -> None:
    window = start()
    frame = window.findChild(ModelDrops).frame  # type: ignore[union-attr]
    assert not enter(window, dragged(tmp_path / "notes.txt")) and not frame.isVisibleTo(window)
    assert not enter(window, dragged(tmp_path / "a.py", tmp_path / "b.py"))
    assert window.others
    assert enter(window, dragged(tmp_path / "runs.zip")) and not frame.isVisibleTo(window)
