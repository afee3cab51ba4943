"""The field for a dataset's folder, and the count of its pictures, made in a thread."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Event

from PySide6.QtCore import QObject, QSize, QTimer, Signal
from PySide6.QtWidgets import QFileDialog

from engine.experiment.own.folders import Count, changed_at, count_pictures
from gui.session.background import Background
from gui.setup.controls import NumberEdit
from gui.widgets import IconButton


class FolderEdit(NumberEdit):
    """A path as text, with a button inside that opens the chooser."""

    def __init__(self, name: str, tip: str) -> None:
        super().__init__(name, tip, hint="choose a folder")
        self.button = IconButton("folder", "Choose a folder", "Choose the folder with your pictures")
        self.button.clicked.connect(self._choose)
        self.put_right(self.button)

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), 32)

    def _choose(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Choose the folder with your pictures", self.text())
        if chosen:
            self.set_value(chosen)
            self.edited.emit(chosen)


_SETTLES_MS = 300
_Counted = tuple[tuple[float, ...], Count]


class FolderCounter(QObject):
    """`changed` when `count` or `is_counting` changes.

    A count begins once typing has stopped; it is cancelled for another path, while a run trains, and while
    the form is hidden.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._background = Background(self)
        self._settling = QTimer(self, singleShot=True, interval=_SETTLES_MS)
        self._settling.timeout.connect(self._begin)
        self._path: str | None = None
        self._is_held = False
        self._cancelled = Event()
        self._counted: dict[str, _Counted] = {}

    def want(self, path: str | None) -> None:
        """Counts the pictures in this folder, again if it has changed; None for no folder."""
        if path != self._path:
            self._cancel()
            self._path = path
        if not self._background.is_busy or self._cancelled.is_set():
            self._settle()

    def hold(self, is_held: bool) -> None:
        """Suspends counting, or continues: reading a folder takes a core from what is measured."""
        if is_held != self._is_held:
            self._is_held = is_held
            self._cancel()
            self._settle()

    def stop(self) -> None:
        """Cancels the count and waits for the thread; `want` is needed to count again."""
        self._cancel()
        self._path = None
        self._background.stop()

    def count(self) -> Count | None:
        """What the folder holds; None while unknown."""
        counted = self._counted.get(self._path or "")
        return counted[1] if counted is not None else None

    def is_counting(self) -> bool:
        return self._settling.isActive() or self._background.is_busy

    def _cancel(self) -> None:
        self._settling.stop()
        self._cancelled.set()

    def _settle(self) -> None:
        if self._path is not None and not self._is_held:
            self._settling.start()

    def _begin(self) -> None:
        path = self._path
        if path is None or not Path(path).expanduser().is_dir():
            return
        self._cancelled = cancelled = Event()
        self._background.do(
            partial(_counted, path, self._counted.get(path), cancelled),
            partial(self._take, path),
            lambda _problem: self.changed.emit(),
        )
        self.changed.emit()

    def _take(self, path: str, counted: _Counted | None) -> None:
        if counted is not None:
            self._counted[path] = counted
        self.changed.emit()


def _counted(path: str, known: _Counted | None, cancelled: Event) -> _Counted | None:
    times = changed_at(path)
    if known is not None and known[0] == times:
        return known
    count = count_pictures(path, cancelled.is_set)
    return None if count is None else (times, count)
