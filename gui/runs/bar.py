"""The bars above and below the table of results, and the page shown instead of an empty table."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QMenu, QStackedWidget, QToolButton, QWidget

from engine.experiment.value import shortened
from engine.words.numbers import counted
from gui.runs.table.rows import KINDS, TIP, ItemKind
from gui.theme.icons import icon
from gui.theme.theme import theme
from gui.widgets import Button, ElidedLabel, EmptyState, IconButton
from gui.widgets.actions import with_keys
from gui.widgets.boxes import in_row, wide
from gui.widgets.buttons import FilterEdit
from gui.widgets.welcome import Welcome

BAR_HEIGHT, FOOT_HEIGHT = 56, 48
_NOT_FOUND = (
    "Use other words, or search one field, such as tag:paper or status:failed.",
    "Show everything",
    "Clear the filter (Escape)",
)
_DELETED = ("All runs are deleted.", "You can restore them until you close Ammeter.", "Restore them")
_LEAST_FILTER, _WIDEST_FILTER, _CONTROL = 80, 16_777_215, 32
_EVERYTHING = "Everything"
_LEAST, _NARROWEST = 280, 400
"""Bar widths: the minimum, and with the columns button."""


class NoRuns(QStackedWidget):
    """The page shown instead of an empty table. It shows `welcome` if nothing was ever trained."""

    def __init__(self, show_everything: Callable[[], object], undo: Callable[[], object]) -> None:
        super().__init__()
        self.welcome = Welcome(is_large=False)
        self._not_found = EmptyState("", *_NOT_FOUND)
        tip = with_keys("Restore the last deleted runs", "undo")
        self._deleted = EmptyState(*_DELETED, tip)
        self._not_found.pressed.connect(show_everything)
        self._deleted.pressed.connect(undo)
        for page in (self.welcome, self._not_found, self._deleted):
            self.addWidget(page)

    def show_reason(self, looked_for: str, *, has_any: bool, can_undo: bool) -> None:
        """Show why the table has no rows, and how to get some."""
        if has_any:
            nothing = "No results of this kind yet."
            words = f"Nothing matches “{shortened(looked_for)}”." if looked_for else nothing
            self._not_found.show_text(words, *_NOT_FOUND)
        self.setCurrentWidget(self._not_found if has_any else self._deleted if can_undo else self.welcome)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)


class FilterBar(QWidget):
    """The bar above the table of results.

    `kind_chosen` carries the kind of results to show, or None for all.
    """

    kind_chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(BAR_HEIGHT)
        self.setMinimumWidth(_LEAST)
        self.filter = FilterEdit("Filter", TIP)
        self.filter.setMinimumWidth(_LEAST_FILTER)
        self.filter.setMaximumWidth(_WIDEST_FILTER)
        self.filter.setFixedHeight(_CONTROL)
        self.kind = Button(_EVERYTHING, "middle", "Show all results, or one kind only")
        self.kind.setMenu(self._kinds())
        self.columns = IconButton("columns", "Columns and import", "Choose the columns, or import runs")
        self.columns.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        row = (wide(self.filter), self.kind, self.columns)
        in_row(*row, parent=self, margins=(16, 0, 16, 0), spacing=8)

    def show_kind(self, kind: ItemKind | None) -> None:
        """Set the kind that the button names."""
        self.kind.setText(_EVERYTHING if kind is None else KINDS[kind][0])
        self.kind.setAccessibleName(f"Kind: {self.kind.text()}")
        for action in self.kind.menu().actions():
            action.setChecked(action.data() == kind)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # a right click on the headings has the columns too
        self.columns.setVisible(event.size().width() >= _NARROWEST)

    def _kinds(self) -> QMenu:
        menu = QMenu(self)
        menu.setAccessibleName("Kinds of results")
        kinds = [(None, _EVERYTHING, "table"), *((kind, *shown) for kind, shown in KINDS.items())]
        for kind, words, sign in kinds:
            action = menu.addAction(icon(sign, theme().palette.text2, 14), words)
            action.setData(kind)
            action.setCheckable(True)
            action.setChecked(kind is None)
            action.triggered.connect(lambda _=False, kind=kind: self.kind_chosen.emit(kind))
        return menu


class TableFoot(QWidget):
    """The bar below the table of results: their number, and actions for the selected runs."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(FOOT_HEIGHT)
        self.words = ElidedLabel("", "body")
        self.untick = Button("Deselect", "middle", "Deselect all runs")
        self.delete = IconButton("trash", "Delete", "Delete the selected runs (you can undo it)")
        row = (wide(self.words), self.untick, self.delete)
        in_row(*row, parent=self, margins=(16, 0, 16, 0), spacing=8)

    def show_counts(self, shown: int, total: int, studies: int, ticked: int) -> None:
        """Show how many runs there are in total, in the filter and selected."""
        for button in (self.untick, self.delete):
            button.setVisible(ticked > 0)
        if ticked > 1:
            whole = f"{counted(ticked, 'run')} selected, compared on the right"
            self.words.set_whole_text(whole, f"{ticked:,} selected")
        elif ticked:
            self.words.set_whole_text("1 run selected. Select another to compare.", "1 selected")
        else:
            found = f"{shown:,} of {counted(total, 'run')}" if shown != total else counted(total, "run")
            also = f", {counted(studies, 'other result')}" if studies else ""
            self.words.set_whole_text(f"{found}{also}", found)
