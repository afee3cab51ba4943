"""Shows code that came from elsewhere, and asks whether it may run."""

from __future__ import annotations

from PySide6.QtWidgets import QDialog, QFrame, QPlainTextEdit, QWidget

from engine.experiment.own.code import Code
from engine.experiment.value import one_line, printable
from gui.widgets import Button, label
from gui.widgets.boxes import Stretch, in_column, in_row, wide

_WARNING = (
    "This code, or the path of its file, came with a run or a preset from elsewhere. It can do on this "
    "machine whatever you can: read it before you run it."
)


class AcceptDialog(QDialog):
    """Accepted if the code may run."""

    def __init__(self, code: Code, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(f"Run the code of {code.file}?")
        self.resize(760, 560)
        # with what would turn the direction of a line made visible
        self.text = QPlainTextEdit(printable(_whole_text(code)))
        self.text.setReadOnly(True)
        self.text.setProperty("role", "code")
        self.text.setAccessibleName(f"The code of {code.file}")
        self.run = Button("Run it", "secondary", "Trust this code, and start")
        self.run.clicked.connect(self.accept)
        cancel = Button("Cancel", "secondary", "Run nothing")
        cancel.setDefault(True)
        cancel.clicked.connect(self.reject)
        warning = label(_WARNING, "body")
        warning.setWordWrap(True)
        frame = QFrame()
        frame.setProperty("surface", "field")
        in_column(self.text, parent=frame, margins=4)
        in_column(
            label(self.windowTitle(), "title"),
            warning,
            wide(frame),
            in_row(Stretch(), self.run, cancel, spacing=8),
            parent=self,
            margins=16,
            spacing=12,
        )


def may_run(code: Code, window: QWidget) -> bool:
    """Shows the code and asks whether it may run."""
    dialog = AcceptDialog(code, window)
    try:
        return dialog.exec() == QDialog.DialogCode.Accepted
    finally:
        dialog.deleteLater()


def _whole_text(code: Code) -> str:
    """The file, and below it the modules beside it, each with its name."""
    beside = (f"\n\n# {name}\n\n{text}" for name, text in sorted(code.beside.items()))
    head = f"# {code.file}, which runs in {one_line(code.folder)} and may use the other files there"
    return f"{head}\n\n{code.text}{''.join(beside)}"
