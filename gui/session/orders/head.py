"""The head of a page of saved work: what it shows, how far that is, and its buttons."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QWidget

from engine.experiment.experiment import Precision
from gui.session.orders.work import OrderView
from gui.widgets import Button, ElidedLabel, ProgressLine, label, set_text
from gui.widgets.boxes import in_column, in_row, wide
from gui.widgets.buttons import ExportMenu, Format, StudyMenu


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
        note: str,
        fraction: float,
        precision: Precision | None,
        *,
        is_known: bool,
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
