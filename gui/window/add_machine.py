"""The dialog to add or edit a remote machine: ssh host, name, folder, Slurm options, and a check."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QLayout, QLineEdit, QWidget

from engine.experiment.problem import Problem, ProblemError, request_error
from engine.machines.machine import Machine, Machines, new_machine
from engine.protocol.events import Check
from gui.installation.doctor_page import check_rows
from gui.session.background import Background
from gui.theme.theme import theme
from gui.widgets import Button, Segmented, label
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, scrolled, wide
from gui.widgets.labels import set_text

_WIDTH, _CHECKS_HEIGHT = 640, 180
_ABOUT = (
    "Train on a remote Linux machine that ssh reaches without a password, and watch the runs in this window. "
    "Ammeter keeps all its files there in one folder."
)
_HOSTS = {
    "ssh": "gpu-box or me@gpu-box.example.org",
    "slurm": "The login node. Leave empty if sbatch is on this machine.",
}
_WISHES = {
    "partition": ("Partition", "As listed by sinfo"),
    "account": ("Account", "If jobs need one"),
    "time_limit": ("Time limit", "Per job, such as 2:00:00"),
    "options": ("Further options", "For sbatch, such as --gres=gpu:1 --qos=normal"),
}
_READY = "Check connects to the machine and changes nothing there."


class MachineDialog(QDialog):
    """The dialog to add a remote machine, or to edit `known`. `added` carries the machine's name.

    The name cannot be edited later, because runs refer to it. The dialog is modal to its window, and deleted
    when closed.
    """

    added = Signal(str)

    def __init__(self, parent: QWidget | None = None, known: Machine | None = None) -> None:
        super().__init__(parent)
        self._known = known
        self.setWindowTitle("Add a machine" if known is None else f"Edit {known.name}")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._background = Background(self)
        self._checked: Machine | None = None
        self.checks: tuple[Check, ...] = ()
        # the tab order is that in which they are made
        self.host, self.name, self.folder = (QLineEdit() for _ in range(3))
        self.folder.setText(Machine.model_fields["folder"].default)
        self.kind = Segmented((("ssh", "One machine"), ("slurm", "Cluster with Slurm")), "Kind")
        self.wishes = {name: QLineEdit() for name in _WISHES}
        self._words = label(_READY, "hint", wraps=True)
        self.check_button = Button(
            "Check", "secondary", "Connect to the machine and check its setup", do=self.check
        )
        self.add_button = Button("Add", "primary", "Add the machine and use it", do=self.add)
        self._lay_out()
        if known is not None:
            self.add_button.set_words("Save", "Save the changes to this machine")
            self._fill(known)
        self.kind.changed.connect(self._on_edited)
        for field in (self.name, self.host, self.folder, *self.wishes.values()):
            field.textChanged.connect(self._on_edited)
        theme().changed.connect(self._show_checks)
        self._on_edited()

    def _fill(self, known: Machine) -> None:
        self.name.setEnabled(False)
        for field, text in ((self.name, known.name), (self.host, known.host), (self.folder, known.folder)):
            field.setText(text)
        if known.slurm is not None:
            self.kind.set_value("slurm")
            for name, field in self.wishes.items():
                value = getattr(known.slurm, name)
                field.setText(" ".join(value) if name == "options" else value or "")

    def _lay_out(self) -> None:
        host, name, folder = (
            _titled(title, hint, field)
            for title, field, hint in (
                ("Host", self.host, "Name in your ssh configuration, or user@host"),
                ("Name", self.name, "Its name in Ammeter"),
                ("Folder", self.folder, "For Ammeter's files on that machine"),
            )
        )
        rows = in_row(wide(name), wide(folder), spacing=12)
        self._cluster = QWidget()
        *short, options = (_titled(*words, self.wishes[key]) for key, words in _WISHES.items())
        in_column(in_row(*map(wide, short), spacing=12), options, parent=self._cluster, spacing=12)
        self._area = scrolled("What the check found")
        self._frame = Surface("panel")
        in_column(self._area, parent=self._frame, margins=1)
        self._frame.setMinimumHeight(_CHECKS_HEIGHT)
        self._frame.hide()
        cancel = Button("Cancel", "secondary", "Discard the changes", do=self.reject)
        foot = in_row(self.check_button, Stretch(1), cancel, self.add_button, spacing=8)
        about = label(_ABOUT, "body", wraps=True)
        fields = (self.kind, host, rows, self._cluster)
        in_column(about, *fields, self._words, wide(self._frame), foot, parent=self, margins=16, spacing=12)
        self.setFixedWidth(_WIDTH)

    def words(self) -> str:
        """Return the problem of the fields, or a summary of the check."""
        return self._words.text()

    def check(self) -> None:
        """Check the machine of the fields, in a thread."""
        machine = self._machine()
        if machine is None or self._background.is_busy:
            return
        # its imports are for machines only
        from engine.machines.check import check_machine

        set_text(self._words, f"Checking {machine.host or machine.name}…")
        self.check_button.setEnabled(False)
        self._background.do(lambda: check_machine(machine), self._on_checked, self._on_check_failed)

    def add(self) -> None:
        """Add the machine, checked or not, and close."""
        machine = self._machine()
        if machine is None:
            return
        for seen in (self._checked, self._known):
            # what is known of it holds while it is the same place
            if seen is not None and (seen.host, seen.folder) == (machine.host, machine.folder):
                machine = seen.model_copy(update={"name": machine.name, "slurm": machine.slurm})
                break
        try:
            Machines().put(machine)
        except ProblemError as error:
            self._show_problem(error.problem)
            return
        self.added.emit(machine.name)
        self.accept()

    def done(self, result: int) -> None:
        self._background.stop()
        super().done(result)

    def _machine(self) -> Machine | None:
        """Return the machine in the fields. If they are wrong, show why and return None."""
        host = self.host.text()
        try:
            wishes: dict[str, object] = {name: field.text().strip() for name, field in self.wishes.items()}
            wishes["options"] = self.wishes["options"].text().split()
            name = self.name.text() or self.name.placeholderText()
            machine = new_machine(name, host, self.folder.text(), wishes if self._is_cluster else None)
            taken = {known.name.casefold() for known in Machines().all()} if self._known is None else ()
            if machine.name.casefold() in taken:
                message = f"A machine named {machine.name} already exists."
                raise request_error(message, "Choose another name.", key="name")
        except ProblemError as error:
            self._show_problem(error.problem)
            return None
        return machine

    @property
    def _is_cluster(self) -> bool:
        return self.kind.value() == "slurm"

    def _show_problem(self, problem: Problem) -> None:
        set_text(self._words, f"{problem.message} {problem.remedy}")

    def _on_edited(self) -> None:
        if self._cluster.isHidden() == self._is_cluster:
            self._cluster.setVisible(self._is_cluster)
            self._grow()
        self.host.setPlaceholderText(_HOSTS[self.kind.value()])
        has_host = bool(self.host.text().strip()) or self._is_cluster
        self.check_button.setEnabled(has_host and not self._background.is_busy)
        self.add_button.setEnabled(has_host)
        usual = "cluster" if self._is_cluster else ""
        self.name.setPlaceholderText(self.host.text().rpartition("@")[2] or usual)

    def _on_checked(self, seen: tuple[Machine, tuple[Check, ...]]) -> None:
        self._checked, self.checks = seen
        problems = sum(check.status == "problem" for check in self.checks)
        set_text(
            self._words,
            f"{problems} problem{'s' * (problems != 1)}" if problems else "The machine is ready to train.",
        )
        self._show_checks()
        self._on_edited()

    def _on_check_failed(self, problem: Problem) -> None:
        self._show_problem(problem)
        self._on_edited()

    def _show_checks(self) -> None:
        if self.checks:
            self._area.setWidget(check_rows(self.checks))
            self._frame.show()
            self._grow()

    def _grow(self) -> None:
        layout = self.layout()
        assert layout is not None
        layout.activate()
        # labels that wrap are higher than a layout's size hint says
        self.setMinimumHeight(layout.totalHeightForWidth(_WIDTH))
        self.adjustSize()


def _titled(title: str, hint: str, field: QLineEdit) -> QLayout:
    field.setAccessibleName(f"{title}: {hint}")
    field.setMaxLength(255)
    return in_column(label(title, "strong"), field, label(hint, "hint"), spacing=4)
