"""The head of a workspace of saved work: what it shows, how far that is, and its buttons."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QWidget

from engine.experiment.experiment import Precision
from gui.session.orders.work import WorkView
from gui.widgets import Button, ElidedLabel, ProgressLine, label, set_text
from gui.widgets.boxes import in_column, in_row, wide
from gui.widgets.saved_menu import ExportMenu, Format, SavedMenu


class WorkHead(QWidget):
    """A strip with a progress bar, and `problem`, which the workspace places. The workspace connects it."""

    def __init__(
        self, title: str, noun: str, plural: str, contents: str, formats: Sequence[Format], *more: QWidget
    ) -> None:
        """`more` stands before Saved; the words are as for `SavedMenu`."""
        super().__init__()
        self.note = ElidedLabel("", "legend")
        self.problem = label("", "problem")
        self.problem.setWordWrap(True)
        self.progress = ProgressLine(noun.capitalize())
        self.stop = Button("Stop", "strip", f"Stop the {noun}; the {contents} that are done are kept", "stop")
        self.saved = Button("Saved", "strip", f"Open or delete a saved {noun}")
        self.menu = SavedMenu(self.saved, noun, plural, contents)
        self.saved.setMenu(self.menu)
        self.export_button = Button("Export…", "strip", f"Save the {noun} as a file")
        self.export = ExportMenu(self.export_button, noun, formats)
        self.export_button.setMenu(self.export)
        strip = in_row(
            label(title, "title"),
            4,
            wide(self.note),
            self.stop,
            *more,
            self.saved,
            self.export_button,
            spacing=8,
        )
        in_column(strip, self.progress, parent=self, spacing=8)

    def show_view(
        self,
        view: WorkView | None,
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
