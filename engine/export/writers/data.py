"""Full data as CSV (RFC 4180), without formulas, and as JSON, with NaN and infinity as text."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.experiment.value import cell_text
from engine.export.document import Document, Row

_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def json_column(values: NDArray[Any]) -> list[Any]:
    """Return a column as plain JSON values."""
    plain: list[Any] = values.tolist()
    return plain if np.isfinite(values).all() else json_value(plain)


def json_value(value: Any) -> Any:
    """Return a value for JSON, with NaN and infinity as text, also within tuples, lists and dicts."""
    if isinstance(value, float) and not math.isfinite(value):
        return _WORDS[str(value)]
    if isinstance(value, tuple | list):
        return [json_value(part) for part in value]
    if isinstance(value, dict):
        return {key: json_value(part) for key, part in value.items()}
    return value


def write_json(document: Document, path: Path) -> None:
    path.write_text(json.dumps(document.values(), allow_nan=False, indent=1), encoding="utf-8")


def write_csv(document: Document, path: Path) -> None:
    """Write the document's own table or its sentences to `path`, and other tables with rows next to it."""
    tables = {"": lambda: _document_sentences(document), **document.tables}
    for name, rows_of in tables.items():
        write_table(companion_path(path, name), rows_of(), is_needed=not name)


def write_table(path: Path, table: Iterable[Row], *, is_needed: bool = True) -> None:
    """Write a CSV file of rows by column name. An optional file is written only if it has rows."""
    rows = list(table)
    names = list(dict.fromkeys(key for row in rows for key in row))
    if rows or is_needed:
        write_rows(path, [list(map(cell, names)), *([cell(row.get(key)) for key in names] for row in rows)])


def _document_sentences(document: Document) -> Iterable[Row]:
    for section in document.sections:
        for text in (*section.sentences, *section.notes):
            yield {"part": section.title, "sentence": text}


def companion_path(path: Path, name: str) -> Path:
    """Return the path of a companion file, or the path itself for the end ""."""
    return path.with_name(f"{path.stem}-{name}{path.suffix}") if name else path


def write_rows(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file."""
    # a name may hold a lone surrogate, which cannot be encoded
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        csv.writer(file).writerows(rows)


def cell(value: Any) -> Any:
    """Return a value as a CSV cell that is never a formula."""
    # numbers stay numbers: the csv module writes them to the last bit
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, str):
        return cell_text(value)
    if isinstance(value, list | tuple):
        return cell_text(" ".join(map(str, value)))
    if isinstance(value, dict):
        return cell_text("; ".join(f"{key}: {part}" for key, part in value.items()))
    return value
