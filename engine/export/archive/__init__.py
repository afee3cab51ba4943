"""Reads and writes archives of complete runs (.ammeter, a zip file). Archives are untrusted input."""

from dataclasses import dataclass

from engine.store.record import RunRecord

ARCHIVE_SUFFIX = ".ammeter"


@dataclass(frozen=True)
class Imported:
    """The result of an import: the added runs, and those that the store already had, in the archive's order.

    `copies` are the `added` runs that got a new id because their own was taken. They are in no comparison.
    """

    added: tuple[RunRecord, ...]
    already_here: tuple[RunRecord, ...]
    copies: tuple[RunRecord, ...]
