"""Saved views of the runs table: a filter, columns, an order and a baseline by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu, QWidget

from engine.experiment.problem import ProblemError, request_error
from engine.experiment.value import one_line
from gui.runs.table.columns import Column
from gui.setup.saving import TitleDialog
from gui.widgets.buttons import add_choice

if TYPE_CHECKING:
    from gui.runs.panel import RunsPanel

ALL_RUNS = "All runs"


@dataclass(frozen=True)
class View:
    """A saved view: `columns` as in `RunsTable.columns`, the sort `column`, and a `baseline` run id."""

    name: str = ALL_RUNS
    filter: str = ""
    columns: Mapping[str, Any] = field(default_factory=lambda: {"chosen": {}, "order": [], "widths": {}})
    column: str = Column.WHEN.name
    descending: bool = True
    baseline: str | None = None


class Views(QMenu):
    """The menu of the saved views, filled whenever it opens. Its title names the current one."""

    def __init__(self, panel: RunsPanel) -> None:
        super().__init__(panel)
        self.setAccessibleName("Views of the table")
        self.setToolTipsVisible(True)
        self._table, self._model, self._filter = panel.table, panel.model, panel.filter
        self._views: dict[str, View] = {}
        self._set_shown(ALL_RUNS)
        self.aboutToShow.connect(self._fill)

    def seen(self) -> View:
        """Return the current state of the table as a view."""
        column, order = self._model.sorted_by
        return View(
            self._shown,
            self._filter.text().strip(),
            self._table.columns(),
            column.name,
            order is Qt.SortOrder.DescendingOrder,
            self._model.baseline,
        )

    def state(self) -> dict[str, Any]:
        """The saved views, and the table without its filter, as plain JSON values."""
        views = [asdict(view) for view in self._views.values()]
        return {"views": views, "table": asdict(replace(self.seen(), filter=""))}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned, with the filter of the saved view.

        Raises KeyError, TypeError or another error for anything else.
        """
        self._views = {view["name"]: View(**view) for view in state["views"]}
        shown = View(**state["table"])
        known = self._views.get(shown.name, View())
        self._show(replace(shown, filter=known.filter, name=known.name))

    def names(self) -> Sequence[str]:
        """The names of the saved views, in the order of the menu."""
        return sorted(self._views, key=str.casefold)

    def choose(self, name: str) -> None:
        """Show a saved view, or all runs."""
        self._show(self._views.get(name, View()))

    def save(self, name: str) -> None:
        """Save the table as it is under a name; a view of that name is replaced.

        Raises ProblemError for a name that no view can have.
        """
        name = _allowed(name)
        self._views[name] = replace(self.seen(), name=name)
        self._set_shown(name)

    def rename(self, name: str) -> None:
        """Give the shown view another name. Raises ProblemError for a name that it cannot have."""
        name = _allowed(name)
        if name != self._shown and name in self._views:
            raise _title_problem(f"A view “{name}” already exists.")
        self._views[name] = replace(self._views.pop(self._shown), name=name)
        self._set_shown(name)

    def delete(self) -> None:
        """Delete the shown view; the table stays as it is."""
        self._views.pop(self._shown, None)
        self._set_shown(ALL_RUNS)

    def ask_to_save(self) -> TitleDialog:
        """Open a dialog that asks for the name to save under."""

        def button(name: str) -> str:
            return "Replace" if one_line(name).strip() in self._views else "Save"

        about = "Saves the filter, columns, sort order and baseline under a name."
        return ask_for_name(self._table, "Save the view", about, self.save, button)

    def ask_to_rename(self) -> TitleDialog:
        """Open a dialog that asks for another name for the shown view."""
        about = "Only the name changes."
        return ask_for_name(
            self._table, "Rename the view", about, self.rename, lambda _name: "Rename", self._shown
        )

    def _show(self, view: View) -> None:
        self._model.set_baseline(view.baseline)
        self._table.set_columns(view.columns)
        order = Qt.SortOrder.DescendingOrder if view.descending else Qt.SortOrder.AscendingOrder
        self._table.sortByColumn(Column[view.column], order)
        self._filter.setText(view.filter)
        self._set_shown(view.name)

    def _set_shown(self, name: str) -> None:
        self._shown = name
        self.setTitle(f"View: {name}".replace("&", "&&"))

    def _fill(self) -> None:
        self.clear()
        for name in (ALL_RUNS, *self.names()):
            filtered = self._views[name].filter if name in self._views else ""
            tip = f"Filter: {filtered}" if filtered else "No filter"
            add_choice(self, name, partial(self.choose, name), is_chosen=name == self._shown, tooltip=tip)
        self.addSeparator()
        self.addAction("Save view…").triggered.connect(lambda _=False: self.ask_to_save())
        rename, delete = self.addAction("Rename view…"), self.addAction("Delete view")
        rename.triggered.connect(lambda _=False: self.ask_to_rename())
        delete.triggered.connect(lambda _=False: self.delete())
        for action in (rename, delete):
            action.setEnabled(self._shown in self._views)
            action.setToolTip(action.text() if action.isEnabled() else "Choose a saved view first.")


def ask_for_name(
    parent: QWidget,
    heading: str,
    about: str,
    take: Callable[[str], None],
    button: Callable[[str], str],
    name: str = "",
) -> TitleDialog:
    """Open a dialog that asks for a name until `take` raises no ProblemError of key "title"."""
    tip = "The name in the list"
    dialog = TitleDialog(heading, about, take, parent.window(), button, field="Name", tip=tip)
    dialog.title.setText(name)
    dialog.title.selectAll()
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
    return dialog


def _allowed(name: str) -> str:
    name = one_line(name).strip()
    if not name or name.casefold() == ALL_RUNS.casefold():
        message = f"A view cannot be called “{name}”." if name else "A view needs a name."
        raise _title_problem(message)
    return name


def _title_problem(message: str) -> ProblemError:
    return request_error(message, "Choose another name.", key="title")
