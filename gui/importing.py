"""Runs from another machine: a .zip that was chosen or dragged onto the window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QMimeData, QObject, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QWidget

from engine.problem import Problem
from engine.records.store import Store
from gui import file_questions
from gui.background import Background
from gui.widgets.notice import Notice

if TYPE_CHECKING:
    from engine.archives.reader import Imported


class Importing(QObject):
    """Takes archives in a thread, and tells in the notice what came in, or why nothing did.

    `imported` when runs were added; `compare_wanted` carries the ids of runs that came in together.
    """

    imported = Signal()
    compare_wanted = Signal(object)

    def __init__(self, store_path: Path, background: Background, notice: Notice, window: QWidget) -> None:
        super().__init__(window)
        self._store_path, self._background = store_path, background
        self._notice, self._window = notice, window
        self._folder = Path.home()
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def ask(self) -> None:
        """Asks for an archive, and imports it."""
        path = file_questions.ask_archive(self._window, self._folder)
        if path is not None:
            self._folder = path.parent
            self.take(path)

    def take(self, path: Path) -> None:
        """Imports an archive: all of its runs, or none if anything is wrong with it."""
        self._notice.tell(f"Importing {path.name}…")
        store_path = self._store_path

        def work() -> Imported:
            # the checks of an archive are not needed for the window to start
            from engine.archives.reader import import_archive

            with Store(store_path) as store:
                return import_archive(store, path)

        self._background.do(work, self._tell, self._fail)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.DragEnter, QEvent.Type.DragMove) and isinstance(event, QDropEvent):
            if archives_in(event.mimeData()):
                event.acceptProposedAction()
                return True
        elif event.type() == QEvent.Type.Drop and isinstance(event, QDropEvent):
            archives = archives_in(event.mimeData())
            for path in archives:
                self.take(path)
            if archives:
                event.acceptProposedAction()
                return True
        return super().eventFilter(watched, event)

    def _tell(self, imported: Imported) -> None:
        if imported.added:
            self.imported.emit()
        run_ids = tuple(run.id for run in (*imported.added, *imported.already_here))
        compare: Callable[[], None] | None = None
        if len(run_ids) > 1:

            def compare() -> None:
                self.compare_wanted.emit(run_ids)

        self._notice.tell(import_words(imported), "", "Compare them" if compare else "", compare)

    def _fail(self, problem: Problem) -> None:
        self._notice.tell(problem.message, problem.remedy)


def archives_in(data: QMimeData) -> tuple[Path, ...]:
    """The .zip files in what is dragged."""
    paths = [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
    return tuple(path for path in paths if path.suffix.lower() == ".zip")


def import_words(imported: Imported) -> str:
    """What came in, in a sentence or two."""
    added, here, copies = len(imported.added), len(imported.already_here), len(imported.copies)
    if not added and not here:
        return "The archive holds no runs."
    if not added:
        return "The run was already here." if here == 1 else f"All {here:,} runs were already here."
    said = f"Imported {_runs(added)}."
    if here:
        said += f" {_runs(here)} {'was' if here == 1 else 'were'} already here."
    if copies:
        said += f" {_runs(copies)} {'stands' if copies == 1 else 'stand'} beside what has the same id here."
    return said


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"
