"""The contents of the form's data paths, read in a thread, because a disk may be slow."""

from __future__ import annotations

from functools import partial
from threading import Event

from PySide6.QtCore import QObject, QSize, QTimer, Signal
from PySide6.QtWidgets import QFileDialog

from engine.experiment.catalog import ARRAYS, TEXT_FOLDER
from engine.experiment.checks import Catalog, DataLookup, DatasetEntry, look_up
from engine.experiment.experiment import Experiment
from engine.experiment.own.array_files import ENDINGS
from engine.experiment.own.folders import Count, TextCount, changed_at, count_images, count_text
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import Problem
from engine.words.numbers import counted, size_text
from gui.session.background import Background
from gui.session.reader import Lookups
from gui.setup.controls import NumberEdit
from gui.setup.draft import Draft
from gui.widgets import IconButton

_Place = tuple[str, str, str, str]


class DataReader(Lookups[_Place, DataLookup]):
    """Looks up facts about the data of the form's experiment in a thread, such as the number of samples."""

    def find(self, experiment: Experiment, dataset: DatasetEntry) -> DataLookup | None:
        """Return the last result. None while the path is read for the first time."""
        if experiment.path is None or not dataset.needs_path:
            return look_up(experiment, dataset)
        place = (dataset.name, experiment.path, experiment.data.inputs, experiment.data.targets)
        return self.request(place, partial(look_up, experiment, dataset))

    def words(self, draft: Draft | None) -> str:
        """Return the size of the draft's file of arrays: "60,000 samples". Empty if there are none."""
        if draft is None or draft.first.text("dataset") != ARRAYS:
            return ""
        path, inputs, targets = (
            draft.first.text(key).strip() for key in ("path", "data.inputs", "data.targets")
        )
        found = self.known((ARRAYS, path, inputs, targets))
        if found is None:
            return "reading…" if path else ""
        return "" if found.samples is None else f"{found.samples.inputs.shape[0]:,} samples"

    def failed(self, problem: Problem) -> DataLookup:
        return DataLookup(problems=(problem,))


_ARRAYS = f"Arrays ({' '.join(f'*{ending}' for ending in ENDINGS)})"


class PathEdit(NumberEdit):
    """A text field for a path, with a button that opens a folder or file dialog. `wanted` is its title."""

    def __init__(
        self,
        name: str,
        tip: str,
        wanted: str = "Select the folder with your data",
        hint: str = "select a folder or file",
    ) -> None:
        super().__init__(name, tip, hint=hint)
        self._wanted = wanted
        self.is_file = False
        """The button selects a file, not a folder."""
        self.button = IconButton("folder", "Select the path", wanted)
        self.button.clicked.connect(self._choose)
        self.put_right(self.button)

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), 32)

    def _choose(self) -> None:
        if self.is_file:
            chosen, _ = QFileDialog.getOpenFileName(
                self, "Select the file with your arrays", self.text(), _ARRAYS
            )
        else:
            chosen = QFileDialog.getExistingDirectory(self, self._wanted, self.text())
        if chosen:
            self.set_value(chosen)
            self.edited.emit(chosen)


_SETTLES_MS = 300
FolderCount = Count | TextCount
_Counted = tuple[tuple[float, ...], FolderCount]


def folder_words(count: FolderCount | None, is_counting: bool) -> str:
    """Return the contents of the folder: "1,200 images, 3 classes". Empty while unknown."""
    if count is None:
        return "counting…" if is_counting else ""
    if isinstance(count, TextCount):
        size = size_text(count.bytes)
        return f"{counted(count.files, 'file')}, {size} of text" if count.files else "no text"
    if not (total := count.train + count.validation):
        return "no images in class folders"
    return f"{counted(total, 'image')}, {count.classes:,} class" + ("es" if count.classes != 1 else "")


class FolderCounter(QObject):
    """Counts the images or text in the folder that the form names, in a thread.

    It starts once typing has stopped, and pauses during runs, so that it does not disturb measurements.
    """

    changed = Signal()  # `count` or `is_counting`

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._background = Background(self)
        self._settling = QTimer(self, singleShot=True, interval=_SETTLES_MS)
        self._settling.timeout.connect(self._start)
        self._path: str | None = None
        self._is_text = self._is_paused = False
        self._cancelled = Event()
        self._counted: dict[tuple[str, bool], _Counted] = {}

    def set_folder(self, path: str | None, *, is_text: bool = False) -> None:
        """Count the images or text in this folder, again if it has changed. None for no folder."""
        if (path, is_text) != (self._path, self._is_text):
            self._cancel()
            self._path, self._is_text = path, is_text
        if not self._background.is_busy or self._cancelled.is_set():
            self._settle()

    def follow(self, draft: Draft, catalog: Catalog | None) -> None:
        """Count the contents of the draft's folder, if its dataset uses one."""
        draft = draft.first
        dataset = draft.text("dataset")
        has_path = catalog is not None and draft.applies("path", catalog)
        path = draft.text("path").strip() or None if has_path and dataset != ARRAYS else None
        path = path if path is not None and TrustedCode().may_look(path) else None
        self.set_folder(path, is_text=dataset == TEXT_FOLDER)

    def set_paused(self, is_paused: bool) -> None:
        """Pause or resume counting, which would take a CPU core from a measurement."""
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            self._cancel()
            self._settle()

    def stop(self) -> None:
        """Cancel the count and wait for the thread. Call `set_folder` to count again."""
        self._cancel()
        self._path = None
        self._background.stop()

    def count(self) -> FolderCount | None:
        """Return the contents of the folder. None while unknown."""
        counted = self._counted.get((self._path or "", self._is_text))
        return counted[1] if counted is not None else None

    def is_counting(self) -> bool:
        return self._settling.isActive() or self._background.is_busy

    def words(self) -> str:
        """Return the contents of the folder in words. Empty while unknown."""
        return folder_words(self.count(), self.is_counting())

    def _cancel(self) -> None:
        self._settling.stop()
        self._cancelled.set()

    def _settle(self) -> None:
        if self._path is not None and not self._is_paused:
            self._settling.start()

    def _start(self) -> None:
        path = self._path
        if path is None:
            return
        self._cancelled = Event()
        key = (path, self._is_text)
        work = partial(_counted, path, self._is_text, self._counted.get(key), self._cancelled)
        self._background.do(work, partial(self._on_counted, key), lambda _problem: self.changed.emit())
        self.changed.emit()

    def _on_counted(self, key: tuple[str, bool], counted: _Counted | None) -> None:
        if counted is not None:
            self._counted[key] = counted
        self.changed.emit()


def _counted(path: str, is_text: bool, known: _Counted | None, cancelled: Event) -> _Counted | None:
    times = changed_at(path)
    if known is not None and known[0] == times:
        return known
    count = (count_text if is_text else count_images)(path, cancelled.is_set)
    return None if count is None else (times, count)
