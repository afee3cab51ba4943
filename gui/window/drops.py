"""A workload file that is dragged onto the window becomes the model; while it is over it, a frame says so."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Qt, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QFrame, QWidget

from gui.widgets import label
from gui.widgets.boxes import Placed, in_column


class ModelDrops(QObject):
    """`dropped` carries the path of a .py file. Other drops are left to others, and so is one of several."""

    dropped = Signal(str)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self.frame = _Frame(window)
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if kind in (QEvent.Type.DragEnter, QEvent.Type.DragMove, QEvent.Type.Drop) and isinstance(
            event, QDropEvent
        ):
            path = model_in(event.mimeData())
            self.frame.point_out(path if kind != QEvent.Type.Drop else None)
            if path is not None:
                event.acceptProposedAction()
                if kind == QEvent.Type.Drop:
                    self.dropped.emit(str(path))
                return True
        elif kind in (QEvent.Type.DragLeave, QEvent.Type.Hide):
            self.frame.point_out(None)
        return super().eventFilter(watched, event)


def model_in(data: QMimeData) -> Path | None:
    """The .py file that is dragged, if nothing else is."""
    paths = [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
    return paths[0] if len(paths) == 1 and paths[0].suffix.lower() == ".py" else None


class _Frame(QFrame):
    """Covers the window; the mouse passes through it."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setProperty("surface", "drop")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._words = label("", "strong")
        note = QFrame()
        note.setProperty("surface", "popover")
        in_column(self._words, parent=note, margins=(20, 12, 20, 12))
        in_column(Placed(note, 0, Qt.AlignmentFlag.AlignCenter), parent=self)
        self.hide()

    def point_out(self, path: Path | None) -> None:
        """Shows what dropping this file will do; None hides the frame."""
        if path is not None:
            self._words.setText(f"Drop {path.name} to train its model")
            self.setGeometry(self.window().rect())
            self.raise_()
        self.setVisible(path is not None)
