"""Which saved runs can be read: one of another version, or a damaged one, must not hide the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from sqlite3 import Row

from engine.problem import ProblemError
from engine.records.record import RunRecord, run_from
from engine.text import shortened

_MOST_SHAPES = 4_096
_DIGITS = b"0123456789"


@dataclass(frozen=True)
class UnreadableRun:
    """A saved run of which no more can be told; `why` is a sentence."""

    id: str
    name: str
    why: str


class Reader:
    """Makes records of rows. It remembers what it could read, since runs are much alike."""

    def __init__(self) -> None:
        self._sound: set[bytes] = set()

    def __call__(self, row: Row) -> RunRecord | UnreadableRun:
        """The run in a row of `RUN_COLUMNS`, or why it cannot be read."""
        try:
            record = run_from(row)
            self._check(row["experiment"], lambda: record.experiment)
            self._check(row["environment"], lambda: record.environment)
            self._check(row["summary"], lambda: record.summary)
        except ProblemError as error:
            return _unreadable(row, error.problem.message)
        except (ValueError, TypeError, OverflowError, OSError, RecursionError):
            return _unreadable(row, "What is saved of this run is damaged.")
        return record

    def _check(self, text: str | None, parse: Callable[[], object]) -> None:
        """Parses a text, unless one that differs in its digits alone was parsed before.

        To parse the settings of ten thousand runs takes longer than to show them, and their lines differ in
        seeds, sizes and figures. What other versions write differs in names.
        """
        if text is None:
            return
        shape = text.encode().translate(None, _DIGITS)
        if shape in self._sound:
            return
        parse()
        if len(self._sound) < _MOST_SHAPES:
            self._sound.add(shape)


def _unreadable(row: Row, why: str) -> UnreadableRun:
    return UnreadableRun(shortened(row["id"]), shortened(row["name"]), why)
