"""The system's own dialogs for files and folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QInputDialog, QLineEdit, QWidget

from engine.exports.formats import FORMATS, Format

_ARCHIVE = "Runs exported by Ammeter (*.zip)"


@dataclass(frozen=True)
class Place:
    """Where a person wants a file; `may_replace`: they were asked, if there is one of that name.

    `form` is the name of the chosen form where the ending of the path would mean another.
    """

    path: Path
    may_replace: bool
    form: str | None = None


def ask_file(window: QWidget, folder: Path, name: str, formats: Sequence[Format]) -> Place | None:
    """Asks where to save, in one of `formats`; None if the person thought better of it."""
    filters = {f"{one.title} (*{one.suffix})": one for one in formats}
    first = formats[0]
    chosen, used = QFileDialog.getSaveFileName(
        window, "Export", str(folder / f"{name}{first.suffix}"), ";;".join(filters), next(iter(filters))
    )
    return place_of(chosen, filters.get(used, first)) if chosen else None


def place_of(chosen: str, used: Format) -> Place:
    """The path that was typed, with the ending of the form that was chosen where it has none."""
    path = Path(chosen)
    if path.suffix.lower() in {one.suffix for one in FORMATS}:
        form = _told_form(used) if path.suffix.lower() == used.suffix else None
        return Place(path, path.exists(), form)
    # nobody was asked about the name with its ending
    return Place(path.with_name(path.name + used.suffix), False, _told_form(used))


def _told_form(used: Format) -> str | None:
    """The form's name where another one comes first among those of its ending."""
    return None if next(one for one in FORMATS if one.suffix == used.suffix) is used else used.name


def ask_folder(window: QWidget, folder: Path, title: str) -> Path | None:
    """Asks for a folder that is there; None if the person thought better of it."""
    chosen = QFileDialog.getExistingDirectory(window, title, str(folder))
    return Path(chosen) if chosen else None


def ask_archive(window: QWidget, folder: Path) -> Path | None:
    """Asks for a .zip to import; None if the person thought better of it."""
    chosen, _ = QFileDialog.getOpenFileName(window, "Import runs", str(folder), _ARCHIVE)
    return Path(chosen) if chosen else None


def ask_title(window: QWidget, last: str) -> str | None:
    """Asks what the report of this comparison is called; "" for what it compares, None if left as it is."""
    question = "The report's title. Leave it empty for what is compared:"
    text, agreed = QInputDialog.getText(
        window, "Title of the report", question, QLineEdit.EchoMode.Normal, last
    )
    return text.strip() if agreed else None


def ask_mlflow(window: QWidget, last: str) -> str | None:
    """Asks where MLflow keeps runs; None if the person thought better of it."""
    question = "A folder, or http://HOST:PORT of a tracking server:"
    text, agreed = QInputDialog.getText(
        window, "Send to MLflow", question, QLineEdit.EchoMode.Normal, last or str(Path.home() / "mlruns")
    )
    return text.strip() if agreed and text.strip() else None
