"""The field for the path of the user's own data, and the count of what a folder holds, made in a thread."""

from __future__ import annotations

from functools import partial
from threading import Event

from PySide6.QtCore import QObject, QSize, QTimer, Signal
from PySide6.QtWidgets import QFileDialog

from engine.experiment.catalog import ARRAYS, TEXT_FOLDER
from engine.experiment.checks import Catalog
from engine.experiment.own.array_files import ENDINGS
from engine.experiment.own.folders import Count, TextCount, changed_at, count_pictures, count_text
from engine.experiment.value import BYTES_PER_MIB
from engine.words.numbers import memory_text
from gui.session.background import Background
from gui.setup.controls import NumberEdit
from gui.setup.draft import Draft
from gui.widgets import IconButton

_ARRAYS = f"Arrays ({' '.join(f'*{ending}' for ending in ENDINGS)})"


class PathEdit(NumberEdit):
    """A path as text, with a button inside that opens the chooser of a folder, or of a file."""

    def __init__(self, name: str, tip: str) -> None:
        super().__init__(name, tip, hint="choose a folder or file")
        self._is_file = False
        self.button = IconButton("folder", "Choose the path", "Choose the folder or file with your own data")
        self.button.clicked.connect(self._choose)
        self.put_right(self.button)

    def take_file(self, is_file: bool) -> None:
        """Whether a file is to be chosen, not a folder."""
        self._is_file = is_file

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), 32)

    def _choose(self) -> None:
        if self._is_file:
            chosen, _ = QFileDialog.getOpenFileName(
                self, "Choose the file with your arrays", self.text(), _ARRAYS
            )
        else:
            chosen = QFileDialog.getExistingDirectory(self, "Choose the folder with your data", self.text())
        if chosen:
            self.set_value(chosen)
            self.edited.emit(chosen)


_SETTLES_MS = 300
FolderCount = Count | TextCount
_Counted = tuple[tuple[float, ...], FolderCount]


def folder_words(count: FolderCount | None, is_counting: bool) -> str:
    """What the chosen folder holds: "1,200 pictures, 3 classes"; empty while unknown."""
    if count is None:
        return "counting…" if is_counting else ""
    if isinstance(count, TextCount):
        files = f"{count.files:,} file" + ("s" if count.files != 1 else "")
        return f"{files}, {memory_text(count.bytes / BYTES_PER_MIB)} of text" if count.files else "no text"
    total = count.train + count.validation
    if not total:
        return "no pictures in class folders"
    pictures = f"{total:,} picture" + ("s" if total != 1 else "")
    return f"{pictures}, {count.classes:,} class" + ("es" if count.classes != 1 else "")


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
        self._is_text = False
        self._is_held = False
        self._cancelled = Event()
        self._counted: dict[tuple[str, bool], _Counted] = {}

    def want(self, path: str | None, *, is_text: bool = False) -> None:
        """Counts the pictures, or the text, in this folder, again if it has changed; None for no folder."""
        if (path, is_text) != (self._path, self._is_text):
            self._cancel()
            self._path, self._is_text = path, is_text
        if not self._background.is_busy or self._cancelled.is_set():
            self._settle()

    def follow(self, draft: Draft, catalog: Catalog | None) -> None:
        """Counts what the draft's folder holds, if its dataset has one."""
        draft = draft.single
        dataset = draft.text("dataset")
        has_path = catalog is not None and draft.applies("path", catalog)
        path = draft.text("path").strip() or None if has_path and dataset != ARRAYS else None
        self.want(path, is_text=dataset == TEXT_FOLDER)

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

    def count(self) -> FolderCount | None:
        """What the folder holds; None while unknown."""
        counted = self._counted.get((self._path or "", self._is_text))
        return counted[1] if counted is not None else None

    def is_counting(self) -> bool:
        return self._settling.isActive() or self._background.is_busy

    def words(self) -> str:
        """What the folder holds; empty while unknown."""
        return folder_words(self.count(), self.is_counting())

    def _cancel(self) -> None:
        self._settling.stop()
        self._cancelled.set()

    def _settle(self) -> None:
        if self._path is not None and not self._is_held:
            self._settling.start()

    def _begin(self) -> None:
        path = self._path
        if path is None:
            return
        self._cancelled = cancelled = Event()
        self._background.do(
            partial(_counted, path, self._is_text, self._counted.get((path, self._is_text)), cancelled),
            partial(self._take, (path, self._is_text)),
            lambda _problem: self.changed.emit(),
        )
        self.changed.emit()

    def _take(self, key: tuple[str, bool], counted: _Counted | None) -> None:
        if counted is not None:
            self._counted[key] = counted
        self.changed.emit()


def _counted(path: str, is_text: bool, known: _Counted | None, cancelled: Event) -> _Counted | None:
    times = changed_at(path)
    if known is not None and known[0] == times:
        return known
    count = (count_text if is_text else count_pictures)(path, cancelled.is_set)
    return None if count is None else (times, count)
