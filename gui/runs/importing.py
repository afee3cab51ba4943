"""Import archives of runs, and ask for the files of imports and exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QFileDialog, QInputDialog, QLineEdit, QWidget

from engine.export.archive import ARCHIVE_SUFFIX, Imported
from engine.export.content import Content
from engine.export.formats import COMPARISON, Format
from engine.store.store import Store
from engine.words.numbers import counted
from gui.session.background import Background
from gui.widgets.notice import Notice

_ARCHIVE = f"Runs exported by Ammeter (*{ARCHIVE_SUFFIX})"


@dataclass(frozen=True)
class FileChoice:
    """The file path chosen in a save dialog. `may_replace` allows replacing an existing file.

    `form` is the name of the chosen format. For None, the path's suffix decides.
    """

    path: Path
    may_replace: bool
    form: str | None = None


def ask_file(
    window: QWidget, folder: Path, name: str, formats: Sequence[Format[Content]]
) -> FileChoice | None:
    """Ask where to save, in one of `formats`. Return None if cancelled."""
    filters = {f"{form.title} (*{form.suffix})": form for form in formats}
    first = formats[0]
    chosen, used = QFileDialog.getSaveFileName(
        window, "Export", str(folder / f"{name}{first.suffix}"), ";;".join(filters), next(iter(filters))
    )
    return file_choice(chosen, filters.get(used, first)) if chosen else None


def file_choice(chosen: str, used: Format[Content]) -> FileChoice:
    """Return the file to write for the typed path `chosen`.

    A path without a known suffix gets the suffix of the format `used`.
    """
    path = Path(chosen)
    if path.suffix.lower() in {form.suffix for form in COMPARISON.formats}:
        form = _form_of(used) if path.suffix.lower() == used.suffix else None
        return FileChoice(path, path.exists(), form)
    # the dialog asked about the name without the ending
    return FileChoice(path.with_name(path.name + used.suffix), False, _form_of(used))


def _form_of(used: Format[Content]) -> str | None:
    first = next(form for form in COMPARISON.formats if form.suffix == used.suffix)
    return None if first is used else used.name


def ask_folder(window: QWidget, folder: Path, title: str) -> Path | None:
    """Ask for an existing folder. Return None if cancelled."""
    chosen = QFileDialog.getExistingDirectory(window, title, str(folder))
    return Path(chosen) if chosen else None


def ask_title(window: QWidget, last: str) -> str | None:
    """Ask for the title of the report. Return "" for the default, or None if cancelled."""
    question = "Title of the report. Leave it empty to use what is compared:"
    text, agreed = QInputDialog.getText(
        window, "Title of the report", question, QLineEdit.EchoMode.Normal, last
    )
    return text.strip() if agreed else None


def ask_mlflow(window: QWidget, last: str) -> str | None:
    """Ask for the folder or server of MLflow. Return None if cancelled."""
    question = "A folder, or the tracking server as http://HOST:PORT:"
    text, agreed = QInputDialog.getText(
        window, "Send to MLflow", question, QLineEdit.EchoMode.Normal, last or str(Path.home() / "mlruns")
    )
    return text.strip() if agreed and text.strip() else None


class Importing(QObject):
    """Imports archives of runs in a thread, and shows the result in the window's notice.

    `imported` is emitted when runs were added. `compare_wanted` carries the ids of the runs of one archive.
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
        chosen, _ = QFileDialog.getOpenFileName(self._window, "Import runs", str(self._folder), _ARCHIVE)
        if chosen:
            self._folder = Path(chosen).parent
            self.import_archive(Path(chosen))

    def import_archive(self, path: Path) -> None:
        """Import an archive: all of its runs, or none if anything is wrong with it."""
        self._notice.notify(f"Importing {path.name}…")
        store_path = self._store_path

        def work() -> Imported:
            # the checks of an archive are not needed for the window to start
            from engine.export.archive.reader import import_archive

            with Store(store_path) as store:
                return import_archive(store, path)

        self._background.do(work, self._report, lambda why: self._notice.notify(why.message, why.remedy))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        archives = archives_in(event.mimeData()) if isinstance(event, QDropEvent) else ()
        if not archives or not isinstance(event, QDropEvent):
            return super().eventFilter(watched, event)
        for path in archives if event.type() == QEvent.Type.Drop else ():
            self.import_archive(path)
        event.acceptProposedAction()
        return True

    def _report(self, imported: Imported) -> None:
        if imported.added:
            self.imported.emit()
        run_ids = tuple(run.id for run in (*imported.added, *imported.already_here))
        compare = partial(self.compare_wanted.emit, run_ids) if len(run_ids) > 1 else None
        self._notice.notify(import_words(imported), "", "Compare them" if compare else "", compare)


def archives_in(data: QMimeData) -> tuple[Path, ...]:
    paths = [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
    return tuple(path for path in paths if path.suffix.lower() == ARCHIVE_SUFFIX)


def import_words(imported: Imported) -> str:
    """Return one or two sentences on what was imported."""
    added, here, copies = len(imported.added), len(imported.already_here), len(imported.copies)
    if not added and not here:
        return "The archive contains no runs."
    if not added:
        return "The run already exists here." if here == 1 else f"All {here:,} runs already exist here."
    said = f"Imported {counted(added, 'run')}."
    if here:
        said += f" {counted(here, 'run')} already {'exists' if here == 1 else 'exist'} here."
    if copies:
        rest = (
            "exists here and was added as a copy." if copies == 1 else "exist here and were added as copies."
        )
        said += f" {counted(copies, 'run')} with the same ID already {rest}"
    return said
