"""The catalogs of other machines as they were last read, to be shown while a machine does not answer."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from engine.experiment.catalog import Catalog
from engine.experiment.paths import file_name_of, machines_path, part_path

_MOST_BYTES = 32 * 1024 * 1024


def _path(machine: str) -> Path:
    return machines_path().with_suffix("") / f"{file_name_of(machine.casefold())}.json"


def keep_catalog(catalog: Catalog) -> None:
    """Keeps the catalog of its machine; where that cannot be written, the one before stays."""
    path = _path(catalog.machine)
    part = part_path(path)
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(catalog.model_dump_json())
        part.replace(path)


def kept_catalog(machine: str) -> tuple[Catalog, datetime] | None:
    """The catalog of a machine, and when it was read (UTC); None where none was."""
    path = _path(machine)
    with suppress(OSError, ValidationError):
        with path.open("rb") as file:
            catalog = Catalog.model_validate_json(file.read(_MOST_BYTES))
        read = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return catalog.model_copy(update={"machine": machine}), read
    return None


def forget_catalog(machine: str) -> None:
    """Deletes what was kept of a machine."""
    with suppress(OSError):
        _path(machine).unlink(missing_ok=True)
