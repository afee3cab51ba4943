"""The base classes of study and sweep pages, and of their controllers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedLayout, QWidget

from engine.experiment.experiment import Precision
from engine.words.numbers import date_text, share_text
from gui.session.work import JobView, View
from gui.widgets import Button, ElidedLabel, ProgressLine, label, set_text
from gui.widgets.boxes import Surface, in_column, in_row, wide
from gui.widgets.buttons import ExportMenu, Format, StudyMenu


class StudyHead(QWidget):
    """The bar at the top of a study's page: title, buttons and progress bar.

    It does not contain the label `problem`, which the page places itself.
    """

    def __init__(
        self, title: str, noun: str, contents: str, formats: Sequence[Format], *more: QWidget
    ) -> None:
        """Place `more` before the menu. `noun` and `contents` are as for `StudyMenu`."""
        super().__init__()
        self.note = ElidedLabel("", "legend")
        self.problem = label("", "problem", wraps=True)
        self.progress = ProgressLine(noun.capitalize())
        self.stop = Button("Stop", "strip", f"Stop the {noun} and keep the finished {contents}", "stop")
        self.menu = StudyMenu(noun, contents)
        self.export_button = Button("Export…", "strip", f"Save the {noun} as a file")
        self.export = ExportMenu(self.export_button, noun, formats)
        self.export_button.setMenu(self.export)
        self._title, self._actions = label(title, "title"), QWidget()
        buttons = (self.stop, *more, self.menu.button, self.export_button)
        in_row(wide(self.note), *buttons, parent=self._actions, spacing=8)
        strip = in_row(self._title, 4, wide(self._actions), spacing=8)
        in_column(strip, self.progress, parent=self, spacing=8)

    def hide_title(self) -> None:
        """Hide the title, because a widget above shows it."""
        self._title.hide()

    def detach_actions(self) -> QWidget:
        """Return the note and the buttons, for another head that shows the title."""
        self.hide_title()
        return self._actions

    def show_view(
        self,
        view: JobView | None,
        note: str = "",
        fraction: float = 0.0,
        precision: Precision | None = None,
        *,
        is_known: bool = False,
    ) -> None:
        """Show the work so far, or nothing for None. With `is_known`, it can be exported."""
        is_busy = view is not None and view.is_unfinished
        self.menu.set_shown(None if view is None or is_busy else view.key)
        self.note.set_whole_text(note)
        self.stop.setVisible(is_busy)
        self.progress.setVisible(is_busy)
        self.progress.set_progress(fraction, precision)
        problem = None if view is None else view.problem
        set_text(self.problem, f"{problem.message} {problem.remedy}" if problem is not None else "")
        self.problem.setVisible(problem is not None)
        self.export_button.setEnabled(is_known)


class StudyPage(Surface, Generic[View]):
    """A page for one kind of study: a `StudyHead` above a stack of pages.

    `guide_wanted` carries a page of the guide.
    """

    guide_wanted = Signal(str)

    def __init__(self, head: StudyHead, parent: QWidget | None) -> None:
        super().__init__("page", parent=parent)
        self.head = head
        self._view: View | None = None
        self._pages = QStackedLayout()

    def view(self) -> View | None:
        """Return the work that is shown."""
        return self._view

    def lay_out(self, *pages: QWidget) -> None:
        """Place the pages below the head."""
        panel = Surface("panel")
        in_column(self.head.problem, wide(self._pages), parent=panel, margins=(12, 10, 12, 8), spacing=8)
        # its first page is shown at once, and would be a window of its own before it has its place
        for page in pages:
            self._pages.addWidget(page)
        in_column(self.head, wide(panel), parent=self, margins=16, spacing=8)


def state_words(view: JobView, what: str, doing: str) -> str:
    """Return the progress of the work in words. Once it is over, return `what`, the device and the date."""
    if view.is_waiting:
        return "waiting in the queue"
    if not view.is_live:
        return ", ".join(part for part in (what, view.device_name, date_text(view.created)) if part)
    share = f", {share_text(view.fraction)}" if view.fraction is not None else ""
    return f"{doing}: {view.doing or 'starting a process'}{share}"
