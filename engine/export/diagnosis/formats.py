"""The formats that a saved diagnosis is exported in, chosen by the ending of the path."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.experiment.problem import ProblemError, request_problem
from engine.export.files import check_free, place
from engine.store.diagnoses import DiagnosisRecord

Write = Callable[[DiagnosisRecord, Path], None]


@dataclass(frozen=True)
class DiagnosisFormat:
    """A format: `suffix` ends its paths, and `title` is its name in menus."""

    suffix: str
    title: str
    write: Write


def _lazily(module: str, function: str) -> Write:
    def write(record: DiagnosisRecord, path: Path) -> None:
        getattr(importlib.import_module(f"engine.export.diagnosis.{module}"), function)(record, path)

    return write


DIAGNOSIS_FORMATS = (
    DiagnosisFormat(".html", "Report as a web page", _lazily("report", "write_html")),
    DiagnosisFormat(".csv", "Tables as CSV", _lazily("data", "write_csv")),
    DiagnosisFormat(".json", "Everything as JSON", _lazily("data", "write_json")),
)


def export_diagnosis(record: DiagnosisRecord, path: str | Path, *, force: bool = False) -> Path:
    """Writes a diagnosis in the format that `path` asks for, and returns the path.

    Existing files are kept unless `force`. Raises ProblemError; nothing is left half-written.
    """
    form, target = _format_for(path), Path(path)
    with place(target, force=force) as temporary:
        form.write(record, temporary)
    return target


def check_export(path: str | Path, *, force: bool = False) -> None:
    """Raises ProblemError where `export_diagnosis` to `path` would, as far as that is known before."""
    _format_for(path)
    check_free(Path(path), force=force)


def _format_for(path: str | Path) -> DiagnosisFormat:
    text = os.fspath(path)
    suffix = Path(text).suffix.lower()
    form = next((form for form in DIAGNOSIS_FORMATS if form.suffix == suffix), None)
    if form is None:
        endings = ", ".join(form.suffix for form in DIAGNOSIS_FORMATS)
        raise ProblemError(
            request_problem(
                f"'{text}' names no format that a diagnosis is exported in.",
                f"End it in {endings}.",
                key="to",
                value=text,
                allowed=endings,
            )
        )
    return form
