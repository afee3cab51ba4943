"""The page of saved work and its head: what it shows, how far that is, and its buttons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QStackedLayout, QWidget

from engine.experiment.experiment import Precision
from engine.words.numbers import date_text, share_text
from gui.session.orders.work import OrderView, View
from gui.widgets import Button, ElidedLabel, ProgressLine, label, set_text
from gui.widgets.boxes import in_column, in_row, wide
from gui.widgets.saved_menu import ExportMenu, Format, StudyMenu


class StudyHead(QWidget):
    """A strip with a progress bar, and `problem`, which the page places and connects."""

    def __init__(
        self, title: str, noun: str, contents: str, formats: Sequence[Format], *more: QWidget
    ) -> None:
        """`more` stands before the menu; the words are as for `StudyMenu`."""
        super().__init__()
        self.note = ElidedLabel("", "legend")
        self.problem = label("", "problem")
        self.problem.setWordWrap(True)
        self.progress = ProgressLine(noun.capitalize())
        self.stop = Button("Stop", "strip", f"Stop the {noun}; the {contents} that are done are kept", "stop")
        self.menu = StudyMenu(noun, contents)
        self.export_button = Button("Export…", "strip", f"Save the {noun} as a file")
        self.export = ExportMenu(self.export_button, noun, formats)
        self.export_button.setMenu(self.export)
        self._title, self._beside = label(title, "title"), QWidget()
        buttons = (self.stop, *more, self.menu.button, self.export_button)
        in_row(wide(self.note), *buttons, parent=self._beside, spacing=8)
        strip = in_row(self._title, 4, wide(self._beside), spacing=8)
        in_column(strip, self.progress, parent=self, spacing=8)

    def hide_title(self) -> None:
        """Leaves the name of the work to what stands above it."""
        self._title.hide()

    def give_actions(self) -> QWidget:
        """Its note and buttons, for another head that names the work."""
        self.hide_title()
        return self._beside

    def show_view(
        self,
        view: OrderView | None,
        note: str = "",
        fraction: float = 0.0,
        precision: Precision | None = None,
        *,
        is_known: bool = False,
    ) -> None:
        """Shows work so far, None for none; what is known of it can be exported."""
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


class StudyPage(QFrame, Generic[View]):
    """A head above pages, of which one is shown. `guide_wanted` carries a page of the guide."""

    guide_wanted = Signal(str)

    def __init__(self, head: StudyHead, parent: QWidget | None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "page")
        self.head = head
        self._view: View | None = None
        self._pages = QStackedLayout()

    def view(self) -> View | None:
        """The work that is shown."""
        return self._view

    def lay_out(self, *pages: QWidget) -> None:
        """Puts these below the head."""
        panel = QFrame()
        panel.setProperty("surface", "panel")
        in_column(self.head.problem, wide(self._pages), parent=panel, margins=(12, 10, 12, 8), spacing=8)
        # its first page is shown at once, and would be a window of its own before it has its place
        for page in pages:
            self._pages.addWidget(page)
        in_column(self.head, wide(panel), parent=self, margins=16, spacing=8)


def state_words(view: OrderView, what: str, doing: str) -> str:
    """How far the work on `doing` is, in words; once it is over `what` it was, on which device and when."""
    if view.is_waiting:
        return "waiting for its turn"
    if not view.is_live:
        return ", ".join(part for part in (what, view.device_name, date_text(view.created)) if part)
    share = f", {share_text(view.fraction)}" if view.fraction is not None else ""
    return f"{doing}: {view.doing or 'starting a process'}{share}"
