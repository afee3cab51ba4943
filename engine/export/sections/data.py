"""Sections as CSV files (RFC 4180), and what their JSON begins with.

`x.csv` has a row for every sentence; the tables go beside it, as `x-NAME.csv`. An apostrophe precedes text
that a spreadsheet would run as a formula.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from engine import __version__
from engine.export.data import beside, cell, write_rows
from engine.export.sections.section import Section

Row = dict[str, Any]


class Saved(Protocol):
    """What all records have."""

    @property
    def id(self) -> str: ...
    @property
    def created(self) -> datetime: ...
    @property
    def device_name(self) -> str: ...
    @property
    def ammeter(self) -> str | None: ...


def write_tables(sections: Sequence[Section], tables: Mapping[str, Iterable[Row]], path: Path) -> None:
    """Writes the sentences to `path`, and the tables that have rows beside it."""
    texts = [
        {"part": section.title, "sentence": text}
        for section in sections
        for text in (*section.sentences, *section.notes)
    ]
    _write(path, texts)
    for name, rows_of in tables.items():
        if rows := list(rows_of):
            _write(beside(path, name), rows)


def _write(path: Path, rows: Sequence[Row]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    write_rows(path, [names, *([cell(row.get(name)) for name in names] for row in rows)])


def write_object(record: Saved, path: Path, **values: Any) -> None:
    """Writes one JSON object; `values` follow what all records have.

    `ammeter` is the version that writes, `made_with` the version that made the record, null if unknown.
    """
    head = {
        "ammeter": __version__,
        "made_with": record.ammeter,
        "id": record.id,
        "created": record.created.isoformat(),
        "device": record.device_name,
    }
    path.write_text(json.dumps({**head, **values}, allow_nan=False, indent=1), encoding="utf-8")
