"""The line under the model box: the form keeps the code of a run, and its file has other code by now."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from gui.setup.draft import Draft
from gui.widgets import Button, label, set_text
from gui.widgets.boxes import in_row, wide


class KeptCodeLine(QWidget):
    """Hidden while there is nothing to say. `file_wanted` asks for the code on disk."""

    file_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._text = label("", "hint")
        self._text.setWordWrap(True)
        button = Button("Use the file", "link", "Take the code that is on disk now")
        button.clicked.connect(self.file_wanted)
        in_row(wide(self._text), button, parent=self, spacing=8)
        self.hide()

    def show_kept(self, draft: Draft, *, differs: bool) -> None:
        """Shows whose code the draft keeps, if its file differs from that."""
        code, whose = draft.code if differs else None, "run" if draft.keeps_code else "preset"
        set_text(self._text, "" if code is None else f"The {whose}'s code: {code.file} has changed since.")
        self.setVisible(code is not None)

    def text(self) -> str:
        """The sentence; empty while hidden."""
        return self._text.text()
