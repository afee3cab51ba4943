"""The copy of an older store that is made before it is brought up to date, and kept until that proves good.

It is good once a window has opened, read its runs and been closed, or a verb that reads them has ended well.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from engine.experiment.paths import part_path
from engine.experiment.value import BYTES_PER_MIB

_SPARE_BYTES = 16 * BYTES_PER_MIB
"""What the migration itself may write."""


class NoRoomError(OSError):
    """Raised where the copy, and the migration after it, would not fit on the disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def back_up(source: sqlite3.Connection, path: Path, version: int) -> Path:
    """Copies the store at `path`, of that version, with its log, and returns the copy's path.

    Nobody may write meanwhile. A killed copy has another name. Raises OSError and sqlite3.Error.
    """
    (pages,), (page_bytes,) = (
        source.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
    )
    if shutil.disk_usage(path.parent).free < pages * page_bytes + _SPARE_BYTES:
        raise NoRoomError(path.parent)
    place = path.with_name(f"{path.name}.v{version}.backup")
    part = part_path(place)
    part.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(part)) as copy:
            # a torn copy is thrown away, so it needs no journal
            copy.execute("PRAGMA journal_mode = OFF")
            source.backup(copy)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(place)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    return place


def backups(path: Path) -> list[Path]:
    """The copies of the store at `path`, the newest format last."""
    name = re.compile(re.escape(path.name) + r"\.v(\d+)\.backup")
    found = {place: match for place in _entries(path.parent) if (match := name.fullmatch(place.name))}
    return sorted(found, key=lambda place: int(found[place][1]))


def remove_backups(path: Path) -> None:
    """Removes the copies of the store at `path`, which has proven good."""
    for place in backups(path):
        # a folder that cannot be written keeps them
        with suppress(OSError):
            place.unlink()


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
