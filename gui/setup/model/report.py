"""The window of a check: the findings about a model, and the tree of its modules."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import QDialog, QFrame, QLabel, QPlainTextEdit, QScrollArea, QSplitter, QWidget

from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code
from engine.experiment.own.trust import Foreign
from engine.experiment.problem import Problem, ProblemError
from engine.experiment.value import one_line, printable
from engine.protocol.advice import Checked, Finding, ModuleRow
from engine.words.numbers import counted
from gui.session.experiments import Experiments
from gui.setup.model.tree import ModuleView
from gui.widgets import Button, label, set_text
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, wide

_SEVERITIES = {"error": "Error", "warning": "Warning", "note": "Note"}
_GAP, _MOST_ABOVE, _AROUND = 12, 280, 40
_SIZE, _LEAST_SIZE = (860, 640), (560, 360)
_NOTHING = "No mistakes found."


class CheckReport(QDialog):
    """The window with the result of a model check, not modal.

    `finished` is emitted when this window or its parent is closed.
    """

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setWindowTitle("Check")
        self.resize(*_SIZE)
        self.setMinimumSize(*_LEAST_SIZE)
        self._title, self._summary = label("", "title"), label("", "hint")
        self._summary.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._area = QScrollArea()
        self._area.setWidgetResizable(True)
        self._area.setAccessibleName("Findings")
        self.tree = ModuleView()
        self._split = QSplitter(Qt.Orientation.Vertical)
        self._split.setChildrenCollapsible(False)
        self.again = Button("Check again", "secondary", "Check the model with the current form")
        self._close = Button("Close", "secondary", "Close this window (Escape)", do=self.close)
        self._split.addWidget(self._area)
        self._split.addWidget(self.tree)
        self._split.setStretchFactor(1, 1)
        buttons = in_row(Stretch(), self.again, self._close, spacing=8)
        parts = (self._title, self._summary, wide(self._split), Stretch(), buttons)
        in_column(*parts, parent=self, margins=16, spacing=8)
        window.installEventFilter(self)

    def show_checking(self, experiment: Experiment) -> None:
        """Show that a check is in progress."""
        self._start(experiment, "Passing two small batches through the model on the CPU…")
        self._split.hide()
        self.again.setEnabled(False)
        self._close.setText("Cancel")

    def show_answer(self, experiment: Experiment, answer: Checked | Problem) -> None:
        """Show the result of a check, or why it failed."""
        rows: tuple[ModuleRow, ...]
        if isinstance(answer, Problem):
            words, rows = "The model was not checked.", ()
            blocks = [_block("", answer)]
        else:
            words, rows = summary(answer), answer.tree
            blocks = [
                _block(" · ".join(filter(None, (_SEVERITIES[finding.severity], finding.place))), finding)
                for finding in answer.findings
            ]
        self._start(experiment, words)
        holder = QWidget()
        column = in_column(*blocks, Stretch(), parent=holder, margins=(0, 0, 8, 0), spacing=12)
        self._area.setWidget(holder)
        self._area.setVisible(bool(blocks))
        above = column.totalHeightForWidth(self.width() - _AROUND) + _GAP
        self._split.setSizes([min(above, _MOST_ABOVE), self.height()])
        self.tree.show_rows(rows)
        self.tree.setVisible(bool(rows))
        self._split.show()
        self.again.setEnabled(True)
        self._close.setText("Close")

    def text(self) -> str:
        """Return the summary and the texts of all findings."""
        shown = self._area.findChildren(QLabel) if self._split.isVisibleTo(self) else []
        return "\n".join(part.text() for part in (self._summary, *shown))

    def _start(self, experiment: Experiment, words: str) -> None:
        set_text(self._title, f"{experiment.model}, {experiment.precision.label}")
        set_text(self._summary, words)
        self.setAccessibleName(f"Check of {self._title.text()}")
        self.setAccessibleDescription(words)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Close with the parent window, but not when that is only minimized."""
        if event.type() == QEvent.Type.Hide and not event.spontaneous():
            self.close()
        return False


