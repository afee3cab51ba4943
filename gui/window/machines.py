"""The machines in the window: the list below the device chip, and the switch to another one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from PySide6.QtCore import QObject, QPoint, QTimer, Signal
from PySide6.QtWidgets import QMenu, QWidget

from engine.experiment.catalog import Catalog
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.machines.machine import (
    Machine,
    Machines,
    forget_catalog,
    forget_machine,
    kept_catalog,
    refuse_kept,
)
from engine.store.store import Store
from engine.words.numbers import date_text
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.setup.panel import SetupPanel
from gui.widgets.messages import choose
from gui.widgets.notice import Notice, NoticeMessage
from gui.window.chips import DeviceChip

_FORGET, _REMOVE = "Keep its files", "Delete its files too"


class MachinesController(QObject):
    """The list of remote machines: adds, edits, removes and selects them. It connects to them in a thread.

    `problem` carries a Problem. `engine_wanted` asks for the installation page of the current machine.
    """

    problem = Signal(object)
    engine_wanted = Signal()

    def __init__(
        self, experiments: Experiments, chip: DeviceChip, setup: SetupPanel, notice: Notice, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._experiments, self._chip, self._setup, self._notice = experiments, chip, setup, notice
        self._background = Background(self)
        self.stop = self._background.stop
        """Waits for a pending connection as the window closes."""
        self._states: dict[str, str] = {}
        self._message: NoticeMessage | None = None
        self._chip.clicked.connect(self.open_list)
        self._experiments.machine_changed.connect(self._on_machine_changed)
        self._experiments.machine_failed.connect(self._on_machine_failed)
        self._experiments.catalog_known.connect(self._on_catalog)
        self._experiments.machine_waits.connect(self._on_waiting)

    def state(self) -> str:
        """Return the name of the current machine, to be remembered."""
        return self._experiments.machine

    def restore(self, name: str) -> None:
        """Use the machine of the last window, if it is still known."""
        if name and any(machine.name == name for machine in Machines().all()):
            self.use(name)

    def list_menu(self) -> QMenu:
        """Return the menu of machines. Raises ProblemError if the machines cannot be read."""
        machines, current = Machines().all(), self._experiments.machine
        menu = QMenu(self._chip)
        menu.setAccessibleName("Machines")
        for name, text in [("", "This machine"), *((each.name, self._line(each)) for each in machines)]:
            action = menu.addAction(text)
            action.setCheckable(True)
            action.setChecked(name == current)
            action.triggered.connect(partial(self.use, name))
        menu.addSeparator()
        menu.addAction("Add a machine…").triggered.connect(self.add)
        if current:
            menu.addAction(f"Edit {current}…").triggered.connect(lambda: self.edit(current))
            menu.addAction(f"Check {current}").triggered.connect(lambda: self.check())
            menu.addAction(f"PyTorch on {current}…").triggered.connect(lambda: self.engine_wanted.emit())
            if any(each.name == current and each.slurm is not None for each in machines):
                menu.addAction(f"Refresh the devices of {current}").triggered.connect(
                    lambda: self.refresh_devices()
                )
            menu.addAction(f"Remove {current}…").triggered.connect(lambda: self.remove(current))
        menu.aboutToHide.connect(menu.deleteLater)
        return menu

    def open_list(self) -> None:
        """Open the list below the chip."""
        try:
            menu = self.list_menu()
        except ProblemError as error:
            self.problem.emit(error.problem)
            return
        width = max(menu.sizeHint().width(), self._chip.width())
        menu.setMinimumWidth(width)
        menu.popup(self._chip.mapToGlobal(QPoint(self._chip.width() - width, self._chip.height() + 4)))

    def use(self, name: str) -> None:
        """Use the machine `name` for new work, "" for this machine."""
        if name != self._experiments.machine:
            self._experiments.set_machine(name)

    def add(self) -> None:
        """Open the dialog that adds a machine."""
        self._open_dialog(None, self.use)

    def edit(self, name: str) -> None:
        """Open the dialog that edits a machine, which then applies to new work."""
        try:
            known = Machines().find(name)
        except ProblemError as error:
            self.problem.emit(error.problem)
            return
        self._open_dialog(known, lambda _: self._experiments.reconnect())

    def _open_dialog(self, known: Machine | None, then: Callable[[str], object]) -> None:
        from gui.window.add_machine import MachineDialog

        dialog = MachineDialog(self._chip.window(), known)
        # once it has closed
        dialog.added.connect(lambda name: QTimer.singleShot(0, self, lambda: then(name)))
        dialog.open()

    def check(self) -> None:
        """Open the doctor of the machine in use."""
        from gui.installation.doctor_page import show_doctor

        experiments = self._experiments
        show_doctor(self._chip.window(), lambda: not experiments.is_idle, experiments.machine)

    def refresh_devices(self) -> None:
        """Read the devices of the current cluster again, in a job. Otherwise they are read only once."""
        forget_catalog(self._experiments.machine)
        self._experiments.reconnect()

    def remove(self, name: str) -> None:
        """Ask, then remove a machine from the list, with or without its files."""
        text = (
            f"Remove {name}? Its runs stay in Results. You can also delete all of Ammeter's files there "
            "(program, PyTorch, datasets, checkpoints)."
        )
        chosen = choose(self._chip.window(), text, (_REMOVE, _FORGET))
        if chosen is not None:
            path = self._experiments.store_path
            self._background.do(
                lambda: _remove(name, Store(path), everything=chosen == _REMOVE),
                lambda _: self._forget(name),
                self.problem.emit,
            )

    def _forget(self, name: str) -> None:
        self._states.pop(name, None)
        if self._experiments.machine == name:
            self.use("")
        self._notice.notify(f"Removed {name}.")

    def _line(self, machine: Machine) -> str:
        state = self._states.get(machine.name) or ("set up" if machine.program else "not set up yet")
        # as a menu shows keys: on the right
        return f"{machine.name}\t{state}"

    def _on_machine_changed(self) -> None:
        name = self._experiments.machine
        self._notice.withdraw(self._message)
        self._chip.set_machine(name)
        self._chip.show_unknown()
        self._chip.set_usage(None, "")
        self._setup.show_reading(name)
        if name:
            self._background.do(
                lambda: kept_catalog(name), partial(self._show_kept, name), lambda _problem: None
            )

    def _show_kept(self, name: str, kept: tuple[Catalog, datetime] | None) -> None:
        """Show the machine's last known catalog until it answers."""
        if kept is not None and self._experiments.machine == name and self._experiments.catalog is None:
            catalog, read = kept
            self._setup.set_catalog(catalog)
            self._chip.set_device(catalog.devices[0].title, (f"as of {date_text(read.astimezone())}",))

    def _on_waiting(self, name: str, words: str) -> None:
        if name == self._experiments.machine:
            self._chip.set_device(words, ())

    def _on_catalog(self, catalog: Catalog) -> None:
        if catalog.machine:
            self._states[catalog.machine] = "ready"

    def _on_machine_failed(self, problem: Problem) -> None:
        is_missing = problem.kind is Kind.NO_ENGINE
        self._states[self._experiments.machine] = "not set up" if is_missing else "does not answer"
        self._chip.set_device("not set up" if is_missing else "no answer", ())
        if not is_missing:
            self._setup.set_engine(problem.message, "Try again")
            self._message = self._notice.stand(
                problem.message, problem.remedy, "Use this machine", lambda: self.use("")
            )


def _remove(name: str, store: Store, *, everything: bool) -> None:
    """Remove a machine. Raises ProblemError if a run still trains there, or its files cannot be removed."""
    from engine.machines.program import remove_all

    with store:
        refuse_kept(store, name, "Stop it first.")
        if everything:
            remove_all(Machines().find(name))
        forget_machine(store, name)
