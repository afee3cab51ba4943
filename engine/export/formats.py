"""The export formats, chosen by the ending of the path."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.experiment.problem import ProblemError, request_problem
from engine.export.content import Content
from engine.export.files import place

Write = Callable[[Content, Path], None]


@dataclass(frozen=True)
class Format:
    """A format: `suffix` ends its paths ("/" for a folder), and `title` is its name in menus.

    `write` takes the content and the path. Further files go beside that path; their names end in one of
    `beside` instead of `suffix`. If formats share a suffix, a path with that suffix means the first. A format
    that `is_race` needs two sides that can be raced.
    """

    name: str
    suffix: str
    title: str
    write: Write
    beside: tuple[str, ...] = ()
    is_race: bool = False


def _lazily(module: str, function: str) -> Write:
    # each format has libraries of its own, and nobody should wait for those of the others
    def write(content: Content, path: Path) -> None:
        getattr(importlib.import_module(f"engine.export.{module}"), function)(content, path)

    return write


_write_archive = _lazily("archive.writer", "write_archive")
FORMATS = (
    Format("html", ".html", "Report as a web page", _lazily("report.html", "write_html")),
    Format("pdf", ".pdf", "Report as PDF", _lazily("report.pdf", "write_pdf")),
    Format("png", ".png", "Picture", _lazily("pictures.sheet", "write_png")),
    Format("svg", ".svg", "Vector picture", _lazily("pictures.sheet", "write_svg")),
    Format("card", ".png", "Race as a picture", _lazily("pictures.race", "write_card_png"), is_race=True),
    Format(
        "animation",
        ".webp",
        "Race as an animated picture (WebP)",
        _lazily("pictures.animation", "write_webp"),
        is_race=True,
    ),
    Format(
        "gif",
        ".gif",
        "Race as an animated picture (GIF)",
        _lazily("pictures.animation", "write_gif"),
        is_race=True,
    ),
    Format(
        "csv",
        ".csv",
        "Samples and figures as CSV",
        _lazily("data", "write_csv"),
        ("-runs.csv", "-summary.csv"),
    ),
    Format("json", ".json", "Everything as JSON", _lazily("data", "write_json")),
    Format("markdown", ".md", "Table in Markdown", _lazily("report.markdown", "write_markdown")),
    Format("latex", ".tex", "Table in LaTeX", _lazily("report.latex", "write_latex")),
    Format("tensorboard", "/", "TensorBoard", _lazily("trackers.tensorboard", "write_tensorboard")),
    Format("archive", ".ammeter", "Runs whole, to import elsewhere", _write_archive),
    Format("zip", ".zip", "Runs whole, for Ammeter 0.1", _write_archive),
    Format("script", ".py", "Python script of one run", _lazily("script.page", "write_script"), (".npz",)),
)


def format_named(name: str) -> Format:
    """The format of that `name`. Raises StopIteration for any other."""
    return next(form for form in FORMATS if form.name == name)


def format_for(path: str | Path) -> Format:
    """The format that a path asks for. Raises ProblemError, which lists the formats."""
    text = os.fspath(path)
    if text.endswith(("/", os.sep)):
        return format_named("tensorboard")
    if not text:
        remedy = f"Give a file's name ({_endings()})."
        raise ProblemError(request_problem("The path is empty.", remedy, key="to", value=text))
    if os.path.isdir(text):  # noqa: PTH112 - Path raises for a name that is too long
        message = f"{text} is a folder."
        remedy = f"Give a file's name ({_endings()}), or end the path with / for TensorBoard."
        raise ProblemError(request_problem(message, remedy, key="to", value=text, allowed=_endings()))
    suffix = Path(text).suffix.lower()
    form = next((form for form in FORMATS if form.suffix == suffix), None)
    if form is None:
        reason = f"ends in {suffix}, which no format does" if suffix else "has no ending that names a format"
        remedy = f"End it in {_endings()}, or in / for TensorBoard."
        problem = request_problem(f"{text} {reason}.", remedy, key="to", value=text, allowed=_endings())
        raise ProblemError(problem)
    return form


def export(content: Content, path: str | Path, *, force: bool = False, write: Write | None = None) -> Path:
    """Writes the content in the format that `path` asks for, or by `write`, and returns the path.

    Existing files are kept unless `force`. Raises ProblemError; nothing is left half-written.
    """
    write = format_for(path).write if write is None else write
    target = Path(path)
    with place(target, force=force) as temporary:
        write(content, temporary)
    return target


def files_beside(path: Path) -> tuple[Path, ...]:
    """The further files of the export to `path` that exist."""
    ends = next((form.beside for form in FORMATS if form.suffix == path.suffix.lower()), ())
    return tuple(file for end in ends if (file := path.with_name(path.stem + end)).is_file())


def and_beside(files: Sequence[Path]) -> str:
    """The further files of an export as a clause; "" without any."""
    names = " and ".join(file.name for file in files)
    return f", with {names} beside it" if names else ""


def endings() -> tuple[str, ...]:
    """The endings of files, without that of a folder."""
    return tuple(dict.fromkeys(form.suffix for form in FORMATS if form.suffix != "/"))


def _endings() -> str:
    return ", ".join(endings())
