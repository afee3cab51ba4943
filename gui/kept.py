"""The parts of the window that survive a restart, each read and brought back on its own."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QByteArray

from gui.settings import Key, Settings


@dataclass(frozen=True)
class Kept:
    """One part: `read` gives its state as plain JSON values, `write` brings that back or raises."""

    key: Key
    read: Callable[[], Any]
    write: Callable[[Any], object]


def kept_bytes(key: Key, read: Callable[[], QByteArray], write: Callable[[QByteArray], bool]) -> Kept:
    """A part whose state is one of Qt's byte arrays, such as a splitter's."""

    def read_text() -> str:
        return base64.b64encode(read().data()).decode("ascii")

    def write_text(text: str) -> None:
        if not write(QByteArray(base64.b64decode(text, validate=True))):
            raise ValueError(f"Qt does not take this {key}.")

    return Kept(key, read_text, write_text)


def restore(settings: Settings, parts: Sequence[Kept]) -> None:
    """Brings back what is remembered; a part that cannot be is logged and keeps its default."""
    for part in parts:
        settings.restore(part.key, part.write)


def remember(settings: Settings, parts: Sequence[Kept]) -> None:
    """Reads every part and saves the settings."""
    for part in parts:
        settings.set(part.key, part.read())
    settings.save()
