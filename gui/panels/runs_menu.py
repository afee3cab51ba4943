"""The menu of a row of the runs table: what can be done with a run, and why not where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtWidgets import QMenu

from engine.records.record import RunRecord
from gui.panels.runs_marks import shared_tags

_MOST_TAGS_OFFERED = 12


@dataclass(frozen=True)
class Entry:
    """One line of the menu: its words, what it does, and why it cannot be chosen (None where it can)."""

    words: str
    do: Callable[[], object]
    against: str | None = None


def add_entries(menu: QMenu, entries: Sequence[Entry]) -> None:
    """Adds lines to a menu; one that cannot be chosen says why in its tip."""
    menu.setToolTipsVisible(True)
    for entry in entries:
        action = menu.addAction(entry.words)
        action.setToolTip(entry.against or entry.words)
        action.setEnabled(entry.against is None)
        action.triggered.connect(lambda _=False, do=entry.do: do())


def add_tags(
    menu: QMenu,
    runs: Sequence[RunRecord],
    known: Sequence[str],
    toggle: Callable[[str], object],
    others: Callable[[], object],
) -> None:
    """Adds a menu of the tags that are used most, checked where all of the runs have them."""
    submenu = menu.addMenu("Tags")
    submenu.setAccessibleName("Tags of the run")
    shared = shared_tags(runs)
    for tag in dict.fromkeys((*shared, *known[:_MOST_TAGS_OFFERED])):
        action = submenu.addAction(tag.replace("&", "&&"))
        action.setCheckable(True)
        action.setChecked(tag in shared)
        action.triggered.connect(lambda _=False, tag=tag: toggle(tag))
    if submenu.actions():
        submenu.addSeparator()
    submenu.addAction("Other tags…").triggered.connect(lambda _=False: others())