def summary(checked: Checked) -> str:
    """Summarize the number of findings, and the inputs and outputs of the model."""
    counts = Counter[str](finding.severity for finding in checked.findings)
    words = [counted(counts[name], name) for name in _SEVERITIES if counts[name]]
    facts = [f"{checked.parameters:,} parameters"] if checked.parameters else []
    facts += [f"{name} {text}" for name in ("inputs", "outputs", "loss") if (text := getattr(checked, name))]
    found = f"{', '.join(words).capitalize()}." if words else _NOTHING
    return f"{found} {', '.join(facts).capitalize()}." if facts else found


def _block(head: str, told: Problem | Finding) -> QFrame:
    block = Surface("chip")
    column = in_column(parent=block, margins=(12, 8, 12, 10), spacing=4)
    detail = told.detail.rstrip() if isinstance(told, Finding) else ""
    texts = {"heading": head, "strong": told.message, "body": told.remedy, "code": detail}
    for role, text in texts.items():
        if text:
            line = label(text, role)
            line.setWordWrap(role != "code")
            line.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            column.addWidget(line)
    return block


_WARNING = (
    "This code or command, or the path of its file, came with a run or preset from elsewhere. It runs with "
    "your permissions, so read it first."
)


class AcceptDialog(QDialog):
    """A dialog that shows the code of a model file, or a command, and asks whether it may run."""

    def __init__(self, code: Foreign, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        what = f"the code of {code.file}" if isinstance(code, Code) else "this command"
        self.setWindowTitle(f"Run {what}?")
        self.resize(760, 560)
        # with what would turn the direction of a line made visible
        self.text = QPlainTextEdit(printable(_whole_text(code)))
        self.text.setReadOnly(True)
        self.text.setProperty("role", "code")
        self.text.setAccessibleName(what[:1].upper() + what[1:])
        self.run = Button("Run it", "secondary", "Trust it and start", do=self.accept)
        cancel = Button("Cancel", "secondary", "Do not run it", do=self.reject)
        cancel.setDefault(True)
        warning = label(_WARNING, "body", wraps=True)
        frame = Surface("field")
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


def may_run(code: Foreign, window: QWidget) -> bool:
    """Show the code or command and ask whether it may run."""
    dialog = AcceptDialog(code, window)
    try:
        return dialog.exec() == QDialog.DialogCode.Accepted
    finally:
        dialog.deleteLater()


def _whole_text(code: Foreign) -> str:
    """Return the command, or the file, then the modules next to it, each with its name."""
    if not isinstance(code, Code):
        return code.whole_text
    beside = (f"\n\n# {name}\n\n{text}" for name, text in sorted(code.beside.items()))
    head = f"# {code.file}, runs in {one_line(code.folder)} and can read the files there"
    return f"{head}\n\n{code.text}{''.join(beside)}"


class CheckController(QObject):
    """Starts checks of the form's model and shows the result in a `CheckReport`.

    `again_wanted` asks for another check of the form.
    """

    again_wanted = Signal()
    reported = Signal(object)  # Problem

    def __init__(self, experiments: Experiments, window: QWidget) -> None:
        super().__init__(window)
        self._experiments, self._window = experiments, window
        self._wanted: Experiment | None = None
        experiments.checked.connect(self._on_checked)

    @cached_property
    def report(self) -> CheckReport:
        report = CheckReport(self._window)
        report.again.clicked.connect(self.again_wanted)
        report.finished.connect(self._cancel)
        return report

    def check(self, experiment: Experiment) -> None:
        """Start a check. If that is not possible, report the problem and open no window."""
        try:
            self._experiments.check_model(experiment)
        except ProblemError as error:
            self.reported.emit(error.problem)
            return
        self._wanted = experiment
        self.report.show_checking(experiment)
        self.report.show()
        self.report.activateWindow()

    def _on_checked(self, experiment: Experiment, answer: Checked | Problem) -> None:
        if experiment is self._wanted:
            self._wanted = None
            self.report.show_answer(experiment, answer)

    def _cancel(self) -> None:
        if self._wanted is not None:
            self._wanted = None
            self._experiments.check_model(None)
