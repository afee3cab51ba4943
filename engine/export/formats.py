"""The formats of each kind of result, chosen by the ending of the path."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from engine.experiment.problem import Problem, ProblemError, request_problem
from engine.export.files import atomic_path, check_free
from engine.words.names import listed

if TYPE_CHECKING:
    from engine.export.content import Content
    from engine.protocol.numerics import Numerics
    from engine.protocol.profile import Profiles
    from engine.protocol.trials import Limit
    from engine.protocol.tune import Tuning
    from engine.store.saved.studies import Study
    from engine.store.saved.sweeps import SweepRecord

Result = TypeVar("Result")
_Write = Callable[[Result, Path], None]

MLFLOW = "mlflow:"  # the start of a destination such as `mlflow:./mlruns` or `mlflow:http://host:5000`


def is_mlflow(destination: str) -> bool:
    """Return True if a destination is an MLflow location and not a file."""
    return destination.lower().startswith(MLFLOW)


@dataclass(frozen=True)
class Format(Generic[Result]):
    """An export format: the ending of its files, its title in menus, and the function that writes it.

    A `suffix` of "/" stands for a folder. Of formats with the same suffix, the first is the default. A format
    with `is_race` needs two runs to replay side by side.
    """

    name: str
    suffix: str
    title: str
    write: _Write[Result]
    is_race: bool = False


@dataclass(frozen=True)
class ResultKind(Generic[Result]):
    """A kind of result and the formats to which it can be exported. `noun` is its name: "the numerics"."""

    noun: str
    formats: tuple[Format[Result], ...]

    @property
    def endings(self) -> str:
        """The file endings, separated by commas."""
        return ", ".join(dict.fromkeys(form.suffix for form in self.formats if form.suffix != "/"))

    def format_named(self, name: str) -> Format[Result]:
        """Return the format of that `name`. Raises StopIteration if it is unknown."""
        return next(form for form in self.formats if form.name == name)

    def format_for(self, path: str | Path) -> Format[Result]:
        """Return the format for a path. Raises ProblemError, which lists the formats."""
        text = os.fspath(path)
        name = "/" if text.endswith(("/", os.sep)) else Path(text).name.lower()
        fitting = [form for form in self.formats if name.endswith(form.suffix)]
        if not fitting or (name != "/" and os.path.isdir(text)):  # noqa: PTH112 - Path raises for a long name
            raise ProblemError(self._no_format(text))
        # "x.json.gz" ends in the endings of two
        return max(fitting, key=lambda form: len(form.suffix))

    def export(
        self, result: Result, path: str | Path, *, force: bool = False, write: _Write[Result] | None = None
    ) -> Path:
        """Write a result in the format for `path`, or by `write`, and return the path.

        Existing files are kept unless `force`. Raises ProblemError and leaves no partial files.
        """
        return self.export_files(result, path, force=force, write=write)[0]

    def export_files(
        self, result: Result, path: str | Path, *, force: bool = False, write: _Write[Result] | None = None
    ) -> tuple[Path, ...]:
        """Do as `export`, and return the path and the files that were written next to it."""
        write = self.format_for(path).write if write is None else write
        target = Path(path)
        with atomic_path(target, force=force) as temporary:
            write(result, temporary)
            files = sorted(file for file in temporary.parent.rglob("*") if file.is_file())
            names = [file.relative_to(temporary.parent) for file in files]
        return (target, *(target.parent / name for name in names if name.parts[0] != target.name))

    def check(self, paths: Iterable[str | Path], *, force: bool = False) -> None:
        """Raise ProblemError now if `export` to one of the paths is known to fail."""
        for path in paths:
            self.format_for(path)
            check_free(Path(path), force=force)

    def _no_format(self, text: str) -> Problem:
        has_folder = any(form.suffix == "/" for form in self.formats)
        or_folder = ", or end the path in / for TensorBoard" if has_folder else ""
        suffix = Path(text).suffix.lower()
        if not text:
            message = "The path is empty."
        elif os.path.isdir(text):  # noqa: PTH112 - Path raises for a name that is too long
            message = f"{text} is a folder."
        elif suffix:
            message = f"{text} ends in {suffix}, which is not a format for {self.noun}."
        else:
            message = f"{text} has no ending that names a format."
        remedy = f"End the file's name in {self.endings}{or_folder}."
        return request_problem(message, remedy, key="to", value=text, allowed=self.endings)


def _load_function(name: str) -> Any:
    # each format has libraries of its own, and nobody should wait for those of the others
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(f"engine.export.{module}"), function)


def _own_format(name: str, suffix: str, title: str, write: str, **more: Any) -> Format[Any]:
    """Return a format of one kind. `write` is a function "module.name" of engine.export."""
    return Format(name, suffix, title, lambda result, path: _load_function(write)(result, path), **more)


def _document_formats(document: str) -> tuple[Format[Any], ...]:
    """Return the formats of the document that the function `document` makes of a result."""

    def form(name: str, suffix: str, title: str, write: str) -> Format[Any]:
        def write_document(result: Any, path: Path) -> None:
            _load_function(f"writers.{write}")(_load_function(document)(result), path)

        return Format(name, suffix, title, write_document)

    return (
        form("html", ".html", "Report as a web page", "page.write_html"),
        form("pdf", ".pdf", "Report as PDF", "pdf.write_pdf"),
        form("png", ".png", "Charts as PNG", "picture.write_pictures"),
        form("svg", ".svg", "Charts as SVG", "picture.write_pictures"),
        form("csv", ".csv", "Tables as CSV", "data.write_csv"),
        form("json", ".json", "Everything as JSON", "data.write_json"),
        form("markdown", ".md", "Tables in Markdown", "text.write_markdown"),
        form("latex", ".tex", "Tables in LaTeX", "text.write_latex"),
    )


def _comparison_formats() -> tuple[Format[Content], ...]:
    *_, markdown, latex = _document_formats("report.report.report_of")
    moving = "Replay as an animation"
    return (
        _own_format("html", ".html", "Report as a web page", "report.pages.write_html"),
        _own_format("pdf", ".pdf", "Report as PDF", "report.pages.write_pdf"),
        _own_format("png", ".png", "Charts as PNG", "report.charts.write_picture"),
        _own_format("svg", ".svg", "Charts as SVG", "report.charts.write_picture"),
        _own_format("card", ".png", "Replay as an image", "race.write_card_png", is_race=True),
        _own_format("animation", ".webp", f"{moving} (WebP)", "race.write_webp", is_race=True),
        _own_format("gif", ".gif", f"{moving} (GIF)", "race.write_gif", is_race=True),
        _own_format("csv", ".csv", "Samples and metrics as CSV", "report.data.write_csv"),
        _own_format("json", ".json", "Everything as JSON", "report.data.write_json"),
        markdown,
        latex,
        _own_format("tensorboard", "/", "TensorBoard", "tensorboard.write_tensorboard"),
        _own_format("archive", ".ammeter", "Full runs, to import elsewhere", "archive.writer.write_archive"),
        _own_format("script", ".py", "Python script of one run", "script.page.write_script"),
    )


_TRACE = _own_format("trace", ".json.gz", "Traces for Perfetto", "kinds.profile.write_traces")
_SCRIPT = _own_format("script", ".py", "Python script of the fastest settings", "kinds.tune.write_script")

COMPARISON: ResultKind[Content] = ResultKind("runs", _comparison_formats())
LIMIT: ResultKind[Study[Limit]] = ResultKind("the largest batch", _document_formats("kinds.limit.document"))
NUMERICS: ResultKind[Study[Numerics]] = ResultKind(
    "the numerics", _document_formats("kinds.numerics.document")
)
PROFILE: ResultKind[Study[Profiles]] = ResultKind(
    "the profile", (*_document_formats("kinds.profile.document"), _TRACE)
)
TRACES: ResultKind[Study[Profiles]] = ResultKind("traces", (_TRACE,))
SWEEP: ResultKind[SweepRecord] = ResultKind("a sweep", _document_formats("kinds.sweep.document"))
TUNE: ResultKind[Study[Tuning]] = ResultKind(
    "the fastest settings", (_SCRIPT, *_document_formats("kinds.tune.document"))
)


def written_clause(files: Sequence[Path]) -> str:
    """Return the files next to an export as a clause: ", with net.py and run.npz", or ""."""
    path, *beside = files
    names = listed([file.relative_to(path.parent).as_posix() for file in beside])
    return f", with {names}" if names else ""
