"""Export saved runs: ask for a file, write it in a thread, and show the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QMimeData, QObject, Qt, QTemporaryDir, QUrl
from PySide6.QtGui import QDrag, QGuiApplication
from PySide6.QtWidgets import QApplication, QWidget

from engine.drawing.looks import ThemeName
from engine.experiment.command import refusal
from engine.experiment.problem import Problem
from engine.export.content import Content, content_of
from engine.export.files import TakenError
from engine.export.formats import COMPARISON, MLFLOW, Format, written_clause
from engine.store.record import RunRecord
from engine.store.store import Store
from engine.words.numbers import counted
from gui.runs import importing
from gui.session.background import Background
from gui.session.saved_runs import SavedRuns
from gui.theme.theme import theme
from gui.widgets.notice import Notice

_FOLDER_FORM, _TABLES = "tensorboard", {"markdown": "Markdown", "latex": "LaTeX"}


@dataclass(frozen=True)
class ExportRequest:
    """The runs to export, as ids. `baseline` is any run of the baseline.

    `side` is a run of the side that leads the report and is raced against the baseline, None for the default.
    `title` is the title of the report, "" for the default.
    """

    run_ids: tuple[str, ...]
    baseline: str | None = None
    side: str | None = None
    title: str = ""

    @property
    def words(self) -> str:
        return counted(len(self.run_ids), "run")


@dataclass(frozen=True)
class ExportedFile:
    """The path of an export, and all `files` that were written.

    `is_taken` is True if a different file is already there and must not be replaced.
    """

    path: Path
    files: tuple[Path, ...] = ()
    is_taken: bool = False


def write(
    store_path: Path,
    request: ExportRequest,
    path: Path,
    *,
    force: bool,
    form: str | None = None,
    theme: ThemeName = "dark",
) -> ExportedFile:
    """Write runs in the format `form`, or in that of the path's suffix. Raises ProblemError.

    A race is written in the colors of `theme`.
    """
    chosen = COMPARISON.format_for(path) if form is None else COMPARISON.format_named(form)
    how = chosen.write
    if chosen.is_race:
        # drawing needs libraries that would slow the window's start
        from engine.export.race import race_writer

        how = race_writer(chosen.suffix, theme)
    with Store(store_path) as store:
        try:
            written = COMPARISON.export_files(_content(store, request), path, force=force, write=how)
        except TakenError:
            return ExportedFile(path, is_taken=True)
    return ExportedFile(path, written)


def _content(store: Store, request: ExportRequest) -> Content:
    return content_of(store, request.run_ids, request.baseline, request.side, request.title)


def table(store_path: Path, request: ExportRequest, form: str) -> str:
    """Return the tables of a comparison as text. Raises ProblemError."""
    from engine.export.report.report import report_of
    from engine.export.writers.text import latex, markdown

    with Store(store_path) as store:
        known = report_of(_content(store, request))
        return markdown(known) if form == "markdown" else latex(known)


def send_to_mlflow(store_path: Path, request: ExportRequest, destination: str) -> tuple[str, ...]:
    """Send runs to a folder or a tracking server, and return messages. Raises ProblemError."""
    # its client takes a second to load
    from engine.export.mlflow import log_runs

    with Store(store_path) as store:
        return log_runs(_content(store, request), MLFLOW + destination).sentences


def file_name(runs: Sequence[RunRecord]) -> str:
    """Return the suggested file name without its suffix: the contents and the date.

    One run gives its name. Several runs give their model, or the number of models, and their precisions.
    """
    if not runs:
        return "runs"
    models = dict.fromkeys(run.overview.model for run in runs)
    precisions = dict.fromkeys(run.experiment.precision.value for run in runs)
    parts = [next(iter(models)) if len(models) == 1 else f"{len(models)} models", *precisions]
    name = runs[0].name if len(runs) == 1 else " ".join(parts)
    kept = "".join(letter if letter.isalnum() or letter in "-_ " else " " for letter in name)
    name = "-".join(kept.split())[:60].strip("-") or "run"
    return f"{name}-{max(run.created for run in runs).astimezone():%Y-%m-%d}"


class Exporting(QObject):
    """Writes exports one after another in a thread, and shows each result in the window's notice."""

    def __init__(
        self, store_path: Path, runs: SavedRuns, background: Background, notice: Notice, window: QWidget
    ) -> None:
        super().__init__(window)
        self._store_path, self._runs = store_path, runs
        self._background, self._notice, self._window = background, notice, window
        self._folder = Path.home()
        self._mlflow = ""
        self._dragged: QTemporaryDir | None = None

    def ask(self, form: str, request: ExportRequest) -> None:
        """Ask for a path, and export in the format `form` ("any" for a format chosen in the dialog)."""
        if not request.run_ids:
            self._notice.notify("There are no runs to export.", "Select one or more runs first.")
        elif form in _TABLES:
            self.copy(request, form)
        elif form == "mlflow":
            destination = importing.ask_mlflow(self._window, self._mlflow)
            if destination is not None:
                self._mlflow = destination
                self.send_to_mlflow(request, destination)
        elif form == _FOLDER_FORM:
            title = "Choose where to create the TensorBoard folder"
            folder = importing.ask_folder(self._window, self._last_folder(), title)
            if folder is not None:
                self._folder = folder
                self.write(request, folder / f"{self._name(request)}-tensorboard", form=form)
        else:
            formats = _offered(form, self._records(request))
            name = f"{self._name(request)}-replay" if formats[0].is_race else self._name(request)
            place = importing.ask_file(self._window, self._last_folder(), name, formats)
            if place is not None:
                self._folder = place.path.parent
                self.write(request, place.path, force=place.may_replace, form=place.form)

    def write(
        self, request: ExportRequest, path: Path, *, force: bool = False, form: str | None = None
    ) -> None:
        """Write to a path in the format `form`, or in that of the path's suffix.

        An existing file is replaced only with `force`. A race is in the colors of the window.
        """
        self._notice.notify(f"Writing {path.name}…")
        again = partial(self.write, request, path, force=True, form=form)
        theme_name: ThemeName = "dark" if theme().palette.is_dark else "light"
        work = partial(write, self._store_path, request, path, force=force, form=form, theme=theme_name)
        self._background.do(work, partial(self._report_written, request, form, again), self._fail)

    def copy(self, request: ExportRequest, form: str) -> None:
        """Copy the tables, as "markdown" or "latex", to the clipboard."""

        def keep(text: str) -> None:
            QGuiApplication.clipboard().setText(text)
            self._notice.notify(f"Copied the table to the clipboard as {_TABLES[form]}.")

        self._background.do(partial(table, self._store_path, request, form), keep, self._fail)

    def send_to_mlflow(self, request: ExportRequest, destination: str) -> None:
        """Send runs to an MLflow folder or a tracking server."""
        self._notice.notify(f"Sending {request.words} to MLflow…")
        work = partial(send_to_mlflow, self._store_path, request, destination)
        self._background.do(work, lambda said: self._notice.notify(said[0], " ".join(said[1:])), self._fail)

    def drag_report(self, request: ExportRequest, source: QWidget) -> None:
        """Write the report to a temporary folder, then drag it if the mouse button is still pressed."""
        self._dragged = QTemporaryDir()
        path = Path(self._dragged.path()) / f"{self._name(request)}.html"
        work = partial(write, self._store_path, request, path, force=True)
        self._background.do(work, partial(_drag, source), self._fail)

    def state(self) -> dict[str, str]:
        """The state that survives a restart: the place of the last export."""
        return {"folder": str(self._folder), "mlflow": self._mlflow}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned. Raises KeyError for anything else."""
        self._folder, self._mlflow = Path(state["folder"]), str(state["mlflow"])

    def _last_folder(self) -> Path:
        return self._folder if self._folder.is_dir() else Path.home()

    def _name(self, request: ExportRequest) -> str:
        return file_name(self._records(request))

    def _records(self, request: ExportRequest) -> list[RunRecord]:
        return [run for run_id in request.run_ids if (run := self._runs.record(run_id)) is not None]

    def _report_written(
        self, request: ExportRequest, form: str | None, again: Callable[[], None], written: ExportedFile
    ) -> None:
        path = written.path
        if written.is_taken:
            text = f"{path.name} or one of its companion files already exists."
            self._notice.notify(text, "Nothing was written.", "Replace", again)
            return
        remedy = f"To view them: tensorboard --logdir {path}" if form == _FOLDER_FORM else ""
        beside = written_clause(written.files)
        self._notice.notify_written(f"Wrote {request.words} to {path.name}{beside}.", path, remedy)

    def _fail(self, problem: Problem) -> None:
        self._notice.notify(problem.message, problem.remedy)


def _drag(source: QWidget, written: ExportedFile) -> None:
    if QApplication.mouseButtons() & Qt.MouseButton.LeftButton:
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(written.path))])
        drag = QDrag(source)
        drag.setMimeData(data)
        drag.exec(Qt.DropAction.CopyAction)


def _offered(form: str, runs: Sequence[RunRecord]) -> list[Format[Content]]:
    if form == "animation":
        return [COMPARISON.format_named("animation"), COMPARISON.format_named("gif")]
    if form != "any":
        return [COMPARISON.format_named(form)]
    # a program is of one run, which is none already, and a race is of two
    is_alone = len(runs) == 1
    has_program = is_alone and refusal("export", [run.experiment.command for run in runs]) is None
    files = [form for form in COMPARISON.formats if form.suffix != "/"]
    files = files if has_program else [form for form in files if form.name != "script"]
    return [form for form in files if not form.is_race] if is_alone else files
