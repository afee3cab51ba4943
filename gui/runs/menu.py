"""The menus of the runs table: lines with their reasons, tags, colours, and the columns to choose from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap
from PySide6.QtWidgets import QMenu

from engine.experiment.experiment import named
from engine.store.record import RunRecord
from gui.runs.marks import shared_tags
from gui.runs.table.columns import COMPARED, FIXED, USUAL, Column
from gui.runs.table.model import RunsModel
from gui.runs.table.view import RunsTable
from gui.theme.theme import theme
from gui.widgets.labels import plain_tip

_MOST_TAGS_OFFERED = 12


@dataclass(frozen=True)
class Entry:
    """A line of the menu: its words, its action, and why it is disabled (None if it is not)."""

    words: str
    do: Callable[[], object]
    against: str | None = None


def add_entries(menu: QMenu, entries: Sequence[Entry]) -> None:
    """Adds lines to a menu; the tooltip of a disabled one says why."""
    menu.setToolTipsVisible(True)
    for entry in entries:
        action = menu.addAction(entry.words)
        action.setToolTip(plain_tip(entry.against or entry.words))
        action.setEnabled(entry.against is None)
        action.triggered.connect(lambda _=False, do=entry.do: do())


def add_tags(
    menu: QMenu,
    runs: Sequence[RunRecord],
    known: Sequence[str],
    toggle: Callable[[str], object],
    others: Callable[[], object],
) -> None:
    """Adds a menu of the most frequent tags, checked if all of the runs have them."""
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


def why_no_ranges(run: RunRecord) -> str | None:
    """Why the run has no sampled ranges to show; None if it has."""
    is_sampled = run.experiment.measure.range_every > 0
    return None if is_sampled else f"None were sampled: {named('measure.range_every')} was 0."


def add_colours(menu: QMenu, runs: Sequence[RunRecord], choose: Callable[[str | None], object]) -> None:
    """Adds a menu of the colours that a run can have of its own; the shared one is checked."""
    submenu = menu.addMenu("Colour")
    submenu.setAccessibleName("Colour of the run")
    submenu.setObjectName("colours")
    shared = {run.colour for run in runs}
    for colour, words in ((None, "Default"), *((name, name.capitalize()) for name in theme().palette.own)):
        action = submenu.addAction(words)
        action.setToolTip(f"{words}, in the table and in all charts")
        if colour is not None:
            action.setIcon(_swatch(theme().palette.own[colour].color))
        action.setCheckable(True)
        action.setChecked(shared == {colour})
        action.triggered.connect(lambda _=False, colour=colour: choose(colour))


def _swatch(ink: str) -> QIcon:
    picture = QPixmap(16, 16)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(ink))
    painter.drawEllipse(QRectF(3, 3, 10, 10))
    painter.end()
    return QIcon(picture)


def add_folders(
    menu: QMenu,
    runs: Sequence[RunRecord],
    names: Sequence[str],
    move: Callable[[str], object],
    make: Callable[[], object],
) -> QMenu:
    """Adds a menu of the folders, and returns it; the one that all of the runs are in is checked."""
    submenu = menu.addMenu("Folder")
    submenu.setAccessibleName("Folder of the run")
    submenu.setObjectName("folders")
    shared = {run.folder for run in runs}
    for name in ("", *names):
        action = submenu.addAction(name.replace("&", "&&") or "No folder")
        action.setCheckable(True)
        action.setChecked(shared == {name})
        action.triggered.connect(lambda _=False, name=name: move(name))
    submenu.addSeparator()
    submenu.addAction("New folder…").triggered.connect(lambda _=False: make())
    return submenu


_GROUPS = ("Model and training", "Optimizer and schedule", "Step and loss scale", "Loading and saving")
_GROUP_OF = {"optimizer": 1, "schedule": 1, "step": 2, "scaler": 2, "measure": 2} | dict.fromkeys(
    ("data", "validation", "checkpoint"), 3
)


def fill_columns(menu: QMenu, table: RunsTable, model: RunsModel) -> None:
    """Fills a menu with all columns, those that are shown checked: figures, differences and settings."""
    menu.clear()
    menu.setToolTipsVisible(True)
    menu.setAccessibleName("Columns")
    for column in USUAL:
        if column not in FIXED:
            _add_column(menu, table, model, column)
    menu.addSeparator()
    others = [column for column in Column if column not in USUAL and column.setting is None]
    figures = [column for column in others if column not in COMPARED]
    differences = [column for column in others if column in COMPARED]
    for words, columns in (("Figures", figures), ("Against the baseline", differences)):
        submenu = menu.addMenu(words)
        submenu.setToolTipsVisible(True)
        for column in columns:
            _add_column(submenu, table, model, column)
    menu.addSeparator()
    settings = [menu.addMenu(words) for words in _GROUPS]
    for submenu in settings:
        submenu.setToolTipsVisible(True)
    for column in Column:
        if (key := column.setting) is not None:
            _add_column(settings[_GROUP_OF.get(key.partition(".")[0], 0)], table, model, column)
    menu.addSeparator()
    usual = menu.addAction("Usual columns")
    usual.setToolTip("Show the usual columns in their usual order and widths")
    usual.triggered.connect(lambda _=False: table.reset_columns())


def _add_column(menu: QMenu, table: RunsTable, model: RunsModel, column: Column) -> None:
    words, tip = model.heading(column)
    action = menu.addAction(words.replace("&", "&&"))
    action.setToolTip(plain_tip(tip))
    action.setCheckable(True)
    action.setChecked(table.is_shown(column))
    action.toggled.connect(lambda is_shown: table.choose(column, is_shown))
